"""What is measured against eager: a name, and how `torch.compile` is called for it: backend, options, other arguments.

Any other name is taken as a `torch.compile` backend without options (`aot_eager`, `eager`, ...).
`tenon_stats` reads Tenon's own counters; a counter that is not there is None and printed as "-".
"""

import argparse
import ctypes
import shutil

CONTENDERS = {
    "tenon": ("tenon", {"freeze": True}),
    "tenon_unfrozen": ("tenon", {"freeze": False}),
    "tenon_symbolic": ("tenon", {"freeze": True}, {"dynamic": True}),
    "tenon_specialized": ("tenon", {"freeze": True, "specialize": "wait"}, {"dynamic": True}),
    "inductor": ("inductor", None),
    "inductor_freeze": ("inductor", {"freezing": True}),
}
PEERS = ("inductor", "inductor_freeze")
STATS = ("compile_ms", "kernels_compiled", "nodes", "nodes_fused", "fallbacks", "programs", "workspace_bytes", "plan_misses", "plan_ms")


def compiled(function, name, **keywords):
    import torch
    backend, options, *others = CONTENDERS.get(name, (name, None))
    return torch.compile(function, backend=backend, options=options, **keywords, **dict(*others))


def on_kept_outputs(function, args):
    """A call that runs Tenon's program of `function` again on the memory of one call, its outputs included: the kernel
    alone. None where PyTorch has steps of its own, or there are several programs."""
    import torch
    from tenon import _abi
    from tenon.torch.compile import compile_graph
    from tenon.torch.options import Options
    from tenon.torch.runtime import marshal
    records, options = [], Options.parse(CONTENDERS["tenon"][1])
    fast = torch.compile(function, fullgraph=True, backend=lambda graph, inputs: compile_graph(
        graph, inputs, options, records))
    outputs = fast(*args)
    if len(records) != 1 or records[0].fallbacks or not records[0].compiled:
        return None
    frame = records[0].compiled.pool.free.pop()     # no other call may put its outputs there
    segments = records[0].compiled.pool.layout.segments
    if len(segments) != 1:
        return None
    part, base = segments[0], ctypes.addressof(frame.block)
    inputs = (ctypes.c_void_p * len(part.inputs))(*(None if at is None else base + 8 * at for at in part.inputs))
    arguments = [inputs, ctypes.c_size_t(len(inputs)), *marshal.table(frame.words, part.outputs), None]

    def run(run=_abi.run_function(), handle=part.program.handle):
        if run(handle, *arguments):
            raise RuntimeError("the program fails on memory it has run on")
    run.outputs, run.keeps = outputs, (frame, fast, args)
    return run


def tenon_stats(name):
    if not name.startswith("tenon"):
        return dict.fromkeys(STATS)
    import tenon
    stats = tenon.stats()
    return {key: stats.get(key) for key in STATS}


def contender(text):
    """An argparse type: the names that the tables use for something else are refused."""
    if text in ("eager", "copy", "no-op"):
        raise argparse.ArgumentTypeError(f"{text} is measured already, beside the contender")
    return text


def missing_for_peers():
    """Why Inductor cannot be measured here, or None."""
    return None if shutil.which("g++") else "Inductor needs g++, which is not installed (apt-get install g++)"

"""The contenders that are measured against eager: a name, and the arguments of `torch.compile`: backend, options (with the name of a function of
`torch.compiler` as guard_filter_fn), others.

Any other name is a `torch.compile` backend without options (`aot_eager`, `eager`, ...).
`tenon_stats` reads Tenon's own counters, `own_seconds` the time that Tenon or Inductor takes of a first call; a counter
that is missing is None and printed as "-".
"""

import argparse
import ctypes

CONTENDERS = {
    "tenon": ("tenon", {"freeze": True}),
    "tenon_unfrozen": ("tenon", {"freeze": False}),
    "tenon_unguarded": ("tenon", {"freeze": True, "guard_filter_fn": "skip_guard_on_all_nn_modules_unsafe"}),
    "tenon_symbolic": ("tenon", {"freeze": True}, {"dynamic": True}),
    "inductor": ("inductor", None),
    "inductor_freeze": ("inductor", {"freezing": True}),
}
PEERS = ("inductor", "inductor_freeze")
RUNTIMES = ("onnxruntime", "openvino")      # for whole models: bench/models/runtimes.py converts them
INDUCTOR_STEPS = ("compile_fx_inner", "AOTAutogradCache.inductor_load")     # names of PyTorch's clocks; neither contains the other
STATS = ("compile_ms", "kernels_compiled", "nodes", "nodes_fused", "fallbacks", "programs", "workspace_bytes", "plan_misses",
         "plan_ms", "graph_ms")


def compiled(function, name, **keywords):
    import torch
    backend, options, *others = CONTENDERS.get(name, (name, None))
    if options and (guards := options.get("guard_filter_fn")):
        options = options | {"guard_filter_fn": getattr(torch.compiler, guards)}
    return torch.compile(function, backend=backend, options=options, **keywords, **dict(*others))


def on_kept_outputs(function, args):
    """A function that runs Tenon's program of `function` again on the inputs and outputs of one call, so that only the
    kernel is timed. None if PyTorch runs a part of `function`, or if there are several programs."""
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
    frame = records[0].compiled.pool.free.pop()     # taken, so that no other call uses this frame
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


def own_seconds(name):
    """Seconds of this process that Tenon spent on graphs and on plans, which pack weights, or Inductor on compiling graphs and on reading compiled
    ones. None for others."""
    if name.startswith("tenon"):
        stats = tenon_stats(name)
        return (stats["graph_ms"] + stats["plan_ms"]) / 1e3
    if name in PEERS:
        from torch._dynamo.utils import compilation_time_metrics as spent
        return sum(sum(spent.get(step, ())) for step in INDUCTOR_STEPS)
    return None


def contender(text):
    """An argparse type: refuses the names that the tables use for something else."""
    if text in ("eager", "copy", "no-op"):
        raise argparse.ArgumentTypeError(f"{text} is measured already, beside the contender")
    return text


def missing_for_peers():
    """The reason why Inductor cannot be measured here, or None."""
    from tenon.torch.peers.hosts import missing_for_inductor
    why = missing_for_inductor()
    return why and f"Inductor {why}"

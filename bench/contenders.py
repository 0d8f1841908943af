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


class OneProgram:
    """A function that Tenon compiles to one program. fast: the compiled function; outputs: its results; part: the frames.Part; inputs: the tensors that
    the program reads, in its order. Raises ValueError if PyTorch runs a part of the function, or if there are several programs."""

    def __init__(self, function, args):
        import torch
        from tenon.torch.compile import compile_graph
        from tenon.torch.options import Options
        records, options, given = [], Options.parse(CONTENDERS["tenon"][1]), []

        def backend(graph, inputs):
            compiled = compile_graph(graph, inputs, options, records)
            return lambda *tensors: given.append(tensors) or compiled(*tensors)

        self.fast = torch.compile(function, fullgraph=True, backend=backend)
        self.outputs = self.fast(*args)
        self.compiled = records[0].compiled if len(records) == 1 and not records[0].fallbacks else None
        if self.compiled is None or len(self.compiled.pool.layout.segments) != 1:
            raise ValueError("Tenon does not make one program of it")
        self.part, = self.compiled.pool.layout.segments
        self.inputs = [given[0][argument] for argument, _, _ in self.part.bound]


def on_kept_outputs(function, args):
    """A function that runs Tenon's program of `function` again on the inputs and outputs of one call, so that only the
    kernel is timed. None if there is not one program."""
    from tenon import _abi
    from tenon.torch.runtime import marshal
    try:
        made = OneProgram(function, args)
    except ValueError:
        return None
    frame, part = made.compiled.pool.free.pop(), made.part  # taken, so that no other call uses this frame
    base = ctypes.addressof(frame.block)
    inputs = (ctypes.c_void_p * len(part.inputs))(*(None if at is None else base + 8 * at for at in part.inputs))
    arguments = [inputs, ctypes.c_size_t(len(inputs)), *marshal.table(frame.words, part.outputs), None]

    def run(run=_abi.run_function(), handle=part.program.handle):
        if run(handle, *arguments):
            raise RuntimeError("the program fails on memory it has run on")
    run.outputs, run.keeps = made.outputs, (frame, made, args)
    return run


def in_xla(function, args, threads):
    """(call, results): a call of XLA that computes the graph that Tenon makes of `function`, and its results as tensors."""
    from tenon.graph_read import read
    from tenon.torch.peers import hosts
    made = OneProgram(function, args)
    text = made.part.program.text
    call = hosts.xla(hosts.Case(text, read(text).at({}), made.inputs, threads))
    results = tuple(map(hosts.tensor_of, call()))
    return call, results if len(results) > 1 else results[0]


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

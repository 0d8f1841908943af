"""Tenon: a JIT graph executor for deep-learning frameworks. The package calls its C ABI.

    model = torch.compile(model, backend="tenon", options={"freeze": True})

Importing this package loads neither PyTorch nor libtenon.
"""

__version__ = "0.1.0"
__all__ = ["empty_cache", "explain", "profile", "reset_stats", "stats"]


def stats():
    """A dict of counts for this process, since its start or the last reset_stats():

    - calls: of compiled functions. programs: compiled graphs.
    - nodes: that remain after optimisation. nodes_fused: of these, in a group with other nodes.
    - kernels_compiled. reference_steps: steps of the slow evaluator, none unless asked for.
    - graph_ms: from PyTorch's graphs to functions, without tracing. compile_ms: the part of it that the library takes.
    - plan_misses: calls with sizes that needed a new plan. plan_ms: of all plans; the first one packs frozen weights.
    - workspace_bytes: the largest workspace of a program.
    - fallbacks: how often PyTorch runs something instead. fallback_reasons: reason -> count.
    - disk_hits, disk_misses, disk_damaged, disk_writes, disk_bytes_read, disk_bytes_written: the cache of kernels and graphs on disk."""
    from . import report

    return report.stats()


def reset_stats():
    """Sets the counts of stats() back to 0. Keeps compiled models."""
    from . import report

    report.reset_stats()


def empty_cache():
    """Returns the memory to the system that Tenon keeps on the CPU for large outputs and for intermediates of later calls."""
    from . import _abi
    from .torch.runtime import marshal

    marshal.chosen.release()
    _abi.check(_abi.library().tenon_release_memory())


def explain(model, *args, tenon_options=None, **kwargs):
    """Compiles and runs model(*args, **kwargs) once and returns a Report: str(report) is text, report.to_dict() is data.

    The report shows each graph that reached Tenon, its kernels, which nodes fused, why others did not, and which nodes run in
    PyTorch and why.
    """
    from .torch.explain import explain

    return explain(model, args, kwargs, tenon_options)


def profile():
    """A context manager that records the time of every step: `with tenon.profile() as p: model(x)`, then print(p), p.programs or
    p.save("trace.json"). See tenon.profiling.Profile."""
    from .profiling import Profile

    return Profile()

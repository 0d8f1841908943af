"""Tenon: a JIT graph executor for deep-learning frameworks, over its C ABI.

    model = torch.compile(model, backend="tenon", options={"freeze": True})

Neither PyTorch nor the library is loaded by importing this package.
"""

__version__ = "0.1.0"
__all__ = ["explain", "reset_stats", "stats"]


def stats():
    """What Tenon has done in this process since the start or reset_stats(), as a dict: calls, programs, nodes (left to
    run by the optimiser), nodes_fused (in a group with others), kernels_compiled, kernels_specialized, reference_steps
    (steps of the slow evaluator: none unless asked for), compile_ms,
    plan_misses (sizes that needed a plan), plan_ms, workspace_bytes (largest of a program), fallbacks and
    fallback_reasons (sentence -> count of what runs in PyTorch instead); of the kernels on disk disk_hits, disk_misses,
    disk_damaged, disk_writes, disk_bytes_read and disk_bytes_written."""
    from . import report

    return report.stats()


def reset_stats():
    """Starts the counts of stats() anew; compiled models are kept."""
    from . import report

    report.reset_stats()


def explain(model, *args, tenon_options=None, **kwargs):
    """Compiles and runs model(*args, **kwargs) once and returns a Report: str(report) is the text, to_dict() the data.

    It shows each graph that reached Tenon, its kernels, what fused and why not, and what runs in PyTorch and why.
    """
    from .torch.explain import explain

    return explain(model, args, kwargs, tenon_options)

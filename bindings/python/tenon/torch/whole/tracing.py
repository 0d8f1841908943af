"""Replaces the kernels that PyTorch's tracers call for operators that Tenon keeps whole. Tested by tests/torch/test_resize.py and
test_attention_dropout.py.
"""

import contextlib
import threading

_thread = threading.local()


@contextlib.contextmanager
def of_graphs():
    """A context in which this thread traces graphs for Tenon: is_active() is true."""
    _thread.active = True
    try:
        yield
    finally:
        _thread.active = False


def is_active():
    return getattr(_thread, "active", False)


def replace_kernel(op, key, whole):
    """Tracers call whole(...) instead of PyTorch's Python kernel of the operator for this dispatch key, and the kernel where it returns None."""
    before = op.py_kernels[key]

    def run(*args, **keywords):
        y = whole(*args, **keywords)
        return before(*args, **keywords) if y is None else y

    op.py_kernels[key] = run  # py_impl replaces no kernel
    op._dispatch_cache.clear()

"""Python's cyclic garbage collector. Tested by tests/torch/test_function_cache.py."""

import contextlib
import gc


@contextlib.contextmanager
def without_collections():
    """Pauses the collector, which would look through PyTorch's graphs again and again while objects are made that all stay."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()

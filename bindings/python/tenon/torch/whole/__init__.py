"""Operators that PyTorch decomposes while it traces, kept whole for Tenon: one row computes what would become many nodes. Each module here
replaces what PyTorch's tracers call; norms.py defines operators that training.py puts into traced graphs.
"""

from . import attention, norms, recurrent, resizing  # noqa: F401

"""Operators that PyTorch decomposes while it traces, kept whole for Tenon: one row computes what would become many nodes. Each module here
replaces what PyTorch's tracers call.
"""

from . import attention, norms, recurrent, resizing  # noqa: F401

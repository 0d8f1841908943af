"""The op table of the PyTorch backend: ATen overload -> Row. Each module here adds rows to it (row.py)."""

from . import (backward, bag, bessel, bins, contract, copy, gradient, index, linalg, loss, map, move, pool, random, resize,  # noqa: F401
               sample, sort, special)
from .row import TABLE  # noqa: F401

"""Tenon for PyTorch: torch.compile(model, backend="tenon"). backend.py has the backend; compile.py compiles a graph."""

import torch

from .. import supported

supported.check(torch.__version__)

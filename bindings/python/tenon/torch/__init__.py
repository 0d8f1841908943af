"""Tenon in PyTorch: torch.compile(model, backend="tenon"). The backend is in backend.py, its work in compile.py."""

import torch

from .. import supported

supported.check(torch.__version__)

"""The version of PyTorch that this Tenon works with. The internals of torch.compile change with each minor version.

pyproject.toml states the same version for pip. Tested by tests/torch/test_supported.py.
"""

TORCH = "2.13"


def check(version):
    """Raises ImportError unless Tenon works with this version of PyTorch."""
    if version.split(".")[:2] != TORCH.split("."):
        raise ImportError(f"this tenon works with PyTorch {TORCH}, not with {version}: "
                          f'install "torch=={TORCH}.*", or the tenon made for this PyTorch')

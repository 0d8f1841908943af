"""Which PyTorch this Tenon works with: what stands behind torch.compile changes from one minor version to the next.

pyproject.toml says the same to pip. Tested by tests/torch/test_supported.py.
"""

TORCH = "2.13"


def check(version):
    """Raises ImportError unless `version` is one of PyTorch's that Tenon works with."""
    if version.split(".")[:2] != TORCH.split("."):
        raise ImportError(f"this tenon works with PyTorch {TORCH}, not with {version}: "
                          f'install "torch=={TORCH}.*", or the tenon made for this PyTorch')

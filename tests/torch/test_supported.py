"""An unsupported version of PyTorch is refused with a message, before any of its internals is imported."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tenon import supported

PROJECT = Path(__file__).parents[2] / "bindings/python/pyproject.toml"


def compile_under(version):
    program = ("import torch\n"
               f"torch.__version__ = torch.torch_version.TorchVersion({version!r})\n"
               "print(torch.compile(lambda x: x + 1, backend='tenon')(torch.zeros(2)).tolist())\n")
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize("version", ["2.12.1+cpu", "2.14.0", "3.13.0"])
def test_another_minor_version_is_refused(version):
    done = compile_under(version)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert f"works with PyTorch {supported.TORCH}, not with {version}: install" in last


def test_another_patch_is_taken():
    done = compile_under(supported.TORCH + ".9+cu130")
    assert done.stdout == "[1.0, 1.0]\n", done.stderr


def test_pip_is_told_the_same():
    assert tomllib.loads(PROJECT.read_text())["project"]["dependencies"] == [f"torch=={supported.TORCH}.*"]

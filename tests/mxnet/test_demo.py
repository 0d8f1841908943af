"""`./dev demo --mxnet`, in tiny form."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("model", ["resnet18_v1", "mlp"])
def test_demo(model):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests/mxnet"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, ROOT / "bench/mxnet/demo.py", model, "--tiny"], text=True, capture_output=True, timeout=180,
                          env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in 1 subgraphs; 0 stay with MXNet" in done.stdout
    assert "answer: right" in done.stdout and "with Tenon:" in done.stdout

"""The campaigns at the size that runs for every change: all of PyTorch's table of operators, the gradients of a tenth of them, a few
random programs and architectures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [
    "op_db --ci",
    "op_db --backward --ci --stride 10",
    "programs --ci --count 40",
    "models --only gpt2,convnext,swin,t5 --combination f32-dynamic-live",
], ids=lambda text: " ".join(text.split()[:2]))
def test_campaign(arguments, tmp_path):
    paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "bindings" / "python")])
    done = subprocess.run([sys.executable, "-m", "campaign.run", *arguments.split(), "--workers", "1", "--out", str(tmp_path / "records.jsonl")],
                          cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

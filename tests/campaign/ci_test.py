"""The campaigns at the size that runs for every change: a fifth of PyTorch's table of operators, with and without gradients, a few of its
entries in all dtypes and layouts, a few random programs and architectures. TENON_TESTS=all takes the whole table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


ALL = os.environ.get("TENON_TESTS") == "all"


@pytest.mark.parametrize("arguments", [
    "op_db --ci" if ALL else "op_db --ci --stride 5",
    "op_db --backward --ci" if ALL else "op_db --backward --ci --stride 5",
    "op_db --wide" if ALL else "op_db --wide --stride 89",
    "op_db --backward --wide" if ALL else "op_db --backward --wide --stride 97",
    "programs --ci --count 10",
    "programs --backward --ci --count 6",
    "models --only gpt2,convnext,t5 --combination f32-dynamic-live",
    "models --only resnet,gpt2 --combination f32-static-train",
], ids=lambda text: text.replace(" ", "_"))
def test_campaign(arguments, tmp_path):
    paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "bindings" / "python")])
    done = subprocess.run([sys.executable, "-m", "campaign.run", *arguments.split(), "--workers", "1", "--out", str(tmp_path / "records.jsonl")],
                          cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

"""The campaigns at the size that runs for every change: a third of PyTorch's table of operators (all with TENON_TESTS=all), a few random
programs and architectures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


OP_DB = "op_db --ci" if os.environ.get("TENON_TESTS") == "all" else "op_db --ci --stride 3"


@pytest.mark.parametrize("arguments", [
    OP_DB,
    "programs --ci --count 15",
    "models --only gpt2,convnext,t5 --combination f32-dynamic-live",
], ids=lambda text: text.split()[0])
def test_campaign(arguments, tmp_path):
    paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "bindings" / "python")])
    done = subprocess.run([sys.executable, "-m", "campaign.run", *arguments.split(), "--workers", "1", "--out", str(tmp_path / "records.jsonl")],
                          cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

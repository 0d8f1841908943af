"""Loads the backend once. Helpers for the tests of the MXNet plugin; the reference is MXNet without the plugin."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tenon.mxnet

sys.path.insert(0, str(Path(__file__).resolve().parent))
tenon.mxnet.load()


@pytest.fixture
def process(tmp_path):
    """run(code, **environment): a fresh Python process in tmp_path, which must end with status 0 within 3 minutes. Returns its output."""

    def run(code, **environment):
        paths = os.pathsep.join([str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")])
        result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=180, text=True, capture_output=True,
                                stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": paths, **environment})
        assert result.returncode == 0, f"status {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    return run

"""Unpacks an archive of `./dev gpu pack` elsewhere: it has the package, its libraries and the command, and needs no checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SCRIPT = """
import subprocess
import sys
from pathlib import Path

import torch

import tenon

carried = Path(sys.argv[1])
with torch.no_grad():
    x, w = torch.randn(3, 8), torch.randn(8, 4)
    compiled = torch.compile(lambda x, w: torch.tanh(x @ w) + 1, backend="tenon", options={"fallback": "error"})
    torch.testing.assert_close(compiled(x, w), torch.tanh(x @ w) + 1)
assert Path(tenon.__file__).is_relative_to(carried), tenon.__file__
mapped = {Path(line.split()[-1]) for line in open("/proc/self/maps") if "libtenon" in line or "libdnnl" in line or "_marshal" in line}
assert len(mapped) == 3 and all(path.is_relative_to(carried) for path in mapped), mapped
subprocess.run([carried / "bin/tenon", "doctor"], check=True)
"""


def test_what_is_packed_runs_elsewhere(tmp_path):
    archive, elsewhere = tmp_path / "carried.tar.gz", tmp_path / "elsewhere"
    subprocess.run([sys.executable, ROOT / "tools/carry.py", "pack", archive], check=True)
    (elsewhere / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools/carry.py", elsewhere / "tools")
    (elsewhere / "script.py").write_text(SCRIPT)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    done = subprocess.run([sys.executable, "tools/carry.py", "run", archive, sys.executable, "script.py",
                           elsewhere / "build/carried"], cwd=elsewhere, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

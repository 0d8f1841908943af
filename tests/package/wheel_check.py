"""Checks an installed wheel, run by the Python of a virtual environment that has the wheel and PyTorch.

    venv/bin/python wheel_check.py

Needs nothing of the checkout, no compiler and no library but what PyTorch needs. `./dev wheel --check` makes such an
environment; the file may be carried to another machine. Ends with "all good", or with the first thing that is wrong.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

SITE = Path(sysconfig.get_path("platlib"))
LIBRARY = SITE / "tenon/_lib/libtenon.so.1"
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith("TENON_") and name not in ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD")}

PACKAGE = """
import importlib.metadata, sys, tenon
assert tenon.__file__.startswith(SITE), tenon.__file__
assert "torch" not in sys.modules
assert importlib.metadata.version("tenon") == tenon.__version__
from tenon import _abi
assert _abi.library().tenon_version_string().decode() == tenon.__version__
"""

# A process that has imported PyTorch, as all hosts have; then one that opens the library before.
POOL = """
import re
def loaded(name):
    found = {line.split()[-1] for line in open("/proc/self/maps") if re.search(rf"/{name}[^/]*\\.so[^/]*$", line)}
    assert len(found) == 1, found
    return found.pop()
def check_libraries():
    assert loaded("libgomp") == f"{SITE}/torch/lib/libgomp.so.1", loaded("libgomp")
    assert loaded("libdnnl").startswith(f"{SITE}/tenon.libs/libdnnl-"), loaded("libdnnl")
"""
MODEL = POOL + """
import torch, tenon
torch.manual_seed(0)
torch.set_num_threads(2)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False), torch.nn.BatchNorm2d(16)
        self.norm, self.out = torch.nn.LayerNorm(16), torch.nn.Linear(16, 10)
    def forward(self, x):
        y = torch.relu(self.bn(self.conv(x)))
        return torch.softmax(self.out(self.norm(y.mean((2, 3)))), -1)
model = Model().eval()
fast = torch.compile(model, backend="tenon", options={"freeze": True, "fallback": "error"})
with torch.inference_mode():
    for batch in (8, 3, 5):
        x = torch.randn(batch, 3, 64, 64)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
assert tenon.stats()["nodes"] and not tenon.stats()["fallbacks"], tenon.stats()
check_libraries()
"""
LIBRARY_FIRST = POOL + """
from tenon import _abi
_abi.library()
import torch
torch.set_num_threads(2)
f = lambda x: torch.softmax(x @ x, -1)
x = torch.randn(512, 512) / 512**0.5
torch.testing.assert_close(torch.compile(f, backend="tenon")(x), f(x))
check_libraries()
"""
OTHER_TORCH = """
import torch
torch.__version__ = torch.torch_version.TorchVersion("1.13.1")
torch.compile(lambda x: x + 1, backend="tenon")(torch.zeros(2))
"""


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=ENVIRONMENT)
    return done.returncode, done.stdout, done.stderr


def python(program):
    return run(sys.executable, "-c", f"SITE = {str(SITE)!r}\n{program}")


def must(name, result):
    code, out, err = result
    if code != 0:
        sys.exit(f"{name} ended with {code}\n{out}\n{err}")
    print(f"{name}: good", flush=True)
    return out


def metadata():
    about = importlib.metadata.distribution("tenon")
    names = {Path(file).name for file in about.files}
    assert {"LICENSE", "THIRD_PARTY_LICENSES.txt"} <= names, names
    assert about.metadata["License-Expression"] == "Apache-2.0" and about.metadata.get_payload().startswith("# Tenon")
    assert any(r.startswith("torch==") for r in about.requires), about.requires
    assert all(re.search(r"cp3\d+-abi3-manylinux_", line) for line in about.read_text("WHEEL").splitlines() if "Tag:" in line)
    print("metadata: good")


def commands():
    for name, command in (("tenon", [Path(sys.executable).parent / "tenon"]), ("python -m tenon", [sys.executable, "-m", "tenon"])):
        assert "all is well" in must(f"{name} doctor", run(*command, "doctor"))
        code, _, err = run(*command, "docter")
        assert code == 2 and "did you mean 'doctor'?" in err, (code, err)


def other_torch():
    code, _, err = python(OTHER_TORCH)
    assert code != 0 and re.search(r"works with PyTorch \S+, not with 1\.13\.1: install", err), err
    print("another PyTorch: good")


def main():
    metadata()
    must("package", python(PACKAGE))
    assert b"__jit_debug_register_code" in LIBRARY.read_bytes(), "gdb cannot find kernels"
    must("model", python(MODEL))
    must("library before PyTorch", python(LIBRARY_FIRST))
    commands()
    other_torch()
    print("all good")


if __name__ == "__main__":
    main()

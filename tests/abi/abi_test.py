"""The interface of libtenon.so.1: it exports exactly the manifest include/tenon/abi.txt, the header declares exactly the
manifest, and the header compiles alone in every language mode that it promises. The current header declares everything of
the frozen headers of tests/abi unchanged.

The library is build/release/libtenon.so.1, or what TENON_LIBRARY names.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
LIBRARY = Path(os.environ.get("TENON_LIBRARY", ROOT / "build" / "release" / "libtenon.so.1"))


def manifest():
    lines = [line.split("#")[0].strip() for line in (INCLUDE / "tenon/abi.txt").read_text().splitlines()]
    return [line for line in lines if line]


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def test_the_library_exports_the_manifest_and_nothing_else():
    assert LIBRARY.is_file(), f"{LIBRARY} is not built: ./dev build"
    exported = set()
    for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines():
        kind, name = line.split()[-2:]
        name, _, version = name.partition("@@")
        if kind == "A":  # the version node itself
            assert name == "TENON_1"
            continue
        assert version == "TENON_1", line
        exported.add(name)
    assert exported == set(manifest())
    assert "SONAME" in (dynamic := output("readelf", "-d", LIBRARY)) and "[libtenon.so.1]" in dynamic
    assert "libLLVM" not in dynamic and "libstdc++" not in dynamic


def test_the_header_declares_the_manifest():
    names = manifest()
    assert len(names) == len(set(names))
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "tenon/tenon.h").read_text(), flags=re.DOTALL)
    declared = re.findall(r"TENON_API\b[^;]*?\b(tenon_\w+)\s*\(", text)
    assert sorted(declared) == sorted(names)


@pytest.mark.parametrize("language, standard", [("c", "c99"), ("c", "c11"), ("c++", "c++11"), ("c++", "c++20")])
def test_the_header_compiles_alone(tmp_path, language, standard):
    compiler = "gcc" if language == "c" else "g++"
    more = ["-Wc++-compat", "-Wstrict-prototypes"] if language == "c" else []
    subprocess.run([compiler, "-x", language, f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", *more,
                    "-fsyntax-only", f"-I{INCLUDE}", "-include", "tenon/tenon.h", "/dev/null"], check=True)


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_cpp_header_compiles_alone(standard):
    subprocess.run(["g++", "-x", "c++", f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
                    "-fsyntax-only", f"-I{INCLUDE}", "-include", "tenon/tenon.hpp", "/dev/null"], check=True)


def header_code(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def structures(code):
    """Name -> declarations of the fields, in order."""
    found = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", code, flags=re.DOTALL)
    return {name: [" ".join(d.split()) for d in body.split(";") if d.strip()] for name, body in found}


def functions(code):
    found = re.findall(r"TENON_API\b([^;]*?)\b(tenon_\w+)\s*(\([^;]*\));", code)
    return {name: " ".join((result + arguments).split()) for result, name, arguments in found}


def callbacks(code):
    return {" ".join(d.split()) for d in re.findall(r"typedef \w[^;{]*\(\*\w+\)[^;]*;", code)}


@pytest.mark.parametrize("frozen", sorted((ROOT / "tests/abi").glob("tenon_*.h")), ids=lambda p: p.name)
def test_what_was_declared_is_declared_as_it_was(frozen):
    then, now = header_code(frozen), header_code(INCLUDE / "tenon/tenon.h")
    assert len(functions(then)) > 30 and len(structures(then)) > 8 and len(callbacks(then)) > 5
    for name, signature in functions(then).items():
        assert functions(now).get(name) == signature, name
    for name, fields in structures(then).items():
        grown = structures(now).get(name, [])
        assert grown[:len(fields)] == fields, name
        assert grown == fields or fields[0] == "size_t struct_size", f"{name} has no struct_size and has grown"
    assert callbacks(then) <= callbacks(now)


def test_every_field_has_its_offset_locked():
    locked = re.findall(r"^LOCK\((\w+), (\w+), \d+\);$", (ROOT / "tests/abi/offsets.c").read_text(), flags=re.MULTILINE)
    fields = [(name, re.search(r"\w+$", d).group()) for name, all in structures(header_code(INCLUDE / "tenon/tenon.h")).items()
              for d in all]
    assert locked == fields

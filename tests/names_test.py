"""Reads every Python file of the repository and checks that each global name that a function uses is assigned or imported in its module:
a forgotten import would only raise when a rare branch runs."""

import builtins
import symtable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("bindings/python", "bench", "tests", "tools")
OF_MODULES = {"__file__", "__name__", "__doc__", "__path__"}


def undefined(text, name="module"):
    """The names that the module or one of its functions reads, but nobody binds."""
    module = symtable.symtable(text, name, "exec")
    bound = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_imported()}
    found, tables = set(), [module]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        bound |= {s.get_name() for s in table.get_symbols() if s.is_declared_global() and s.is_assigned()}
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (s.is_global() or table is module)}
    return sorted(found - bound - set(dir(builtins)) - OF_MODULES)


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_are_defined(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    wrong = {str(p.relative_to(ROOT)): names for p in files if (names := undefined(p.read_text(encoding="utf-8"), str(p)))}
    assert wrong == {}


def test_a_forgotten_import_is_found():
    assert undefined("import os\ndef f(a):\n    return [path(x) for x in a] + os.environ\n") == ["path"]
    assert undefined("from os import path\ndef f(a):\n    global b\n    b = 1\n    return path(a) + b\n") == []

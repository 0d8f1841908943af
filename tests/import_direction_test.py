"""Reads every import of the Python package, at the top of a module or inside of a function, and checks the directions of
docs/design/overview.md.

Imports form no cycle, neither of modules nor of directories; tenon/__init__.py and __main__.py, which no module imports, count as
a directory of their own. Only tenon/torch imports PyTorch. Directories, files and functions stay small.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "bindings/python/tenon"
MOST_FILES, MOST_LINES, MOST_LINES_OF_A_FUNCTION = 20, 500, 100
FRAMEWORKS = {"torch": "torch/", "mxnet": "mxnet/"}  # module -> the directory whose files may import it


def modules(package):
    """Dotted name, without the name of the package -> path."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name, path, package, known):
    """(modules of the package, names of other packages) that a module imports."""
    inside, outside = set(), set()
    folder = name.split(".") if path.name == "__init__.py" and name else name.split(".")[:-1]
    for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(n, ast.Import):
            targets = [alias.name.split(".") for alias in n.names]
        elif isinstance(n, ast.ImportFrom):
            base = [package.name, *folder[:len(folder) - n.level + 1]] if n.level else []
            base += n.module.split(".") if n.module else []
            targets = [[*base, alias.name] for alias in n.names]
        else:
            continue
        for target in targets:
            if target[0] != package.name:
                outside.add(target[0])
                continue
            inner = target[1:]
            inside.add(".".join(inner) if ".".join(inner) in known else ".".join(inner[:-1]))
    return (inside & known.keys()) - {name}, outside


def cycle(graph):
    """A cycle as a list of nodes, in which each node has an edge to the next and the last one to the first; None without a cycle."""
    done, path = set(), []

    def visit(n):
        if n in path:
            return path[path.index(n):]
        if n in done:
            return None
        path.append(n)
        for other in sorted(graph.get(n, ())):
            if found := visit(other):
                return found
        done.add(path.pop())
        return None

    return next(filter(None, map(visit, sorted(graph))), None)


def violations(package):
    known = modules(package)
    graph, folders, found = {}, {}, []
    place = {name: "__init__.py" if name in ("", "__main__") else f"{path.parent.relative_to(package).as_posix()}/" for name, path in known.items()}
    for name, path in known.items():
        graph[name], outside = imported(name, path, package, known)
        folders.setdefault(place[name], set()).update(place[other] for other in graph[name] if place[other] != place[name])
        file, text = path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")
        found += [f"{file}: imports {framework}, which belongs in {directory}" for framework, directory in FRAMEWORKS.items()
                  if framework in outside and not file.startswith(directory)]
        if (lines := text.count("\n")) > MOST_LINES:
            found.append(f"{file}: {lines} lines")
        found += [f"{file}: {n.name} has {n.end_lineno - n.lineno + 1} lines" for n in ast.walk(ast.parse(text))
                  if isinstance(n, ast.FunctionDef) and n.end_lineno - n.lineno + 1 > MOST_LINES_OF_A_FUNCTION]
    found += [f"{what} import one another: {' -> '.join([*circle, circle[0]])}"
              for what, circle in (("modules", cycle(graph)), ("folders", cycle(folders))) if circle]
    for folder in {path.parent for path in known.values()}:
        if (count := len(list(folder.glob("*.py")))) > MOST_FILES:
            found.append(f"{folder.relative_to(package).as_posix()}/: {count} files")
    return found


def test_every_import_follows_the_architecture():
    known = modules(PACKAGE)
    edges = sum(len(imported(name, path, PACKAGE, known)[0]) for name, path in known.items())
    assert len(known) > 30 and edges > 100, "the package was not read"
    assert not (found := violations(PACKAGE)), "\n" + "\n".join(found)


def write(root, file, text):
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)


@pytest.fixture
def package(tmp_path):
    """A small package without violations."""
    root = tmp_path / "small"
    write(root, "__init__.py", "def explain():\n    from .torch.explain import explain\n    return explain()\n")
    write(root, "base.py", "import os\n")
    write(root, "torch/__init__.py", "")
    write(root, "torch/explain.py", "import torch\nfrom .. import base\nfrom .ops import TABLE\n")
    write(root, "torch/ops/__init__.py", "from . import row\nTABLE = row\n")
    write(root, "torch/ops/row.py", "import small.base\n")
    assert violations(root) == []
    return root


@pytest.mark.parametrize("file, text, sentence", [
    ("base.py", "from . import report", "modules import one another: base -> report -> base"),
    ("base.py", "def f():\n    from .report import g", "modules import one another: base -> report -> base"),
    ("base.py", "import small.report", "modules import one another: base -> report -> base"),
    ("torch/ops/row.py", "from . import TABLE", "modules import one another: torch.ops -> torch.ops.row -> torch.ops"),
    ("torch/ops/row.py", "from .. import sizes", "folders import one another: torch/ -> torch/ops/ -> torch/"),
    ("torch/ops/row.py", "def f():\n    from ..sizes import size", "folders import one another: torch/ -> torch/ops/ -> torch/"),
    ("base.py", "from torch import nn", "base.py: imports torch, which belongs in torch/"),
    ("base.py", "x = 1\n" * 500, "base.py: 501 lines"),
    ("base.py", "def f():\n" + "    x = 1\n" * 100, "base.py: f has 101 lines"),
])
def test_a_planted_violation_is_seen(package, file, text, sentence):
    write(package, "report.py", "from . import base\n")
    write(package, "torch/sizes.py", "")
    assert violations(package) == []
    write(package, file, text + "\n")
    assert violations(package) == [sentence]


def test_a_full_folder_is_seen(package):
    for number in range(MOST_FILES - 1):
        write(package, f"torch/ops/rows{number}.py", "")
    assert violations(package) == [f"torch/ops/: {MOST_FILES + 1} files"]

"""Compares the documents with the tree: every path that they name exists, and every verb and option that they show is known."""

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLI = Path(os.environ.get("TENON_CLI", ROOT / "build" / "release" / "bin" / "tenon"))
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
TOP = ("src", "jit", "backends", "bindings", "include", "tests", "bench", "docs", "tools", "cmake", "examples")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"^(?:{'|'.join(TOP)})/[\w./*{{}},-]*$")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def expanded(path):
    """The paths that a shell makes of `a/{b,c}.d`."""
    if found := re.search(r"\{([^{}]*)\}", path):
        return [p for part in found[1].split(",")
                for p in expanded(path[:found.start()] + part.strip() + path[found.end():])]
    return [path]


def missing_paths(text, folder):
    """The paths that the text names and that do not exist. A path without a suffix matches a file with any suffix."""
    missing = []
    for code in CODE.findall(text):
        for path in expanded(code.strip()) if PATH.match(code.strip()) else []:
            name = path.rstrip("/")
            if not list(ROOT.glob(name)) and not list(ROOT.glob(name + ".*")):
                missing.append(path)
    missing += [link for link in LINK.findall(CODE.sub("", FENCED.sub("", text))) if not (folder / link).exists()]
    return missing


def named_tests(text):
    """The paths of tests that a source file names."""
    return re.findall(r"\btests/[\w/*-]+\.(?:cc|py|tn|c|h)\b(?!\.\w)", text)


def sources():
    for folder in ("src", "jit", "backends", "bindings", "include", "bench", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".hpp", ".cc", ".c", ".def", ".py") and path != Path(__file__):
                yield path


def commands(text):
    """The words of each command of `tenon` and `./dev` in code, as a list."""
    for code in CODE.findall(text) + re.findall(r"^(?:\$ )?((?:\./dev|tenon) .*)$", text, flags=re.MULTILINE):
        words = code.replace("|", " | ").split()
        while words and re.match(r"^[A-Z_]+=", words[0]):
            words.pop(0)
        if words and words[0] in ("tenon", "./dev") and len(words) > 1 and re.match(r"^[a-z]+$", words[1]):
            yield words


def unknown_words(words, verbs, options):
    """Sentences about a verb, or options of a verb of `tenon`, that do not exist."""
    program, verb = words[:2]
    if verb not in verbs[program]:
        return [f"{program} {verb}: there is no such verb"]
    if program == "./dev":
        return []
    given = [w.split("=")[0] for w in words[2:] if w.startswith("--")]
    return [f"tenon {verb} {o}: there is no such option" for o in given if o not in options(verb)]


def dev_verbs():
    text = (ROOT / "dev").read_text()
    return set(re.findall(r"^\./dev ([a-z]+)", text, flags=re.MULTILINE))


def cli_help(*words):
    return subprocess.run([str(CLI), *words, "--help"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_path_exists(document):
    assert missing_paths(document.read_text(), document.parent) == []


def test_every_test_that_a_source_names_exists():
    found = [(path.relative_to(ROOT).as_posix(), test) for path in sources()
             for test in named_tests(path.read_text(encoding="utf-8")) if not list(ROOT.glob(test))]
    assert found == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_command_is_known(document):
    verbs = {"tenon": set(re.findall(r"^  ([a-z]+)  ", cli_help(), flags=re.MULTILINE)), "./dev": dev_verbs()}
    assert len(verbs["tenon"]) > 5 and len(verbs["./dev"]) > 5
    options = lambda verb: set(re.findall(r"--[\w-]+", cli_help(verb)))
    found = [s for words in commands(document.read_text()) for s in unknown_words(words, verbs, options)]
    assert found == []


def test_bench_all_runs_what_the_pages_quote():
    """Every figure with a command is measured by `./dev bench all`, and every command names a benchmark."""
    listed = subprocess.run(["python3", ROOT / "bench/all.py", "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    names = [re.search(r"\./dev bench ?(\w*)", line)[1] or "models" for line in listed]
    assert len(listed) > 10 and {"models", "kernels", "shapes", "cold", "calls", "mxnet"} <= set(names)
    assert not [n for n in names if n not in ("models", "mxnet", "graphs") and not list((ROOT / "bench").glob(f"{n}.*"))]
    assert not [line for line in listed if re.search(r"\.\.\.|\[|--help", line)]


def story(text):
    """(files, commands) of a page that shows a graph below "`name.tn`:", and commands that read this file."""
    files = dict(re.findall(r"`(\w+\.tn)`:\n+```\n(.*?)```", text, flags=re.DOTALL))
    commands = [code for code in CODE.findall(FENCED.sub("", text)) if any(f in code.split()[1:] for f in files)]
    return files, commands


def run_story(text, folder):
    """Runs the commands of a page. Returns [(command, stderr)] of those that fail."""
    files, commands = story(text)
    for name, graph in files.items():
        (folder / name).write_text(graph)
    path = f"{CLI.parent}{os.pathsep}{os.environ['PATH']}"
    done = [(c, subprocess.run(c, shell=True, cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path}))
            for c in commands]
    return [(c, d.stderr) for c, d in done if d.returncode != 0 or not d.stdout + d.stderr]


# How-to pages, and a name that exists for each name that the page invents.
HOWTO = {"add-op.md": ("softsign", "silu"), "add-pass.md": ("=cancel", "=simplify")}


@pytest.mark.parametrize("page", HOWTO)
def test_the_story_of_a_howto_runs(page, tmp_path):
    text = (ROOT / "docs" / "howto" / page).read_text()
    files, commands = story(text)
    assert len(files) == 1 and len(commands) == 2, commands
    assert run_story(text.replace(*HOWTO[page]), tmp_path) == []


def blocks(page):
    """The C++ of a how-to page, without its indentation."""
    found = re.findall(r"^( *)```cpp\n(.*?)^ *```", (ROOT / "docs" / "howto" / page).read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, code in found]


def test_the_cpp_of_howto_pages_compiles(tmp_path):
    body = next(code for code in blocks("add-op.md") if "const Node& node) {" in code)
    (tmp_path / "body.cc").write_text('#include "src/ops/bodies/body_help.h"\nnamespace tenon::bodies {\n' + body + "}\n")
    rule = next(code for code in blocks("add-op.md") if "GradientContext& c) {" in code)
    (tmp_path / "rule.cc").write_text('#include "src/ops/gradients/help.h"\nnamespace tenon::gradients {\n' + rule + "}\n")
    (tmp_path / "pass.cc").write_text(next(code for code in blocks("add-pass.md") if "#include" in code))
    for source in tmp_path.iterdir():
        subprocess.run(["c++", "-std=c++20", "-fsyntax-only", f"-I{ROOT}", str(source)], check=True)


def test_the_example_of_gradients_runs(tmp_path):
    code = re.search(r"^```c\n(.*?)^```", (ROOT / "docs" / "gradients.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "example.c").write_text(code)
    library = CLI.parent.parent
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", f"-I{ROOT}/include", "example.c", f"-L{library}", "-l:libtenon.so.1",
                    f"-Wl,-rpath,{library}", "-o", "example"], cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "example"], capture_output=True, text=True, check=True).stdout
    assert f"/* {out.strip()} */" in code


def test_the_back_end_of_a_howto_is_the_tested_one():
    lines = lambda text: [line.strip() for line in text.splitlines()]
    toy, shown = lines((ROOT / "tests" / "support" / "toy_backend.cc").read_text()), blocks("add-backend.md")
    assert len(shown) >= 2
    for code in map(lines, shown):
        assert any(toy[i:i + len(code)] == code for i in range(len(toy))), "not in tests/support/toy_backend.cc:\n" + "\n".join(code)


def test_every_op_is_documented():
    text = (ROOT / "docs" / "ops.md").read_text()
    ops = subprocess.run([str(CLI), "ops"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [name for name in (line.split()[0] for line in ops) if not re.search(rf"\b{name}\b", text)] == [], "docs/ops.md lacks these ops"


def test_the_story_of_a_graph_runs(tmp_path):
    text = (ROOT / "docs" / "graph_to_program.md").read_text()
    files, commands = story(text)
    assert len(files) == 1 and len(commands) >= 3, commands
    assert run_story(text, tmp_path) == []
    wrong = run_story(text.replace("silu", "sillu"), tmp_path)
    assert len(wrong) == len(commands) and all("did you mean 'silu'" in message for _, message in wrong)


def test_planted_mistakes_are_seen():
    text = "`src/ir/nothing.cc` and [a page](nothing.md); `jit/{kernel,none}/`"
    assert missing_paths(text, ROOT / "docs") == ["src/ir/nothing.cc", "jit/none/", "nothing.md"]
    verbs, options = {"tenon": {"opt"}, "./dev": {"test"}}, lambda verb: {"--pass"}
    words = list(commands("`TENON_DUMP=x tenon opt f --kernal-pass=a`, `./dev tset`, `tenon opt f --pass=cse`"))
    assert [s for w in words for s in unknown_words(w, verbs, options)] == [
        "tenon opt --kernal-pass: there is no such option", "./dev tset: there is no such verb"]

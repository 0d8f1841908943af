"""The verb `tenon bench`: expressions as graphs, measurements, JSON, and the comparison of two files."""

import json
import re
import subprocess

import numpy as np
import pytest

from tests.cli_test import CLI, ROOT, tenon

QUICK = ("--seconds", "0.02", "--rounds", "4", "--threads", "1")


def graph(expression, *shapes):
    done = tenon("bench", "--print", expression, *(["--shapes", ",".join(shapes)] if shapes else []))
    assert done.returncode == 0, done.stderr
    return [line.strip().split(" : ")[0] for line in done.stdout.splitlines()[1:-3]]


@pytest.mark.parametrize("expression, shapes, lines", [
    ("x + y*z", "x:4,y:4,z:4", ["%3 = mul(%y, %z)", "%4 = add(%x, %3)"]),
    ("x - y - z", "x:4,y:4,z:4", ["%3 = sub(%x, %y)", "%4 = sub(%3, %z)"]),
    ("(-x ** y)", "x:4,y:4", ["%2 = pow(%x, %y)", "%3 = neg(%2)"]),
    ("x ** y ** z", "x:4,y:4,z:4", ["%3 = pow(%y, %z)", "%4 = pow(%x, %3)"]),
    ("(x + y) @ w", "x:4x4,y:4x4,w:4x4", ["%3 = add(%x, %y)", "%4 = matmul(%3, %w)"]),
    ("x // y % z", "x:4,y:4,z:4", ["%3 = floor_div(%x, %y)", "%4 = remainder(%3, %z)"]),
    ("x >= y", "x:4,y:4", ["%2 = ge(%x, %y)"]),
    ("x < y", "x:4,y:4", ["%2 = lt(%x, %y)"]),
    ("x == y", "x:4,y:4", ["%2 = eq(%x, %y)"]),
    ("x * 2", "x:4:bf16", ["%1 = full{value=2, shape=[], dtype=bf16}", "%2 = mul(%x, %1)"]),
    ("softmax(x)", "x:4x4", ["%1 = softmax(%x){axis=-1}"]),
    ("sum(x, axes=[0], keepdims=true)", "x:4x4", ["%1 = sum(%x){axes=[0], keepdims=true}"]),
    ("h = x*x; h + h", "x:4", ["%h = mul(%x, %x)", "%2 = add(%h, %h)"]),
    ("x + 9007199254740993", "x:4:i64", ["%1 = full{value=9007199254740993, shape=[], dtype=i64}", "%2 = add(%x, %1)"]),
    ("x + 2*3", "x:4:i64", ["%1 = full{value=6.0, shape=[], dtype=i64}", "%2 = add(%x, %1)"]),
    ("x - -3", "x:4:i64", ["%1 = full{value=-3, shape=[], dtype=i64}", "%2 = sub(%x, %1)"]),
    ("1/8*x", "x:4", ["%1 = full{value=0.125, shape=[], dtype=f32}", "%2 = mul(%1, %x)"]),
])
def test_an_expression_is_this_graph(expression, shapes, lines):
    assert graph(expression, *shapes.split(",")) == lines


@pytest.mark.parametrize("arguments, message", [
    (["x +", "--shapes", "x:4"], "1:4: expected a number, a name or '('"),
    (["softmaks(x)"], "1:1: no op is called softmaks, did you mean 'softmax'?"),
    (["x)"], "expected an operator or the end, found ')'"),
    (["1 @ 1"], "1:3: both operands of @ are numbers"),
    (["x*0.5", "--shapes", "x:4:i32"], "1:2: 0.5 is no i32; cast the other operand"),
    (["x + 300", "--shapes", "x:4:u8"], "1:3: 300 is no u8"),
    (["h = x*x; x", "--shapes", "x:4"], "1:1: nothing reads h"),
    (["softmax(x)"], "no input has a shape: give --shapes x:4096x1024"),
    (["x*x", "--shapes", "y:4"], "no input has a shape"),
    (["x*y", "--shapes", "x:4", "y:4"], "y:4 is a shape: write all shapes as one word, --shapes x:4096x1024,y:4"),
    (["x" * 500 + " +", "--shapes", "x:4"], "x..."),
    ([str(ROOT / "README.md")], "README.md is a file, but its name ends with neither .tn nor .json"),
    (["x*x", "--shapes", "x:N", "--dim", "N=4", "--dim", "N=5"], "--dim names N twice"),
    (["x*x", "--shapes", "x:N", "--dim", "N=4,4"], "has a size twice"),
    (["x*x", "--shapes", "x:4", "--input", "x"], "--input x: expected NAME=FILE.npy"),
    (["add(x)"], "takes 2 operands, given 1"),
    (["h = x; h = 3"], "1:8: h has a value already"),
    (["x @ y", "--shapes", "x:2x3,y:4x5"], "matmul"),
    (["x", "--shapes", "x:4,y:4"], "--shapes names y, which no expression reads"),
    (["x", "--shapes", "x:4,x:4"], "--shapes names x twice"),
    (["x", "--shapes", "x"], "expected NAME:4x1024"),
    (["x", "--shapes", "x:4:f99"], "unknown dtype 'f99'"),
    (["x", "--shapes", "x:4x8::1"], "2 sizes, but 1 strides"),
    (["x", "--shapes", "x:4:f32:1:1"], "or NAME:4x1024:bf16:STRIDES"),
    (["x", "--shapes", "x:-4"], "negative"),
    (["x*x", "--shapes", "x:N"], "the size N is not known: give --dim N=4"),
    (["x*x", "--shapes", "x:N", "--dim", "N"], "--dim N: expected NAME=64"),
    (["x*x", "--shapes", "x:N", "--dim", "N=4,,"], "not a size"),
    (["(" * 100000 + "x"], "nested too deeply"),
    (["-" * 100000 + "x"], "nested too deeply"),
    (["nothing.tn"], "nothing.tn: No such file or directory"),
    (["x*x", "--shapes", "x:4", "--json", "/nowhere/a.json"], "/nowhere/a.json"),
])
def test_mistakes_are_told(arguments, message):
    done = tenon("bench", *QUICK, *arguments)
    assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1


def test_strides():
    """Strides may be negative, and elements may share memory."""
    text = tenon("bench", "--print", "x @ w", "--shapes", "x:4x8,w:8xN::1x8").stdout
    assert "graph @expression(%x: f32[4,8], %w: f32[8,N] strides=[1,8]) {" in text
    for strides in ("1x4", "0x1", "1x1", "-1x4", "-8x-1"):
        done = tenon("bench", "x*2 + y", "--shapes", f"x:4x8::{strides},y:4x8", *QUICK)
        assert done.returncode == 0, done.stderr


def test_expressions_share_shapes():
    done = tenon("bench", "--print", "x*x", "y + x", "--shapes", "x:4,y:4")
    assert done.returncode == 0 and done.stdout.count("graph @") == 2, done.stderr


def test_usage():
    assert tenon("bench").returncode == 2
    assert tenon("bench", "x", "--vs", "nobody").returncode == 2
    for option, value in (("--rounds", "0"), ("--threads", "two"), ("--seconds", "0"), ("--seconds", "nan")):
        done = tenon("bench", "x", option, value)
        assert done.returncode == 2 and f"{value} is no positive number" in done.stderr
    assert tenon("bench", "x", "--json", "").returncode == 2
    done = tenon("bench", "x*x", "--shapes", "x:4", "--threads", "1,1")
    assert done.returncode == 1 and "--threads has a number twice" in done.stderr


def test_the_table_names_every_case():
    done = tenon("bench", "exp(x)", "x + 1", "--shapes", "x:N", "--dim", "N=8,1024", "--vs", "unfused", *QUICK)
    assert done.returncode == 0, done.stderr
    assert [line.split("/threads")[0] for line in done.stdout.splitlines()[2::2]] == ["exp(x)/N=8", "exp(x)/N=1024", "x + 1/N=8", "x + 1/N=1024"]
    assert all(line.rstrip().endswith("x") for line in done.stdout.splitlines()[2::2])


def test_counts_of_operations_and_bytes(tmp_path):
    path = tmp_path / "a.json"
    done = tenon("bench", "relu(x @ w + b)", "--shapes", "x:16x32,w:32x64,b:64", "--json", path, *QUICK)
    assert done.returncode == 0, done.stderr
    written = json.loads(path.read_text())
    assert written["context"]["num_cpus"] >= 1
    rounds = [b for b in written["benchmarks"] if b["run_type"] == "iteration"]
    assert len(rounds) == 4 and {b["run_name"] for b in rounds} == {"relu(x @ w + b)/threads:1"}
    middle = next(b for b in written["benchmarks"] if b.get("aggregate_name") == "median")
    seconds = middle["bytes_per_second"] and 4 * (16 * 32 + 32 * 64 + 64 + 16 * 64) / middle["bytes_per_second"]
    assert seconds * middle["operations_per_second"] == pytest.approx(2 * 16 * 32 * 64 + 2 * 16 * 64, rel=0.01)
    assert middle["bytes_saved"] == 4 * 4 * 16 * 64 and middle["advice"]  # the product and the sum, each written and read


def test_fusion_saves_nothing_where_nothing_is_fused(tmp_path):
    path = tmp_path / "a.json"
    done = tenon("bench", "x @ w, x @ v", "relu(x)", "x + x", "softmax(x)", "--shapes", "x:64x64,w:64x64,v:64x64", "--json", path, *QUICK)
    assert done.returncode == 0, done.stderr
    assert [b["bytes_saved"] for b in json.loads(path.read_text())["benchmarks"] if b.get("aggregate_name") == "median"] == [0] * 4
    assert "fusion saves" not in done.stdout


def test_bytes_are_those_that_are_read(tmp_path):
    path = tmp_path / "a.json"
    done = tenon("bench", "gather(w, i, axis=0)", "slice(w, axis=0, start=4, end=8)", "c + 1", "w + c", "--shapes", "w:1000x64,i:10:i32,c:1000x64::0x0",
                 "--json", path, *QUICK)
    assert done.returncode == 0, done.stderr
    assert [b["bytes"] for b in json.loads(path.read_text())["benchmarks"] if b.get("aggregate_name") == "median"] == [
        4 * (640 + 10 + 640), 4 * (256 + 256), 4 * (1 + 64000), 4 * (64000 + 1 + 64000)]


def test_random_divisors_are_not_0():
    done = tenon("bench", "x % y", "x // y", "--shapes", "x:64:i32,y:64:i32", *QUICK)
    assert done.returncode == 0, done.stderr


def test_an_interrupted_run_leaves_no_empty_file(tmp_path):
    path = tmp_path / "a.json"
    process = subprocess.Popen([str(CLI), "bench", "x + 1", "--shapes", "x:8", "--seconds", "20", "--json", str(path)], stdout=subprocess.PIPE, text=True)
    assert "case" in (process.stdout.readline(), process.stdout.readline())[1]
    process.terminate()
    process.communicate()
    assert not path.exists()


def test_a_full_disk_is_an_error():
    done = subprocess.run(f"{CLI} ops > /dev/full", shell=True, capture_output=True, text=True)
    assert done.returncode == 1 and "stdout: No space left on device" in done.stderr


def test_rows_are_printed_as_they_are_measured():
    process = subprocess.Popen([str(CLI), "bench", "x + 1", "x + 2", "--shapes", "x:8", "--seconds", "0.5", "--threads", "1"],
                               stdout=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(4)]
    process.kill()
    assert lines[2].startswith("x + 1/threads:1") and "x + 2" not in process.communicate()[0]


@pytest.mark.parametrize("cold", [[], ["--cold"]], ids=["warm", "cold"])
def test_a_row_says_what_the_probes_say(tmp_path, cold):
    path = tmp_path / "a.json"
    done = tenon("bench", "exp(x)*2", "x @ w", "x + 1", "--shapes", "x:128x128,w:128x128", "--json", path, *cold, *QUICK)
    assert done.returncode == 0, done.stderr
    medians = [b for b in json.loads(path.read_text())["benchmarks"] if b.get("aggregate_name") == "median"]
    for row, line, b in zip(done.stdout.splitlines()[2::2], done.stdout.splitlines()[3::2], medians, strict=True):
        of_copy, of_peak = (b[f"{what}_per_second"] / b[f"{probe}_per_second"] for what, probe in (("bytes", "copy_bytes"), ("operations", "peak_operations")))
        assert b["bytes"] / b["bytes_per_second"] == pytest.approx(b["operations"] / b["operations_per_second"])
        assert b["share_of_roofline"] == pytest.approx(max(of_copy, of_peak)) and f"{b['share_of_roofline'] * 100:.0f}%" in row.split()
        assert ("the probes moved by" in line) == (b["probes_moved"] > 0.1)
        assert line.strip().startswith(b["advice"]) and b["p90_us"] <= b["p99_us"]
        slowed = max(of_copy, of_peak) >= 1.25
        assert b["advice"].startswith("faster than the probes") == slowed, b
        assert b["advice"].startswith("memory bound: ") == (not slowed and of_copy >= 0.7 and of_copy >= of_peak), b
        assert not b["advice"].startswith("bound by multiply-adds: ") or of_peak >= 0.6


def test_a_directory_is_a_suite(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.tn").write_text("graph @g(%x: f32[8]) {\n  %y = neg(%x)\n  return %y\n}\n")
    done = tenon("bench", tmp_path, *QUICK)
    assert [line.split()[0] for line in done.stdout.splitlines()[2::2]] == ["a/threads:1", "b/threads:1"]
    (tmp_path / "empty").mkdir()
    assert "has no file *.tn" in tenon("bench", tmp_path / "empty").stderr


def test_files_of_one_name_keep_their_paths(tmp_path):
    for folder, name in (("a", "mlp"), ("b", "mlp"), ("b", "other")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.tn").write_text("graph @g(%x: f32[8]) {\n  %y = neg(%x)\n  return %y\n}\n")
    done = tenon("bench", tmp_path / "a", tmp_path / "b", *QUICK)
    assert [line.split()[0] for line in done.stdout.splitlines()[2::2]] == [
        f"{tmp_path}/a/mlp.tn/threads:1", f"{tmp_path}/b/mlp.tn/threads:1", "other/threads:1"]


def test_suites_run():
    done = tenon("bench", ROOT / "bench/suites", "--print")
    assert done.returncode == 0 and done.stdout.count("graph @") == len(list((ROOT / "bench/suites").glob("*.tn"))) > 5
    done = tenon("bench", ROOT / "bench/suites", "--dim", "M=24", "--dim", "N=40", *QUICK)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2 + 2 * len(list((ROOT / "bench/suites").glob("*.tn"))), done.stderr
    assert done.stdout.count("too large to compare") == 1  # mlp, whose widths are constant; the others were compared with the evaluator


@pytest.mark.parametrize("verb", ["bench", "profile"])
def test_libraries_get_no_more_threads(verb):
    """OpenMP tells of each thread of its first parallel region."""
    def told(threads):
        done = tenon(verb, "x @ w", "--shapes", "x:256x256,w:256x256", "--threads", threads, "--seconds", "0.02",
                     OMP_NUM_THREADS="3", OMP_DISPLAY_AFFINITY="TRUE", OMP_AFFINITY_FORMAT="thread %n of %N")
        assert done.returncode == 0, done.stderr
        return {int(n) for n in re.findall(r"thread \d+ of (\d+)", done.stdout + done.stderr)}
    assert told(1) <= {1} and max(told(2)) == 2


def test_the_page_holds_everything(tmp_path):
    path, again = tmp_path / "a.html", tmp_path / "b.html"
    done = tenon("bench", "softmax(x)", "--shapes", "x:Nx64", "--dim", "N=4,16", "--html", path, "--json", tmp_path / "a.json", *QUICK)
    assert done.returncode == 0, done.stderr
    page = path.read_text()
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "https://" not in page and " src=" not in page
    results = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    medians = [b for b in results["benchmarks"] if b.get("aggregate_name") == "median"]
    assert [b["dims"] for b in medians] == [["N=4"], ["N=16"]]
    assert all("softmax" in b["graph"] and "kernel @" in b["steps"] and "step 0 (cpu)" in b["steps"] for b in medians)
    assert tenon("bench", "page", tmp_path / "a.json", again).returncode == 0 and again.read_text() == page
    (tmp_path / "bad").write_text("{}")
    assert "not a file of tenon bench --json" in tenon("bench", "page", tmp_path / "bad", again).stderr
    assert "/nowhere/a.html" in tenon("bench", "page", tmp_path / "a.json", "/nowhere/a.html").stderr


def test_no_text_ends_the_script_of_the_page(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"benchmarks": [{"aggregate_name": "median", "run_name": "</script><b>"}]}))
    assert tenon("bench", "page", tmp_path / "a.json", tmp_path / "a.html").returncode == 0
    assert "</script><b>" not in (tmp_path / "a.html").read_text()


def write(path, times):
    path.write_text(json.dumps({"benchmarks": [{"run_name": name, "name": name, "run_type": "iteration", "real_time": t, "time_unit": "us"}
                                               for name, list_of in times.items() for t in list_of]}))


def test_compare(tmp_path):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    noise = [1 + i / 100 for i in range(10)]
    write(before, {"same": [10 * n for n in noise], "slow": [10 * n for n in noise], "fast": [10 * n for n in noise], "gone": [1]})
    write(after, {"same": [10.1 * n for n in noise], "slow": [12 * n for n in noise], "fast": [5 * n for n in noise], "new": [1]})
    done = tenon("bench", "compare", before, after)
    assert done.returncode == 1
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert lines["slow"].endswith("  slower") and "+20.0%" in lines["slow"]
    assert not lines["same"].endswith("slower") and "-50.0%" in lines["fast"]
    assert lines["1"].startswith("1 of 3 cases are slower by more than 5 %")
    assert tenon("bench", "compare", before, after, "--tolerance", "25").returncode == 0
    assert tenon("bench", "compare", after, after).returncode == 0


def test_few_rounds_are_no_evidence(tmp_path):
    write(tmp_path / "a", {"x": [10, 11]})
    write(tmp_path / "b", {"x": [12, 13]})
    done = tenon("bench", "compare", tmp_path / "a", tmp_path / "b")
    assert done.returncode == 0 and done.stdout.splitlines()[1].endswith("  too few rounds to tell")


def test_compare_tells_other_sizes_and_machines(tmp_path):
    for name, size, machine in (("a", 4, "one"), ("b", 4096, "another")):
        assert tenon("bench", "x + 1", "--shapes", f"x:{size}", "--json", tmp_path / name, *QUICK).returncode == 0
        written = json.loads((tmp_path / name).read_text())
        written["context"]["machine"] = machine
        (tmp_path / name).write_text(json.dumps(written))
    done = tenon("bench", "compare", tmp_path / "a", tmp_path / "b")
    assert done.stdout.startswith("the files are of different machines: one; another\n") and "  has other sizes\n" in done.stdout
    assert done.returncode == 1 and "no case in common" in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"benchmarks": 3}', '{"benchmarks": [{"run_type": "iteration"}]}', "nonsense"])
def test_compare_refuses_other_files(tmp_path, text):
    write(tmp_path / "good", {"x": [1]})
    (tmp_path / "bad").write_text(text)
    done = tenon("bench", "compare", tmp_path / "good", tmp_path / "bad")
    assert done.returncode == 1 and str(tmp_path / "bad") in done.stderr


def test_google_benchmark_reads_it(tmp_path):
    """The fields that tools/compare.py of Google Benchmark reads."""
    path = tmp_path / "a.json"
    assert tenon("bench", "neg(x)", "--shapes", "x:64", "--json", path, *QUICK).returncode == 0
    for entry in json.loads(path.read_text())["benchmarks"]:
        assert {"name", "run_name", "run_type", "real_time", "cpu_time", "time_unit"} <= entry.keys()


def test_profile(tmp_path):
    trace = tmp_path / "trace.json"
    done = tenon("profile", "softmax(x @ w) * 2", "--shapes", "x:Nx64,w:64x64", "--dim", "N=16", "--threads", "1", "--seconds", "0.02", "--trace", trace)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("expression, N=16: ") and "ms each" in lines[1]
    shares = [float(line.split("%")[0]) for line in lines[3:] if "%" in line.split("  ")[1] or line.lstrip()[:1].isdigit()]
    assert 50 < sum(shares) <= 100.5 and shares == sorted(shares, reverse=True)
    assert {e["cat"] for e in json.loads(trace.read_text())["traceEvents"]} == {"compile", "plan", "run", "step"}


def test_profile_of_a_saved_trace(tmp_path):
    trace = tmp_path / "t.json"
    made = tenon("profile", "softmax(x @ w) * 2", "--shapes", "x:Nx64,w:64x64", "--dim", "N=16", "--threads", "1", "--seconds", "0.02", "--trace", trace)
    shown = tenon("profile", trace, "--threads", "1")
    assert made.returncode == shown.returncode == 0, shown.stderr
    cut = lambda text: [row.split() for row in text.splitlines()]
    assert [row[:5] + row[6:] for row in cut(made.stdout)] == [row[:5] + row[6:] for row in cut(shown.stdout)]  # all but the roofline


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"programs": 3}', '{"programs": [{"steps": []}]}', '{"programs": [{"steps": [], "runs": "x", "seconds": 1}]}'])
def test_profile_of_a_damaged_trace(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    done = tenon("profile", tmp_path / "t.json")
    assert done.returncode == 1 and "t.json: " in done.stderr


def test_profile_of_a_symbol(tmp_path):
    """A file of MXNet ends with .json too."""
    nodes = [{"op": "null", "name": "x", "inputs": []}, {"op": "exp", "name": "y", "inputs": [[0, 0, 0]]}]
    (tmp_path / "s.json").write_text(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]}))
    np.save(tmp_path / "x.npy", np.ones((4, 8), "float32"))
    done = tenon("profile", tmp_path / "s.json", "--input", f"x={tmp_path / 'x.npy'}", "--seconds", "0.01", "--threads", "1")
    assert done.returncode == 0 and "exp" in done.stdout, done.stderr


def test_profile_mistakes():
    assert "/nowhere/t.json" in tenon("profile", "/nowhere/t.json").stderr
    assert tenon("profile").returncode == 2
    assert "no op is called sofmax" in tenon("profile", "sofmax(x)").stderr
    assert "/nowhere/t.json" in tenon("profile", "neg(x)", "--shapes", "x:4", "--seconds", "0.01", "--trace", "/nowhere/t.json").stderr

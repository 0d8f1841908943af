"""`python -m tenon bench`: graphs as functions of other libraries, the comparison of results, and the cases of a traced model."""

import json
import os
import subprocess
import sys

import pytest
import torch

from tenon import _abi, graph_read
from tenon.graph_text import Builder
from tenon.torch.peers import bench, hosts
from tenon.torch.peers.jax_rows import ROWS as JAX_ROWS
from tenon.torch.peers.spelling import NoCounterpart, source
from tenon.torch.peers.torch_rows import ROWS, TORCH_DTYPES
from tests.cli_test import CLI, ROOT, tenon

SHAPES = ("x:3x4,y:3x4,z:3x4,p:3x4,v:4,u:4,one:4,k:2x3x8x6,w:4x3x3x2,b:4,m:4x5,wt:5x4,c5:5,i:3x4:i64,j:3x4:i64,r:2:i64,q:2x4x6x8,kv:2x2x6x8,h:2x4x6x8,"
          "hl:2x6x4x8,kvl:2x6x4x8,s:3x4,d8:2x4x6,e:4,f:4,rows:2x4,last:1x8x6x3,wl:4x3x3x2")
POSITIVE = "(abs(x) + 0.5)"
WITHIN = "(tanh(x) * 0.9)"

# An expression per row, where the plain call of the op on random operands is no good sample.
SAMPLES = {
    "acosh": f"acosh({POSITIVE} + 1)", "log": f"log({POSITIVE})", "log2": f"log2({POSITIVE})", "log10": f"log10({POSITIVE})",
    "log1p": f"log1p({POSITIVE})", "sqrt": f"sqrt({POSITIVE})", "rsqrt": f"rsqrt({POSITIVE})", "lgamma": f"lgamma({POSITIVE})",
    "digamma": f"digamma({POSITIVE})", "pow": f"pow({POSITIVE}, y)", "acos": f"acos({WITHIN})", "asin": f"asin({WITHIN})", "atanh": f"atanh({WITHIN})",
    "erfinv": f"erfinv({WITHIN})", "ndtri": f"ndtri(abs({WITHIN}) * 0.9 + 0.01)", "zeta": f"zeta({POSITIVE} + 1, {POSITIVE})",
    "igamma": f"igamma({POSITIVE}, abs(y))", "igammac": f"igammac({POSITIVE}, abs(y))", "clamp": "clamp(x, y, z)", "fma": "fma(x, y, z)",
    **{name: f"{name}({POSITIVE})" for name in ("k0", "k1", "k0e", "k1e", "y0", "y1")},
    **{name: f"{name}(i + 1, j + 2)" for name in ("gcd", "lcm")},
    **{name: f"{name}(i, j)" for name in ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")},
    "bit_not": "bit_not(i)", "where": "where(x < y, x, z)", "cast": "cast(x * 9, dtype=i32)", "bitcast": "bitcast(x, dtype=i32)",
    "full": "x + full(value=2.5, shape=[3,4], dtype=f32)", "dim": "x + cast(dim(value=7), dtype=f32)",
    "iota": "x + iota(shape=[3,4], dtype=f32, axis=1, start=2, step=3)",
    "sum": "sum(x, axes=[0])", "var": "var(x, axes=[1], correction=1, keepdims=true)", "logsumexp": "logsumexp(x, axes=[0,1])",
    "cumprod": "cumprod(x, axis=0)", "argmax": "argmax(x, axis=1)", "argmin": "argmin(x, axis=0, keepdims=true)",
    "any": "any(x < y, axes=[1])", "all": "all(x < 9, axes=[])",
    "sort_order": "sort_order(x, axis=1, start=1, end=3, descending=true)", "search": "search(cumsum(abs(x), axis=1), y)",
    "reshape": "reshape(x, shape=[2,6])", "transpose": "transpose(k, perm=[2,0,3,1])", "expand": "expand(v, shape=[2,3,4])",
    "slice": "slice(k, axis=2, start=1, end=8, step=3)", "windows": "windows(k, axes=[2,3], sizes=[3,2], strides=[2,1], dilations=[1,1])",
    "flip": "flip(k, axes=[1,3])", "concat": "concat(x, y, z, axis=1)", "pad": "pad(x, low=[1,-1], high=[0,2], value=3)",
    "gather": "gather(x, r, axis=1)", "take_along": "take_along(x, i, axis=0)", "scatter": "scatter(x, i, y, axis=1, mode=\"add\")",
    "index_put": "index_put(x, r, rows, axis=0, mode=\"add\")", "matmul": "matmul(x, m)", "linear": "linear(x, wt, c5)",
    "convolution": "convolution(k, w, b, strides=[2,1], padding=[1,0], padding_high=[0,1], dilations=[1,2])",
    "max_pool": "max_pool(k, kernel=[3,2], strides=[2,2], padding=[1,1], padding_high=[1,1])",
    "avg_pool": "avg_pool(k, kernel=[3,2], strides=[2,2], padding=[1,1], padding_high=[1,1], count_include_pad=false)",
    "adaptive_avg_pool": "adaptive_avg_pool(k, output=[4,3])", "attention": "attention(q, kv, kv, causal=true, scale=0.3)",
    "layer_norm": "layer_norm(x, v, u, axes_count=1, eps=1e-05)", "rms_norm": "rms_norm(k, axes_count=2, eps=1e-05)",
    "group_norm": "group_norm(d8, e, f, groups=2, eps=1e-05)", "instance_norm": "instance_norm(d8, e, f, eps=1e-05)",
    "batch_norm": "batch_norm(d8, e, abs(f) + 0.5, e, f, eps=1e-05)", "leaky_relu": "leaky_relu(x, slope=0.2)", "elu": "elu(x, alpha=0.7)",
    "gelu": "gelu(x, approximate=\"tanh\")", "softplus": "softplus(x, beta=2, threshold=1)", "hardtanh": "hardtanh(x, low=-0.3, high=0.4)",
}
MORE = ["gelu(x)", "convolution(last, wl, b, strides=[1,1], padding=[1,0], padding_high=[1,0], dilations=[1,1], layout=\"channels_last\")",
        "attention(hl, kvl, kvl, scale=0.2, layout=\"heads_last\")", "scatter(x, i, y, axis=0)", "prod(k, axes=[1,3], keepdims=true)",
        "convolution(k, transpose(w, perm=[1,0,2,3]), strides=[2,2], padding=[1,0], padding_high=[1,0], dilations=[1,1], transposed=true, output_padding=[1,0])",
        "mean(x, axes=[])", "gather(x, r, axis=0)"]


def sample(op):
    if op in SAMPLES:
        return SAMPLES[op]
    info = _abi.op(op)
    return f"{op}({', '.join('xyz'[:info.arity])})"


@pytest.fixture(scope="module")
def texts():
    """op or expression -> text of its graph."""
    wanted = {**{op: sample(op) for op in ROWS}, **{e: e for e in MORE}}
    names = [f"--shapes={s}" for e in SHAPES.split(",") for s in [e]]
    used = " ".join(wanted.values())
    done = tenon("bench", "--print", *wanted.values(), *[n for n in names if n.split("=")[1].split(":")[0] in used.replace("(", " ").replace(",", " ").replace(")", " ").split()])
    assert done.returncode == 0, done.stderr
    graphs = ["graph @" + part for part in done.stdout.split("graph @")[1:]]
    return dict(zip(wanted, graphs, strict=True))


@pytest.fixture
def case():
    options = bench.parse(["x", "--seed", "3"])
    return lambda text, sizes={}: bench.make_case(text, sizes, options, 1)


@pytest.mark.parametrize("op", [*ROWS, *MORE])
def test_a_row_means_the_same_in_pytorch(op, texts, case):
    a_case = case(texts[op])
    assert bench.difference(hosts.tenon(a_case)(), list(hosts.eager(a_case)())) == ""


def test_rows_mean_the_same_in_jax(texts, case):
    pytest.importorskip("jax", reason="JAX is not installed here; ./dev bench graphs installs it into build/peers-venv")
    wrong, refused = {}, []
    for op in JAX_ROWS:
        a_case = case(texts[op])
        try:
            said = bench.difference(hosts.tenon(a_case)(), list(hosts.xla(a_case)()))
            wrong.update({op: said} if said else {})
        except NoCounterpart:
            refused.append(op)
    assert wrong == {} and refused == ["pad"]  # whose sample crops


def test_both_tables_name_only_rows():
    for op in (*ROWS, *JAX_ROWS):
        assert _abi.op(op).name.decode() == op


def test_a_function_is_readable():
    graph = graph_read.read("graph @f(%x: f32[N,4], %in: f32[4]) {\n  %3 = mul(%x, %in) : f32[N,4]\n  %y = sum(%3){axes=[1]} : f32[N]\n  return %y, %3\n}\n")
    text, constants = source(graph.at({"N": 2}), ROWS, TORCH_DTYPES)
    assert constants == []
    assert text == ("def graph(x, vin):\n    v3 = torch.mul(x, vin)\n    y = torch.sum(v3, (1,), keepdim=False, dtype=torch.float32)\n    return (y, v3, )\n")


def test_texts_of_programs_are_read():
    """They have each input on a line of its own."""
    b = Builder("f")
    y = b.map("mul", b.input("x", "f32", (2, 3)), b.input("z", "f32", (2, 3)))
    graph = graph_read.read(b.text([y]))
    assert [v.name for v in graph.inputs] == ["x", "z"] and [v.op for v in graph.nodes] == ["mul"]


def test_names_of_values_hide_no_name_that_a_spelling_uses():
    names = ("lax", "float", "vlax", "F", "in", "a.b", "a_b")
    graph = graph_read.read("graph @f(" + ", ".join(f"%{n}: f32[2]" for n in names) + ") {\n  return %lax\n}\n")
    text, _ = source(graph.at({}), ROWS, TORCH_DTYPES)
    assert text.splitlines()[0] == "def graph(vlax, vfloat, vlax_, vF, vin, a_b, a_b_):"


@pytest.mark.parametrize("text", ["", "graph", "graph @f(%x f32[2]) {", "graph @f(%x: f32[2]) {\n  y = exp(%x)\n}", "graph @f(%x: f32[2]) {\n  return %y\n}",
                                  "graph @f(%x: f32[2]) {\n  return %x,\n}", "graph @f(%x: f32[2]) {\n  %y = exp(%z) : f32[2]\n  return %y\n}",
                                  "graph @f(%x: f32[2]) {\n  %y = no_such_op(%x) : f32[2]\n  return %y\n}"])
def test_bad_texts_are_refused(text):
    with pytest.raises(ValueError):
        graph_read.read(text)


@pytest.mark.parametrize("text, words", [("", "not a size"), ("N*", "not a size"), ("(N+1)/2", "not a size"), ("N//0", "not a size"), ("N(2)", "not a size"),
                                         ("N,2", "not a size"), ("max", "not a size"), ("N.real", "not a size"), ("M", "the size M is not known")])
def test_bad_sizes_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        graph_read.size_at(text, {"N": 4})
    assert graph_read.size_at("max((N+1)//2, 1)", {"N": 4}) == 2


def test_an_op_without_a_counterpart_is_named():
    graph = graph_read.read("graph @f(%s: i64[]) {\n  %y = random_uniform(%s){shape=[4]} : f32[4]\n  return %y\n}\n")
    with pytest.raises(NoCounterpart, match="random_uniform"):
        source(graph.at({}), ROWS, TORCH_DTYPES)


def test_constants_strides_and_symbols(case):
    text = ("graph @f(%x: f32[2,3] strides=[1,2], %n: i64[] = N) {\n  %c = constant{dtype=f32, shape=[3], data=0x0000803f0000004000004040} : f32[3]\n"
            "  %d = dim{value=N*2, dtype=i64} : i64[]\n  %e = cast(%d){dtype=f32} : f32[]\n  %y = mul(%x, %c) : f32[2,3]\n  %z = add(%y, %e) : f32[2,3]\n  return %z\n}\n")

    a_case = case(text, {"N": 5})
    assert a_case.inputs[0].stride() == (1, 2) and a_case.inputs[1].item() == 5
    (result,) = hosts.eager(a_case)()
    assert torch.equal(result, a_case.inputs[0] * torch.tensor([1., 2, 3]) + 10)
    assert bench.difference(hosts.tenon(a_case)(), [result]) == ""


@pytest.mark.parametrize("wanted, got, words", [
    (torch.ones(3), torch.ones(3), ""),
    (torch.ones(3), torch.ones(3) + 1e-6, ""),
    (torch.ones(3), torch.ones(3) + 1e-3, "an element differs by 0.001; the largest element is 1"),
    (torch.ones(3), torch.ones(4), "instead of torch.float32[3]"),
    (torch.ones(3), torch.ones(3, dtype=torch.float64), "torch.float64[3] instead of"),
    (torch.ones(3), torch.tensor([1, 1, float("nan")]), "infinite or no number"),
    (torch.tensor([float("inf"), 1]), torch.tensor([-float("inf"), 1]), "infinite or no number"),
    (torch.tensor([float("nan"), 1]), torch.tensor([float("nan"), 1]), ""),
    (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 elements differ"),
    (torch.empty(0, 2), torch.empty(0, 2), ""),
])
def test_difference(wanted, got, words):
    said = bench.difference([wanted], [got])
    assert words in said and bool(words) == bool(said)


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "tenon", "bench", *map(str, arguments)], capture_output=True, text=True, timeout=600, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": f"{ROOT}/bindings/python", **environment})


QUICK = ("--seconds", "0.02", "--rounds", "3", "--threads", "1")


def test_a_table_of_peers(tmp_path):
    path = tmp_path / "a.json"
    done = run("softmax(x * 2)", "x + y", "--shapes", "x:Nx64,y:64", "--dim", "N=4,16", "--vs", "torch,unfused", "--json", path, "--html", tmp_path / "a.html", *QUICK)
    assert done.returncode == 0, done.stderr
    tail = done.stdout.split("in this process")[1].splitlines()
    assert tail[1].split() == ["case", "tenon", "torch"] and len(tail) == 6
    assert [line.split("/threads")[0] for line in tail[2:]] == ["softmax(x * 2)/N=4", "softmax(x * 2)/N=16", "x + y/N=4", "x + y/N=16"]
    medians = [b for b in json.loads(path.read_text())["benchmarks"] if b.get("aggregate_name") == "median"]
    assert all(set(b["peers"]) == {"tenon", "torch"} and b["peers"]["torch"] > 0 and b["unfused_us"] > 0 for b in medians)
    assert '"peers":{"tenon":' in (tmp_path / "a.html").read_text()


def test_a_row_is_measured_with_the_sizes_and_threads_of_its_name(monkeypatch, tmp_path):
    seen, make, path = [], bench.make_case, tmp_path / "a.json"
    monkeypatch.setattr(bench, "make_case", lambda text, sizes, options, threads: (
        seen.append(f"{text.split('= ')[1].split('(')[0]}(x)/N={sizes['N']}/M={sizes['M']}/threads:{threads}"), make(text, sizes, options, threads))[1])
    assert bench.main(["neg(x)", "exp(x)", "--shapes", "x:NxM", "--dim", "N=2,3", "--dim", "M=4,5", "--vs", "torch", "--json", str(path), *QUICK[:4],
                       "--threads", "1,2"], CLI) == 0
    names = [b["run_name"] for b in json.loads(path.read_text())["benchmarks"] if b.get("aggregate_name") == "median"]
    assert seen == names and len(set(names)) == 16


def test_options_of_the_command_line_are_passed_on():
    options = bench.parse(["--shapes", "x:4", "x + y", "--cold", "--vs", "unfused", "--backend", "cpu", "x * y", "--without=fuse", "--threads", "1,2"])
    assert bench.command_line(options, "out.json") == ["x + y", "x * y", "--shapes=x:4", "--backend=cpu", "--without=fuse", "--cold", "--threads=1,2",
                                                       "--seconds=0.5", "--rounds=12", "--seed=0", "--vs=unfused", "--json=out.json"]
    done = run("--vs", "torch", "x + y", "--shapes", "x:4", "x * 2", *QUICK)
    assert done.returncode == 0 and done.stdout.split("in this process")[1].count("threads:1") == 2, done.stderr
    for option in ("--backend", "--without"):
        done = run(option, "cpu", "x + y", "--vs", "torch")
        assert done.returncode == 2 and "not with other libraries" in done.stderr


def test_results_lie_in_new_dense_memory(case):
    text = ("graph @f(%x: f32[2,3]) {\n  %t = transpose(%x){perm=[1,0]} : f32[3,2]\n  %e = exp(%x) : f32[2,3]\n  %u = transpose(%e){perm=[1,0]} : f32[3,2]\n"
            "  %r = reshape(%e){shape=[6]} : f32[6]\n  return %t, %e, %u, %r, %x\n}\n")
    a_case = case(text)
    for name in ("torch", "inductor"):
        results = hosts.HOSTS[name](a_case)()
        assert bench.difference(hosts.tenon(a_case)(), list(results)) == ""
        assert all(t.is_contiguous() for t in results)
        assert len({t.untyped_storage().data_ptr() for t in (*results, *a_case.inputs)}) == 6
    plain = case("graph @f(%x: f32[2,3]) {\n  %e = exp(%x) : f32[2,3]\n  return %e\n}\n")
    assert isinstance(hosts.eager(plain)(), tuple)  # nothing is copied


def test_random_divisors_are_not_0():
    options = bench.parse(["x % y", "--shapes", "x:64:i32,y:64:i32"])
    text = "graph @f(%x: i32[64], %y: i32[64]) {\n  %z = remainder(%x, %y) : i32[64]\n  return %z\n}"
    x, y = bench.make_inputs(graph_read.read(text).at({}), options, torch.Generator().manual_seed(0))
    assert x.unique().tolist() == [0, 1] and y.unique().tolist() == [1, 2]


def test_mistakes_are_told(tmp_path):
    (tmp_path / "model.py").write_text("import torch\n\n\ndef make():\n    return torch.nn.Linear(2, 2)\n")
    assert "there is no pytorch; there are unfused, torch, inductor" in run("x", "--vs", "pytorch").stderr
    assert "expected MODULE:NAME" in run("--from-explain", "models").stderr
    assert "no_such_module" in run("--from-explain", "no_such_module:make").stderr
    assert "returns Linear, not a model and a tuple" in run("--from-explain", f"{tmp_path}/model.py:make").stderr
    assert "'/nowhere/a.json' cannot be written" in run("x", "--vs", "torch", "--json", "/nowhere/a.json").stderr
    done = run("x*x", "--shapes", "x:N", "--vs", "torch")
    assert "the size N is not known" in done.stderr and done.returncode == 1


def test_a_wrong_result_is_not_timed(monkeypatch, capsys, case):
    monkeypatch.setitem(hosts.HOSTS, "torch", lambda c: lambda: [c.inputs[0] + 1])

    def missing(c):
        raise hosts.Missing("is not installed: pip install it")
    monkeypatch.setitem(hosts.HOSTS, "xla", missing)
    options = bench.parse(["neg(x)", "--vs", "torch,xla", "--seconds", "0.01", "--rounds", "2"])
    text = "graph @f(%x: f32[4]) {\n  %y = neg(%x) : f32[4]\n  return %y\n}\n"
    written = {"benchmarks": [{"aggregate_name": "median", "run_name": "neg(x)", "dims": [], "threads": 1}]}
    assert bench.compare_all(options, [text], written) == 1
    assert set(written["benchmarks"][0]["peers"]) == {"tenon"}
    shown = capsys.readouterr().out
    assert "torch is not timed, since it differs from Tenon: an element differs" in shown and "xla is not installed: pip install it (1 of 1 cases)" in shown


def test_steps_of_a_model_are_cases(tmp_path):
    (tmp_path / "model.py").write_text("import torch\n\n\ndef make():\n    layer = lambda: torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.LayerNorm(16))\n"
                                       "    return torch.nn.Sequential(layer(), layer(), torch.nn.Softmax(-1)).eval(), (torch.randn(4, 16),)\n")
    path = tmp_path / "a.json"
    done = run("--from-explain", f"{tmp_path}/model.py:make", "--vs", "torch", "--json", path, *QUICK)
    assert done.returncode == 0, done.stderr + done.stdout
    medians = [b for b in json.loads(path.read_text())["benchmarks"] if b.get("aggregate_name") == "median"]
    assert all("torch" in b["peers"] for b in medians), done.stdout
    names = " ".join(b["run_name"] for b in medians)
    assert "linear" in names or "matmul" in names
    assert len(medians) == len({b["run_name"] for b in medians}) >= 2
    assert sum(b["graph"].count("linear(") + b["graph"].count("matmul(") for b in medians) == 1, "equal layers are one case"


GROUPED = """graph @g(%x: f32[2,3], %w: f32[3,3]) {
  %h = matmul(%x, %w) : f32[2,3] @0
  %t = transpose(%h){perm=[1,0]} : f32[3,2]
  %one = full{value=1.0, shape=[], dtype=f32} : f32[]
  %a = exp(%t) : f32[3,2] @1
  %b = add(%a, %one) : f32[3,2] @1
  %c = neg(%h) : f32[2,3] @2
  return %b, %c
}
group 0 = onednn "why"
group 1 = cpu ""
group 2 = cpu ""
"""


def test_steps_of_a_text():
    ops, texts = zip(*graph_read.steps(GROUPED))
    assert ops == (["matmul"], ["exp", "add"], ["neg"])
    assert texts[1] == ("graph @step(%x0: f32[2,3]) {\n  %v0 = transpose(%x0){perm=[1,0]} : f32[3,2]\n  %v1 = full{value=1.0, shape=[], dtype=f32} : f32[]\n"
                        "  %v2 = exp(%v0) : f32[3,2]\n  %v3 = add(%v2, %v1) : f32[3,2]\n  return %v3\n}\n")
    for text in texts:
        _abi.Program(text)


@pytest.mark.parametrize("name, module", [("inductor", None), ("onnxruntime", "onnxruntime"), ("openvino", "openvino"), ("xla", "jax")])
def test_every_peer_runs(name, module, case):
    if module:
        pytest.importorskip(module, reason=f"{module} is not installed here; ./dev bench graphs installs it into build/peers-venv")
    text = "graph @f(%x: f32[8,16], %b: f32[16]) {\n  %s = add(%x, %b) : f32[8,16]\n  %y = softmax(%s){axis=-1} : f32[8,16]\n  return %y\n}\n"
    calls, reasons = bench.prepare(case(text), [name])
    assert reasons == {} and set(bench.measure(calls, 0.01, 2)) == {"tenon", name}
    for dtype in ("bf16", "f16", "bool"):
        more = "graph @f(%x: DTYPE[8,16]) {\n  %y = transpose(%x){perm=[1,0]} : DTYPE[16,8]\n  return %y\n}\n".replace("DTYPE", dtype)
        _, reasons = bench.prepare(case(more), [name])
        assert reasons == ({name: "has no counterpart of bf16"} if dtype == "bf16" and name in ("onnxruntime", "openvino") else {})

"""How the backend is found, called and configured."""

import os
import subprocess
import sys

import pytest
import torch

import tenon
from tenon.torch import backend
from tenon.torch.options import Options, OptionError

from foreign import foreign


def test_found_by_name_without_import():
    code = ("import sys, torch, torch._dynamo\n"
            "assert 'tenon' in torch._dynamo.list_backends(), torch._dynamo.list_backends()\n"
            "assert 'tenon' not in sys.modules\n")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_loads_neither_torch_nor_the_library():
    code = ("import sys, tenon\n"
            "assert 'torch' not in sys.modules and 'ctypes' not in sys.modules\n"
            "assert not any('libtenon' in line for line in open('/proc/self/maps'))\n")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_of_the_backend_loads_no_library_and_changes_no_config():
    code = ("import torch, torch._dynamo.config, torch._functorch.config\n"
            "before = torch._dynamo.config.save_config(), torch._functorch.config.save_config()\n"
            "import tenon.torch.backend\n"
            "assert before == (torch._dynamo.config.save_config(), torch._functorch.config.save_config())\n"
            "assert not any('libtenon' in line for line in open('/proc/self/maps'))\n")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_library_is_an_error_with_the_path():
    code = ("import tenon._abi as a\n"
            "try: a.library()\n"
            "except OSError as e: assert '/nowhere/libtenon.so.1' in str(e) and 'TENON_LIBRARY' in str(e), e\n"
            "else: raise SystemExit('no error')\n")
    subprocess.run([sys.executable, "-c", code], check=True, env={**__import__("os").environ, "TENON_LIBRARY": "/nowhere/libtenon.so.1"})


def f(x):
    return torch.relu(x) * 2


@pytest.mark.parametrize("options, sentence", [
    ({"frezee": True}, "unknown option 'frezee'; did you mean 'freeze'?"),
    ({"zzz": 1}, "unknown option 'zzz' (known: freeze, fallback, num_threads, rng, recompute, memory_budget, device_graphs, verify, benchmark)"),
    ({"freeze": 1}, "option freeze is 1, where a bool is expected"),
    ({"num_threads": True}, "option num_threads is True, where a int is expected"),
    ({"num_threads": -1}, "option num_threads is -1, where 0 or more is expected"),
    ({"verify": -1}, "option verify is -1, where 0 or more is expected"),
    ({"fallback": "eror"}, "option fallback is 'eror'; did you mean 'error'?"),
    ({"fallback": None}, "option fallback is None, where a str is expected"),
    ({"device_graphs": True}, "option device_graphs is True, where a str is expected"),
    ({"device_graphs": "allways"}, "option device_graphs is 'allways'; did you mean 'always'?"),
    ({"memory_budget": 1.5}, "option memory_budget is 1.5, where a number from 0 to 1 is expected"),
    ({"memory_budget": -0.1}, "option memory_budget is -0.1, where a number from 0 to 1 is expected"),
    ({"memory_budget": float("nan")}, "option memory_budget is nan, where a number from 0 to 1 is expected"),
    ({"memory_budget": True}, "option memory_budget is True, where a float is expected"),
    ({"recompute": "cheep"}, "option recompute is 'cheep'; did you mean 'cheap'?"),
    ({"rng": "fats"}, "option rng is 'fats'; did you mean 'fast'?"),
])
def test_wrong_options(options, sentence):
    with pytest.raises(OptionError) as e:
        Options.parse(options)
    assert sentence in str(e.value)
    with pytest.raises(Exception) as e:  # Dynamo wraps it
        torch.compile(f, backend="tenon", options=options)(torch.ones(3))
    assert sentence in str(e.value)


def test_options_and_modes():
    assert Options.parse(None) == Options(False, "auto", 0)
    assert Options.parse({"memory_budget": 1}) == Options()
    x = torch.randn(4)
    for kwargs in ({"options": {"num_threads": 1, "fallback": "count", "freeze": True}}, {"mode": "max-autotune"}, {"mode": "default"}):
        torch._dynamo.reset()
        with torch.no_grad():
            assert torch.equal(torch.compile(f, backend="tenon", **kwargs)(x), f(x))
    with pytest.raises(OptionError, match="did you mean 'max-autotune'"):
        backend.tenon(None, [], mode="max-autotun")


def test_calls_are_verified():
    """The library keeps the inputs of a verified call as they were, so the call updates in place like later ones."""
    def update(x, y):
        x.mul_(2).add_(y)

    compiled = torch.compile(update, backend="tenon", options={"verify": 2})
    copies = []
    with torch.no_grad():
        for n in range(4):
            x, y = torch.randn(3, 5), torch.randn(3, 5)
            want = x * 2 + y
            if n:  # profiles do not compile
                with torch.profiler.profile() as profile:
                    compiled(x, y)
                copies.append(sum(event.name == "aten::copy_" for event in profile.events()))
            else:
                compiled(x, y)
            assert torch.equal(x, want)
    assert copies == [0, 0, 0] and tenon.stats()["fallback_reasons"] == {}


def test_stats_count_and_start_anew():
    keys = {"calls", "programs", "reference_steps", "nodes", "nodes_fused", "kernels_compiled", "compile_ms", "graph_ms", "plan_misses", "plan_ms", "workspace_bytes", "fallbacks", "fallback_reasons",
            "disk_hits", "disk_misses", "disk_damaged", "disk_writes", "disk_bytes_read", "disk_bytes_written"}
    assert set(tenon.stats()) == keys
    with torch.no_grad():
        g = torch.compile(f, backend="tenon")
        for _ in range(3):
            g(torch.ones(3))
    s = tenon.stats()
    assert (s["calls"], s["programs"], s["fallbacks"]) == (3, 1, 0) and s["nodes"] >= 2 and s["graph_ms"] > s["compile_ms"] > 0
    tenon.reset_stats()
    assert tenon.stats()["calls"] == 0 and tenon.stats()["nodes"] == 0
    with torch.no_grad():
        g(torch.ones(3))
    assert tenon.stats()["calls"] == 1 and abs(tenon.stats()["graph_ms"]) < 1e-6


DISK = """
import torch, tenon
def counts():
    return tuple(tenon.stats()["disk_" + k] for k in ("hits", "misses", "damaged", "writes"))
assert counts() == (0, 0, 0, 0)
with torch.no_grad():
    torch.compile(lambda x: (x * 2 + 1).relu(), backend="tenon")(torch.ones(8))
print(*counts(), tenon.stats()["disk_bytes_read"] > 0, tenon.stats()["disk_bytes_written"] > 0)
tenon.reset_stats()
assert counts() == (0, 0, 0, 0)
"""


def test_stats_count_kernels_on_disk(tmp_path):
    def run():
        environment = os.environ | {"TENON_CACHE": "on", "TENON_CACHE_DIR": str(tmp_path / "kernels")}
        done = subprocess.run([sys.executable, "-c", DISK], capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run() == ["0", "1", "0", "1", "False", "True"]
    assert run() == ["1", "0", "0", "0", "True", "False"]
    entry, = (tmp_path / "kernels").glob("*.tk*")
    entry.write_bytes(entry.read_bytes()[:-1])
    assert run() == ["0", "1", "1", "1", "False", "True"]


def test_programs_go_with_their_functions():
    import gc

    from tenon import report

    others = list(report._live)  # of tests before this one
    living = lambda: [r for r in report._live if r.programs and r not in others]  # noqa: E731
    with torch.no_grad():
        g = torch.compile(f, backend="tenon")
        g(torch.ones(3))
    assert living()
    before = tenon.stats()
    del g
    torch._dynamo.reset()
    gc.collect()
    assert not living()
    assert tenon.stats()["calls"] == before["calls"]  # what it counted stays


def test_explain():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU()).eval()
    with torch.no_grad():
        report = tenon.explain(model, torch.randn(2, 4))
    text, data = str(report), report.to_dict()
    assert "gelu(" in text and "1 graph(s), 1 program(s), 0 fallback(s)" in text
    (graph,) = data["graphs"]
    assert "graph @" in graph["programs"][0]["graph"] and graph["programs"][0]["stats"]["nodes"] >= 3
    assert "step0(" in graph["host_steps"] and not graph["runs_in_pytorch"] and data["fallbacks"] == 0

    def broken(x):
        y = foreign(x) + 1
        torch._dynamo.graph_break()
        return y * 2

    with torch.no_grad():
        report = tenon.explain(broken, torch.randn(4))
    assert "tenon_test.foreign.default has no row in Tenon's op table" in str(report) and "graph break" in str(report)
    assert len(report.to_dict()["graphs"]) == 2 and report.to_dict()["graph_breaks"]


def test_threads_share_one_function():
    import threading

    g = torch.compile(lambda x: (x * 2 + 1).relu(), backend="tenon")
    with torch.no_grad():
        g(torch.ones(64))
    wrong = []

    def work(k):
        with torch.no_grad():
            x = torch.full((64,), float(k))
            for _ in range(50):
                if not torch.equal(g(x), x * 2 + 1):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and tenon.stats()["calls"] == 201

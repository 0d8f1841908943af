"""Classifies the results of several calls of one function, compiled in one way:

    right          as eager, by oracle.py
    wrong          it is not
    unstable       it differs about as much as eager does when inputs move by one unit in the last place
    raised         Tenon raises where eager does not
    reference      right, but the interpreter evaluates a step element by element
    not traceable  so does backend="aot_eager" (or "eager", the only one asked where Tenon's backend raised): PyTorch's limit
    pytorch wrong  backend="aot_eager" is wrong in the same way, or the strides are those of PyTorch's fake tensors: PyTorch's mistake;
                   so are shapes and strides where the tracer knows nothing of sizes: it takes them to be neither 0 nor 1
    illegal        eager raises, so nothing is asked
    random         two runs of eager differ

`check` also reports how many nodes Tenon and PyTorch ran, and the times of the first call and of a later one.
"""

import contextlib
import re
import time
import warnings

import torch
import torch._dynamo
from torch.utils import _pytree as pytree

from . import oracle, planted
from .backward import WithGradients

warnings.filterwarnings("ignore")
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0  # as in tests/torch/conftest.py
SEED = 7
SHARING = "aliasing: outputs share storage with others than in eager"


def tensors(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def answer(f, args):
    """Returns what a call leaves behind: its result, the arguments' values afterwards, and who shares storage with whom."""
    torch.manual_seed(SEED)
    with torch.no_grad():
        out = f(*args)
    return (out, tensors(args))


def clone_answer(result):
    """Values as they are now, apart from storages that later calls may change."""
    return pytree.tree_map(lambda t: oracle.counterpart([t])[0] if isinstance(t, torch.Tensor) else t, result)


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def exactly(f, args):
    """The result in float64, or None if the function cannot run in float64."""
    try:
        with default_dtype(torch.float64):
            return answer(f, oracle.counterpart(args, oracle.widen))
    except Exception:
        return None


def last_line(error):
    """Returns the message of an exception on one line, without addresses and Dynamo's advice."""
    text = f"{type(error).__name__}: {error}".split("\nFrom user code")[0].split("\n\nSet TORCHDYNAMO_VERBOSE")[0]
    text = re.sub(r"0x[0-9a-f]+", "0x", " | ".join(line.strip() for line in text.splitlines() if line.strip()))
    return text[:700]


def stats_of(backend):
    if backend != "tenon":
        return {}
    import tenon
    s = tenon.stats()
    return {"tenon_nodes": s["nodes"], "pytorch_nodes": sum(s["fallback_reasons"].values()), "reasons": s["fallback_reasons"],
            "compile_ms": round(s["compile_ms"], 1), "kernels": s["kernels_compiled"], "programs": s["programs"],
            "reference_steps": s["reference_steps"]}


class Compiled:
    """`f` under torch.compile, as `how` says: {backend, dynamic, fullgraph, freeze, unbacked: {dim: size} per argument; dims of one
    size are one symbol of which the tracer knows nothing}."""

    def __init__(self, f, how):
        self.how = how
        options = {"freeze": True} if how.get("freeze") and how["backend"] == "tenon" else None
        compiled = torch.compile(f.f if isinstance(f, WithGradients) else f, backend=planted.backend(how["backend"]), dynamic=how.get("dynamic"),
                                 fullgraph=how.get("fullgraph", True), options=options)
        self.f = f.over(compiled) if isinstance(f, WithGradients) else compiled

    def __call__(self, args):
        for t, dims in zip(args, self.how.get("unbacked", ())):
            for dim, size in dims.items():
                torch._dynamo.decorators.mark_unbacked(t, dim, shape_id=str(size))
        return answer(self.f, args)


def also_fails(f, calls, how, error):
    """Whether PyTorch fails on these calls too. If Tenon's backend has raised, Dynamo has made a graph."""
    for backend in ("eager",) if isinstance(error, torch._dynamo.exc.BackendCompilerFailed) else ("aot_eager", "eager"):
        torch._dynamo.reset()
        try:
            compiled = Compiled(f, {**how, "backend": backend})
            for args in calls:
                compiled(oracle.counterpart(args))
        except Exception as error:
            return f"{backend}: {last_line(error)}"
    return None


def also_wrong(f, calls, how, problem):
    torch._dynamo.reset()
    try:
        compiled = Compiled(f, {**how, "backend": "aot_eager"})
        for args in calls:
            ref = answer(f, theirs := oracle.counterpart(args))
            got = compiled(mine := oracle.counterpart(args))
            found = judge(f, args, clone_answer(ref), got)[1]
            if found is None and (oracle.sharing(tensors(got[0]) + tensors(mine))
                                  != oracle.sharing(tensors(ref[0]) + tensors(theirs))):
                found = SHARING
            if found is not None:
                return found.split(":")[:2] == problem.split(":")[:2]
    except Exception:
        pass
    return False


def traced_so(f, args, got):
    """Whether the strides of `got` are those of PyTorch's fake tensors: its meta function differs from its kernel, and
    whatever traces programs follows the meta function, its own or the one that AOTAutograd asks."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def fakes():
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            return f(*pytree.tree_map_only(torch.Tensor, mode.from_tensor, oracle.counterpart(args)))

    def traced():
        torch._dynamo.reset()
        return Compiled(f, {"backend": "as_traced", "dynamic": False, "fullgraph": False})(oracle.counterpart(args))[0]

    for run in (fakes, traced):
        try:
            promised = tensors(run())
        except Exception:
            continue
        if len(promised) == len(got) and all(a.shape == b.shape and oracle.same_strides(a, b) for a, b in zip(promised, got)):
            return True
    return False


def judge(f, args, ref, got, wide=None, moved=None):
    """("right" or "unstable" or "wrong", sentence). `moved(i)` is f with weights moved a little."""
    problem = oracle.compare(ref, got, None)
    if problem is None:
        return "right", None
    exact, most = exactly(wide or f, args), 2 if isinstance(f, WithGradients) else 3
    problem = oracle.compare(ref, got, exact, most)
    if problem is None:
        return "right", None
    runs = []
    for i in range(12 if isinstance(f, WithGradients) else 4):  # a gradient may jump where a sum that a relu compares is nearly 0
        try:
            with oracle.Rounded(i):
                runs.append(clone_answer(answer(moved(i) if moved else f, oracle.counterpart(args, oracle.moved(i)))))
        except Exception:
            return "wrong", problem
    if oracle.unstable(runs, ref, got, exact, most):
        return "unstable", problem
    return "wrong", problem


def check(f, calls, how, wide=None, compiled=None, timed=False, aliases=True, moved=None):
    """The record of these calls. compiled: an already compiled function to continue with; then only new calls are counted."""
    backend = how["backend"]
    refs = []
    for args in calls:
        try:
            ref = answer(f, mine := oracle.counterpart(args))
            shared = oracle.sharing(tensors(ref[0]) + tensors(mine))
            again = answer(f, oracle.counterpart(args))
        except Exception as error:
            return {"class": "illegal", "detail": last_line(error)}
        if oracle.compare(ref, again, again) is not None:
            return {"class": "random", "detail": "two runs of eager differ"}
        refs.append((clone_answer(ref), shared))
    if backend == "tenon":
        import tenon
        tenon.reset_stats()
    if compiled is None:
        compiled = Compiled(f, how)
    record, worst = {}, ("right", None)
    for n, (args, (ref, shared)) in enumerate(zip(calls, refs)):
        mine = oracle.counterpart(args)
        begin = time.perf_counter()
        try:
            got = compiled(mine)
        except Exception as error:
            record = {"detail": last_line(error), "call": n, **stats_of(backend)}
            theirs = also_fails(f, calls[:n + 1], how, error)
            return {"class": "not traceable", **record, "host": theirs} if theirs else {"class": "raised", **record}
        if n == 0:
            record["first_s"] = round(time.perf_counter() - begin, 3)
        kind, problem = judge(f, args, ref, got, wide, moved)
        if kind == "right" and aliases and oracle.sharing(tensors(got[0]) + tensors(mine)) != shared:
            kind, problem = "wrong", SHARING
        if kind == "wrong":
            worst = ("wrong", f"call {n}: {problem}")
            break
        if kind == "unstable" and worst[0] == "right":
            worst = (kind, f"call {n}: {problem}")
    record.update(stats_of(backend))
    if worst[0] == "wrong" and (": strides: " in worst[1] and traced_so(f, args, tensors(got[0]))
                                or how.get("unbacked") and re.search(": (shape|strides): ", worst[1])
                                or also_wrong(f, calls, how, worst[1].split(": ", 1)[1])):
        worst = ("pytorch wrong", worst[1])
    if worst[0] == "right" and record.get("reference_steps"):
        worst = ("reference", f"{record['reference_steps']} reference steps")
    if timed and worst[0] == "right":
        record["ratio"], record["later_ms"] = ratio(f, compiled, calls[0])
    return {"class": worst[0], "detail": worst[1] or "", **record}


def ratio(f, compiled, args):
    """(time of a later call over eager's time, Tenon's time in ms); each time is the least of three."""
    times = {}
    for name, run in (("eager", lambda a: answer(f, a)), ("compiled", compiled)):
        best = float("inf")
        for _ in range(3):
            mine = oracle.counterpart(args)
            begin = time.perf_counter()
            run(mine)
            best = min(best, time.perf_counter() - begin)
        times[name] = best
    return round(times["compiled"] / times["eager"], 2), round(times["compiled"] * 1e3, 3)

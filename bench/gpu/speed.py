"""The sections of `./dev gpu` that measure time: bandwidth, products, the cost of a call on the host, models. Eager and Inductor
run in the same process. A section yields (name, work), and work(clock) yields rows."""

import math
import os
import statistics
import time
from functools import partial

import torch

from bench.gpu import cases
from bench.contenders import tenon_stats
from bench.gpu.tools import DTYPES, Skip, chosen, compiled, contenders, geometric_mean, median, tf32
from bench.models import accuracy, zoo

SAME = 1.02     # times within this ratio count as equal


def copies(case, dtype, clock, tiny):
    """Enough sets of arguments to exceed any L2 cache, and the bytes that one call moves."""
    size = tuple(max(1, n // 64) if n > 64 else n for n in case.size) if tiny else case.size
    first = case.make(size, dtype, clock.device)
    one = cases.moved(first, case.function(*first))
    return [first, *(case.make(size, dtype, clock.device) for _ in range(0 if tiny else min(7, 256 * 2**20 // one)))], one


def race(case, options, clock):
    """Returns: median seconds of a call in bf16 by contender, and of a copy of as many bytes, measured in turns; the bytes; (ms
    per kernel that Tenon compiled, seconds of Inductor's first call); notes on the row."""
    os.environ["TENON_CACHE"] = "off"       # so that the first call compiles
    dtype, first, notes = torch.bfloat16, {}, []
    sets, one = copies(case, dtype, clock, options.tiny)
    like = torch.empty(max(one // 2 // dtype.itemsize, 1), dtype=dtype, device=clock.device)
    other = torch.empty_like(like)
    calls = {"copy": lambda: other.copy_(like)}
    before = tenon_stats(options.backend)
    for who in contenders(options):
        torch._dynamo.reset()
        drawn = {"options": {"rng": "fast"}} if case.draws and who == options.backend == "tenon" else {}
        fast = compiled(case.function, who, options, dynamic=False, **drawn)
        start = time.perf_counter()
        for turn in range(3):
            for arguments in sets:
                fast(*arguments)
                if who not in first:
                    clock.wait()
                    first[who] = time.perf_counter() - start
        clock.wait()
        calls[who], why = clock.graphed(lambda f=fast: [f(*arguments) for arguments in sets] and None)
        if why:
            notes.append(f"{who} not captured: {why}")
    stats = tenon_stats(options.backend)
    if in_pytorch := (stats["fallbacks"] or 0) - (before["fallbacks"] or 0):
        notes.append(f"{in_pytorch} nodes in PyTorch")
    times = {who: [] for who in calls}
    for _ in range(3 if options.tiny else 50):
        for who, call in calls.items():
            times[who].append(clock.once(call) / (1 if who == "copy" else len(sets)))
    seconds = {who: statistics.median(t) for who, t in times.items()}
    if seconds["tenon"] > SAME * seconds.get("inductor", math.inf):
        notes.append("slower than Inductor")
    return seconds, one, (per_kernel(before, stats), first.get("inductor")), "; ".join(notes)


def per_kernel(before, after):
    """ms per kernel that was compiled in between. A kernel for a GPU is compiled when a plan first needs it."""
    kernels = (after["kernels_compiled"] or 0) - (before["kernels_compiled"] or 0)
    return sum(after[key] - before[key] for key in ("compile_ms", "plan_ms")) / kernels if kernels else None


def bandwidth(options):
    for case in chosen(options, cases.CASES):
        yield case.name, partial(bandwidth_of, case, options)


def bandwidth_of(case, options, clock):
    seconds, one, (compile_ms, first_s), notes = race(case, options, clock)
    speed = {who: 1e-9 * one / s for who, s in seconds.items()}
    target = 1e3 * case.target * options.bandwidth / 4.8
    yield [case.name, one / 2**20, *(speed.get(w) for w in ("copy", "eager", "inductor", "tenon")), target, speed["tenon"] / target,
           *ratios(seconds), compile_ms, first_s, notes]


def ratios(seconds):
    """The times of eager and of Inductor divided by Tenon's."""
    return [seconds[w] / seconds["tenon"] if w in seconds else None for w in ("eager", "inductor")]


def products(options):
    for case in chosen(options, cases.PRODUCTS):
        yield case.name, partial(product_of, case, options)


def product_of(case, options, clock):
    seconds, _, (compile_ms, first_s), notes = race(case, options, clock)
    speed = {who: 2 * math.prod(case.size) / s / 1e12 for who, s in seconds.items()}
    yield [case.name, "x".join(map(str, case.size)), *(speed.get(w) for w in ("eager", "inductor", "tenon")), *ratios(seconds),
           compile_ms, first_s, notes]


def chain(steps):
    """A function of as many kernels as steps, since every step needs the complete result of the one before."""
    def function(x):
        for i in range(steps):
            x = torch.tanh(x + x.sum(i % 2, keepdim=True))
        return x
    return function


def host(options):
    """Rows (steps of a chain, Tenon's kernels, contender, us of the host per call, us per kernel)."""
    for steps in (1, 10) if options.tiny else (1, 10, 100):
        whos = [*contenders(options), "tenon, device graphs", "tenon, captured by the caller",
                *(["inductor, CUDA graphs"] if "inductor" in contenders(options) else [])]
        for who in whos if steps < 100 else [w for w in whos if "inductor" not in w]:       # Inductor would compile too long
            yield f"{steps}, {who}", partial(host_of, steps, who, options)


def host_of(steps, who, options, clock):
    torch._dynamo.reset()
    function, x = chain(steps), torch.randn(16, 16, device=clock.device)
    one_by_one = who == options.backend == "tenon"       # otherwise Tenon would launch small kernels as a CUDA graph
    keywords = {"mode": "reduce-overhead"} if "graphs" in who else {"mode": "max-autotune-no-cudagraphs"} if one_by_one else {}
    fast = compiled(function, who.partition(",")[0], options, **keywords)
    call = lambda: fast(x)      # noqa: E731
    for _ in range(10):
        call()
    clock.wait()
    if "captured" in who:
        call, why = clock.graphed(call)
        if why:
            raise RuntimeError(f"not captured: {why}")
    samples, repeats = [], max(1, (200 if options.tiny else 500) // steps)     # fewer launches than the device can queue
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        samples.append((time.perf_counter() - start) / repeats)
        clock.wait()
    us = 1e6 * statistics.median(samples)
    kernels = kernels_of(function, x) if who.startswith("tenon") and options.backend == "tenon" else None
    yield [steps, kernels, who, us, us / (kernels or steps)]


def kernels_of(function, x):
    import tenon
    torch._dynamo.reset()
    return sum(p["stats"]["kernels"] for graph in tenon.explain(function, x).to_dict()["graphs"] for p in graph["programs"])


# The models that run in other types than bf16. Inductor is left out there, since its compiles would take most of the time.
OTHER_TYPES = {"f16": ("resnet50", "bert_base", "unet_block"), "f32": ("resnet50", "bert_base", "unet_block")}


def models(options):
    for type, names in {**OTHER_TYPES, "bf16": zoo.MODELS}.items():
        for name in names:
            if not options.cases or name in options.cases:
                yield f"{name} {type}", partial(model_of, name, type, options)


def model_of(name, type, options, clock):
    os.environ["TENON_CACHE"] = "off"
    try:
        model, inputs = zoo.build(name, options.tiny)
    except ModuleNotFoundError as error:
        raise Skip(str(error)) from None
    dtype, tolerance = DTYPES[type], zoo.MODELS[name].tolerance if type == "f32" else 2e-2
    model, inputs = model.to(clock.device), tuple(x.to(clock.device) for x in inputs)
    exact = accuracy.in_float64(model, inputs)
    model, inputs = model.to(dtype), tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    seconds, row = {}, {}
    with tf32(False):
        reference = model(*inputs)
        before = tenon_stats(options.backend)
        for who in contenders(options) if type == "bf16" else ["eager", "tenon"]:
            torch._dynamo.reset()
            fast = compiled(model, who, options)
            start = time.perf_counter()
            answer = fast(*inputs)
            clock.wait()
            first = time.perf_counter() - start
            if who == "tenon":
                stats = tenon_stats(options.backend)
                problems = accuracy.check(reference, answer, exact, tolerance).problems
                row = {"first": first, "compile": per_kernel(before, stats), "problems": "; ".join(problems) or "right",
                       "fallbacks": None if stats["fallbacks"] is None else stats["fallbacks"] - before["fallbacks"]}
            for _ in range(3):
                fast(*inputs)
            seconds[who] = statistics.median(clock.once(lambda f=fast: f(*inputs)) for _ in range(5 if options.tiny else 30))
    yield [name, type, 1e3 * seconds["eager"], *ratios(seconds), row["first"], row["compile"], row["fallbacks"], row["problems"]]


def summary(header, rows):
    """Sentences about a table: geometric means, the median time to compile a kernel, and the rows where Inductor is faster."""
    sentences = []
    for column in ("tenon / target", "eager / tenon", "inductor / tenon"):
        mean = geometric_mean([r[header.index(column)] for r in rows]) if column in header else None
        if mean is not None:
            sentences.append(f"geometric mean of {column}: {mean:.3g}")
    if "compile ms" in header and (ms := median([r[header.index("compile ms")] for r in rows])) is not None:
        sentences.append(f"median of compiling a kernel, cold: {ms:.1f} ms")
    if "inductor / tenon" in header:
        at = header.index("inductor / tenon")
        if all(r[at] is None for r in rows):
            return [*sentences, "Inductor was not measured"]
        slower = [f"{r[0]} ({r[at]:.2f})" for r in rows if r[at] is not None and r[at] * SAME < 1]
        sentences.append("slower than Inductor: " + (", ".join(slower) or "none"))
    return sentences

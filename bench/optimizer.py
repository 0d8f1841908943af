#!/usr/bin/env python3
"""`./dev bench optimizer`: steps of optimizers, compiled, against eager's default, foreach=True, fused=True and a copy.

The copy moves as many bytes as a step has to: each tensor that a step reads, read once, and each that it writes, written once
(28 bytes per parameter for AdamW in f32). It copies between two kept buffers, half read and half written, on the same threads.
The last columns are the time of the first call, which traces and compiles, and the share of Tenon in it. Every contender
makes the same steps, and the first 1000 elements of each tensor are compared before anything is timed.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                          # noqa: E402

from bench.table import Progress, aligned                    # noqa: E402
from bench.timing import describe_machine, interleave, speedup      # noqa: E402

BERT_LAYER = [(768, 768), (768,)] * 4 + [(768,), (768,), (3072, 768), (3072,), (768, 3072), (768,), (768,), (768,)]
BERT = [(30522, 768), (512, 768), (2, 768), (768,), (768,), *(BERT_LAYER * 12), (768, 768), (768,)]  # 109.5 million parameters
LARGE = [(3072, 2976)] * 12  # 109.7 million parameters, which Dynamo traces much faster
SMALL = [(16 + i % 7, 33) for i in range(500)]
FIVE = [(3, 4), (7,), (2, 3, 5), (1,), (64, 9)]
RATE = 1e-3


def optimizer(cls, **options):
    """make(parameters, contender) -> a function that makes a step."""
    def make(parameters, contender):
        how = {"foreach": {"foreach": True}, "fused": {"fused": True}}.get(contender, {})
        tensor_rate = contender in ("tenon", "inductor") and cls in ("Adam", "AdamW")
        rate = torch.tensor(RATE) if tensor_rate else RATE
        try:
            return getattr(torch.optim, cls)(parameters, lr=rate, **how, **options).step
        except TypeError:  # no such way
            return None
    return make


def clipping(parameters, contender):
    """A step after gradients have been scaled to a norm of at most 1."""
    return lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True if contender == "foreach" else None)


def average(parameters, contender):
    """The exponential moving average of the gradients, in the parameters."""
    values = [p.detach() for p in parameters]
    if contender == "foreach":
        return lambda: torch._foreach_lerp_(values, [p.grad for p in parameters], 0.01)

    def step():
        for v, p in zip(values, parameters):
            v.lerp_(p.grad, 0.01)
    return None if contender == "fused" else step


def cases():
    """{name: (shapes, make, how many tensors of a parameter's size a step reads or writes)}."""
    return {
        "AdamW, BERT-base": (BERT, optimizer("AdamW"), 7),
        "AdamW, 12 large": (LARGE, optimizer("AdamW"), 7),
        "AdamW, 500 small": (SMALL, optimizer("AdamW"), 7),
        "SGD with momentum, 500 small": (SMALL, optimizer("SGD", momentum=0.9), 5),
        "average, 500 small": (SMALL, average, 3),
        "clip_grad_norm_, 500 small": (SMALL, clipping, 3),
        "Adam, 5 tensors": (FIVE, optimizer("Adam"), 7),
        "RMSprop, 5 tensors": (FIVE, optimizer("RMSprop"), 5),
    }


def copy_of(shapes, streams):
    """A function that reads and writes streams * 4 bytes per element."""
    count = sum(torch.Size(s).numel() for s in shapes)
    source, target = torch.zeros(count), torch.zeros(count)
    whole, half = divmod(streams, 2)

    def copy():
        for _ in range(whole):
            target.copy_(source)
        if half:
            target[:count // 2].copy_(source[:count // 2])
    return copy


def run(name, options):
    shapes, make, streams = cases()[name]
    torch.manual_seed(0)
    gradients = [torch.randn(s) * 0.01 for s in shapes]
    steps, results, first = {"copy": copy_of(shapes, streams)}, {}, {}
    for who in ("eager", "foreach", "fused", *options.contenders):
        torch.manual_seed(1)
        parameters = [torch.nn.Parameter(torch.randn(s) * 0.02) for s in shapes]
        for p, g in zip(parameters, gradients):
            p.grad = g.clone() if make is clipping else g
        if (step := make(parameters, who)) is None:
            continue
        if who in options.contenders:
            torch._dynamo.reset()
            step = torch.compile(step, backend=who)
        before, seconds = time.perf_counter(), compile_seconds()
        for _ in range(3):
            with torch.no_grad():
                step()
            first.setdefault(who, time.perf_counter() - before)
        first[who] = [first[who], compile_seconds() - seconds] if who == "tenon" else [first[who], None]
        steps[who] = torch.no_grad()(step)
        results[who] = [(p.grad if make is clipping else p).detach().flatten()[:1000].clone() for p in parameters]
    for who in options.contenders:
        torch.testing.assert_close(results[who], results["eager"], rtol=1e-4, atol=1e-6)
    times = interleave(steps, options.rounds, round_s=0.05)
    if "eager" not in times:
        return []
    return [[name, who, 1e3 * statistics.median(t), speedup(times["eager"], t), speedup(t, times["copy"]),
             *(first.get(who, [None, None]) if who in options.contenders else [None, None])] for who, t in times.items()]


def compile_seconds():
    from tenon import report

    return sum(record.seconds for record in report._live)


def main():
    options = parse()
    machine = describe_machine()
    torch.set_num_threads(options.threads)
    rows = []
    for name in cases():
        if all(word in name for word in options.filter):
            with Progress(name):
                rows += run(name, options)
    print(aligned(["step", "contender", "median ms", "x eager", "of copy's time", "first call s", "of it Tenon"], rows))
    print(f"\n{machine}, {options.threads} threads, {options.rounds} rounds in turns, no_grad; all parameters agree")


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench optimizer", description=__doc__.split("\n\n")[0])
    parser.add_argument("filter", nargs="*", help="only steps whose names have all these words")
    parser.add_argument("--peers", action="store_true", help="Inductor too (needs g++)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    options.contenders = ["tenon", *(["inductor"] if options.peers else [])]
    return options


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""`./dev bench shapes`: measures the cost of new shapes through `torch.compile`, against eager.

The workloads: sentences of random batch and length (BERT, GPT-2), a decode loop whose cache of keys grows step by step, images
of random sizes (ResNet-50, a U-Net), and many shapes of a ten-node graph. Eager and a contender alternate, shape by shape. After
its first call with a shape, the contender is called `--later` times more. The columns: "new ms" is the median of the first call
minus the best later call, over shapes that caused no new graph. "total s" is the time of all first calls, with tracing and
compiling; "eager s" is the time of eager's calls. "compiles late" is the number of kernels compiled after the fifth distinct
shape. "plan us" is the time to make a plan, per plan, with the weights that the first plan packs. `--tiny` shrinks the models,
`--shapes` sets the number of shapes.
"""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                        # noqa: E402
import torch.nn.functional as F     # noqa: E402

from bench.calls import in_float64       # noqa: E402
from bench.contenders import compiled, contender, missing_for_peers, tenon_stats     # noqa: E402
from bench.models import accuracy, zoo                      # noqa: E402
from bench.models.memory import resident                # noqa: E402
from bench.table import Progress, aligned                   # noqa: E402
from bench.timing import describe_machine                   # noqa: E402

HEADER = ["workload", "contender", "shapes", "graphs", "compiles late", "plan us", "new ms", "worst new ms", "new / later", "total s",
          "eager s", "eager / total"]


MOST_ANSWERS = 8    # are compared with eager and with float64; the comparison takes longer than everything else


def sentences(name, options, r):
    model, _ = zoo.build(name, options.tiny)
    vocab = model.config.vocab_size
    longest = 64 if options.tiny else 512
    shapes = [(r.randint(1, 8), r.randint(1, longest)) for _ in range(options.shapes)]
    return model, shapes, lambda b, n: (torch.randint(vocab, (b, n)),), zoo.MODELS[name].tolerance


def images(name, options, r):
    model, inputs = zoo.build(name, options.tiny)
    low, high, step = ((33, 96, 1) if name == "resnet50" else (2, 6, 4)) if options.tiny else (
        (160, 320, 1) if name == "resnet50" else (6, 12, 4))
    count = min(options.shapes, 40)
    shapes = [(step * r.randint(low, high), step * r.randint(low, high)) for _ in range(count)]
    image = inputs[0]
    return (model, shapes, lambda h, w: (torch.randn(*image.shape[:2], h, w), *inputs[1:]), zoo.MODELS[name].tolerance)


def decode(options, r):
    def step(q, k, v, keys, values):
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return F.scaled_dot_product_attention(q, keys, values), keys, values

    steps = min(1024, 4 * options.shapes)
    make = lambda n: tuple(torch.randn(1, 12, m, 64) for m in (1, 1, 1, n, n))
    return step, [(n,) for n in range(1, steps + 1)], make, 1e-4


def workloads(options):
    names = {"bert_base": sentences, "gpt2": sentences, "decode": lambda _, *a: decode(*a), "resnet50": images,
             "unet_block": images}
    return {name: names[name] for name in options.workloads if name in names}


def timed(call, args):
    start = time.perf_counter()
    result = call(*args)
    return time.perf_counter() - start, result


def follow(call, eager, shapes, make, later):
    """Three lists: per distinct shape (seconds of the first call, of the fastest later call and of eager, whether it caused a
    new graph); per distinct shape the number of kernels that Tenon has compiled so far; (arguments, answer) of some shapes."""
    from torch._dynamo.utils import counters

    rows, kernels, answers, distinct = [], [], [], set()
    for shape in shapes:
        if shape in distinct:
            continue
        distinct.add(shape)
        args = make(*shape)
        before = counters["stats"]["unique_graphs"]
        usual, _ = timed(eager, args)
        first, answer = timed(call, args)
        rest = [timed(call, args)[0] for _ in range(later)]
        rows.append((first, min(rest, default=float("nan")), usual, counters["stats"]["unique_graphs"] > before))
        kernels.append(tenon_stats("tenon")["kernels_compiled"])
        if len(rows) % 7 == 1 and len(answers) < MOST_ANSWERS:
            answers.append((args, answer))
    return rows, kernels, answers


def measure(name, make_workload, options):
    r, wrong, table = random.Random(0), [], []
    function, shapes, make, tolerance = make_workload(name, options, r)
    with torch.no_grad():
        function(*make(*shapes[0]))
        for who in (options.backend, *(["inductor"] if options.peers else [])):
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            before = tenon_stats(who)
            keywords = {"dynamic": True} if who == "inductor" else {}
            with Progress(f"{name}: {who}"):
                rows, kernels, answers = follow(compiled(function, who, **keywords), function, shapes, make, options.later)
            for args, answer in answers:
                problems = accuracy.check(function(*args), answer, in_float64(function, args), tolerance).problems
                wrong += [f"{name} with {who}: {text}" for text in problems]
            steady = [(first, rest) for first, rest, _, graph in rows if not graph] or [(float("nan"),) * 2]
            new = [1e3 * (first - rest) for first, rest in steady]
            late = kernels[-1] - kernels[min(4, len(kernels) - 1)] if who.startswith("tenon") else None
            total, spent = (sum(row[i] for row in rows) for i in (0, 2))
            plans = [tenon_stats(who)[key] - before[key] if late is not None else None for key in ("plan_ms", "plan_misses")]
            table.append([name, who, len(rows), torch._dynamo.utils.counters["stats"]["unique_graphs"], late,
                          1e3 * plans[0] / plans[1] if late is not None else None, statistics.median(new), max(new),
                          statistics.median(a / b for a, b in steady), total, spent, f"{spent / total:.2f}x"])
    return table, wrong


def many_shapes(options):
    """The growth of a ten-node graph over many shapes, after the first 200: [MiB resident, memory mappings]."""
    def ten(x, y):
        for _ in range(3):
            x = (x * y + 1).tanh()
        return x.softmax(-1)

    g = compiled(ten, options.backend, dynamic=True)
    with torch.no_grad():
        for i in range(options.many + 200):
            if i == 200:
                before = resident(), mappings()
            x = torch.ones(2 + i % 97, 2 + i // 97)
            g(x, x)
    return (resident() - before[0]) / 2**20, mappings() - before[1]


def mappings():
    return len(Path("/proc/self/maps").read_text().splitlines())


def main():
    options = parse()
    if options.peers and missing_for_peers():
        sys.exit(f"bench shapes: {missing_for_peers()}")
    machine = describe_machine()
    torch.set_num_threads(options.threads)
    table, wrong = [], []
    for name, make_workload in workloads(options).items():
        rows, problems = measure(name, make_workload, options)
        table, wrong = table + rows, wrong + problems
    print(aligned(HEADER, table))
    print(f"\n{machine}, {options.threads} threads, no_grad")
    if "many" in options.workloads:
        with Progress(f"{options.many} shapes"):
            grown, maps = many_shapes(options)
        print(f"{options.many} shapes of a ten-node graph: {grown:+.1f} MiB resident, {maps:+d} memory mappings")
    print("\n".join(wrong) if wrong else "all answers right")
    return 1 if wrong else 0


def parse():
    known = ("bert_base", "gpt2", "decode", "resnet50", "unet_block", "many")
    parser = argparse.ArgumentParser(prog="./dev bench shapes", description=__doc__.split("\n\n")[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--shapes", type=int, default=300, help="per model; images at most 40, decode steps four times it")
    parser.add_argument("--later", type=int, default=2, help="calls of a shape after its first one")
    parser.add_argument("--many", type=int, default=10000, help="shapes of the ten-node graph")
    parser.add_argument("--tiny", action="store_true", help="small models")
    parser.add_argument("--peers", action="store_true", help="Inductor with dynamic=True too (needs g++)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backend", type=contender, default="tenon", help="another backend instead")
    options = parser.parse_args()
    for name in options.workloads:
        if name not in known:
            parser.error(f"no workload '{name}': {', '.join(known)}")
    options.workloads = options.workloads or known
    return options


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""`./dev bench budget [--batch N] [--share S...]`: the gradients of ResNet-50 within a budget of bytes for intermediates.

The graph computes the loss and its gradient by each weight, with the statistics of the batch, on images of 224x224. Per share of the
bytes that the program takes without a budget: bytes, the bytes of steps that run again, and the time relative to no budget. The
gradients must agree up to rounding; the table has the largest difference.
"""

import argparse
import ctypes
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples/flow"), str(ROOT / "bindings/python")]

import numpy                                                # noqa: E402

import flow as tf                                           # noqa: E402
from flow.core import Build                                 # noqa: E402
from flow.library import NUMPY, Program, call, evaluated    # noqa: E402

from bench.timing import describe_machine, interleave, speedup     # noqa: E402


class Options(ctypes.Structure):
    """tenon_program_options of tenon.h."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("freeze", ctypes.c_int32), ("num_threads", ctypes.c_int32),
                ("context", ctypes.c_void_p), ("max_plans", ctypes.c_int64), ("max_plan_bytes", ctypes.c_int64),
                ("reserved1", ctypes.c_int32), ("verify", ctypes.c_int32), ("device", ctypes.c_int32 * 2),
                ("device_graphs", ctypes.c_int32), ("reserved2", ctypes.c_int32), ("memory_budget_bytes", ctypes.c_int64)]


class Budgeted(Program):
    def __init__(self, graph, budget):
        self.handle = ctypes.c_void_p()
        options = Options(struct_size=ctypes.sizeof(Options), device=(1, 0), memory_budget_bytes=budget)
        call("tenon_program_create", graph.handle, ctypes.byref(options), None, 0, ctypes.byref(self.handle))


def unit(x, filters, kernel, stride, name):
    """Convolution and batch normalization."""
    return tf.nn.batch_normalization(tf.nn.conv2d(x, filters, ksize=(kernel, kernel), strides=(stride, stride), padding="SAME", name=name),
                                     name=f"{name}_bn")


def bottleneck(x, width, stride, widen, name):
    h = tf.nn.relu(unit(x, width, 1, 1, f"{name}a"))
    h = tf.nn.relu(unit(h, width, 3, stride, f"{name}b"))
    return tf.nn.relu(unit(h, 4 * width, 1, 1, f"{name}c") + (unit(x, 4 * width, 1, stride, f"{name}d") if widen else x))


def resnet50(x, blocks=(3, 4, 6, 3), width=64):
    h = tf.nn.max_pool(tf.nn.relu(unit(x, width, 7, 2, "stem")), (2, 2))
    for stage, count in enumerate(blocks):
        for block in range(count):
            h = bottleneck(h, width << stage, 2 if stage and not block else 1, not block, f"s{stage}b{block}")
    return tf.nn.linear(tf.reduce_mean(h, [2, 3]), 1000, name="fc")


class Gradients:
    """The graph, and arrays for it."""

    def __init__(self, batch, size):
        x, y = tf.placeholder(shape=(batch, 3, size, size)), tf.placeholder(shape=(batch,))
        loss = tf.nn.mean_sparse_softmax_cross_entropy_with_logits(resnet50(x), y)
        random = numpy.random.default_rng(0)
        feeds = {x: random.standard_normal((batch, 3, size, size)).astype("float32"),
                 y: random.integers(0, 1000, batch).astype("float32")}
        build = Build(feeds, training=True)
        build.value(loss)
        outputs = [build.value(t) for t in [loss, *tf.gradients(loss, [v for v in tf.variables_of(loss) if v.trainable])]]
        build.graph.finish(outputs, [])
        session = tf.Session()
        self.graph = build.graph
        self.inputs = [feeds[t] if t in feeds else session.value_of(t) for t in build.inputs]
        self.types = [build.graph.type(v) for v in outputs]

    def arrays(self):
        return [numpy.empty([evaluated(n, {}) for n in sizes], NUMPY[dtype]) for dtype, sizes in self.types]


def report(program):
    """(bytes of intermediates, bytes of results that are computed again)."""
    text = program.explain()
    again = sum(int(n) for n in re.findall(r"runs again because keeping its result takes (\d+) bytes", text))
    return int(re.findall(r"intermediates (\d+) bytes", text)[-1]), again


def difference(want, got):
    """The largest difference of two lists of arrays, relative to the largest element of the array. NaN counts as infinite."""
    return max(float(numpy.nan_to_num(numpy.abs(a - b).max() / max(numpy.abs(a).max(), 1e-30), nan=numpy.inf))
               for a, b in zip(want, got, strict=True))


def main():
    parser = argparse.ArgumentParser(prog="./dev bench budget", description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--share", type=float, nargs="+", default=[0.5])
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    machine = describe_machine()
    graph = Gradients(options.batch, options.size)
    programs, results = {None: Budgeted(graph.graph, 0)}, {None: graph.arrays()}
    programs[None].run(graph.inputs, results[None])
    whole, _ = report(programs[None])
    for share in options.share:
        programs[share], results[share] = Budgeted(graph.graph, int(whole * share)), graph.arrays()
        programs[share].run(graph.inputs, results[share])
        if difference(results[None], results[share]) > 1e-4:
            sys.exit(f"bench budget: the gradients with {share} of the bytes differ")
    calls = {share: lambda p=p, share=share: p.run(graph.inputs, results[share]) for share, p in programs.items()}
    times = interleave(calls, 100, limit_s=options.seconds)
    print(f"gradients of ResNet-50, batch {options.batch}, {options.size}x{options.size}; {machine}")
    for share, each in times.items():
        taken, again = report(programs[share])
        print(f"{'no budget' if share is None else f'budget {share:.2f}':12} {taken / 1e6:8.1f} MB ({taken / whole:.2f})"
              f" {again / 1e6:8.1f} MB computed again {statistics.median(each) * 1e3:9.1f} ms {speedup(each, times[None]):6.2f}x the time"
              f"  difference {difference(results[None], results[share]):.1e}")


if __name__ == "__main__":
    sys.exit(main())

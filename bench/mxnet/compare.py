"""`./dev bench mxnet [--seconds S] [MODEL...]`: models in MXNet, in one process: imperative, hybridize(static_alloc=True,
static_shape=True), the same with MXNet's own backend MKLDNN, with Tenon, and with Tenon and freeze=False.

Prints medians and the geometric mean of the ratios. A second table has what the plugin adds to a
call: a graph that does next to nothing, static and not. Runs in build/mxnet-venv; the models are those of tests/mxnet/models.py.
"""

import argparse
import math
import statistics
import sys

import models
import mxnet as mx
import numpy as np
import tenon.mxnet
from mxnet import gluon

from bench.timing import describe_machine, interleave, speedup

STATIC = {"static_alloc": True, "static_shape": True}
CONTENDERS = {"imperative": None, "hybridize": STATIC, "MKLDNN": {**STATIC, "backend": "MKLDNN"},
              "tenon": {**STATIC, "backend": "tenon"}, "unfrozen": {**STATIC, "backend": "tenon", "freeze": False}}
RATIOS = [("hybridize", "tenon"), ("MKLDNN", "tenon"), ("hybridize", "unfrozen")]
CASES = [("mlp", {}), ("mlp", {"batch": 1}), ("bert_layer", {}), ("bert_layer", {"length": 128, "batch": 8}), ("lstm_cells", {}),
         ("resnet18_v1", {}), ("resnet18_v2", {}), ("mobilenet_v2_1_0", {}), ("squeezenet1_1", {}), ("resnet18_v1", {"batch": 8})]


def call(net, inputs):
    result = net(*inputs)
    for each in result if isinstance(result, (list, tuple)) else [result]:
        each.wait_to_read()


def model(name, sizes, seconds):
    """name -> seconds per call, one entry per round."""
    calls, want = {}, None
    for contender, flags in CONTENDERS.items():
        net, inputs = models.build(name, **sizes)
        if flags:
            net.hybridize(**flags)
        for _ in range(4):     # parameters become constants once a few calls have brought the same ones
            got = net(*inputs).asnumpy()
        want = got if want is None else want
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error <= 1e-3, f"{name}: {contender} differs by {error}"
        calls[contender] = lambda net=net, inputs=inputs: call(net, inputs)
    return interleave(calls, 1000, limit_s=seconds)


class Tiny(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.relu(x + 1)


def layer(seconds):
    """What one call of a small graph takes, in microseconds."""
    x = mx.nd.ones((2, 2))
    for title, flags in (("static", STATIC), ("not static", {})):
        nets = {}
        for name, backend in (("hybridize", {}), ("tenon", {"backend": "tenon"})):
            nets[name] = Tiny()
            nets[name].hybridize(**flags, **backend)
        times = interleave({name: (lambda net=net: call(net, [x])) for name, net in nets.items()}, 1000, limit_s=seconds)
        print(f"{title:12}" + "".join(f"{name:>12}{statistics.median(each) * 1e6:8.1f} us" for name, each in times.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6, help="per model")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    tenon.mxnet.load()
    print(f"MXNet {mx.__version__}, {describe_machine()}\nmilliseconds\n{'':34}" + "".join(f"{c:>12}" for c in CONTENDERS) + "".join(f"{f'{base}/{ours}':>18}" for base, ours in RATIOS))
    ratios = []
    for name, sizes in CASES:
        if arguments.models and name not in arguments.models:
            continue
        times = model(name, sizes, arguments.seconds)
        ratios.append([speedup(times[base], times[ours]) for base, ours in RATIOS])
        title = name + "".join(f" {key}={value}" for key, value in sizes.items())
        print(f"{title:34}" + "".join(f"{statistics.median(times[c]) * 1e3:12.3f}" for c in CONTENDERS)
              + "".join(f"{ratio:17.2f}x" for ratio in ratios[-1]), flush=True)
    if ratios:
        means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios)]
        print(f"{'geometric mean':94}" + "".join(f"{mean:17.2f}x" for mean in means) + "\n")
    layer(min(arguments.seconds, 3))


if __name__ == "__main__":
    sys.exit(main())

"""`./dev demo --mxnet [MODEL] [--tiny]`: a model of MXNet's zoo through MXNet alone and with Tenon: its parts, what stays with MXNet, the
answer checked, the times. Runs in build/mxnet-venv; the models are those of tests/mxnet/models.py. The exit code is 1 if the answer is
wrong. Tested by tests/mxnet/test_demo.py.
"""

import argparse
import statistics
import sys

import models
import mxnet as mx
import numpy as np
import tenon.mxnet

from bench.timing import describe_machine, interleave, speedup

STATIC = {"static_alloc": True, "static_shape": True}
TOLERANCE = 1e-3     # of the largest element


def main():
    parser = argparse.ArgumentParser(prog="./dev demo --mxnet", description=__doc__.split("\n\n")[0])
    parser.add_argument("model", nargs="?", default="resnet18_v1", choices=list(models.MODELS))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--tiny", action="store_true", help="images of 64x64, a fraction of a second")
    options = parser.parse_args()
    seconds = 0.2 if options.tiny else options.seconds
    sizes = {"size": 64} if options.tiny and options.model.startswith(("resnet", "mobilenet", "squeezenet")) else {}
    tenon.mxnet.load()

    def block(**flags):
        net, inputs = models.build(options.model, **sizes)
        net.hybridize(**STATIC, **flags)
        return net, inputs

    plain, inputs = block()
    ours, _ = block(backend="tenon")
    report = tenon.mxnet.explain(ours, *inputs)
    print(f"{options.model}, inputs {[list(x.shape) for x in inputs]}, MXNet {mx.__version__}, {describe_machine()}")
    print(report)
    want, got = plain(*inputs).asnumpy(), ours(*inputs).asnumpy()
    for _ in range(3):     # parameters become constants once they have stayed the same for some calls
        got = ours(*inputs).asnumpy()
    error = float(np.abs(got - want).max() / np.abs(want).max())
    right = error <= TOLERANCE and bool((got.argmax(-1) == want.argmax(-1)).all())
    print(f"answer: {'right' if right else 'WRONG'}, largest difference {error:.1e} of the largest element")
    times = interleave({name: lambda net=net: net(*inputs).wait_to_read() for name, net in (("MXNet", plain), ("Tenon", ours))},
                       1000, limit_s=seconds)
    print(f"MXNet, hybridize: {statistics.median(times['MXNet']) * 1e3:.2f} ms; with Tenon: "
          f"{statistics.median(times['Tenon']) * 1e3:.2f} ms; {speedup(times['MXNet'], times['Tenon']):.2f}x")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

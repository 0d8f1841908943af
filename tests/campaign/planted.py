"""Backends that are wrong on purpose; each campaign must detect every one of them. Also the backend "as_traced", whose outputs have
the strides that PyTorch's tracer predicts. Tested by tests/campaign/campaign_test.py.

`backend(name)` returns the argument of `torch.compile(backend=)` for a name of the command line.
"""

import os
import time

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func


def _after(change):
    """A backend that runs the graph in PyTorch and passes its list of outputs through `change`."""
    def compiler(gm, _):
        return make_boxed_func(lambda *args: [change(x) if isinstance(x, torch.Tensor) else x for x in gm.forward(*args)])
    return lambda gm, inputs, **_: aot_autograd(fw_compiler=compiler, keep_inference_input_mutations=True)(gm, inputs)


def _off_by_little(x):
    return x * 1.001 if x.is_floating_point() else x


def _off_by_one(x):
    return x + 1 if not x.is_floating_point() and x.dtype != torch.bool else x


def _no_nan(x):
    return x.nan_to_num() if x.is_floating_point() else x


def _contiguous(x):
    return x.contiguous()


def _raises(x):
    raise RuntimeError("planted")


def _aborts(x):
    os.abort()


def _hangs(x):
    time.sleep(3600)


PLANTED = {"planted_value": _off_by_little, "planted_integer": _off_by_one, "planted_nan": _no_nan,
           "planted_strides": _contiguous, "planted_raise": _raises, "planted_crash": _aborts, "planted_hang": _hangs,
           "planted_nothing": lambda x: x}


def _as_traced(gm, inputs, **_):
    def compiler(graph, _):
        promised = [getattr(n, "meta", {}).get("val") for n in graph.graph.output_node().args[0]]

        def strided(x, fake):
            if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.stride() == fake.stride():
                return x
            return torch.empty_strided(x.shape, fake.stride(), dtype=x.dtype).copy_(x)

        return make_boxed_func(lambda *args: [strided(*pair) for pair in zip(graph.forward(*args), promised)])
    return aot_autograd(fw_compiler=compiler, keep_inference_input_mutations=True)(gm, inputs)


def backend(name):
    return _after(PLANTED[name]) if name in PLANTED else _as_traced if name == "as_traced" else name

"""Compiles a function without Dynamo, which takes most of the time of torch.compile. For tests of what AOTAutograd's graphs become; tests
of guards, of graph breaks and of torch.compile itself use torch.compile.
"""

import torch
import torch.utils._pytree as pytree
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tenon.torch.compile import compile_graph
from tenon.torch.options import Options


class _Flat(torch.nn.Module):
    """A function with a flat tuple of results, as Dynamo hands it to a backend. spec: their structure, after a call."""

    def __init__(self, f):
        super().__init__()
        self.f, self.spec = f, None

    def forward(self, *args):
        leaves, self.spec = pytree.tree_flatten(self.f(*args))
        return tuple(leaves)


def call(f, args, **options):
    """Compiles f for the sizes and strides of its arguments, in inference mode, and calls it. Arguments that are not tensors are constants."""
    at = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]

    def of_tensors(*tensors):
        given = list(args)
        for i, t in zip(at, tensors, strict=True):
            given[i] = t
        return f(*given)

    flat, mode = _Flat(of_tensors), FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    tensors = [args[i] for i in at]
    fake = [mode.from_tensor(t, static_shapes=True) for t in tensors]
    with torch.no_grad():
        with tracing(TracingContext(mode)):
            compiled = compile_graph(flat, fake, Options.parse(options))
        return pytree.tree_unflatten(list(compiled(*tensors)), flat.spec)

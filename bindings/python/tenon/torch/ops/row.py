"""The rows of the op table of the PyTorch backend: ATen overload -> the function that writes it in graph text.

A row takes an Emitter (lowering/emitter.py) and the node's arguments in ATen's order, tensors as Values, sizes as ints or
sympy expressions. It returns a Value, or a tuple for an op with several results, where None says that a result is not
available. lowering/node.py then adds a cast to PyTorch's dtype and compares the shapes. A row raises Unsupported with a
sentence to leave a node to PyTorch. view: PyTorch's result is a view.

The other modules of this folder fill TABLE. A new op is a row there and a line in tests/torch/test_lower.py.
"""

from typing import Callable, NamedTuple


class Row(NamedTuple):
    emit: Callable
    view: bool


TABLE = {}


def row(*names, view=False):
    def add(emit):
        for name in names:
            name = name if name.startswith(("prims.", "torch_nn.", "transformers.")) else "aten." + name
            TABLE[name if name.count(".") == 2 else name + ".default"] = Row(emit, view)
        return emit

    return add

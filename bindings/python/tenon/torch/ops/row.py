"""The op table of the PyTorch backend: ATen overload -> Row, the function that writes the op in graph text.

A row takes an Emitter (lowering/emitter.py) and the node's arguments in ATen's order, tensors as Values, sizes as ints or
sympy expressions. It returns a Value, or for an op with several results a tuple, with None for a result that it does not
compute. lowering/node.py then casts the result to PyTorch's dtype and compares the shapes. To leave a node to PyTorch, a row
raises Unsupported with the reason. view: whether PyTorch's result is a view.

The other modules of this directory fill TABLE. A new op is a row there and a line in tests/torch/test_lower.py.
"""

from typing import Callable, NamedTuple


class Row(NamedTuple):
    emit: Callable
    view: bool


TABLE = {}


def row(*names, view=False):
    def add(emit):
        for name in names:
            name = name if name.startswith(("prims.", "torch_nn.", "transformers.", "tenon.")) else "aten." + name
            TABLE[name if name.count(".") == 2 else name + ".default"] = Row(emit, view)
        return emit

    return add

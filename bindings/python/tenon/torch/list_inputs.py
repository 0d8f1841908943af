"""Inputs that are lists: Dynamo's graph of compiled autograd takes all tensors of a backward pass in one list.

Tested by tests/torch/test_compiled_autograd.py.
"""

import operator

from torch import fx
from torch._dynamo.utils import flatten_graph_inputs

_LISTS = (list, tuple)


def any_list(inputs):
    return any(isinstance(x, _LISTS) for x in inputs)


def compiled(gm, inputs, compile_graph):
    """The function of Dynamo's graph gm, some of whose inputs are lists of tensors or numbers. compile_graph(gm, inputs) compiles the
    graph that takes their elements instead. The function empties the lists that PyTorch marks as its own."""
    def flat(_, elements):
        function = compile_graph(_with_elements(gm, inputs), elements)

        def call(given):
            arguments = tuple(given)
            given.clear()
            return function(*arguments)

        return call

    return flatten_graph_inputs(gm, inputs, flat)


def _with_elements(gm, inputs):
    """A copy of gm, each of whose list inputs is replaced by one input for each element."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    for n, given in zip([n for n in graph.nodes if n.op == "placeholder"], inputs):
        if not isinstance(given, _LISTS):
            continue
        elements = []
        with graph.inserting_before(n):
            for i, x in enumerate(given):
                element = graph.placeholder(f"{n.name}_{i}")
                element.meta = {"example_value": x}
                elements.append(element)
        _replace(n, elements)
        graph.erase_node(n)
    return fx.GraphModule(gm, graph)


def _replace(n, elements):
    """Replaces the list that node n gives by its elements."""
    for user in list(n.users):
        if user.op == "call_function" and user.target is operator.getitem and isinstance(user.args[1], int):
            user.replace_all_uses_with(elements[user.args[1]])
            user.graph.erase_node(user)
        else:
            in_place = lambda m: elements if m is n else m
            user.args, user.kwargs = fx.map_arg(user.args, in_place), fx.map_arg(user.kwargs, in_place)

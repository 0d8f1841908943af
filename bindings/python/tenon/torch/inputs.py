"""The inputs of AOTAutograd's graphs, in which the tensors and sizes of a tensor subclass stand in its place.

Tested by tests/torch/test_subclasses.py and test_packing.py.
"""

import torch
from torch._functorch._aot_autograd.descriptors import ForwardTokenAOTInput, PlainAOTInput, SubclassGetAttrAOTInput, SyntheticBaseAOTInput
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


class Inputs:
    """Numbers the inputs of one forward or inference graph and knows their real tensors. AOTAutograd describes each placeholder of the
    graph, and of its backward graph, in meta["desc"]."""

    def __init__(self, gm, example_inputs, real):
        """gm: Dynamo's graph. real: whether the tensors of parameters and buffers are asked for."""
        # AOTAutograd numbers the tensors of gm itself before its inputs.
        self.own = [t for tensors in (gm.named_parameters, gm.named_buffers) for _, t in tensors(remove_duplicate=False)]
        self.given = (*self.own, *example_inputs)
        self.has_subclasses = any(is_traceable_wrapper_subclass(t) for t in self.given)
        self.real = _real_tensors(gm) if real else {}  # number of Dynamo's input -> tensor
        self.descriptions, self.numbers = [], {}  # of the inputs, in order; description -> number
        self.merged = False  # whether AOTAutograd has merged inputs that overlap

    def describe(self, graph, metadata):
        """Notes the inputs of AOTAutograd's forward or inference graph. metadata: AOTAutograd's of this graph."""
        descriptions = [n.meta.get("desc") for n in graph.graph.nodes if n.op == "placeholder"]
        self.descriptions = [d for d in descriptions if not isinstance(d, ForwardTokenAOTInput)]
        self.numbers = {d: i for i, d in enumerate(self.descriptions) if d is not None}
        if self.has_subclasses:
            self.merged = any(isinstance(d, SyntheticBaseAOTInput) for d in self.descriptions)
        else:
            self.merged = len(metadata.input_info) != len(self.given)

    def number(self, n, otherwise):
        """The number of a placeholder of the graph or of its backward graph. otherwise: of a placeholder that is no input of the graph or
        has no description."""
        return self.numbers.get(n.meta.get("desc"), otherwise)

    def tensor(self, number):
        """The real tensor of a parameter or buffer; None for other inputs."""
        return self._tensor_of(self.descriptions[number], number)

    def _tensor_of(self, description, number):
        if isinstance(description, SubclassGetAttrAOTInput):
            return getattr(self._tensor_of(description.base, None), description.attr, None)
        return self.real.get(getattr(description, "idx", number))

    def outer(self, numbers):
        """The numbers of Dynamo's inputs, after `own`, of these inputs without tensors of subclasses."""
        if not self.has_subclasses:
            return numbers
        plain = (self.descriptions[i] for i in numbers)
        return {d.idx for d in plain if isinstance(d, PlainAOTInput)}


def _real_tensors(gm):
    """Input index -> the real tensor, for the graph inputs that Dynamo treats as static: parameters and buffers."""
    result = {}
    for number, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder"):
        example = getattr(n.meta.get("grapharg"), "example", None)
        if isinstance(example, torch.Tensor):
            result[number] = example
    return result

"""Functions whose gradients are part of their answer, and PyTorch's table of modules as entries of the campaign `op_db`.

Each differentiable result gets a tangent, of multiples of 1/32, which every float dtype represents. Gradients are read from
`.grad`, so their strides are the ones that autograd gives them, and they are None where nothing flows.
Tested by tests/campaign/campaign_test.py.
"""

import warnings

import torch
from torch.utils import _pytree as pytree


class NoGradients(Exception):
    """No result of the function requires gradients."""


class WithGradients:
    """f(*args) -> (results, whether each requires gradients, gradients of the arguments at the positions `leaves`)."""

    def __init__(self, f, leaves):
        self.f, self.leaves = f, leaves

    def over(self, f):
        """The same with another function, such as the compiled one."""
        return WithGradients(f, self.leaves)

    def __call__(self, *args):
        args = list(args)
        for i in self.leaves:
            args[i] = args[i].detach().requires_grad_()
        with torch.enable_grad():
            results = self.f(*args)
        tensors = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
        differentiable = [t.requires_grad for t in tensors]
        if not any(differentiable):
            raise NoGradients("no result requires gradients")
        roots = [(t, tangent(t, i)) for i, t in enumerate(tensors) if t.requires_grad]
        torch.autograd.backward(*map(list, zip(*roots)))
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, results), differentiable, [args[i].grad for i in self.leaves]


def tangent(result, seed):
    """Random numbers of the result's shape and dtype; the global generator does not move."""
    generator = torch.Generator().manual_seed(seed)
    shape = (*result.shape, 2) if result.is_complex() else result.shape
    numbers = torch.randint(-64, 65, shape, generator=generator) / 32
    return (torch.view_as_complex(numbers) if result.is_complex() else numbers).to(result.dtype)


def modules():
    """Entry -> an object like an OpInfo, for each module of PyTorch's table, in training and, as NAME.eval, in evaluation mode if these
    differ. Parameters and buffers are arguments of its calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    made = [_Entry(info, training) for info in module_db if not info.is_lazy for training in {True, not info.train_and_eval_differ}]
    return {entry.name: entry for entry in made}


def _call(*args, module, state, **keywords):
    names = [name for named in (module.named_parameters(), module.named_buffers()) for name, _ in named]
    return torch.func.functional_call(module, dict(zip(names, state)), args, keywords)


class _Entry:
    supports_autograd, op = True, staticmethod(_call)

    def __init__(self, info, training):
        self.info, self.training, self.name = info, training, "nn." + info.name.removeprefix("nn.") + ("" if training else ".eval")

    def supported_backward_dtypes(self, device):
        return self.info.supported_dtypes(device)

    def sample_inputs(self, device, dtype, requires_grad):
        from torch.testing._internal.opinfo.core import SampleInput

        for about in self.info.module_inputs_func(self.info, device=device, dtype=dtype, requires_grad=requires_grad, training=self.training):
            module = self.info.module_cls(*about.constructor_input.args, **about.constructor_input.kwargs)
            module = (module.to(dtype) if dtype.is_floating_point else module).train(self.training)
            keywords = dict(about.forward_input.kwargs)
            first, *rest = about.forward_input.args or (keywords.pop(next(iter(keywords))),)
            state = [*(p.detach().requires_grad_(p.requires_grad) for p in module.parameters()), *module.buffers()]
            yield SampleInput(first, args=tuple(rest), kwargs={**keywords, "module": module, "state": tuple(state)})

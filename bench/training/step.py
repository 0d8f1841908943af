"""Steps of training: the models, their losses, and what is measured of a step.

A step is zero_grad, forward, loss, backward, AdamW, with dropout on. Tested by tests/torch/test_bench.py.
"""

import contextlib
import copy
import ctypes
import gc
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import tenon
from bench.models import zoo
from bench.training import derivatives


def _first(output):
    return output if isinstance(output, torch.Tensor) else output[0]


def of_tokens(model, ids):
    logits = _first(model(ids))
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def of_classes(model, *inputs):
    logits = _first(model(*inputs))
    return F.cross_entropy(logits, torch.arange(logits.shape[0]) % logits.shape[1])


def of_squares(model, *inputs):
    output = _first(model(*inputs))
    return output.to(torch.promote_types(output.dtype, torch.float32)).square().mean()


def of_clicks(model, *inputs):
    logits = model(*inputs)
    return F.binary_cross_entropy_with_logits(logits, (torch.arange(logits.shape[0]) % 2).to(logits.dtype)[:, None])


# name -> (loss, batch, length). Without a batch, the inputs of the zoo are taken.
MODELS = {"bert_base": (of_squares, 4, 128), "gpt2": (of_tokens, 2, 256), "llama": (of_tokens, 2, 256), "vit_b_16": (of_classes, 4, None),
          "resnet50": (of_classes, 8, None), "mobilenet_v3_large": (of_classes, 16, None), "unet_block": (of_squares, 1, None),
          "dlrm": (of_clicks, None, None), "lstm_tagger": (of_squares, None, None), "gru_tagger": (of_squares, None, None)}
DERIVATIVES = list(derivatives.ALL)  # the models that are measured only if the command names them
MODELS |= {name: (loss, None, None) for name, (_, loss) in derivatives.ALL.items()}
SENTENCES = [name for name, (_, _, length) in MODELS.items() if length]  # the models whose inputs are token ids of any batch and length


def build(name, tiny, size=None):
    """(The model, its inputs). size: (batch, length) of a model of SENTENCES instead of those of MODELS."""
    if name in derivatives.ALL:
        model, inputs = derivatives.build(name, tiny)
        return model.train(), inputs
    model, inputs = zoo.build(name, tiny)
    batch, length = size or MODELS[name][1:]
    if batch:
        batch, length = (min(batch, 2), min(length or 0, 16)) if tiny and not size else (batch, length)
        repeat = lambda x: torch.cat([x.roll(i, -1) for i in range(batch)])
        inputs = tuple(map(repeat, inputs))
        if length:
            inputs = tuple(torch.cat([x.roll(i, -1) for i in range(-(-length // x.shape[1]))], 1)[:, :length].contiguous() for x in inputs)
    return model.train(), inputs


class WithLoss(nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *inputs):
        return self.loss(self.model, *inputs)


class Step:
    """A step of training. backend, backend_options: of torch.compile, which compiles the model with its loss, and the optimizer; None:
    eager mode. fused: eager's fused optimizer. autocast: a dtype for products, or None. parallel: wraps the model with its loss in
    DistributedDataParallel."""

    def __init__(self, model, loss, inputs, backend=None, fused=None, backend_options=None, autocast=None, parallel=False):
        self.model, self.inputs, self.autocast = model, inputs, autocast
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
        self.loss, self.update = WithLoss(model, loss), self.optimizer.step
        if parallel:
            freeze_unused(self.loss, inputs)
            self.loss = nn.parallel.DistributedDataParallel(self.loss)
        if backend is not None:
            self.loss = torch.compile(self.loss, backend=backend, options=backend_options)
            self.update = torch.compile(self._update, backend=backend, options=backend_options)

    def _update(self):
        self.optimizer.step()

    def forward(self):
        with torch.autocast("cpu", self.autocast) if self.autocast else contextlib.nullcontext():
            return self.loss(*self.inputs)

    def __call__(self):
        self.optimizer.zero_grad()
        loss = self.forward()
        loss.backward()
        self.update()
        return loss.detach()

    def seconds(self):
        start = time.perf_counter()
        self()
        return time.perf_counter() - start


def freeze_unused(loss, inputs):
    """DistributedDataParallel refuses parameters that have no gradient, as those of BERT's pooler."""
    parameters = list(loss.parameters())
    for p, gradient in zip(parameters, torch.autograd.grad(loss(*inputs), parameters, allow_unused=True)):
        p.requires_grad_(gradient is not None)


def saved_bytes(step):
    """The bytes that a forward pass keeps for the backward pass, without parameters and inputs."""
    seen, kept = {t.untyped_storage().data_ptr() for t in (*step.model.parameters(), *step.model.buffers(), *step.inputs)}, {}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in seen:
            kept[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        step.forward()
    return sum(kept.values())


def peak_bytes(step):
    """The most memory that the process holds during a step, less what it holds before, without gradients. The kernel counts both
    (resident memory), so memory that a library or an allocator keeps is included. This works on Linux only."""
    step.optimizer.zero_grad()
    gc.collect()
    tenon.empty_cache()  # so the step allocates all its outputs and intermediates, as in eager mode
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts at the memory that is held now
    before = _resident("VmHWM")
    step()
    return _resident("VmHWM") - before


def _resident(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def exact_losses(name, tiny, count, size=None):
    """The losses of steps in f64."""
    model, inputs = build(name, tiny, size)
    step = Step(copy.deepcopy(model).double(), MODELS[name][0], [x.double() if x.is_floating_point() else x for x in inputs])
    torch.manual_seed(0)
    return [float(step()) for _ in range(count)]

"""`./dev bench train [--peers] [--threads N] [--seconds S] [--tiny] [--exact] [MODEL...]`: whole steps of training.

A step is zero_grad, forward, loss, backward, AdamW, with dropout on. Contenders: eager with its default optimizer (the base of all ratios),
eager with `fused=True`, Tenon (model and optimizer compiled), and with --peers Inductor in the same way. They take turns in one
process, each on its own copy of the model. The losses of the first steps are compared first: with eager's, or with --exact all
with those of steps in f64, where a contender's error may be at most twice eager's (medians over the steps). Also printed: the seconds
of the first step, the bytes that the forward pass saves over eager's, and what runs in PyTorch.
"""

import argparse
import copy
import math
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                                                # noqa: E402
import torch.nn.functional as F                             # noqa: E402
from torch import nn                                        # noqa: E402

import tenon                                                # noqa: E402
from bench.models import zoo                                # noqa: E402
from bench.table import aligned                             # noqa: E402
from bench.timing import describe_machine, interleave, speedup  # noqa: E402

ROUNDS = 30
LOSS_STEPS, EXACT_STEPS = 3, 5


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
          "dlrm": (of_clicks, None, None)}


def build(name, tiny):
    model, inputs = zoo.build(name, tiny)
    _, batch, length = MODELS[name]
    if batch:
        batch, length = (min(batch, 2), min(length or 0, 16)) if tiny else (batch, length)
        repeat = lambda x: torch.cat([x.roll(i, -1) for i in range(batch)])
        inputs = tuple(map(repeat, inputs))
        if length:
            inputs = tuple(torch.cat([x.roll(i, -1) for i in range(-(-length // x.shape[1]))], 1)[:, :length].contiguous() for x in inputs)
    return model.train(), inputs


class Step:
    """A step of training. backend: of torch.compile, or None; fused: eager's fused optimizer."""

    def __init__(self, model, loss, inputs, backend=None, fused=None):
        self.model, self.inputs = model, inputs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
        self.loss = loss if backend is None else torch.compile(loss, backend=backend)
        self.update = self.optimizer.step if backend is None else torch.compile(self._update, backend=backend)

    def _update(self):
        self.optimizer.step()

    def __call__(self):
        self.optimizer.zero_grad()
        loss = self.loss(self.model, *self.inputs)
        loss.backward()
        self.update()
        return loss.detach()


def saved_bytes(step):
    """The bytes that a forward pass keeps for the backward pass, without parameters and inputs."""
    seen, kept = {t.untyped_storage().data_ptr() for t in (*step.model.parameters(), *step.model.buffers(), *step.inputs)}, {}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in seen:
            kept[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        step.loss(step.model, *step.inputs)
    return sum(kept.values())


def exact_losses(model, loss, inputs):
    step = Step(copy.deepcopy(model).double(), loss, [x.double() if x.is_floating_point() else x for x in inputs])
    torch.manual_seed(0)
    return [float(step()) for _ in range(EXACT_STEPS)]


def disagreements(name, losses, exact):
    """Returns a sentence for each loss that is wrong. losses: {contender: losses}, eager's too. exact: the losses of f64, or None to
    compare with eager's. Inductor draws other numbers for dropout, so its losses are not compared."""
    others = [c for c in losses if c not in ("eager", "inductor")]
    if exact is None:
        return [f"{name}: loss {got} of {c}, {want} of eager" for c in others for want, got in zip(losses["eager"], losses[c])
                if not math.isclose(want, got, rel_tol=2e-3, abs_tol=1e-5)]
    errors = {c: statistics.median(abs(got - want) for want, got in zip(exact, losses[c])) for c in ("eager", *others)}
    print(f"  {name}, median error of the loss: " + ", ".join(f"{error:.1e} of {c}" for c, error in errors.items()))
    least = torch.finfo(torch.float32).eps * statistics.median(map(abs, exact))  # one rounding of the loss
    return [f"{name}: the loss of {c} is off by {errors[c]}, that of eager by {errors['eager']}" for c in others
            if errors[c] > 2 * max(errors["eager"], least)]


def measure(name, options):
    loss = MODELS[name][0]
    model, inputs = build(name, options.tiny)
    contenders = {"eager": (None, None), "fused": (None, True), "tenon": ("tenon", None)} | ({"inductor": ("inductor", None)} if options.peers else {})
    steps, first, losses = {}, {}, {}
    tenon.reset_stats()
    for contender, (backend, fused) in contenders.items():
        torch._dynamo.reset()
        steps[contender] = step = Step(copy.deepcopy(model), loss, inputs, backend, fused)
        torch.manual_seed(0)
        start = time.perf_counter()
        losses[contender] = [float(step())]
        first[contender] = time.perf_counter() - start
        losses[contender] += [float(step()) for _ in range((EXACT_STEPS if options.exact else LOSS_STEPS) - 1)]
    stats = tenon.stats()
    wrong = disagreements(name, losses, exact_losses(model, loss, inputs) if options.exact else None)
    saved = saved_bytes(steps["tenon"]) / max(saved_bytes(steps["eager"]), 1)
    times = interleave(steps, ROUNDS, limit_s=options.seconds)
    ratios = {c: speedup(times["eager"], times[c]) for c in contenders if c != "eager"}
    return times, ratios, first, saved, stats, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--peers", action="store_true", help="Inductor too; needs g++")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=60, help="per model")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--exact", action="store_true", help="compare losses with f64 instead of with eager")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = describe_machine()
    rows, wrong, means, header = [], [], {}, None
    for name in options.models or MODELS:
        times, ratios, first, saved, stats, bad = measure(name, options)
        header = header or ["model", "eager ms", *ratios, "saved", *(f"first s, {c}" for c in first), "own s", "in PyTorch"]
        rows.append([name, f"{statistics.median(times['eager']) * 1e3:.1f}", *(f"{r:.2f}x" for r in ratios.values()), f"{saved:.2f}",
                     *(f"{s:.1f}" for s in first.values()), f"{stats['compile_ms'] / 1e3:.2f}", str(stats["fallbacks"])])
        print(aligned(header, rows[-1:]).splitlines()[-1], flush=True)
        for why, count in stats["fallback_reasons"].items():
            print(f"  in PyTorch, {count}: {why}")
        wrong += bad
        for c, r in ratios.items():
            means.setdefault(c, []).append(r)
    print("\n" + aligned(header, rows))
    print("geometric means: " + ", ".join(f"{c} {math.exp(statistics.fmean(map(math.log, r))):.2f}x" for c, r in means.items()))
    print(f"\n{machine}. {options.threads} threads, f32. Ratios: eager's time over the contender's. saved: bytes kept for the backward pass, over eager's.")
    print("\n".join(wrong) or ("errors of the losses are at most twice eager's" if options.exact else "losses of the first steps agree"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

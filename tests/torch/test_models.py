"""Every model of the zoo, tiny, through `torch.compile(backend="tenon")`: right, and without a single
fallback.

Inference with and without frozen weights; without, a changed weight is seen. The models of `./dev bench train` are trained, too.
TENON_TEST_BACKEND names another torch.compile backend in Tenon's place, to tell a mistake of the test from one of Tenon; what only Tenon counts
is then not asserted.
"""

import copy
import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.models import accuracy, zoo                             # noqa: E402
from bench.train import disagreements                              # noqa: E402
from bench.training.step import MODELS, Step, build, exact_losses  # noqa: E402

BACKEND = os.environ.get("TENON_TEST_BACKEND", "tenon")


class Backend:
    """Compiles with the backend under test. stats() has Tenon's counts; None for another backend."""

    def __init__(self, freeze):
        self.freeze, self.options = freeze, {"freeze": freeze} if BACKEND == "tenon" else None

    def compile(self, model):
        return torch.compile(model, backend=BACKEND, options=self.options, fullgraph=True)

    def stats(self):
        if BACKEND != "tenon":
            return None
        import tenon
        return tenon.stats()


@pytest.fixture(params=[False, True], ids=["live", "frozen"])
def backend(request):
    torch._dynamo.reset()
    if BACKEND == "tenon":
        import tenon
        tenon.reset_stats()
    return Backend(request.param)


def assert_right(name, model, inputs, answer):
    reference, exact = model(*inputs), accuracy.in_float64(model, inputs)
    assert accuracy.check(reference, answer, exact, zoo.ALL[name].tolerance).problems == []


@torch.no_grad()
@pytest.mark.parametrize("name", zoo.ALL)
def test_right_and_whole(name, backend):
    model, inputs = zoo.build(name, tiny=True)
    others, kept = zoo.other_inputs(inputs), [x.clone() for x in inputs]
    fast = backend.compile(model)
    first = fast(*inputs)
    copied = copy.deepcopy(first)
    assert_right(name, model, inputs, first)
    assert_right(name, model, others, fast(*others))
    assert_right(name, model, inputs, fast(*inputs))
    assert all(map(torch.equal, kept, inputs)), "inputs were changed"
    for (path, a), (_, b) in zip(accuracy.leaves(first), accuracy.leaves(copied), strict=True):
        assert torch.equal(a, b), f"{path} of the first call was overwritten by a later one"
    stats = backend.stats()
    if stats is not None:
        assert stats["fallbacks"] == 0 and stats["programs"] >= 1 and stats["nodes_fused"] > 0
        assert stats["reference_steps"] == 0
    if not backend.freeze:
        for p in model.parameters():
            p.mul_(1.125)
        answer = fast(*inputs)
        assert_right(name, model, inputs, answer)
        assert not all(torch.equal(a, b) for (_, a), (_, b) in zip(accuracy.leaves(copied), accuracy.leaves(answer), strict=True))


@torch.no_grad()
def test_a_step_of_decoding_writes_its_keys_and_values(backend):
    (eager, inputs), (model, _) = (zoo.build("llama_decode", tiny=True) for _ in range(2))
    before = [b.clone() for b in model.buffers()]
    eager(*inputs)
    backend.compile(model)(*inputs)
    for (name, mine), wanted, old in zip(model.named_buffers(), eager.buffers(), before, strict=True):
        torch.testing.assert_close(mine, wanted)
        if name.startswith(("keys", "values")):
            assert (mine != old).any((0, 1, 3)).nonzero().tolist() == [inputs[1].tolist()], name  # one position


@torch.no_grad()
def test_decoding_copies_no_cache(backend):
    """Over several steps, the last one at a position out of range, which changes nothing."""
    (eager, (token, position)), (model, _) = (zoo.build("llama_decode", tiny=True) for _ in range(2))
    fast = backend.compile(model)
    for step in range(5):
        at = (token + step, position - 3 + step)
        torch.testing.assert_close(fast(*at), eager(*at))
        for mine, wanted in zip(model.buffers(), eager.buffers(), strict=True):
            torch.testing.assert_close(mine, wanted)
    before = [b.clone() for b in model.buffers()]
    for at in ((token, position + 4), (token + 10**6, position)):
        with pytest.raises(IndexError):
            fast(*at)
        assert all(map(torch.equal, before, model.buffers()))
    if backend.stats() is not None:
        import tenon
        assert "copied after all steps" not in str(tenon.explain(model, token, position, tenon_options=backend.options))


SLOW = {"bert_base", "mobilenet_v3_large", "resnet50", "unet_block"}  # to compile. TENON_TESTS=all trains them too


@pytest.mark.parametrize("name", MODELS if os.environ.get("TENON_TESTS") == "all" else [name for name in MODELS if name not in SLOW])
@torch._dynamo.config.patch(trace_autograd_ops=True)  # for the models of derivatives
def test_steps_of_training(name, monkeypatch):
    """The loss of 100 steps, with dropout: the error is at most twice eager's. Forward pass, backward pass and AdamW are a program each.
    Dynamo traces the capturable form of AdamW, whose corrections of the averages are less exact, so eager's steps have it too."""
    import tenon
    monkeypatch.setattr(sys.modules["torch.optim.adam"], "_get_capturable_supported_devices", lambda: ["cpu"])
    losses, count = {}, 100
    for backend in (None, "tenon"):
        model, inputs = build(name, tiny=True)
        step = Step(model, MODELS[name][0], inputs, backend)
        step.optimizer.param_groups[0]["capturable"] = backend is None
        torch.manual_seed(0)
        losses[backend or "eager"] = [float(step()) for _ in range(count)]
    assert disagreements(name, losses, exact_losses(name, True, count)) == []
    stats = tenon.stats()
    assert stats["fallbacks"] == stats["reference_steps"] == 0 and stats["calls"] == 3 * count

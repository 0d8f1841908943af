"""A step of an optimizer is a graph that reads and writes its inputs. It is right and runs wholly in Tenon."""

import pytest
import torch

import tenon


@pytest.mark.parametrize("name, options", [("Adam", {}), ("AdamW", {"weight_decay": 0.1}), ("SGD", {"momentum": 0.9}),
                                           ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1})])
def test_a_step(name, options):
    shapes = [(3, 4), (7,), (2, 3, 5), (1,), (64, 9)]
    ours, theirs = ([torch.nn.Parameter(torch.zeros(s)) for s in shapes] for _ in range(2))
    rate = lambda: {"lr": torch.tensor(0.01)} if name != "SGD" else {"lr": 0.01}  # noqa: E731
    fast, slow = (getattr(torch.optim, name)(p, **rate(), **options) for p in (ours, theirs))
    step = torch.compile(fast.step, backend="tenon")
    for _ in range(4):
        for p, q in zip(ours, theirs):
            q.grad = torch.randn_like(q)
            p.grad = q.grad.clone()
        step()
        slow.step()
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert tenon.stats()["fallback_reasons"] == {} and tenon.stats()["calls"] == 4

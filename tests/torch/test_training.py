"""Graphs that need gradients run in PyTorch, as whole operators, also in the buckets of DDP. Several threads may compile first at the
same time."""

import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn

import tenon
from tenon.torch import compile as compiling

def trained(make, x, backend):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = make()
    g = model if backend is None else torch.compile(model, backend=backend)
    losses = []
    for _ in range(2):
        loss = g(x).float().square().mean()
        loss.backward()
        losses.append(loss.detach())
    return losses, [p.grad for p in model.parameters()], list(model.buffers())


def batch_norm():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).bfloat16()


def test_bf16_batch_norm_trains():
    x = torch.randn(2, 3, 8, 8, dtype=torch.bfloat16)
    torch.testing.assert_close(trained(batch_norm, x, "tenon"), trained(batch_norm, x, "aot_eager"))
    assert "gradients are needed" in next(iter(tenon.stats()["fallback_reasons"]))


def test_training_graphs_are_whole_operators(monkeypatch):
    seen, compile = [], compiling._compile

    def spy(gm, *a):
        seen.append({str(n.target) for n in gm.graph.nodes})
        return compile(gm, *a)

    monkeypatch.setattr(compiling, "_compile", spy)
    f = lambda x, y: F.smooth_l1_loss(x, y)  # noqa: E731
    x, y = torch.randn(5), torch.randn(5)
    torch.compile(f, backend="tenon")(x.requires_grad_(), y).backward()
    assert "aten.smooth_l1_loss.default" in seen[0]
    torch._dynamo.reset()
    del seen[:]
    for grad in (True, False):  # no gradients are needed, whatever the inputs say
        torch._dynamo.reset()
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(torch.compile(lambda x, y: f(x.detach(), y), backend="tenon")(x, y), f(x, y).detach())
    assert len(seen) == 2 and not any("aten.smooth_l1_loss.default" in names for names in seen)
    assert tenon.stats()["programs"] == 2
    torch._dynamo.reset()

    def enables(x, y):
        with torch.enable_grad():
            return f(x, y)

    del seen[:]
    with torch.no_grad():
        loss = torch.compile(enables, backend="tenon")(x, y)
    assert loss.requires_grad and "aten.smooth_l1_loss.default" in seen[-1]


def test_a_decomposition_that_fails_is_left_out(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("broken")

    table = {torch.ops.aten.mse_loss.default: broken}
    monkeypatch.setattr(compiling.decompositions, "table", lambda: table)
    x, y = torch.randn(5), torch.randn(5)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(F.mse_loss, backend="tenon")(x, y), F.mse_loss(x, y))


THREADS = """
import threading, torch
wrong, ready = [], threading.Barrier(6)
def work(i):
    try:
        ready.wait()
        with torch.no_grad():
            x = torch.randn(i + 2)
            torch.testing.assert_close(torch.compile(lambda x: x * i + 1, backend="tenon")(x), x * i + 1)
    except BaseException as e:
        wrong.append(repr(e))
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong, wrong
import importlib.metadata
entry, = [e for e in importlib.metadata.entry_points(group="torch_dynamo_backends") if e.name == "tenon"]
assert callable(entry.load())
"""


def test_threads_that_compile_first_at_once():
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


DDP = """
import os, sys, torch
import torch.distributed as dist
from torch import nn
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(512, 512), nn.ReLU())))

    def forward(self, x):
        return self.layers(x)

model = Net()
ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1.2)
x = torch.randn(3, 512)
want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
torch.compile(ddp, backend="tenon")(x).square().sum().backward()
torch.testing.assert_close([p.grad for p in model.parameters()], list(want))
import tenon
assert tenon.stats()["fallbacks"] > 1, tenon.stats()
dist.destroy_process_group()
"""


def test_buckets_of_ddp(tmp_path):
    done = subprocess.run([sys.executable, "-c", DDP, str(tmp_path / "store")], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr

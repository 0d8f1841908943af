"""Training in two processes (gloo): DistributedDataParallel, FSDP2, checkpoints, hooks and compiled autograd. The gradients of both ranks
are equal, and equal to those of one process in eager mode on the joined batch. Two processes run all cases (worker()), and each
test reads the outcome of one. A rank that dies ends the other with PyTorch's error."""

import copy
import json
import os
import subprocess
import sys
import traceback
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WIDTH = 32
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


class Block(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """checkpointed: of which blocks activations are computed again; branch: a parameter that only positive inputs use."""

    def __init__(self, checkpointed=False, branch=False, width=WIDTH):
        super().__init__()
        self.blocks, self.checkpointed = nn.ModuleList(Block(width) for _ in range(3)), checkpointed
        self.branch = nn.Linear(width, width) if branch else None

    def forward(self, x, branch=False):
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.branch(x) if branch else x


def made(width=WIDTH, **options):
    """(model, its copy for eager mode, the joined batches, this rank's part of each)"""
    torch.manual_seed(0)
    model, batches = Net(width=width, **options), [torch.randn(8, width) for _ in range(2)]
    return model, copy.deepcopy(model), batches, [x.chunk(dist.get_world_size())[dist.get_rank()] for x in batches]


def compiled(model, **keywords):
    return torch.compile(model, backend="tenon", **keywords)


def backward_is_compiled():
    """A context whose backward passes go through compiled autograd."""
    return torch._dynamo.compiled_autograd._enable(lambda gm: torch.compile(gm, backend="tenon"))


def loss(y):
    return y.square().mean()


def whole(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def check(model, other):
    """Compares the gradients with those of eager mode and with those of the other rank."""
    for (name, p), q in zip(model.named_parameters(), other.parameters()):
        if q.grad is None:
            assert p.grad is None or not whole(p.grad).any(), name  # find_unused_parameters gives zeros
            continue
        mine = whole(p.grad).contiguous()
        theirs = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(theirs, mine)
        torch.testing.assert_close(theirs[0], theirs[1], rtol=0, atol=0, msg=name)
        torch.testing.assert_close(mine, q.grad, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


def steps(model, f, other, batches, parts):
    """Two steps of gradient descent on both."""
    for x, part in zip(batches, parts):
        model.zero_grad(), other.zero_grad()
        loss(f(part)).backward()
        loss(other(x)).backward()
        check(model, other)
        with torch.no_grad():
            for p, q in zip(model.parameters(), other.parameters()):
                p -= 0.1 * p.grad
                q -= 0.1 * q.grad


@case
def buckets():
    import tenon

    model, other, batches, parts = made(width=384)  # 2.4 MB per block
    steps(model, compiled(DDP(model, bucket_cap_mb=3)), other, batches, parts)
    assert tenon.stats()["calls"] >= 8, tenon.stats()  # two steps of several buckets, each forward and backward


@case
def reductions_overlap_the_backward_pass():
    """DDP reduces a bucket while backward graphs of other buckets have yet to run."""
    import tenon

    model, other, batches, parts = made(width=384)
    ddp, calls = DDP(model, bucket_cap_mb=3), []

    def hook(state, bucket):
        calls.append(tenon.stats()["calls"])
        return dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True).get_future().then(lambda done: done.value()[0])

    ddp.register_comm_hook(None, hook)
    steps(model, compiled(ddp), other, batches, parts)
    end = tenon.stats()["calls"]
    second = [count for count in calls if count > end // 2]  # reductions of the second step; in the first step, DDP has one bucket
    assert len(second) > 1 and second[0] < second[-1] == end, (calls, end)


@case
def no_sync():
    model, other, batches, parts = made()
    ddp = DDP(model)
    f = compiled(ddp)
    with ddp.no_sync():
        loss(f(parts[0])).backward()
    loss(f(parts[1])).backward()
    for x in batches:
        loss(other(x)).backward()
    check(model, other)


@case
def static_graph():
    model, other, batches, parts = made()
    steps(model, compiled(DDP(model, static_graph=True)), other, batches, parts)


@case
def unused_parameters():
    model, other, batches, parts = made(branch=True)
    f = compiled(DDP(model, find_unused_parameters=True))
    for branch, x, part in zip((True, False), batches, parts):
        model.zero_grad(), other.zero_grad()
        loss(f(part, branch)).backward()
        loss(other(x, branch)).backward()
        check(model, other)


@case
def python_reducer():
    model, other, batches, parts = made()
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"), backward_is_compiled():
        steps(model, compiled(DDP(model)), other, batches, parts)


@case
def sharded_blocks():
    from torch.distributed.fsdp import fully_shard

    model, other, batches, parts = made()
    for i, block in enumerate(model.blocks):
        fully_shard(block)
        model.blocks[i] = block
        block.compile(backend="tenon")
    fully_shard(model)
    steps(model, model, other, batches, parts)


@case
def checkpoints():
    model, other, batches, parts = made(checkpointed=True)
    steps(model, compiled(DDP(model)), other, batches, parts)


@case
def hooks():
    """Hooks of tensors and parameters see the gradients of eager mode."""
    seen = {}
    model, other, batches, parts = made()
    for m in (model, other):
        seen[m] = []
        m.blocks[0].up.weight.register_hook(lambda g: g * 2)
        m.blocks[1].up.weight.register_post_accumulate_grad_hook(lambda p, m=m: seen[m].append(p.grad.norm().item()))
    f, g = compiled(DDP(model)), DDP(other)
    loss(f(parts[0])).backward()
    loss(g(parts[0])).backward()
    assert len(seen[model]) == len(seen[other]) == 1 and seen[other][0] > 0
    assert abs(seen[model][0] - seen[other][0]) < 1e-4 * seen[other][0]
    check(model, other)


@case
def compiled_autograd():
    model, other, batches, parts = made()
    f = compiled(model)
    with backward_is_compiled():
        loss(f(batches[0])).backward()
        loss(f(batches[1])).backward()  # accumulates
    for x in batches:
        loss(other(x)).backward()
    check(model, other)


def worker(rank, store, names):
    import tenon

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60))
    outcomes = {}
    for name in names:
        torch._dynamo.reset()
        tenon.reset_stats()
        try:
            CASES[name]()
            stats = tenon.stats()
            others = [why for why in stats["fallback_reasons"] if not why.startswith("_c10d_functional.")]  # collectives are PyTorch's
            outcomes[name] = "" if stats["calls"] >= 2 and not others else f"{stats}"
        except Exception:
            outcomes[name] = traceback.format_exc()
    print("\n" + json.dumps(outcomes), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def dying(rank, store):
    """Rank 1 dies between a forward and a backward pass."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=30))
    model, _, batches, _ = made()
    f = compiled(DDP(model))
    loss(f(batches[0])).backward()
    result = loss(f(batches[1]))
    if rank == 1:
        os._exit(9)
    try:
        result.backward()
    except RuntimeError as e:
        print(f"{type(e).__name__}: {e}", flush=True)
        os._exit(0)


def two(tmp_path, *arguments):
    """Runs this file as rank 0 and rank 1. Returns [(exit status, output, errors)]."""
    store = tmp_path / "store"
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), str(store), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for rank in range(2)]
    try:
        return [(rank.wait(300), *rank.communicate()) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    ran = two(tmp_path_factory.mktemp("ranks"), "cases", *CASES)
    assert [code for code, _, _ in ran] == [0, 0], ran
    return [json.loads(out.splitlines()[-1]) for _, out, _ in ran]


@pytest.mark.parametrize("name", CASES)
def test_two_processes(outcomes, name):
    assert [ran[name] for ran in outcomes] == ["", ""], "\n".join(ran[name] for ran in outcomes)


def test_a_rank_that_dies(tmp_path):
    (code, out, errors), (other, _, _) = two(tmp_path, "dying")
    assert other == 9 and code == 0, errors
    assert "RuntimeError" in out and ("peer" in out or "Connection" in out), out


if __name__ == "__main__":
    rank, store, what, *names = sys.argv[1:]
    dying(int(rank), store) if what == "dying" else worker(int(rank), store, names)

"""Training: forward and backward graphs in Tenon against eager mode: values, gradients, buffers, dropout masks, strides; layouts,
dtypes and sizes; what users do between steps; several threads that compile first at the same time."""

import copy
import math
import re
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import tenon
from tenon.torch import compile as compiling


def steps(model, f, batches, seed=1):
    """[loss, gradients, buffers, strides of the result] of each batch, with a step of plain gradient descent after each."""
    result = []
    torch.manual_seed(seed)
    for batch in batches:
        model.zero_grad()
        out = f(*batch)
        loss = out.float().square().mean()
        loss.backward()
        result.append([loss.detach(), [None if p.grad is None else p.grad.clone() for p in model.parameters()],
                       [b.clone() for b in model.buffers()], [s for s, n in zip(out.stride(), out.shape) if n != 1]])
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= 0.05 * p.grad
    return result


def compare(model, *batches, native=True, rtol=2e-4, atol=2e-5, options=None, **keywords):
    """Trains the model and a copy of it in eager mode. native: no part may run in PyTorch."""
    counterpart = copy.deepcopy(model)
    got = steps(model, torch.compile(model, backend="tenon", options=options, **keywords), batches)
    want = steps(counterpart, counterpart, batches)
    for g, w in zip(got, want):
        torch.testing.assert_close(g, w, rtol=rtol, atol=atol)
    for p, q in zip(model.parameters(), counterpart.parameters()):
        assert p.grad is None or p.grad.stride() == q.grad.stride()
    s = tenon.stats()
    assert not native or s["fallbacks"] == 0, s["fallback_reasons"]
    assert s["reference_steps"] == 0 and (not native or s["programs"] >= 2)
    return got


def conv_net(norm=nn.BatchNorm2d):
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), norm(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, groups=2, bias=False),
                         nn.GroupNorm(2, 8), nn.Hardswish(), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


class Attention(nn.Module):
    def __init__(self, heads=4, kv_heads=2, causal=True, width=32):
        super().__init__()
        self.heads, self.kv_heads, self.causal, self.head = heads, kv_heads, causal, width // heads
        self.q, self.kv, self.o = nn.Linear(width, width), nn.Linear(width, 2 * kv_heads * self.head), nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, self.head).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, self.kv_heads, self.head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal and mask is None, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class Tagger(nn.Module):
    """A tied embedding, slices, selections, and a loss with classes that are ignored."""

    def __init__(self, tied=True):
        super().__init__()
        self.embed, self.norm, self.out = nn.Embedding(20, 16, padding_idx=0), nn.LayerNorm(16), nn.Linear(16, 20)
        if tied:
            self.out.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        x = self.norm(x[:, 1:] + x[:, :-1] * x[:, :1]) * torch.sigmoid(x[:, 0][:, None])
        target = ids[:, 1:].clone()
        target[:, ::3] = -100
        return F.cross_entropy(self.out(x).flatten(0, 1), target.flatten(), reduction="none")


def test_conv_nets():
    compare(conv_net(), (torch.randn(2, 3, 33, 33),), (torch.randn(2, 3, 33, 33),))
    compare(conv_net().to(memory_format=torch.channels_last), (torch.randn(3, 3, 32, 32).to(memory_format=torch.channels_last),))


@pytest.mark.parametrize("model", [Attention(), Attention(causal=False, kv_heads=4), Attention(kv_heads=1)], ids=["causal", "whole", "one"])
def test_attention(model):
    compare(model, (torch.randn(2, 7, 32),), (torch.randn(2, 7, 32),))


@pytest.mark.parametrize("dynamic", (False, True))
def test_images_are_saved_in_channels_last(dynamic):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 1), nn.Hardswish(),
                          nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.SiLU())
    compare(copy.deepcopy(model), (torch.randn(2, 3, 12, 10),), (torch.randn(3, 3, 12, 10),), dynamic=dynamic)
    f, saved = torch.compile(model, backend="tenon", dynamic=dynamic), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = f(torch.randn(2, 3, 12, 10))
    images = [t for t in saved if t.dim() == 4 and t.shape[2:] == (12, 10) and t.shape[1] > 3]
    assert len(images) >= 4 and all(t.is_contiguous(memory_format=torch.channels_last) for t in images)
    assert y.is_contiguous()  # results and gradients keep PyTorch's strides
    y.sum().backward()


def test_saved_images_that_pytorch_views_keep_their_layout():
    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            y = torch.tanh(self.conv(x))
            return torch.linalg.svdvals(y.view(len(x), 48, 6)).sum() + (y * y).sum()  # PyTorch reads the view

    compare(Views(), (torch.randn(2, 3, 8, 8),), native=False)


def test_results_that_are_saved_images_keep_their_strides():
    conv, other = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def f(x):
        y = conv(x).relu()
        z = other(y).tanh()
        return z, y, y.detach(), z.detach(), (y * 2).detach()

    x = torch.randn(2, 3, 12, 13)
    for step in (1, 2):  # 2: only an alias of y is a result
        for got, want in zip(torch.compile(lambda x, step=step: f(x)[::step], backend="tenon")(x), f(x)[::step]):
            assert got.stride() == want.stride()
            torch.testing.assert_close(got, want)


def test_any_op_of_a_conv_net_may_be_refused(library):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 2))
    compare(copy.deepcopy(model), (torch.randn(2, 3, 9, 11),))
    ops = sorted({op for text in library.texts for op in re.findall(r"= (\w+)\(", text)})
    assert {"convolution", "convolution_weight_gradient", "tanh", "le"} <= set(ops)
    for n, op in enumerate(ops):
        torch._dynamo.reset()
        library.refuse = (op,)
        compare(copy.deepcopy(model), (torch.randn(2, 3, 9, 12 + n),), native=False)  # an unusual size: no kept program serves it
        assert tenon.stats()["fallbacks"] > 0, op


def test_transposed_convolutions_before_an_activation():
    compare(nn.Sequential(nn.Conv2d(2, 16, 3, padding=1), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 2, 4, 2, 1), nn.SiLU()),
            (torch.randn(2, 2, 15, 16),), (torch.randn(3, 2, 9, 8),))


def test_attention_with_a_mask_that_hides_whole_rows():
    mask = torch.where(torch.rand(2, 1, 9, 9) < 0.5, 0.0, -torch.inf)
    mask[0, 0, 3] = -100.0
    compare(Attention(kv_heads=4), (torch.randn(2, 9, 32), mask), (torch.randn(2, 9, 32), torch.randn(2, 1, 9, 9)))


@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_slices_and_losses(tied):
    compare(Tagger(tied), (torch.randint(20, (3, 11)),), (torch.randint(20, (3, 11)),))


@pytest.mark.parametrize("refused", [False, True])
def test_masks_are_saved_as_bits(library, refused):
    """Masks are those of eager mode for every number of elements and for transposed inputs, also where PyTorch unpacks them."""
    library.refuse = ("shift_right",) if refused else ()
    p = 0.375 if refused else 0.25  # another p, because otherwise the library would reuse the program of the other case, which has nothing refused
    step = lambda x: F.dropout((x * 2).transpose(0, 1), p) * x.transpose(0, 1)
    f = torch.compile(step, backend="tenon", dynamic=True)
    for shape in ((4, 6), (3, 5), (7, 33), (2, 2), (16, 8)):
        kept, results = {}, []
        for g in (step, f):
            x = torch.linspace(1, 2, math.prod(shape)).view(shape).requires_grad_()
            torch.manual_seed(1)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.setdefault(g, []).append(t), t)[1], lambda t: t):
                y = g(x)
            y.sum().backward()
            results.append((y.detach(), x.grad))
        torch.testing.assert_close(*results)
        assert [t.numel() for t in kept[f] if t.dtype == torch.uint8] == [(math.prod(shape) + 7) // 8]
        assert not any(t.dtype == torch.bool for t in kept[f])
    assert bool(tenon.stats()["fallbacks"]) == refused


@pytest.mark.parametrize("rng", ["torch", "fast"])
def test_dropout(rng):
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(32), nn.Linear(32, 4))
    batches = [(torch.randn(64, 16),) for _ in range(3)]
    before = copy.deepcopy(model.state_dict())
    if rng == "torch":
        compare(model, *batches)
        assert tenon.stats()["programs"] == 2  # a dropout cuts no segment
        return
    f, gradients = torch.compile(model, backend="tenon", options={"rng": "fast"}), []  # the numbers differ from those of eager mode
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        gradients.append(steps(model, f, batches[:1], seed)[0][1])
        model.load_state_dict(before)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)
    assert not torch.equal(gradients[0][0], gradients[2][0]) and tenon.stats()["fallbacks"] == 0


def test_masks_are_those_of_eager_mode_bit_for_bit():
    f = lambda x, y: (F.dropout(x * 2, 0.4) == 0, F.dropout(y + 1, 0.2) == 0, F.dropout(x.t().contiguous().t(), 0.5) == 0)  # noqa: E731
    x, y = torch.ones(37, 41, requires_grad=True), torch.ones(5)
    for transposed in (x, x.detach().t().requires_grad_()):
        torch._dynamo.reset()
        torch.manual_seed(7)
        want = f(transposed, y)
        torch.manual_seed(7)
        torch.testing.assert_close(torch.compile(f, backend="tenon")(transposed, y), want, rtol=0, atol=0)


def test_dropout_of_four_sizes_that_change():
    f = lambda x: F.dropout(x.sin(), 0.4)  # noqa: E731
    compiled = torch.compile(f, backend="tenon", dynamic=True)
    for shape in ((2, 3, 5, 7), (4, 6, 3, 2)):
        x = torch.randn(shape, requires_grad=True)
        results = []
        for g in (f, compiled):
            torch.manual_seed(7)
            y = g(x)
            results.append((y, *torch.autograd.grad(y.square().sum(), x)))
        torch.testing.assert_close(*results)
    assert tenon.stats()["fallbacks"] == 0


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_in_attention(causal):
    """The mask is that of eager mode: the result of unit vectors as values is the matrix of weights."""
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.4, is_causal=causal)

    inputs = [torch.randn(2, 3, 16, 8), torch.randn(2, 3, 16, 8), torch.eye(16).expand(2, 3, 16, 16)]
    results = []
    for g in (f, torch.compile(f, backend="tenon")):
        tensors = [t.clone().requires_grad_() for t in inputs]
        torch.manual_seed(7)
        for _ in range(2):  # gradients add up
            weights = g(*tensors)
            weights.square().sum().backward()
        results.append((weights == 0, weights, [t.grad for t in tensors]))
    torch.testing.assert_close(*results)
    assert 0.35 < (results[0][0].float().mean() - 15 / 32 * causal) / (1 - 15 / 32 * causal) < 0.45 and tenon.stats()["fallbacks"] == 0


def test_other_random_numbers_keep_their_order():
    def f(x):
        return F.dropout(x, 0.5) + torch.rand_like(x) * F.dropout(x, 0.3)

    x = torch.randn(40, requires_grad=True)
    torch.manual_seed(0)
    want = f(x)
    torch.manual_seed(0)
    torch.testing.assert_close(torch.compile(f, backend="tenon")(x), want)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(dtype):
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 0.05, "atol": 0.02}
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to(dtype)
    compare(model, (torch.randn(8, 16, dtype=dtype),), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gradient_of_bags_that_pytorch_summed(dtype):
    """PyTorch's kernel leaves the bags of indices empty, while its meta function of bf16 says that they are there."""
    offsets = torch.arange(0, 4096, 16)

    class Bags(nn.EmbeddingBag):
        def forward(self, i):
            return 2 * super().forward(i, offsets)

    compare(Bags(100, 48, mode="sum").to(dtype), (torch.arange(4096) % 100,), native=False, rtol=2e-2, atol=2e-2)
    assert list(tenon.stats()["fallback_reasons"]) == ["embedding_bag of many rows, which PyTorch prefetches"]


def test_autocast_with_batch_norm():
    net = conv_net()

    class Autocast(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.net(x)

    compare(Autocast(), (torch.randn(4, 3, 33, 33),), rtol=0.1, atol=0.05)


def test_autocast_keeps_the_statistics_of_a_batch_norm_wide():
    """Gradients of the convolution in front are as exact as in eager mode, which saves the statistics in f32."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 16, 3, groups=16), nn.BatchNorm2d(16), nn.SiLU())
    for p in model.parameters():
        p.data = p.data.bfloat16().float()
    x, weights = torch.randn(4, 16, 20, 20).relu().bfloat16(), torch.randn(4, 16, 1, 1)

    def gradient(run, own, dtype=torch.float32):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype != torch.float64):
            y = run(x.to(dtype))
        (y.to(dtype) * weights.to(dtype)).mean().backward()
        return own[0].weight.grad.double()

    copies = [copy.deepcopy(model) for _ in range(3)]
    exact = gradient(copies[0].double(), copies[0], torch.float64)
    eager = gradient(copies[1], copies[1])
    tenon_s = gradient(torch.compile(copies[2], backend="tenon"), copies[2])
    error = lambda g: (g - exact).square().mean().sqrt()
    assert error(tenon_s) < 1.5 * error(eager), (error(tenon_s), error(eager))


def test_bf16_batch_norm_trains():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).bfloat16()
    compare(model, (torch.randn(2, 3, 8, 8, dtype=torch.bfloat16),), rtol=0.05, atol=0.02)


def test_sizes_that_change_cost_no_compile():
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    batches = [(torch.randn(b, n, 8),) for b, n in [(2, 3), (3, 5), (4, 7), (5, 4), (2, 9), (1, 3), (7, 1), (6, 6), (9, 2)]]
    counterpart = copy.deepcopy(model)
    f = torch.compile(model, backend="tenon", dynamic=True)
    got = steps(model, f, batches[:5])
    compiled = tenon.stats()["kernels_compiled"]
    got += steps(model, f, batches[7:], seed=2)
    assert tenon.stats()["kernels_compiled"] == compiled and tenon.stats()["fallbacks"] == 0
    want = steps(counterpart, counterpart, batches[:5]) + steps(counterpart, counterpart, batches[7:], seed=2)
    torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("batch", [0, 1])
def test_batches_of_none_and_one(batch):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    counterpart = copy.deepcopy(model)
    x = torch.randn(batch, 8)
    torch.compile(model, backend="tenon")(x).sum().backward()
    counterpart(x).sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in counterpart.parameters()])


def test_unused_frozen_and_replaced_parameters():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.requires_grad_(False)

        def forward(self, x):
            return self.b(self.a(x).relu())

    model = Net()
    compare(model, (torch.randn(3, 4),))
    assert model.c.weight.grad is None and model.b.weight.grad is None
    counterpart, f = copy.deepcopy(model), torch.compile(model, backend="tenon")
    for change in (lambda m: setattr(m.a, "weight", nn.Parameter(m.a.weight.detach() * 2)),
                   lambda m: setattr(m.a.weight, "data", m.a.weight.data.t().contiguous().t())):
        for m in (model, counterpart):
            change(m)
        x = torch.randn(3, 4)
        torch.testing.assert_close(steps(model, f, [(x,)]), steps(counterpart, counterpart, [(x,)]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_targets_of_another_dtype(dtype):
    x, y = torch.randn(5, 3, requires_grad=True), (torch.randint(2, (5, 3)) * 2 - 1).to(dtype)
    torch.compile(F.soft_margin_loss, backend="tenon")(x, y).backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(F.soft_margin_loss(x, y), x)[0])
    assert tenon.stats()["fallbacks"] == 0


def test_not_a_number_reaches_the_gradients():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    counterpart = copy.deepcopy(model)
    x = torch.tensor([[1.0, float("nan"), 2.0, 0.0], [1.0, 2.0, float("inf"), 0.0]])
    torch.compile(model, backend="tenon")(x).sum().backward()
    counterpart(x).sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in counterpart.parameters()], equal_nan=True)


def test_accumulation_two_forwards_and_expanded_tangents():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    counterpart, f = copy.deepcopy(model), torch.compile(model, backend="tenon")
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for m, g in ((model, f), (counterpart, counterpart)):
        a, b = g(x), g(y)          # two forward passes before one backward pass
        (a.sum() + (b * 2).sum()).backward()  # the tangent of a is expanded
        g(x).backward(torch.ones(3, 2).t().contiguous().t())
        with torch.no_grad():
            g(x)
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in counterpart.parameters()])


def test_errors_are_those_of_pytorch():
    f = torch.compile(lambda x: (x.exp() * 2).sin(), backend="tenon")
    x = torch.randn(4, requires_grad=True)
    grad, = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        grad.sum().backward()
    y = torch.randn(4, requires_grad=True)
    h = torch.compile(lambda x, w: x * w, backend="tenon")
    w = torch.randn(4)
    out = h(y, w)
    w.add_(1)  # the backward pass reads w
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    out = torch.compile(lambda x: x.exp(), backend="tenon")(torch.randn(4, requires_grad=True))
    out.add_(1)  # the backward pass reads the result
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    with pytest.raises(IndexError):
        torch.compile(nn.Embedding(3, 2), backend="tenon")(torch.tensor([5]))


def test_backward_in_another_thread():
    model = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2))
    counterpart, wrong = copy.deepcopy(model), []
    x = torch.randn(3, 4)
    loss = torch.compile(model, backend="tenon")(x).sum()

    def backward():
        try:
            loss.backward()
        except Exception as e:
            wrong.append(e)

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    counterpart(x).sum().backward()
    assert not wrong, wrong
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in counterpart.parameters()])


def test_checkpointed_layers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.2)) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
            return x

    compare(Net(), (torch.randn(5, 8),), (torch.randn(5, 8),), native=False)


@pytest.mark.parametrize("draw", [lambda x: F.dropout(x, 0.5), lambda x: x * torch.rand_like(x)], ids=["dropout", "rand_like"])
def test_random_numbers_of_a_checkpoint(draw):
    """They are those of eager mode, in the forward pass and again in the backward pass. PyTorch draws them; Tenon computes the rest."""
    def f(x):
        return torch.utils.checkpoint.checkpoint(lambda x: draw(x.exp()) * 0.5, x, use_reentrant=False)

    x, y = (torch.linspace(-1, 1, 96).view(8, 12).requires_grad_() for _ in range(2))
    for g, t in ((torch.compile(f, backend="tenon"), x), (f, y)):
        torch.manual_seed(3)
        g(t).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-5, atol=1e-6)
    assert torch.equal(x.grad == 0, y.grad == 0)
    stats = tenon.stats()
    assert stats["programs"] >= 2 and all("random" in why or "rng_state" in why for why in stats["fallback_reasons"]), stats["fallback_reasons"]


def test_loss_scaling():
    """GradScaler skips the step whose gradients are infinite, and lowers its scale."""
    results = []
    for compiled in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=2)
        f = torch.compile(model, backend="tenon") if compiled else model
        scales = []
        for number in range(6):
            optimizer.zero_grad()
            x = torch.randn(5, 4) * (math.inf if number == 2 else 1)
            scaler.scale(f(x).square().mean()).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        results.append([*model.parameters(), scales])
    torch.testing.assert_close(results[0], results[1])
    scales = results[0][-1]
    assert scales[2] < scales[1] < scales[-1] * 4 and tenon.stats()["fallbacks"] == 0


def test_sparse_gradients_and_nested_tensors_run_in_pytorch():
    table = nn.Embedding(7, 3, sparse=True)
    f = torch.compile(lambda ids: table(ids).exp().sum(), backend="tenon")
    ids = torch.tensor([1, 5, 1])
    f(ids).backward()
    got, table.weight.grad = table.weight.grad, None
    table(ids).exp().sum().backward()
    assert got.is_sparse
    torch.testing.assert_close(got.to_dense(), table.weight.grad.to_dense())
    rows = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged, requires_grad=True)
    same = torch.nested.nested_tensor([t.detach() for t in rows.unbind()], layout=torch.jagged, requires_grad=True)
    g = lambda x: (x.sin() * 2).values().square().sum()
    torch.compile(g, backend="tenon")(rows).backward()
    g(same).backward()
    torch.testing.assert_close(rows.grad.values(), same.grad.values())


def test_a_node_that_tenon_lacks_runs_in_pytorch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(torch.linalg.inv(self.a(x) + 4 * torch.eye(4)).relu())

    compare(Net(), (torch.randn(4, 4),), native=False)
    assert 1 <= tenon.stats()["fallbacks"] and tenon.stats()["programs"] >= 2


def test_a_graph_that_tenon_takes_no_part_of_runs_in_pytorch():
    x = (torch.randn(3, 3) + 4 * torch.eye(3)).requires_grad_()
    torch.compile(torch.linalg.inv, backend="tenon")(x).square().sum().backward()
    want, = torch.autograd.grad(torch.linalg.inv(x).square().sum(), x)
    torch.testing.assert_close(x.grad, want)
    assert tenon.stats()["fallbacks"] >= 1


def test_evaluation_after_steps_repacks():
    model = conv_net()
    f = torch.compile(model, backend="tenon", options={"freeze": True})
    counterpart = copy.deepcopy(model)
    x = torch.randn(2, 3, 33, 33)
    for _ in range(2):
        torch.testing.assert_close(steps(model.train(), f, [(x,)]), steps(counterpart.train(), counterpart, [(x,)]), rtol=2e-4, atol=2e-5)
        model.eval(), counterpart.eval()
        with torch.no_grad():
            torch.testing.assert_close(f(x), counterpart(x), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_weight_norm(dtype, dim):
    """PyTorch keeps the norms of 16-bit weights in f32."""
    tenon.reset_stats()
    torch.manual_seed(0)
    model = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(10, 12, 3), dim=dim).to(dtype)
    x, parameters = torch.randn(4, 10, 9).to(dtype), list(model.parameters())
    want = torch.autograd.grad(model(x).square().mean(), parameters)
    got = torch.autograd.grad(torch.compile(model, backend="tenon")(x).square().mean(), parameters)
    for g, w in zip(got, want):
        torch.testing.assert_close(g, w, **({} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 1e-2 * w.abs().max().item()}))
    assert tenon.stats()["fallback_reasons"] == {}


def test_one_table_of_decompositions_serves_all_graphs(monkeypatch):
    seen, compile = [], compiling._compile

    def spy(gm, options, real, record, kind, *more):
        seen.append((kind, {str(n.target) for n in gm.graph.nodes}))
        return compile(gm, options, real, record, kind, *more)

    monkeypatch.setattr(compiling, "_compile", spy)
    f = lambda x, y: F.huber_loss(x, y)  # noqa: E731
    x, y = torch.randn(5), torch.randn(5)
    torch.compile(f, backend="tenon")(x.requires_grad_(), y).backward()
    for grad in (True, False):  # no gradients are needed, whatever the inputs say
        torch._dynamo.reset()
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(torch.compile(lambda x, y: f(x.detach(), y), backend="tenon")(x, y), f(x, y).detach())
    assert [kind for kind, _ in seen] == ["forward", "backward", "inference", "inference"]
    assert not any("huber" in name for _, names in seen for name in names)
    torch._dynamo.reset()

    def enables(x, y):
        with torch.enable_grad():
            return f(x, y)

    with torch.no_grad():
        assert torch.compile(enables, backend="tenon")(x, y).requires_grad
    assert seen[-1][0] == "forward"


def test_a_decomposition_that_fails_is_left_out(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("injected")

    table = {torch.ops.aten.mse_loss.default: broken}
    monkeypatch.setattr(compiling.decompositions, "table", lambda: table)
    x, y = torch.randn(5), torch.randn(5)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(F.mse_loss, backend="tenon")(x, y), F.mse_loss(x, y))
        assert "note: traced without Tenon's decompositions: RuntimeError: injected" in str(tenon.explain(F.mse_loss, x, y))


@pytest.mark.parametrize("dynamic", [False, True])
def test_pytorch_cuts_the_graph_where_the_partitioner_fails(monkeypatch, dynamic):
    """A checkpoint must not be lost: in Dynamo's graph it would draw another mask than the forward pass."""
    def broken(*_, **__):
        raise RuntimeError("injected")

    monkeypatch.setattr(compiling.training.images, "lay_out", broken)
    model = nn.Sequential(nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Dropout2d(0.5))
    other = copy.deepcopy(model)
    for f, m in ((torch.compile(lambda x: checkpoint(model, x, use_reentrant=False), backend="tenon", dynamic=dynamic), model), (other, other)):
        torch.manual_seed(1)
        f(torch.linspace(-1e3, 1e3, 288).sin().view(2, 4, 6, 6)).sin().square().sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in other.parameters()], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(list(model.buffers()), list(other.buffers()))


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


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_gradient_of_a_padding_by_nothing(dynamic):
    compiled = torch.compile(lambda x: F.pad(x.sin(), (0, 0), "reflect") * 2, backend="tenon", dynamic=dynamic, options={"fallback": "error"})
    x = torch.randn(2, 3, 5, requires_grad=True)
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())


@pytest.mark.parametrize("batch, autocast", [(1, False), (2, False), (2, True)])
def test_gradients_of_1x1_kernels_have_the_strides_of_their_parameters(batch, autocast):
    model = nn.Sequential(nn.Conv2d(16, 32, 1), nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 16, 1))
    x = torch.randn(batch, 16, 16, 16).contiguous(memory_format=torch.channels_last).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y = torch.compile(model, backend="tenon")(x)
    y.float().sum().backward()
    for p in model.parameters():
        assert p.grad.stride() == p.stride()

"""Real results of complex arithmetic run in Tenon by pairs of real numbers: rotary embeddings as LLaMA and diffusion transformers have
them. What has no pairs, such as Fourier transforms, runs in PyTorch, beside programs of Tenon."""

import pytest
import torch
import torch.nn.functional as F

import tenon

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")


def table(length, size, dtype=torch.complex64):
    return torch.polar(torch.rand(length, 1, size) + 0.5, 3 * torch.randn(length, 1, size)).to(dtype)


def rotated(x, table):
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * table).flatten(-2).type_as(x)


def of_positions(x, table, positions):
    return rotated(x, table[positions])


def of_a_table_made_here(x, angles):
    return rotated(x, torch.polar(torch.ones_like(angles), angles))


def of_axes(x, first, second):
    """The table of three axes of a video: each is expanded to all, then they are joined."""
    a, b = first[:, None].expand(-1, second.shape[0], -1, -1), second[None].expand(first.shape[0], -1, -1, -1)
    return rotated(x, torch.cat([a, b], -1).reshape(-1, 1, a.shape[-1] + b.shape[-1]))


def of_parts(x, table, positions):
    """A table that is split along its positions, joined in another order, repeated and gathered from, as in Qwen-Image and Lumina."""
    first, second = table.split([table.shape[0] - 2, 2])
    table = torch.cat([second, first]).repeat(1, x.shape[2], 1)
    return rotated(x, table.gather(0, positions[:, None, None].expand(-1, *table.shape[1:])))


def backwards(x, table):
    return rotated(x, table.conj())


def of_wide_numbers(x, table):
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * table).flatten(-2).to(x.dtype)


def sums(x, table):
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    y = (z * 0.5 - z.conj() / 3) * table + z * z * x[..., ::2]
    return torch.view_as_real(y).sum(1), torch.view_as_real(-y.transpose(0, 1)[1:]), (y * (x[..., 1::2] > 0)).abs()


def kernel_of_states(x, table):
    """The convolution kernel of a diagonal state space (S4D), and what else such models compute."""
    rate, weight = torch.view_as_complex(x[:, :, 0].unflatten(-1, (-1, 2))), table[:, 0]  # [N,L,8], [L,8]
    steps = (rate * 0.1).unsqueeze(-1) * torch.arange(5)
    gain = weight * ((rate * 0.1).exp() - 1) / (rate + 3)
    kernel = torch.einsum("nlk,nlkt->nlt", gain, steps.exp()).real
    matrix = torch.view_as_real(rate @ weight.T) + torch.view_as_real((rate**2).flip(-1).cumsum(1)).sum()
    padded = torch.view_as_real(F.pad(torch.where(x[:, :, 0, :8] > 0, rate, rate.conj()), (1, 2)).to(torch.complex64))
    return kernel, matrix, padded, torch.view_as_real(1 / (rate + 3)), torch.view_as_real(x[:, :, 1].to(torch.complex128) * 2)


def angles_of(x):
    return torch.view_as_complex(x.unflatten(-1, (-1, 2))).angle()


def heads(batch, length, dtype=torch.float32):
    return torch.randn(batch, length, 3, 16, dtype=dtype)


CASES = {
    "rotated": (rotated, lambda n, m: (heads(n, m), table(m, 8))),
    "rotated, a slice of bf16": (rotated, lambda n, m: (heads(n + 1, 2 * m, torch.bfloat16)[1:, ::2], table(m, 8))),
    "rotated, heads first": (rotated, lambda n, m: (heads(n, m).transpose(1, 2), table(m, 8).squeeze(1))),
    "of f64": (of_wide_numbers, lambda n, m: (heads(n, m), table(m, 8, torch.complex128))),
    "of positions": (of_positions, lambda n, m: (heads(n, m), table(50, 8), torch.randint(50, (m,)))),
    "of parts": (of_parts, lambda n, m: (heads(n, m), table(9, 8), torch.randint(9, (m,)))),
    "a table made here": (of_a_table_made_here, lambda n, m: (heads(n, m), torch.randn(m, 1, 8))),
    "of axes": (of_axes, lambda n, m: (heads(n, 2 * m), table(2, 3), table(m, 5))),
    "backwards": (backwards, lambda n, m: (heads(n, m), table(m, 8))),
    "kernel of states": (kernel_of_states, lambda n, m: (heads(n, m, torch.float64), table(m, 8, torch.complex128))),
    "sums": (sums, lambda n, m: (heads(n, m, torch.float64), table(m, 8, torch.complex128))),
}
WITHOUT_GRADIENTS = {"angles": (angles_of, lambda n, m: (heads(n, m),))}


@pytest.mark.parametrize("name", CASES | WITHOUT_GRADIENTS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_real_results(name, dynamic):
    f, make = (CASES | WITHOUT_GRADIENTS)[name]
    torch.manual_seed(0)
    compiled = torch.compile(f, backend="tenon", dynamic=dynamic, options={"fallback": "error"})
    for sizes in ((2, 7), (3, 5))[:1 if dynamic is None else 2]:
        args = make(*sizes)
        torch.testing.assert_close(compiled(*args), f(*args))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    f, make = CASES[name]
    torch.manual_seed(0)
    args = make(2, 7)
    compiled, found = torch.compile(f, backend="tenon", options={"fallback": "error"}), []
    for g in (compiled, f):
        x = args[0].detach().requires_grad_()
        results = g(x, *args[1:])
        sum(r.float().sin().sum() for r in (results if isinstance(results, tuple) else (results,))).backward()
        found.append(x.grad)
    assert found[0].stride() == found[1].stride()
    torch.testing.assert_close(*found)


def test_what_has_no_pairs_runs_in_pytorch():
    """The Fourier transform and what reads complex numbers for it. The spectrum and the layers around it run in Tenon."""
    weight = torch.randn(17, dtype=torch.complex64)

    def f(x):
        z = torch.fft.rfft(F.gelu(x)) * weight
        return torch.fft.irfft(z).sigmoid(), z.abs().log1p()

    x = torch.randn(5, 32)
    torch.testing.assert_close(torch.compile(f, backend="tenon")(x), f(x))
    reasons = tenon.explain(f, x).to_dict()["graphs"][0]["fallbacks"]
    assert {r["op"] for r in reasons} == {"aten._fft_r2c.default", "aten._fft_c2r.default", "aten.mul.Tensor"}


def test_complex_results():
    def f(x, table):
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * table
        return z, torch.view_as_real(z) * 2

    x, angles = heads(2, 7), table(7, 8)
    got, want = torch.compile(f, backend="tenon")(x, angles), f(x, angles)
    torch.testing.assert_close(got, want)
    assert [t.stride() for t in got] == [t.stride() for t in want]


def test_a_conjugated_input():
    x, angles = heads(2, 7), table(7, 8).conj()
    assert angles.is_conj()
    torch.testing.assert_close(torch.compile(rotated, backend="tenon")(x, angles), rotated(x, angles))


def test_an_input_that_is_written():
    def f(z, x):
        z.mul_(2)
        return torch.view_as_real(z) + x

    z, x = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, 2)
    other = z.clone()
    torch.testing.assert_close(torch.compile(f, backend="tenon")(z, x), f(other, x))
    torch.testing.assert_close(z, other)


def test_memory_of_a_view_as_real():
    """Both inputs and results share memory."""
    def f(z):
        return torch.view_as_real(z), torch.view_as_real(z) + 1

    z = torch.randn(3, 4, dtype=torch.complex64)
    view, _ = torch.compile(f, backend="tenon")(z)
    view.zero_()
    assert not z.any()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_views_of_transposed_results(grad, dynamic):
    """A real part is a view whose strides are those that PyTorch gives the complex tensor."""
    part = lambda x: torch.polar(x.abs(), x).real
    pair = lambda x: torch.view_as_real(torch.polar(x.abs(), x) * 2)[..., 1]
    compiled = [torch.compile(f, backend="tenon", dynamic=dynamic) for f in (part, pair)]
    for n in (5, 6) if dynamic else (5,):
        x = torch.randn(7, 4, n, 3).permute(3, 2, 1, 0).requires_grad_(grad)
        for f, g in zip((part, pair), compiled):
            torch.testing.assert_close(g(x), f(x), check_stride=True)


def test_what_no_rule_computes():
    """A square root, a sum of another dtype, and half precision."""
    root = lambda z: z * (2 * z).sqrt()
    wide = lambda z: z.sum(1, dtype=torch.complex128) * 2
    for f, dtype in ((root, torch.float32), (wide, torch.float32), (lambda z: z * (2 * z), torch.float16)):
        g, x = lambda x: torch.view_as_real(f(torch.view_as_complex(x.unflatten(-1, (-1, 2))))) + 1, heads(2, 7, dtype)
        torch.testing.assert_close(torch.compile(g, backend="tenon")(x), g(x))


def test_checkpoints_save_no_pairs():
    def f(x, table):
        return torch.utils.checkpoint.checkpoint(lambda x: rotated(x.sin(), table).cos(), x, use_reentrant=False)

    x, angles, found = heads(2, 7), table(7, 8), []
    for g in (torch.compile(f, backend="tenon"), f):
        leaf = x.clone().requires_grad_()
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
            y = g(leaf, angles)
        y.sum().backward()
        found.append((leaf.grad, sorted(kept)))
    torch.testing.assert_close(found[0][0], found[1][0])
    assert all(shape in (x.shape, angles.shape, (7, 1, 8, 2)) for shape in found[0][1]), found[0][1]

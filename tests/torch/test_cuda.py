"""Graphs on a GPU, without a GPU. Tensors of traced graphs get the device cuda:0, a patched exchange table reports the same device
for real tensors, and the mock driver (tests/mocks/cuda/cuda_mock.cc) runs the kernels on the host's memory. PyTorch's own parts on a
GPU are not tested here: its allocator, its streams, its kernels.
"""

import copy
import ctypes
import os
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

import tenon
from tenon import _abi
from tenon.torch import compile as compiling
from tenon.torch import partition, rng
from tenon.torch.runtime import marshal, runner

from sample import in_turn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.models import accuracy, zoo     # noqa: E402

GPU, STREAM = torch.device("cuda", 0), 7
LIBRARY = Path(os.environ.get("TENON_LIBRARY") or Path(_abi.__file__).parent / "_lib" / "libtenon.so.1")
MOCKS = LIBRARY.resolve().parent / "tests"
pytestmark = pytest.mark.skipif(not marshal.chosen.in_c, reason="the extension was not built: Python's headers are missing")


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.POINTER(Managed)), ctypes.c_void_p,
                            ctypes.c_void_p)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
STREAM_OF = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocate", ALLOCATE),
                ("managed_from_object", ctypes.c_void_p), ("managed_to_object", ctypes.c_void_p),
                ("from_object", FROM_OBJECT), ("current_stream", STREAM_OF)]


class Gpu:
    """The mock driver, and PyTorch's table as it would be with tensors on a GPU."""

    def __init__(self):
        self.mock = ctypes.CDLL(str(MOCKS / "libcuda_mock.so"))
        self.mock.tn_mock_log.restype = self.mock.tn_mock_leaks.restype = ctypes.c_char_p
        address, self.allocated, self.wrong_device = ctypes.pythonapi.PyCapsule_GetPointer, 0, None
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.capsule = torch.Tensor.__dlpack_c_exchange_api__
        real = Exchange.from_address(address(self.capsule, b"dlpack_exchange_api"))

        def allocate(prototype, out, error_context, set_error):
            assert (prototype[0].device_type, prototype[0].device_id) == (2, 0)
            prototype[0].device_type = 1
            self.allocated += 1
            return real.allocate(prototype, out, error_context, set_error)

        def from_object(tensor, out):
            status = real.from_object(tensor, out)
            out[0].device_type = 1 if tensor is self.wrong_device else 2
            return status

        def stream_of(kind, number, out):
            assert (kind, number) == (2, 0)
            out[0] = STREAM
            return 0

        self.keep = ALLOCATE(allocate), FROM_OBJECT(from_object), STREAM_OF(stream_of)
        self.table = Exchange(real.major, real.minor, None, self.keep[0], None, real.managed_to_object, self.keep[1], self.keep[2])
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.fake = new(ctypes.addressof(self.table), b"dlpack_exchange_api", None)

    def launches(self):
        return [line for line in self.mock.tn_mock_log().decode().splitlines() if line.startswith("cuLaunchKernel")]


@pytest.fixture(scope="module")
def machine():
    for variable, name in (("CUDA_DRIVER", "cuda"), ("NVRTC", "nvrtc"), ("CUBLASLT", "cublaslt"), ("CUDNN", "cudnn")):
        os.environ[f"TENON_{variable}"] = str(MOCKS / f"lib{name}_mock.so")
    os.environ["CUBLASLT_MOCK"] = os.environ["CUDNN_MOCK"] = "memory=0"  # PyTorch's tensors are not in the mock driver's memory
    return Gpu()


@pytest.fixture
def gpu(machine, monkeypatch):
    """Makes PyTorch compile graphs as if it had a GPU, while the context lasts."""
    machine.allocated, machine.wrong_device = 0, None
    monkeypatch.setattr(marshal, "empty_on", lambda device: torch._C._dynamo.guards._empty_strided_cpu)
    to_device = runner.to_device
    monkeypatch.setattr(runner, "to_device", lambda scalar, device: to_device(scalar, torch.device("cpu")))
    compile = compiling._compile

    def on_gpu(gm, *args):
        for n in gm.graph.nodes:
            for fake in partition._tensors(n.meta.get("val")):
                if isinstance(fake, FakeTensor) and not (n.op == "placeholder" and fake.dim() == 0 and machine.scalars_stay):
                    fake.fake_device = torch.device("cuda:1") if n.name in machine.on_another else GPU
            if "device" in n.kwargs:
                n.kwargs = {**n.kwargs, "device": GPU}
        return compile(gm, *args)

    machine.scalars_stay, machine.on_another = False, ()
    monkeypatch.setattr(compiling, "_compile", on_gpu)
    marshal.chosen.module.open(machine.fake)
    yield machine
    torch._dynamo.reset()
    marshal.chosen.module.open(machine.capsule)


@torch.no_grad()
def test_a_graph_runs_on_the_current_stream(gpu):
    def f(x, y):
        return torch.softmax(x * y + 1, -1), x.sum(0)

    g, before = torch.compile(f, backend="tenon", fullgraph=True), len(gpu.launches())
    for n in (5, 8, 3):
        x, y = torch.randn(n, 33), torch.randn(33)
        for got, want in zip(g(x, y), f(x, y), strict=True):
            torch.testing.assert_close(got, want)
    launches = gpu.launches()[before:]
    assert len(launches) >= 6 and all(line.endswith(f"stream {STREAM}") for line in launches)
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits(gpu, dtype):
    def f(x, w):
        return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x), (64,), w)

    x, w = torch.randn(7, 64, dtype=dtype), torch.randn(64, dtype=dtype)
    torch.testing.assert_close(torch.compile(f, backend="tenon")(x, w), f(x, w), atol=2e-2, rtol=2e-2)
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_random_numbers(gpu, monkeypatch):
    plant = rng.plant_seeds

    def on_host(gm):  # this PyTorch has no generator of a GPU
        planted = plant(gm)
        count, device = planted.node.args
        assert torch.device(device) == planted.node.meta["val"].device == GPU
        planted.node.args = count, "cpu"
        return planted

    monkeypatch.setattr(rng, "plant_seeds", on_host)
    f = lambda x: (torch.nn.functional.dropout(x, 0.25) * 3, torch.nn.functional.dropout(x, 0.5))  # noqa: E731
    x, on_gpu = torch.ones(200, 33), torch.compile(f, backend="tenon", options={"rng": "fast"})
    torch.manual_seed(5)
    got, other = on_gpu(x), on_gpu(x)
    assert tenon.stats()["fallbacks"] == 0 and not torch.equal(got[0], other[0])
    monkeypatch.undo()
    marshal.chosen.module.open(gpu.capsule)
    torch._dynamo.reset()
    torch.manual_seed(5)
    for a, b in zip(got, torch.compile(f, backend="tenon", options={"rng": "fast"})(x), strict=True):
        assert torch.equal(a, b)  # the same numbers as on the CPU


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_backward_pass_of_a_norm_reads_its_inputs_once(gpu, dtype):
    aten, shape = torch.ops.aten, [256]

    def f(grad, x, w, b, mean, rstd):
        return aten.native_layer_norm_backward(grad, x, shape, mean, rstd, w, b, [True, True, True])

    x, grad, w, b = (torch.randn(*s, dtype=dtype) for s in ((40, 256), (40, 256), (256,), (256,)))
    given = grad, x, w, b, *aten.native_layer_norm(x, shape, w, b, 1e-5)[1:]
    g, before = torch.compile(f, backend="tenon", fullgraph=True), len(gpu.launches())
    got, launches = g(*given), gpu.launches()[before:]
    assert len(launches) == 2 and "_blocks_0" in launches[0] and "_sums_1" in launches[1], launches
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    for y, want in zip(got, f(*[a.double() for a in given]), strict=True):  # eager adds up 16 bits in fewer
        torch.testing.assert_close(y.double(), want, atol=tolerance * float(want.abs().max()), rtol=tolerance)


@torch.no_grad()
def test_workspace_is_pytorchs(gpu):
    def f(x):
        return torch.softmax(x, 0).sum(-1) * x.var()

    x = torch.randn(500, 40)
    torch.testing.assert_close(torch.compile(f, backend="tenon")(x), f(x))
    assert gpu.allocated > 0 and b"cuMemAllocFromPoolAsync" not in gpu.mock.tn_mock_log()


@torch.no_grad()
def test_numbers_on_the_host_are_copied(gpu):
    gpu.scalars_stay = True
    x, s = torch.randn(4, 5), torch.tensor(2.5)
    torch.testing.assert_close(torch.compile(lambda x, s: (x * s).exp(), backend="tenon", fullgraph=True)(x, s), (x * s).exp())
    assert tenon.stats()["fallbacks"] == 0


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        self.names.append(call.name())
        return call(*args, **(kwargs or {}))


def test_numbers_on_the_host_can_be_captured():
    """A capture cannot read host memory that is not pinned, so the number is an argument of the call."""
    with Calls() as calls:
        there = runner.to_device(torch.tensor(2.5), torch.device("meta"))
    assert there.device.type == "meta" and there.shape == ()
    assert not [name for name in calls.names if "copy" in name], calls.names

    def bytes_of(tensor):
        return tensor.reshape(1).view(torch.uint8).tolist()

    for number, dtype in ((2.5, torch.float8_e4m3fn), (1e-3, torch.bfloat16), (65504, torch.float16), (0.1, torch.float32), (0.1, torch.float64),
                          (float("nan"), torch.float32), (-2**63, torch.int64), (2**63 - 1, torch.int64), (-7, torch.int8),
                          (255, torch.uint8), (True, torch.bool)):
        scalar = torch.tensor(number).to(dtype)
        there = runner.to_device(scalar, torch.device("cpu"))
        assert there.dtype == dtype and there.data_ptr() != scalar.data_ptr()
        assert bytes_of(there) == bytes_of(scalar)


@torch.no_grad()
def test_a_tensor_on_another_device_is_left_to_pytorch(gpu):
    x, y = torch.randn(9), torch.randn(9)
    for fallback in ("auto", "error"):
        torch._dynamo.reset()
        gpu.wrong_device = None
        g = torch.compile(lambda x: x + 1, backend="tenon", options={"fallback": fallback})
        g(x)
        gpu.wrong_device = y
        if fallback == "error":
            with pytest.raises(TypeError, match="device 0 of type 1, not 0 of type 2"):
                g(y)
        else:
            torch.testing.assert_close(g(y), y + 1)
            (why,) = tenon.stats()["fallback_reasons"]
            assert "device 0 of type 1, not 0 of type 2" in why
            tenon.reset_stats()
        torch.testing.assert_close(g(x), x + 1)


@torch.no_grad()
def test_what_the_device_lacks_runs_in_pytorch(gpu):
    def f(x, w):
        return torch.relu(x @ w + 1) * 2

    x, w = torch.randint(-9, 9, (6, 7)), torch.randint(-9, 9, (7, 3))
    torch.testing.assert_close(torch.compile(f, backend="tenon")(x, w), f(x, w))
    stats = tenon.stats()
    assert stats["fallbacks"] == 1 and stats["programs"] == 1


@pytest.fixture(params=["flash", "efficient", "cudnn"])
def attention(request):
    """The operator that scaled_dot_product_attention becomes on a GPU. It has several results; some are sizes or None."""
    kind = request.param

    def run(q, k, v, *more, scale=None):
        bias = None if kind == "flash" else more[0]
        causal = any(more[1:2] if kind == "flash" else more[3:4])  # left out where it is False
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, scale=scale)
        sums, seed = y.new_zeros((*q.shape[:3], 1)[:4 if kind == "cudnn" else 3], dtype=torch.float32), torch.zeros(2, dtype=torch.uint64)
        if kind == "efficient":
            return y, sums, seed[0].clone(), seed[1].clone()
        return y, sums, None, None, q.shape[2], k.shape[2], seed, seed[0].clone(), y.new_empty(0)

    name = f"_scaled_dot_product_{kind}_attention"
    library = torch.library.Library("aten", "IMPL")
    library.impl(name, run, "CPU")
    operator = getattr(torch.ops.aten, name)
    yield lambda q, k, v, causal=False, bias=None, **kw: operator(q, k, v, *(() if kind == "flash" else (bias, False)), 0.0, causal, **kw)
    library._destroy()


@torch.no_grad()
def test_attention_that_the_library_has_not_is_pytorchs(gpu, attention):
    def f(x):
        y = attention(x * 2, x + 1, torch.tanh(x), True, scale=0.3)[0]
        return torch.softmax(y, -1)

    g = torch.compile(f, backend="tenon", fullgraph=True)
    for n in (5, 8, 3):
        x = torch.randn(2, 3, n, 8)
        torch.testing.assert_close(g(x), f(x))
    (why,) = tenon.stats()["fallback_reasons"]
    assert "cuDNN computes attention of f16 and bf16, and f32 in fewer bits" in why
    assert tenon.stats()["programs"] == 4  # two, static and dynamic


@torch.no_grad()
def test_attention_of_a_gpu(gpu, attention):
    """One program, in which cuDNN computes the attention. With symbolic sizes PyTorch computes it."""
    def f(x):
        q, k, v = (t.unflatten(-1, (3, 16)).transpose(1, 2) for t in x.chunk(3, -1))
        return torch.softmax(attention(q, k, v, True)[0].transpose(1, 2).flatten(2), -1)

    g = torch.compile(f, backend="tenon", fullgraph=True)
    x = torch.randn(2, 5, 144, dtype=torch.bfloat16)
    torch.testing.assert_close(g(x), f(x), rtol=2e-2, atol=2e-2)
    assert tenon.stats()["fallbacks"] == 0 and tenon.stats()["programs"] == 1
    for n in (8, 3):
        x = torch.randn(2, n, 144, dtype=torch.bfloat16)
        torch.testing.assert_close(g(x), f(x), rtol=2e-2, atol=2e-2)
    (why,) = tenon.stats()["fallback_reasons"]
    assert "cuDNN would compile attention anew for every size" in why


@torch.no_grad()
@pytest.mark.parametrize("attention", ["efficient", "cudnn"], indirect=True)
@pytest.mark.parametrize("per_row", [False, True])
def test_attention_with_a_mask_of_a_gpu(gpu, attention, per_row):
    """A mask as scaled_dot_product_attention passes it there: numbers, in rows of a multiple of 16 bytes, expanded over heads."""
    def f(x, seen):
        q, k, v = (t.unflatten(-1, (3, 16)).transpose(1, 2) for t in x.chunk(3, -1))
        bias = torch.where(seen, 0.0, torch.scalar_tensor(-torch.inf, dtype=x.dtype))
        bias = torch.nn.functional.pad(bias, (0, 3))[..., :5].expand(2, 3, 5, 5)
        return torch.tanh(attention(q, k, v, bias=bias)[0].transpose(1, 2).flatten(2))

    x, seen = torch.randn(2, 5, 144, dtype=torch.bfloat16), torch.rand(2, 1, 5 if per_row else 1, 5) < 0.6
    seen[0, 0, 0] = False
    executed = ctypes.CDLL(str(MOCKS / "libcudnn_mock.so")).tn_dnn_calls
    before, want = executed(b"cudnnBackendExecute"), f(x, seen)
    got = torch.compile(f, backend="tenon", fullgraph=True)(x, seen)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    assert not want[0, 0].any() and not got[0, 0].any()  # what sees nothing is zero
    assert tenon.stats()["fallbacks"] == 0 and tenon.stats()["programs"] == 1 and executed(b"cudnnBackendExecute") == before + 1


@torch.no_grad()
def test_what_attention_knows_of_its_rows_is_pytorchs(gpu, attention):
    def f(x):
        results = attention(x, x, x)
        return results[0] + results[1].sum()

    x = torch.randn(2, 3, 5, 16, dtype=torch.bfloat16)
    torch.testing.assert_close(torch.compile(f, backend="tenon")(x), f(x), rtol=2e-2, atol=2e-2)
    assert tenon.stats()["fallbacks"] == 1


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_products_of_matrices(gpu, dtype):
    def f(x, w, b, r):
        h = torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b), approximate="tanh")
        return torch.softmax(h @ h.transpose(-1, -2) + r, -1), torch.addmm(r, h[0], h[1].t())

    products = ctypes.CDLL(str(MOCKS / "libcublaslt_mock.so")).tn_lt_calls
    before, tolerance = products(b"cublasLtMatmul"), 2e-2 if dtype == torch.bfloat16 else 1e-5
    g = torch.compile(f, backend="tenon", fullgraph=True)
    for n in (5, 8):
        given = [torch.randn(s, dtype=dtype) for s in ((3, n, 7), (9, 7), (9,), (n, n))]
        for got, want in zip(g(*given), f(*given), strict=True):
            torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)
    assert tenon.stats()["fallbacks"] == 0 and products(b"cublasLtMatmul") - before == 6


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_convolutions(gpu, dtype, order):
    f = torch.nn.functional

    def g(x, v, w, b, t):
        h = f.max_pool2d(torch.relu(f.conv2d(x, v, b, stride=2, padding=1)), 3, 2, 1)
        h = h + f.conv2d(h, w, b, padding=2, groups=2, dilation=2)
        return f.conv_transpose2d(h, t, stride=2), f.adaptive_avg_pool2d(h, 1), f.conv1d(h[..., 0], w[..., 0], groups=2)

    executed = ctypes.CDLL(str(MOCKS / "libcudnn_mock.so")).tn_dnn_calls
    before, tolerance = executed(b"cudnnBackendExecute"), 2e-2 if dtype == torch.bfloat16 else 1e-5
    fast = torch.compile(g, backend="tenon", fullgraph=True)
    for n in (2, 3):
        given = [torch.randn(s, dtype=dtype) * 0.3 for s in ((n, 3, 17, 15), (8, 3, 3, 3), (8, 4, 3, 3), (8,), (8, 5, 2, 2))]
        given = [t.to(memory_format=order) if t.dim() == 4 else t for t in given]
        for got, want in zip(fast(*given), g(*given), strict=True):
            torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)
    assert tenon.stats()["fallbacks"] == 0 and executed(b"cudnnBackendExecute") - before == 8


FLAGS = {  # what is set, in PyTorch's words: whether products and convolutions may then use TF32
    "": (False, True),
    "cuda.matmul.allow_tf32 = True": (True, True),
    "cudnn.allow_tf32 = False": (False, False),
    "cudnn.allow_tf32 = False; cuda.matmul.allow_tf32 = True": (True, False),
    "cuda.matmul.fp32_precision = 'tf32'; cudnn.conv.fp32_precision = 'ieee'": (True, False),
    "cudnn.allow_tf32 = False; cudnn.conv.fp32_precision = 'tf32'": (False, True),
    "cuda.matmul.allow_tf32 = True; cuda.matmul.fp32_precision = 'ieee'": (False, True),
    "fp32_precision = 'ieee'; cudnn.conv.fp32_precision = 'none'": (False, False),
    "fp32_precision = 'tf32'": (True, True),
}


@pytest.fixture
def flags():
    """Restores PyTorch's flags after the test."""
    get, put, words = torch._C._get_fp32_precision_getter, torch._C._set_fp32_precision_setter, ("conv", "rnn", "matmul")
    before = {word: get("cuda", word) for word in words}
    yield torch.backends
    put("generic", "all", "none")
    put("cuda", "all", "none")
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, False
    for word in words:
        put("cuda", word, before[word])


def set_flags(backends, statements):
    for statement in filter(None, statements.split("; ")):
        exec("backends." + statement, {"backends": backends})


@torch.no_grad()
@pytest.mark.parametrize("statements", FLAGS)
def test_tf32_is_what_pytorchs_flags_say(gpu, library, flags, statements):
    f = torch.nn.functional

    def g(x, w, m, b):
        y = f.conv2d(x, w).flatten(1)
        return f.linear(y, m, b), y @ m.t(), torch.baddbmm(b, y[None], m.t()[None]), y @ m[0], f.conv1d(x[..., 0], w[..., 0])

    given = [torch.randn(2, 3, 4, 4), torch.randn(3, 3, 2, 2), torch.randn(5, 27), torch.randn(5)]
    wide = [t.double() for t in given]
    set_flags(flags, statements)
    for arguments, says in ((given, FLAGS[statements]), (wide, (False, False))):
        for got, want in zip(torch.compile(g, backend="tenon", fullgraph=True)(*arguments), g(*arguments), strict=True):
            torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
        lines = library.texts[-1].splitlines()
        products = ["tf32=true" in line for line in lines if "= matmul(" in line]
        convolutions = ["tf32=true" in line for line in lines if "= convolution(" in line]
        assert products == [says[0]] * 3 + [False] and convolutions == [says[1]] * 2  # the last product is with a vector
    assert tenon.stats()["fallbacks"] == 0


@torch.no_grad()
def test_tf32_is_no_matter_of_the_cpu(library, flags):
    flags.fp32_precision = "tf32"
    x = torch.randn(2, 3, 3)
    torch.testing.assert_close(torch.compile(lambda x: torch.conv1d(x @ x, x), backend="tenon")(x), torch.conv1d(x @ x, x))
    assert len(library.texts) == 1 and "= convolution(" in library.texts[0] and "tf32" not in library.texts[0]


@torch.no_grad()
def test_tf32_makes_another_program(gpu, library, flags):
    """PyTorch guards the flag of products, so they are compiled again when it changes. Convolutions keep the flag's value at compile
    time."""
    log = ctypes.CDLL(str(MOCKS / "libcublaslt_mock.so")).tn_lt_log
    log.restype = ctypes.c_char_p

    def last():
        return [line for line in log().decode().splitlines() if line.startswith("cublasLtMatmul ")][-1].split(" NN")[0]

    conv2d, x, w = torch.nn.functional.conv2d, torch.randn(2, 3, 4, 4), torch.randn(3, 3, 1, 1)
    product, first, second = (torch.compile(f, backend="tenon") for f in (
        lambda x: x @ x, lambda x, w: conv2d(x, w), lambda x, w: conv2d(x, w)))
    for tf32, dtypes in ((False, "f32"), (True, "f32 tf32"), (False, "f32")):
        flags.cuda.matmul.allow_tf32 = tf32
        product(x)
        assert last() == "cublasLtMatmul " + dtypes
    assert len(library.texts) == 2
    first(x, w)
    flags.cudnn.allow_tf32 = False
    first(x, w)
    assert len(library.texts) == 3 and "tf32=true" in library.texts[2]
    second(x, w)
    assert len(library.texts) == 4 and "tf32" not in library.texts[3]


@torch.no_grad()
def test_a_convolution_without_an_engine_runs_in_pytorch(gpu):
    mock = ctypes.CDLL(str(MOCKS / "libcudnn_mock.so"))
    x, w = torch.randn(2, 5, 9, 9), torch.randn(4, 5, 3, 3)
    g = torch.compile(lambda x, w: torch.relu(torch.nn.functional.conv2d(x, w)), backend="tenon")
    mock.tn_dnn_engines(b"fail=3000|fail=3000")
    try:
        asked = []
        for _ in range(3):
            torch.testing.assert_close(g(x, w), torch.relu(torch.nn.functional.conv2d(x, w)))
            asked.append(mock.tn_dnn_calls(b"cudnnBackendFinalize"))
    finally:
        mock.tn_dnn_engines(b"workspace=4096|")
    assert asked[0] == asked[1] == asked[2]  # once, for the same sizes
    (why,) = tenon.stats()["fallback_reasons"]
    assert "cuDNN has no engine for 2x5x9x9 by 4x5x3x3 f32" in why and tenon.stats()["fallbacks"] == 1


@torch.no_grad()
def test_a_call_that_the_driver_refuses_runs_in_pytorch(gpu):
    g, x = torch.compile(lambda x: torch.tanh(x) * 3, backend="tenon"), torch.randn(9)
    g(x)
    launches = len(gpu.launches())
    for _ in range(2):
        gpu.mock.tn_mock_fail(b"cuLaunchKernel", 1, 2)
        torch.testing.assert_close(g(x), torch.tanh(x) * 3)
    (why,) = tenon.stats()["fallback_reasons"]
    assert "CUDA_ERROR_OUT_OF_MEMORY" in why and tenon.stats()["fallbacks"] == 1
    torch.testing.assert_close(g(x), torch.tanh(x) * 3)
    assert len(gpu.launches()) == launches + 3


@torch.no_grad()
def test_a_call_that_the_driver_refuses_is_an_error_where_that_is_asked_for(gpu):
    g, x = torch.compile(lambda x: torch.tanh(x) * 3, backend="tenon", options={"fallback": "error"}), torch.randn(9)
    g(x)
    gpu.mock.tn_mock_fail(b"cuLaunchKernel", 1, 2)
    with pytest.raises(_abi.Error, match="CUDA_ERROR_OUT_OF_MEMORY"):
        g(x)
    torch.testing.assert_close(g(x), torch.tanh(x) * 3)


@torch.no_grad()
@pytest.mark.parametrize("nth", [1, 2])
def test_a_refused_program_that_updates_an_input(gpu, nth):
    def f(x, y):
        x.copy_(x * y)
        return y + 1

    g, x, y = torch.compile(f, backend="tenon"), torch.ones(9), torch.full((9,), 2.0)
    torch.testing.assert_close(g(x, y), y + 1)
    gpu.mock.tn_mock_fail(b"cuLaunchKernel", nth, 2)  # the kernel, or the copy to the input after it
    torch.testing.assert_close(g(x, y), y + 1)
    torch.testing.assert_close(x, torch.full((9,), 4.0))
    (why,) = tenon.stats()["fallback_reasons"]
    assert "CUDA_ERROR_OUT_OF_MEMORY" in why


@torch.no_grad()
def test_a_program_that_fails_after_it_has_updated_an_input_is_an_error(gpu):
    """PyTorch cannot compute the call from inputs of which some have their new values."""
    def f(x, y):
        x.copy_(x * y)
        y.copy_(y.sum(0, keepdim=True).expand(9))

    g, x, y = torch.compile(f, backend="tenon"), torch.ones(9), torch.full((9,), 2.0)
    before = len(gpu.launches())
    g(x, y)
    gpu.mock.tn_mock_fail(b"cuLaunchKernel", len(gpu.launches()) - before, 2)  # the last copy
    with pytest.raises(_abi.Error, match="CUDA_ERROR_OUT_OF_MEMORY"):
        g(x, y)
    torch.testing.assert_close(x, torch.full((9,), 36.0))


@torch.no_grad()
def test_tensors_on_two_gpus_run_in_pytorch(gpu):
    def f(x, y):
        return torch.tanh(x) + y

    gpu.on_another, before = ("arg1_1",), len(gpu.launches())
    x, y = torch.randn(6, 9), torch.randn(6, 9)
    torch.testing.assert_close(torch.compile(f, backend="tenon")(x, y), f(x, y))
    assert len(gpu.launches()) == before and tenon.stats()["fallbacks"] > 0
    torch._dynamo.reset()
    with pytest.raises(Exception, match="tensors on cuda:0 and cuda:1"):
        torch.compile(f, backend="tenon", options={"fallback": "error"})(x, y)


def test_training_graphs_run_in_pytorch(gpu):
    def f(x, w):
        return torch.nn.functional.gelu(x @ w).sum()

    x, w, before = torch.randn(6, 9), torch.randn(9, 7, requires_grad=True), len(gpu.launches())
    compiled = torch.compile(f, backend="tenon")
    got, = torch.autograd.grad(compiled(x, w), w)
    torch.testing.assert_close(got, torch.autograd.grad(f(x, w), w)[0])
    assert len(gpu.launches()) == before
    assert "training graphs on a GPU run in PyTorch" in str(tenon.explain(f, x, w))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="training graphs on a GPU run in PyTorch"):
        torch.compile(f, backend="tenon", options={"fallback": "error"})(x, w)


@torch.no_grad()
def test_reduce_overhead_launches_cuda_graphs(gpu):
    def f(x):
        for _ in range(3):
            x = torch.tanh(x.sum(0, keepdim=True) + x) * x.sum(1, keepdim=True)
        return x

    g, x, before = torch.compile(f, backend="tenon", mode="reduce-overhead"), torch.randn(6, 9), len(gpu.launches())
    for i in range(5):
        torch.testing.assert_close(g(x + i), f(x + i))
    launches = len(gpu.launches()) - before
    torch.testing.assert_close(g(x), f(x))
    assert len(gpu.launches()) - before == launches and b"cuGraphLaunch" in gpu.mock.tn_mock_log()


TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def inputs_of(name):
    """Three sets of inputs of a model: the second has another batch, the third another length or image size. No two sizes are equal by
    chance and no image is so small that an inner size becomes 1: PyTorch would make guards of these."""
    if name == "vit_b_16":
        return [(torch.randn(b, 3, 64, 64),) for b in (2, 3, 5)]
    if name == "unet_block":
        return [(torch.randn(b, 4, h, w), torch.tensor([601]), torch.randn(b, n, 48))
                for b, h, w, n in ((2, 8, 12, 5), (3, 8, 12, 5), (2, 12, 16, 7))]
    if name in ("resnet50", "mobilenet_v3_large"):
        return [(torch.randn(b, 3, h, w),) for b, h, w in ((2, 48, 40), (3, 48, 40), (2, 40, 56))]
    return [(torch.randint(200, shape),) for shape in ((2, 8), (3, 8), (2, 13))]


# MobileNet takes 40 seconds in 16 bits, so by default it runs in f32 only, and there only for symbolic sizes.
SLOW = [] if os.environ.get("TENON_TESTS") == "all" else ["mobilenet_v3_large"]
HALVES = [name for name in zoo.MODELS if name not in SLOW]


@torch.no_grad()
@pytest.mark.parametrize("name, dtype", [(name, "f32") for name in zoo.MODELS] + in_turn(HALVES, ["bf16", "f16"]))
def test_models(gpu, name, dtype):
    """Compiled for constant sizes (in f32 only, and by default not MobileNet, since tracing takes most of the time), then for symbolic ones. New sizes
    need few new forms of kernels; known sizes need none."""
    wide, _ = zoo.build(name, tiny=True)
    model, tolerance = copy.deepcopy(wide).to(TYPES[dtype]), zoo.MODELS[name].tolerance if dtype == "f32" else 2e-2
    kernels = []
    modes = [(False, (0,)), (True, (0, 1, 2, 1))][dtype != "f32" or name in SLOW:]
    for dynamic, which in modes:
        torch._dynamo.reset()
        fast = torch.compile(model, backend="tenon", fullgraph=True, dynamic=dynamic)
        for i in which:
            given = inputs_of(name)[i]  # of other values every time
            exact = accuracy.in_float64(wide, given)
            given = tuple(x.to(TYPES[dtype]) if x.is_floating_point() else x for x in given)
            assert accuracy.check(model(*given), fast(*given), exact, tolerance).problems == []
            kernels.append(tenon.stats()["kernels_compiled"])
    stats = tenon.stats()
    assert gpu.launches() and stats["nodes_fused"] > 0 and stats["fallbacks"] == 0
    assert stats["programs"] == len(modes) and stats["plan_misses"] == 2 + len(modes)
    first, batch, size, seen = kernels[-4:]
    assert batch - first <= 2 and size - batch <= 10 and seen == size, kernels

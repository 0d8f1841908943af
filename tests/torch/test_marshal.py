"""A call reads tensors in C or through ctypes: both give the same results, errors and repacks."""

import ctypes
import gc
import os
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import tenon
from tenon import _abi
from tenon.torch.runtime import marshal

IN_PYTHON = marshal.InPython()
IN_C = marshal.load()
WAYS = [IN_PYTHON] + ([IN_C] if IN_C.in_c else [])


@pytest.fixture(params=WAYS, ids=lambda way: "c" if way.in_c else "ctypes")
def way(request, monkeypatch):
    monkeypatch.setattr(marshal, "chosen", request.param)
    return request.param


def test_the_extension_is_used_where_it_was_built():
    """`./dev build` installs Python's headers. Without them this file tests only the ctypes version."""
    built = os.path.exists(os.path.join(os.path.dirname(_abi.__file__), "_lib", "_marshal.abi3.so"))
    assert IN_C.in_c == built
    code = "import torch; from tenon.torch.runtime import marshal; print(marshal.chosen.in_c)"
    for variable, expected in (("", built), ("ctypes", False)):
        run = subprocess.run([sys.executable, "-c", code], env=os.environ | {"TENON_MARSHAL": variable}, capture_output=True,
                             text=True)
        assert run.stdout.strip() == str(expected), run.stderr


TENSORS = {
    "plain": lambda: torch.randn(4, 6),
    "offset": lambda: torch.randn(40)[3:27].view(4, 6),
    "transposed": lambda: torch.randn(6, 4).t(),
    "gap": lambda: torch.randn(4, 9)[:, 2:8],
    "expanded": lambda: torch.randn(6).expand(4, 6),
    "parameter": lambda: nn.Parameter(torch.randn(4, 6)),
    "requires_grad": lambda: torch.randn(4, 6, requires_grad=True) * 1,
    "half": lambda: torch.randn(4, 6).bfloat16(),
    "bool": lambda: torch.randn(4, 6) > 0,
    "long": lambda: torch.arange(24).view(4, 6),
    "scalar": lambda: torch.tensor(3.5),
    "empty": lambda: torch.zeros(0, 6),
    "inference": lambda: torch.inference_mode()(torch.randn)(4, 6),
}


@pytest.mark.parametrize("name", TENSORS)
def test_every_kind_of_tensor(way, name):
    x = TENSORS[name]()
    f = lambda x, y: (x * 2 + y, x.t() if x.dim() == 2 else x)
    with torch.no_grad():
        g = torch.compile(f, backend="tenon", fullgraph=True)
        for _ in range(3):
            for a, b in zip(g(x, x), f(x, x)):
                assert a.stride() == b.stride() or a.numel() == 0
                torch.testing.assert_close(a, b)
    assert tenon.stats()["fallback_reasons"] == {} and tenon.stats()["calls"] == 3


def test_inputs_die_with_the_call_and_not_before(way):
    """Only the boxed list holds these inputs. They have to live until the program has run."""
    f = lambda x, y: (x + y).relu() * 2
    with torch.no_grad():
        g = torch.compile(f, backend="tenon")
        for i in range(50):
            out = g(torch.full((4096,), float(i)), torch.ones(4096))
            junk = [torch.full((4096,), -1e9) for _ in range(4)]
            assert out.eq(2 * i + 2).all()
            del junk
    gc.collect()


def test_changed_parameters_are_packed_again(way, library):
    model = nn.Linear(8, 8).eval()
    x = torch.randn(4, 8)
    with torch.no_grad():
        g = torch.compile(model, backend="tenon", options={"freeze": True})
        torch.testing.assert_close(g(x), model(x))
        for change in (lambda: model.weight.mul_(2), lambda: setattr(model.bias, "data", torch.ones(8))):
            change()
            torch.testing.assert_close(g(x), model(x))
            torch.testing.assert_close(g(x), model(x))
    assert library.updates == 2


def test_other_threads_run_meanwhile(way):
    """The interpreter's lock is free while a program runs."""
    a = torch.randn(900, 900)
    with torch.no_grad():
        g = torch.compile(lambda a: ((a @ a) @ a) @ a, backend="tenon")
        g(a)
        count, done = 0, threading.Event()

        def work():
            with torch.no_grad():
                for _ in range(5):
                    g(a)
            done.set()

        worker = threading.Thread(target=work)
        worker.start()
        while not done.is_set():
            count += 1
        worker.join()
    assert count > 1000


@pytest.mark.skipif(not IN_C.in_c, reason="the extension was not built: Python's headers are missing")
def test_wrong_arguments_are_errors():
    module, block = IN_C.module, torch.zeros(16, dtype=torch.int64)
    block[1] = 1  # the device of the tensor at word 0: the CPU
    at, plan, x = block.data_ptr(), IN_C.plan([0], [0], [-1]), torch.ones(2)

    class Program:
        handle = ctypes.c_void_p(1)

    def step(plan=plan, made=()):
        return IN_C.step(Program, plan, IN_C.plan(), (0, 0), (0, len(made)), made, _abi.check, -1, _abi.CPU)

    for call, error in (
        (lambda: step()(at, [object()]), (TypeError, RuntimeError)),
        (lambda: step()(at, [torch.ones(2, device="meta")]), RuntimeError),
        (lambda: step()(at, []), IndexError),
        (lambda: step()(at, (x,)), (SystemError, IndexError)),
        (lambda: step()(at), TypeError),
        (lambda: step()("text", [x]), (TypeError, SystemError)),
        (lambda: step("text"), TypeError),
        (lambda: step(made=[3]), TypeError),
        (lambda: step(made=[(0, -1)]), TypeError),
        (lambda: step(made=[(0, -1, "text")]), TypeError),
        (lambda: step(made=[(0, -1, None)])(at, [x]), TypeError),
        (lambda: step(made=[(0, -1, (1, 2, 3))])(at, [x]), (TypeError, RuntimeError)),
        (lambda: step(IN_C.plan([0], [0], [2]))(at, [x]), TypeError),
        (lambda: module.step(1, 2), TypeError),
        (lambda: module.pointer(at, "0", -1, x), TypeError),
        (lambda: module.pointer(at, 0, -1, 3), (TypeError, RuntimeError)),
        (lambda: module.pointer(at, 0, 3, x), TypeError),
        (lambda: module.pointer(at), TypeError),
        (lambda: module.state([3], IN_C.plan([0])), (TypeError, RuntimeError)),
        (lambda: module.current([], IN_C.plan([0]), b"\0" * 40), IndexError),
        (lambda: module.open(3), ValueError),
    ):
        with pytest.raises(error):
            call()
    block.zero_()  # a tensor is bound before the error of a later one is found
    block[2] = 1  # the device
    module.pointer(at, 1, 1, x)
    assert block.tolist() == [0, x.data_ptr(), 1, *[0] * 4, 2, 1, *[0] * 7]
    assert module.current([x], IN_C.plan([0]), None) is False

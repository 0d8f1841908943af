"""Fixtures of the PyTorch tests: two threads, a fresh Dynamo and fresh counts for each test."""

import pytest
import torch
import torch._dynamo

import tenon
from tenon import _abi

from fake_library import FakeLibrary


_abi._library = FakeLibrary()


@pytest.fixture(autouse=True)
def fresh():
    torch.set_num_threads(2)
    torch.manual_seed(0)
    torch._dynamo.reset()
    tenon.reset_stats()
    yield
    torch._dynamo.reset()


@pytest.fixture
def library():
    """The stand-in, with its own counts."""
    lib = _abi._library
    lib.texts, lib.updates, lib.refuse = [], 0, ()
    yield lib
    lib.refuse = ()

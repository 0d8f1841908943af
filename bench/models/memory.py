"""The memory of eager's intermediates, to compare with Tenon's planned workspace, and the memory of this process.

`peak_of_intermediates(module, inputs)` runs `module` once and returns the largest number of bytes that were
alive at one time in tensors that it made. Inputs, parameters and outputs do not count, since they are no part
of Tenon's workspace. Memory that an operator uses internally is not seen. Tested by tests/torch/test_bench.py.
"""

import os
import weakref
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.models import accuracy


class Ledger(TorchDispatchMode):
    """Records every storage that an operator makes, and when it dies."""

    def __init__(self, known):
        super().__init__()
        self.ids = dict.fromkeys(known)     # address of a live storage -> its number; None: made before
        self.events = []                    # (number, bytes); bytes are negative when the storage dies

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.note(tensor.untyped_storage())
        return result

    def note(self, storage):
        address, size = storage._cdata, storage.nbytes()
        if address in self.ids:
            return
        number = len(self.events)
        self.ids[address] = number
        self.events.append((number, size))

        def died():
            self.ids.pop(address, None)
            self.events.append((number, -size))
        weakref.finalize(storage, died)


def peak_of_intermediates(module, inputs):
    owned = [*module.parameters(), *module.buffers(), *inputs]
    ledger = Ledger({t.untyped_storage()._cdata for t in owned})
    with torch.no_grad(), ledger:
        output = module(*inputs)
    tensors = [leaf for _, leaf in accuracy.leaves(output) if isinstance(leaf, torch.Tensor)]
    outputs = {ledger.ids.get(t.untyped_storage()._cdata) for t in tensors}
    live = peak = 0
    for number, size in list(ledger.events):
        if number not in outputs:
            live += size
            peak = max(peak, live)
    return peak


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

"""The sizes of bench/gpu/forms.py reach the forms that they are meant for. There is no GPU: the mock driver reports the properties of an
H100 and runs the kernels on the host's memory."""

import math
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from test_cuda import gpu, machine, pytestmark  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.gpu import cases, forms, tools     # noqa: E402

MOST = 1 << 20      # elements; the mock takes too long for more


@torch.no_grad()
@pytest.mark.parametrize("case", [c for c in forms.BIG if math.prod(c.sizes[0]) <= MOST], ids=lambda c: c.name)
def test_forms_are_reached(gpu, case, tmp_path, monkeypatch):     # noqa: F811
    monkeypatch.setenv("TENON_CACHE", "off")
    log, kept, came = open(tmp_path / "log", "ab"), os.dup(2), []
    os.dup2(log.fileno(), 2)
    try:
        for name in case.types:
            torch._dynamo.reset()
            arguments = case.make(case.sizes[0], tools.DTYPES[name], torch.device("cpu"))
            with tools.forms() as loaded:
                got = torch.compile(case.function, backend="tenon", dynamic=case.dynamic)(*arguments)
            came.append(loaded)
            worst, own = forms.compare(case, arguments, got, lambda a, b: cases.close(a, b, name))
            assert worst <= max(1, 2 * own)
    finally:
        os.dup2(kept, 2)
    # A form that another test has loaded already is not listed again, so it has to appear for one of the types only.
    assert any(re.search(case.form, form) for loaded in came for form in loaded), came

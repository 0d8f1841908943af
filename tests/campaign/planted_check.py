"""Each campaign detects the backends that are wrong on purpose (planted.py) and accepts a right one. Takes minutes;
`./dev campaign check` runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from campaign import grammar     # noqa: E402


def campaign(tmp_path, *arguments):
    """(exit status, records) of a run."""
    out = tmp_path / "records.jsonl"
    done = subprocess.run([sys.executable, "-m", "campaign.run", *arguments, "--workers", "1", "--out", str(out)], cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'bindings' / 'python'}"}, capture_output=True, text=True, timeout=500)
    assert out.exists(), done.stderr
    return done.returncode, [json.loads(line) for line in out.read_text().splitlines()]


ENTRY = ("op_db", "--only", "fmod,t", "--dtypes", "f32", "--layouts", "given", "--modes", "static", "--samples", "2")


@pytest.mark.parametrize("backend, kind, look", [
    ("planted_nothing", "right", ""), ("planted_value", "wrong", "values"), ("planted_raise", "raised", "planted"), ("planted_crash", "crash", "exit status -6"),
])
def test_op_db_notices(tmp_path, backend, kind, look):
    status, records = campaign(tmp_path, *ENTRY, "--backend", backend)
    found = [r for r in records if r["entry"] == "fmod" and r["layout"]]
    classes = [r["class"] for r in found]  # a value of 0 stays what it is
    assert len(found) == 2 and kind in classes and set(classes) <= {kind, "right"}
    assert all(look in r["detail"] for r in found if r["class"] == kind)
    assert status == (kind != "right") and all("--sample" in r["repro"] for r in found)


@pytest.mark.parametrize("entry, dtype, layout, backend, look", [
    ("add", "f32", "transposed", "planted_strides", "strides"), ("add", "i64", "given", "planted_integer", "integers differ"),
    ("log", "f32", "given", "planted_nan", "nan/inf"),
])
def test_op_db_notices_layouts_integers_and_nan(tmp_path, entry, dtype, layout, backend, look):
    _, records = campaign(tmp_path, "op_db", "--only", entry, "--dtypes", dtype, "--layouts", layout, "--modes", "static", "--samples", "3", "--backend", backend)
    assert any(r["class"] == "wrong" and look in r["detail"] for r in records), records


def test_op_db_notices_gradients(tmp_path):
    """Forward and backward graphs are off by little."""
    for backend, kind in (("planted_nothing", "right"), ("planted_value", "wrong")):
        _, records = campaign(tmp_path, "op_db", "--backward", "--only", "mul,nn.Linear", "--dtypes", "f32", "--layouts", "given", "--modes", "static",
                              "--samples", "1", "--backend", backend)
        assert [r["class"] for r in records] == [kind] * 2, records


def test_a_hang_costs_one_case(tmp_path):
    _, records = campaign(tmp_path, *ENTRY, "--backend", "planted_hang", "--limit", "6")
    assert [r["class"] for r in records if r["entry"] == "fmod" and r["layout"]] == ["timeout", "timeout"]


def test_expected_classes_are_compared(tmp_path):
    """With --ci a changed class fails the run."""
    assert campaign(tmp_path, "op_db", "--ci", "--only", "fmod")[0] == 0
    status, records = campaign(tmp_path, "op_db", "--ci", "--only", "fmod", "--backend", "planted_value")
    assert status == 1 and {r["class"] for r in records} >= {"wrong"}


def test_programs_notice_and_shrink(tmp_path):
    status, records = campaign(tmp_path, "programs", "--seed", "0", "--count", "1", "--backend", "planted_value", "--shrink", "60")
    record, = records
    assert status == 1 and record["class"] == "wrong" and record["small"].count("\n") < grammar.generate(0).source().count("\n")


def test_models_notice(tmp_path):
    arguments = ("models", "--only", "gpt2", "--combination", "f32-dynamic-live")
    assert [r["class"] for r in campaign(tmp_path, *arguments, "--backend", "planted_nothing")[1]] == ["right"]
    assert [r["class"] for r in campaign(tmp_path, *arguments, "--backend", "planted_value")[1]] == ["wrong"]

"""The command line `tenon`, as a user meets it: verbs, their output, exit statuses 0, 1 and 2.

The binary is build/release/bin/tenon, or what TENON_CLI names.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
CLI = Path(os.environ.get("TENON_CLI", ROOT / "build" / "release" / "bin" / "tenon"))

GRAPH = """graph @f(%x: f32[N,4], %b: f32[4]) {
  %s = add(%x, %b)
  %z = add(%x, %b)
  %y = mul(%s, %z)
  return %y
}
"""


def tenon(*args, stdin="", **environment):
    assert CLI.is_file(), f"{CLI} is not built: ./dev build"
    return subprocess.run([str(CLI), *map(str, args)], input=stdin, capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


def test_version():
    done = tenon("--version")
    assert done.returncode == 0
    header = (ROOT / "include/tenon/tenon.h").read_text()
    major, minor = (next(line.split()[2] for line in header.splitlines() if f"TENON_VERSION_{part} " in line)
                    for part in ("MAJOR", "MINOR"))
    assert done.stdout.startswith(f"tenon {major}.{minor}.")


def test_usage_mistakes_are_2():
    assert tenon().returncode == 2
    assert tenon("opt").returncode == 2
    assert tenon("nonsense").returncode == 2
    assert tenon("run", "-", "--dim", "N", stdin=GRAPH).returncode == 2
    done = tenon("opt", "-", "--pass=sinplify", stdin=GRAPH)
    assert done.returncode == 2 and "did you mean 'simplify'" in done.stderr


def test_opt_runs_the_passes_in_order_and_its_text_reads_back():
    done = tenon("opt", "-", "--pass=cse", stdin=GRAPH)
    assert done.returncode == 0, done.stderr
    assert "mul(%s, %s) : f32[N,4]" in done.stdout and "%z" not in done.stdout
    assert tenon("opt", "-", stdin=done.stdout).stdout == done.stdout


def test_opt_reports_every_error_with_its_place(tmp_path):
    path = tmp_path / "bad.tn"
    path.write_text("graph @f(%x: f32[4]) {\n  %y = ad(%x)\n  %z = exp(%w)\n  return %z\n}\n")
    done = tenon("opt", path)
    assert done.returncode == 1
    assert f"{path}:2:8: unknown op 'ad'" in done.stderr and f"{path}:3:12:" in done.stderr
    assert tenon("opt", tmp_path / "none.tn").returncode == 1


def test_run_computes_what_numpy_computes(tmp_path):
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((3, 4), dtype=np.float32), rng.standard_normal(4, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "b.npy", b)
    done = tenon("run", "-", "--input", f"x={tmp_path}/x.npy", "--input", f"b={tmp_path}/b.npy", "--output-dir", tmp_path,
                 stdin=GRAPH)
    assert done.returncode == 0, done.stderr
    assert "output %y" in done.stdout and "f32[3,4]" in done.stdout
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), (x + b) ** 2, rtol=1e-6)


@pytest.mark.parametrize("dtype, name", [(np.float64, "f64"), (np.float16, "f16"), (np.int64, "i64"), (np.int32, "i32"),
                                         (np.int16, "i16"), (np.int8, "i8"), (np.uint8, "u8"), (np.bool_, "bool")])
def test_npy_of_every_dtype(tmp_path, dtype, name):
    x = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    np.save(tmp_path / "in.npy", x)
    text = f"graph @f(%x: {name}[N,M]) {{\n  %y = transpose(%x){{perm=[1,0]}}\n  return %y\n}}\n"
    done = tenon("run", "-", "--input", f"x={tmp_path}/in.npy", "--output-dir", tmp_path, stdin=text)
    assert done.returncode == 0, done.stderr
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x.T)


def test_run_honours_strides_and_scalars(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    text = "graph @f(%x: f32[3,4] strides=[1,3]) {\n  %y = neg(%x)\n  return %y strides=[1,3]\n}\n"
    done = tenon("run", "-", "--input", f"x={tmp_path}/x.npy", "--output-dir", tmp_path, stdin=text)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), -x)


def test_run_draws_random_inputs_from_the_seed():
    def lines(*args):
        done = tenon("run", "-", "--dim", "N=3", *args, stdin=GRAPH)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stdout.splitlines() if line.startswith(("input", "output"))]

    assert lines() == lines() != lines("--seed", 1)
    missing = tenon("run", "-", stdin=GRAPH)
    assert missing.returncode == 1 and "--dim N=" in missing.stderr


def test_run_refuses_files_that_do_not_fit(tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((3, 4)))
    done = tenon("run", "-", "--input", f"x={tmp_path}/wide.npy", stdin=GRAPH)
    assert done.returncode == 1 and "f32[N,4]" in done.stderr and "f64[3,4]" in done.stderr
    (tmp_path / "cut.npy").write_bytes((tmp_path / "wide.npy").read_bytes()[:100])
    for name in ("cut", "none"):
        assert tenon("run", "-", "--input", f"x={tmp_path}/{name}.npy", stdin=GRAPH).returncode == 1
    np.save(tmp_path / "short.npy", np.zeros((3, 5), dtype=np.float32))
    done = tenon("run", "-", "--input", f"x={tmp_path}/short.npy", stdin=GRAPH)
    assert done.returncode == 1 and "[3,5]" in done.stderr


def test_doctor():
    done = tenon("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cpu" in done.stdout and "reference" in done.stdout and "all is well" in done.stdout


def test_env_lists_the_table_and_warns():
    done = tenon("env", TENON_ISA="avx2", TENON_ISSA="1")
    assert done.returncode == 0
    assert "TENON_ISA=avx2" in done.stdout and "TENON_NUM_THREADS=" in done.stdout
    assert "TENON_ISSA" in done.stderr and "'TENON_ISA'" in done.stderr


def test_ops():
    assert len(tenon("ops").stdout.splitlines()) > 100
    one = tenon("ops", "softmax")
    assert one.returncode == 0 and "composite" in one.stdout and "axis" in one.stdout
    wrong = tenon("ops", "softmx")
    assert wrong.returncode == 1 and "did you mean 'softmax'" in wrong.stderr

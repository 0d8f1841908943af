"""The command line `tenon`: verbs, their output, and exit statuses 0, 1 and 2.

The binary is build/release/bin/tenon, or what TENON_CLI names.
"""

import ctypes
import json
import os
import re
import resource
import struct
import subprocess
import sys
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


def tenon(*args, stdin="", before=None, **environment):
    assert CLI.is_file(), f"{CLI} is not built: ./dev build"
    return subprocess.run([str(CLI), *map(str, args)], input=stdin, capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment}, preexec_fn=before)


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


def test_a_verb_that_is_none_is_told_the_nearest():
    done = tenon("rum", "-", stdin=GRAPH)
    assert done.returncode == 2 and "no verb is called rum, did you mean 'run'?" in done.stderr
    assert "there are: opt run verify bench profile cache" in done.stderr
    assert "no verb is called lss, did you mean 'ls'?" in tenon("cache", "lss").stderr


def test_help_is_a_verb_too():
    for verb in ([], ["run"], ["cache", "ls"]):
        asked = tenon("help", *verb)
        assert asked.returncode == 0 and asked.stdout == tenon(*verb, "--help").stdout


def test_errors_name_what_there_is():
    assert tenon("run", "-", stdin="").stderr == "tenon: invalid: stdin:1:1: expected 'graph', found the end\n"
    done = tenon("run", "-", stdin="graph @f(%x: float[2]) {\n  return %x\n}\n")
    assert "unknown dtype 'float', the dtypes are f64, f32, " in done.stderr
    assert tenon("ops", "zzz").stderr == "tenon: invalid: no op is called zzz: tenon ops lists all ops\n"
    assert "(there is no file or directory suite)" in tenon("bench", "suite").stderr
    assert tenon("run", "-", "--dim", "N=3", "--seed=-1", stdin=GRAPH).returncode == 2


def test_what_memory_does_not_hold_is_named():
    graph = "graph @f(%x: f32[N,N]) {\n  %y = relu(%x)\n  return %y\n}\n"
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    done = tenon("run", "-", "--dim", "N=2000000", stdin=graph, before=limit)
    assert done.returncode == 1
    assert done.stderr == "tenon: environment: input %x, f32[2000000,2000000]: out of memory\n"
    done = tenon("run", "-", "--dim", "N=4000000000", stdin=graph)
    assert done.returncode == 1 and "input %x, f32[4000000000,4000000000], has more bytes than any memory" in done.stderr
    far = "graph @f(%x: f32[2,2] strides=[9223372036854775807,1]) {\n  %y = relu(%x)\n  return %y\n}\n"
    done = tenon("run", "-", stdin=far)
    assert done.returncode == 1 and "strides reach farther than any memory" in done.stderr
    pads = "graph @f(%x: f32[4,4]) {\n  %y = pad(%x){low=[9223372036854775807,0], high=[0,0]}\n  return %y\n}\n"
    done = tenon("run", "-", stdin=pads)
    assert done.returncode == 1 and "tenon: invalid: " in done.stderr and ".cc" not in done.stderr


def test_the_file_for_perf_is_never_anothers(tmp_path):
    def run(make):
        """Runs a process whose perf map exists already. make: the shell command that makes the file."""
        done = subprocess.run(["sh", "-c", f'{make} "/tmp/perf-$$.map"; echo $$; exec "$0" run - --backend cpu', str(CLI)], text=True,
                              input="graph @f(%x: f32[4]) {\n  %y = relu(%x)\n  return %y\n}\n", capture_output=True, timeout=300,
                              env={**os.environ, "TENON_JIT_PROFILE": "perf", "TENON_LOG": "warning", "TENON_CACHE": "off"})
        assert done.returncode == 0, done.stderr
        path = Path(f"/tmp/perf-{done.stdout.splitlines()[0]}.map")
        text = path.read_text() if path.is_file() else ""
        path.unlink()
        return text, done.stderr
    target = tmp_path / "target"
    target.write_text("mine")
    _, output = run(f"ln -s {target}")
    assert target.read_text() == "mine" and "is no file of this user" in output
    _, output = run(f"ln {target}")
    assert target.read_text() == "mine" and "is no file of this user" in output
    _, output = run("mkfifo")
    assert "is no file of this user" in output
    text, output = run("true")
    assert " tenon " in text and output == ""
    text, output = run("echo another JIT was here >")
    assert text.startswith("another JIT was here\n") and " tenon " in text


RELU = "graph @f(%x: f32[4]) {\n  %y = relu(%x)\n  return %y\n}\n"


def test_perf_and_the_cache_on_disk(tmp_path):
    """Kernels that LLVM made and kernels from the disk have the same names. A process adds to the file that an earlier process of its number left."""
    names = []
    for compiles in (True, False):
        done = subprocess.run(["sh", "-c", f'rm -f /tmp/perf-$$.map; echo $$; exec "{CLI}" run - --backend cpu'], text=True, input=RELU, capture_output=True, timeout=300,
                              env={**os.environ, "TENON_JIT_PROFILE": "perf", "TENON_CACHE_DIR": str(tmp_path), "TENON_CACHE": "on", "TENON_LOG": "cache"})
        assert ("cache: miss," if compiles else "cache: hit,") in done.stderr, done.stderr
        path = Path(f"/tmp/perf-{done.stdout.splitlines()[0]}.map")
        names.append([line.split(" ", 2)[2] for line in path.read_text().splitlines()])
        path.unlink()
    assert any(tmp_path.rglob("*")) and names[0] == names[1] and names[0][0].startswith("tenon ")


def test_gdb_stops_in_a_kernel(tmp_path):
    (tmp_path / "f.tn").write_text(RELU)
    compiled = tenon("run", "-", "--backend", "cpu", stdin=RELU, TENON_DUMP="kernel", TENON_CACHE="off").stderr
    name = re.search(r"kernel @(\w+)", compiled)[1]
    done = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", f"break tenon_{name}", "-ex", "run", "-ex", "backtrace 1",
                           "-ex", "continue", "--args", str(CLI), "run", str(tmp_path / "f.tn"), "--backend", "cpu"],
                          capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                          env={**os.environ, "TENON_JIT_PROFILE": "gdb", "TENON_CACHE": "off", "DEBUGINFOD_URLS": ""})
    assert re.search(rf"#0 +0x[0-9a-f]+ in tenon_{name} \(\)", done.stdout), done.stdout + done.stderr
    assert "exited normally" in done.stdout


def test_opt_runs_the_passes_in_order_and_its_text_reads_back():
    done = tenon("opt", "-", "--pass=cse", stdin=GRAPH)
    assert done.returncode == 0, done.stderr
    assert "mul(%s, %s) : f32[N,4]" in done.stdout and "%z" not in done.stdout
    assert tenon("opt", "-", stdin=done.stdout).stdout == done.stdout


KERNEL = """kernel @columns(N, M; in %x: f32, out %y: f32) {
  par simd %j in M {
    %s = reduce add %i in N {
      %v = load %x[M*%i + %j]
      yield %v
    }
    store %y[%j], %s
  }
}
"""


def test_opt_runs_passes_of_the_kernel_compiler():
    done = tenon("opt", "-", "--kernel-pass=tile_columns", stdin=KERNEL)
    assert done.returncode == 0 and "in M by 256" in done.stdout, done.stderr
    halves = tenon("opt", "-", "--kernel-pass=split_reduction,expand_math", stdin=KERNEL.replace("M*%i + %j", "%i"))
    assert halves.returncode == 0, halves.stderr
    wrong = tenon("opt", "-", "--kernel-pass=tile_column", stdin=KERNEL)
    assert wrong.returncode == 1 and "no kernel pass is called tile_column, did you mean 'tile_columns'?" in wrong.stderr
    assert "\nthere are: " in wrong.stderr
    assert tenon("opt", "-", "--kernel-pass=tile_columns", "--pass=cse", stdin=KERNEL).returncode == 2


def test_a_graph_without_constants_has_no_init():
    done = tenon("opt", "-", "--pass=split_init", stdin=GRAPH)
    assert done.returncode == 1 and "no value depends on constants alone" in done.stderr


def test_opt_forms_groups():
    done = tenon("opt", "-", "--pass=optimize,fuse", stdin=GRAPH)
    assert done.returncode == 0 and "cpu" in done.stdout, done.stdout + done.stderr


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


def test_passes_may_be_left_out_and_programs_verified():
    assert tenon("opt", "-", "--pass=optimize", stdin=GRAPH).stdout.count("add(") == 1
    assert tenon("opt", "-", "--pass=optimize", "--without=cse", stdin=GRAPH).stdout.count("add(") == 2
    fused, apart = (tenon("run", "-", "--dim", "N=3", "--explain", *more, stdin=GRAPH) for more in ([], ["--without=fuse,cse"]))
    result = [line for line in fused.stdout.splitlines() if line.startswith("output")]
    assert result and result == [line for line in apart.stdout.splitlines() if line.startswith("output")]
    assert (fused.stdout.count("kernel @"), apart.stdout.count("kernel @")) == (1, 3)
    for verb in ("opt", "run", "verify"):
        done = tenon(verb, "-", "--without=fuze", *(["--dim", "N=3"] if verb != "opt" else []), stdin=GRAPH)
        assert done.returncode != 0 and "no pass that may be left out is called fuze" in done.stderr
    done = tenon("verify", "-", "--dim", "N=3", stdin=GRAPH)
    assert done.returncode == 0 and done.stdout == "the program computes what the evaluator does\n"
    assert tenon("verify", "-", "--dim", "N", stdin=GRAPH).returncode == 2


def test_a_budget_makes_steps_run_again():
    layers = "".join(f"%m{i + 1} = matmul(%t{i}, %w{i})\n%t{i + 1} = tanh(%m{i + 1})\n" for i in range(8))
    inputs = "".join(f", %w{i}: f32[32,32]" for i in range(8))
    chain = tenon("opt", "-", "--pass=gradient", stdin=f"graph @f(%x: f32[32,32]{inputs}) {{\n%t0 = tanh(%x)\n{layers}return %t8\n}}\n")
    assert chain.returncode == 0 and "%d_t8: f32[32,32]" in chain.stdout
    free, limited = (tenon("run", "-", "--explain", *more, stdin=chain.stdout) for more in ([], ["--budget=1"]))
    assert "runs again" not in free.stdout and "  runs again because keeping its result takes 4096 bytes" in limited.stdout
    outputs = [[line for line in done.stdout.splitlines() if line.startswith("output")] for done in (free, limited)]
    assert outputs[0] == outputs[1] and len(outputs[0]) == 10


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


MOCK = CLI.parent.parent / "tests" / "libcuda_mock.so"
NO_GPU = {"TENON_CUDA_DRIVER": "off", "TENON_NVRTC": "off", "TENON_CUBLASLT": "off", "TENON_CUDNN": "off"}


def doctor(**environment):
    """Label -> the rest of the line, for each line of the output."""
    done = tenon("doctor", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line[:12].strip(): line[13:] for line in done.stdout.splitlines()}


def test_doctor_says_why_the_gpu_is_off(tmp_path):
    lines = doctor(**NO_GPU)
    assert lines["GPU"] == "off: no CUDA driver"
    assert lines["CUDA driver"] == "the CUDA driver is off: TENON_CUDA_DRIVER=off"
    for library in ("NVRTC", "cuBLASLt", "cuDNN"):
        assert lines[library] == f"{library} is off: TENON_{library.upper()}=off"
    lines = doctor(**{name: str(tmp_path / "none") for name in NO_GPU})
    assert all(str(tmp_path / "none") in lines[library] for library in ("CUDA driver", "NVRTC", "cuBLASLt", "cuDNN"))


def test_doctor_tells_of_the_gpus():
    assert MOCK.is_file(), f"{MOCK} is not built"
    there = {"TENON_CUDA_DRIVER": str(MOCK), "TENON_CUBLASLT": str(MOCK), "TENON_CUDNN": str(MOCK)}
    lines = doctor(**{**NO_GPU, **there}, CUDA_MOCK="devices=2")
    assert lines["GPU"] == "off: no NVRTC"
    assert lines["CUDA driver"] == f"{MOCK}, CUDA 13.0"
    assert lines["GPU 0"].startswith("Mock 0: sm_90, 132 multiprocessors, ") and lines["GPU 1"].startswith("Mock 1: ")
    assert lines["cuBLASLt"] == f"{MOCK}, version 13.1.2" and lines["cuDNN"] == f"{MOCK}, version 9.19.1"
    lines = doctor(**{**NO_GPU, **there}, CUDA_MOCK="architecture=75")
    assert lines["GPU"] == "off: no GPU that can be used"
    assert lines["GPU 0"] == "Mock 0 is an sm_75; sm_80 or newer is needed"
    lines = doctor(**{**NO_GPU, **there}, CUDA_MOCK="devices=0")
    assert lines["GPU"] == "off: no CUDA driver" and "CUDA_ERROR_NO_DEVICE (100)" in lines["CUDA driver"]


def test_doctor_tells_of_nvrtc():
    folders = [os.environ.get("TENON_NVRTC", ""), *(path + "/nvidia/cu13/lib" for path in sys.path), "/usr/local/cuda/lib64"]
    nvrtc = next((folder for folder in folders if folder and list(Path(folder).glob("libnvrtc.so*"))), "")
    there = {**NO_GPU, "TENON_CUDA_DRIVER": str(MOCK), "TENON_NVRTC": nvrtc}
    lines = doctor(**there)
    if "version" not in lines["NVRTC"]:
        pytest.skip(lines["NVRTC"])
    assert "sm_90" in lines["NVRTC"] and lines["GPU"] == "1 usable"
    lines = doctor(**there, CUDA_MOCK="architecture=999")
    assert lines["GPU"] == "off: no GPU that can be used" and "makes no code for sm_999" in lines["GPU 0"]
    if "version 13." in lines["NVRTC"]:
        assert "the driver of CUDA 12.8 does not load" in doctor(**there, CUDA_MOCK="version=12080")["GPU 0"]


@pytest.fixture
def cached(tmp_path):
    """The command line with its own directory for kernels."""
    folder = tmp_path / "kernels"

    def call(*args, stdin="", **environment):
        return tenon(*args, stdin=stdin, **{"TENON_CACHE": "on", "TENON_CACHE_DIR": str(folder), **environment})
    call.folder = folder
    return call


def run_graph(call, text=GRAPH, **environment):
    done = call("run", "-", "--dim", "N=3", "--backend", "cpu", stdin=text, TENON_LOG="cache", **environment)
    assert done.returncode == 0, done.stderr
    events = [line.split("tenon cache: ")[1] for line in done.stderr.splitlines() if line.startswith("tenon cache: ")]
    assert events[0] == "event,kernel,isa,key,bytes,why"
    return [line.split(",")[0] for line in events[1:]], [line for line in done.stdout.splitlines() if line.startswith("output")]


def test_cache_is_found_by_the_next_process(cached):
    assert cached("cache", "stat").returncode == 0 and not cached.folder.exists()
    cold, warm = run_graph(cached), run_graph(cached)
    assert cold[0] == ["miss", "store"] and warm[0] == ["hit"] and cold[1] == warm[1]
    assert run_graph(cached, TENON_CACHE="read")[0] == ["hit"]
    assert run_graph(cached, TENON_CACHE="off")[0] == ["off"]
    assert "entries    1" in cached("cache", "stat").stdout
    listed = cached("cache", "ls").stdout.splitlines()
    assert len(listed) == 1 and "LLVM 19" in listed[0] and listed[0][:32] in [f.name[:32] for f in cached.folder.iterdir()]


def test_cache_has_optimised_graphs(cached):
    chain = "".join(f"  %h{i + 1} = tanh(%h{i})\n" for i in range(80))
    text = "graph @chain(%h0: f32[N]) {\n" + chain + "  return %h80\n}\n"
    cold, warm = run_graph(cached, text), run_graph(cached, text)
    assert cold[0] == ["miss", "miss", "store", "store"] and warm[0] == ["hit", "hit"] and cold[1] == warm[1]
    listed = [line for line in cached("cache", "ls").stdout.splitlines() if "  graph " in line]
    assert len(listed) == 1 and " chain " in listed[0] and " Tenon " in listed[0]
    assert run_graph(cached, text, TENON_ISA="sse2")[0] == ["miss", "miss", "store", "store"]
    plain = cached("run", "-", "--dim", "N=3", "--without", "fuse", stdin=text, TENON_LOG="cache")
    assert plain.returncode == 0 and "miss,chain,graph" in plain.stderr


def test_cache_verify_names_what_is_damaged(cached):
    run_graph(cached)
    assert cached("cache", "verify").stdout == "1 entries, 0 damaged\n"
    entry, = cached.folder.glob("*.tk1")
    entry.write_bytes(entry.read_bytes()[:-1])
    done = cached("cache", "verify")
    assert done.returncode == 1 and f"{entry.name}: the file is cut short" in done.stdout
    assert "unusable: the file is cut short" in cached("cache", "ls").stdout
    done = cached("cache", "verify", "--remove")
    assert done.returncode == 0 and "removed" in done.stdout and not entry.exists()
    assert run_graph(cached)[0] == ["miss", "store"]
    entry.write_bytes(b"")
    assert run_graph(cached)[0] == ["refused", "store"]
    newer = entry.with_suffix(".tk2")  # an entry of a later library, whose contents this one cannot check
    newer.write_bytes(b"new")
    done = cached("cache", "verify", "--remove")
    assert done.returncode == 0 and done.stdout == "1 entries, 0 damaged; 1 of another version, not checked\n"
    assert newer.exists() and run_graph(cached)[0] == ["hit"]


def entry_bytes(name, producer):
    """An entry with this name whose contents are right."""
    class Hash128(ctypes.Structure):
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]
    xxhash = ctypes.CDLL("libxxhash.so.0")
    xxhash.XXH3_128bits.restype, xxhash.XXH3_64bits.restype = Hash128, ctypes.c_uint64
    sized = lambda data: (data, ctypes.c_size_t(len(data)))
    parts = [b"x86-64", name, producer, b"text", b"object"]
    body = b"".join(parts)
    hashed = xxhash.XXH3_128bits(*sized(body))
    header = struct.pack("<8sIIQQq5QQQ", b"TENONOBJ", 1, 5, 0, 1, 0, *map(len, parts), hashed.low, hashed.high)
    return header + struct.pack("<Q", xxhash.XXH3_64bits(*sized(header))) + body


def test_cache_prints_no_control_characters(cached, tmp_path):
    hostile = entry_bytes(b"\x1b]0;owned\x07\n\xff", b"\x1b[2J")
    archive = tmp_path / "archive"
    archive.write_bytes(b"TENONCA1" + struct.pack("<Q", len(hostile)) + hostile)
    assert cached("cache", "import", archive).stdout.startswith("1 entries")
    listed = cached("cache", "ls").stdout
    assert listed.isascii() and listed.rstrip("\n").isprintable()
    assert r"\x1b]0;owned\x07\x0a\xff" in listed and r"\x1b[2J" in listed


def test_cache_prune(cached):
    run_graph(cached)
    run_graph(cached, GRAPH.replace("mul(", "sub("))
    assert "removed 0 entries" in cached("cache", "prune").stdout
    assert "removed 2 entries" in cached("cache", "prune", "--bytes", "0").stdout
    assert not list(cached.folder.glob("*.tk1"))
    assert run_graph(cached, TENON_CACHE_BYTES="1K")[0] == ["miss", "unstored"]


def test_cache_export_and_import(cached, tmp_path):
    assert cached("cache", "export", tmp_path / "none").returncode == 1
    run_graph(cached)
    run_graph(cached, TENON_ISA="sse2")
    done = cached("cache", "export", tmp_path / "archive")
    assert done.returncode == 0 and done.stdout.startswith("2 entries"), done.stderr
    there = {"TENON_CACHE_DIR": str(tmp_path / "there")}
    done = cached("cache", "import", tmp_path / "archive", **there)
    assert done.returncode == 0 and done.stdout.startswith("2 entries"), done.stderr
    assert run_graph(cached, **there)[0] == ["hit"]
    (tmp_path / "archive").write_bytes((tmp_path / "archive").read_bytes()[:-10])
    done = cached("cache", "import", tmp_path / "archive", TENON_CACHE_DIR=str(tmp_path / "cut"))
    assert done.stdout.startswith("1 entries") and "ends in the middle" in done.stderr
    assert cached("cache", "import", tmp_path / "none").returncode == 1
    (tmp_path / "text").write_text("hello, world")
    assert "not an archive" in cached("cache", "import", tmp_path / "text").stderr


def test_cache_off_and_unusable(cached, tmp_path):
    done = cached("cache", "ls", TENON_CACHE="off")
    assert done.returncode == 1 and "TENON_CACHE=off" in done.stderr
    assert cached("cache").returncode == 2 and cached("cache", "import").returncode == 2
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    unsafe = {"TENON_CACHE_DIR": str(tmp_path / "open")}
    done = cached("cache", "stat", **unsafe)
    assert done.returncode == 1 and "may be written by others" in done.stderr
    assert run_graph(cached, **unsafe)[0] == ["miss", "unstored"]
    assert "unusable" in cached("doctor", **unsafe).stdout


def test_eight_processes_on_one_cold_cache(cached):
    command = [str(CLI), "run", "-", "--dim", "N=3", "--backend", "cpu"]
    environment = {**os.environ, "TENON_CACHE": "on", "TENON_CACHE_DIR": str(cached.folder)}
    several = [subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for _ in range(8)]
    outputs = {line for each in several for line in each.communicate(GRAPH, timeout=300)[0].splitlines()
               if line.startswith("output")}
    assert all(each.returncode == 0 for each in several) and len(outputs) == 1
    assert [f.suffix for f in cached.folder.iterdir() if f.name != "written"] == [".tk1"]
    assert cached("cache", "verify").returncode == 0


def test_doctor_tells_of_the_cache(cached):
    assert "cache        off: TENON_CACHE=off" in tenon("doctor", TENON_CACHE="off").stdout
    assert " 0 refused, 4 stored" in cached("doctor").stdout
    assert " 0 not found, 0 refused, 0 stored" in cached("doctor").stdout


def test_env_lists_the_table_and_warns():
    done = tenon("env", TENON_ISA="avx2", TENON_ISSA="1")
    assert done.returncode == 0
    assert "TENON_ISA=avx2" in done.stdout and "TENON_NUM_THREADS=" in done.stdout
    assert "TENON_ISSA" in done.stderr and "'TENON_ISA'" in done.stderr


def test_wrong_values_of_variables_are_named():
    wrong = {"TENON_ISA": "avx3", "TENON_CACHE": "of", "TENON_CACHE_BYTES": "1Q", "TENON_NUM_THREADS": "many", "TENON_VERIFY": "\x1byes",
             "TENON_JIT_PROFILE": "pref"}
    warnings = [r"TENON_ISA is 'avx3', none of sse2, avx2, avx512: it counts as unset", "TENON_CACHE is 'of', none of on, read, off, 0, 1: it counts as on",
            "TENON_CACHE_BYTES is '1Q', no number of bytes such as 500M: it counts as 1G",
            "TENON_NUM_THREADS is 'many', no number from 0 to 4096: it counts as 0", r"TENON_VERIFY is '\x1byes', none of 0, 1: it counts as 0",
            "TENON_JIT_PROFILE is 'pref', none of perf, gdb: it counts as unset"]
    listed = tenon("env", **wrong)
    told = tenon("doctor", **wrong).stdout
    for sentence in warnings:
        assert f"tenon: warning: {sentence}\n" in listed.stderr and f"warning      {sentence}\n" in told
    assert "\x1b" not in listed.stdout + listed.stderr + told
    # A program logs the warnings only if the topic is wanted.
    run = lambda **more: tenon("run", "-", "--dim", "N=3", stdin=GRAPH, **wrong, **more).stderr
    assert run() == "" and run(TENON_LOG="warning").count("tenon warning: TENON_ISA is 'avx3'") == 1


def test_ops():
    assert len(tenon("ops").stdout.splitlines()) > 100
    one = tenon("ops", "softmax")
    assert one.returncode == 0 and "composite" in one.stdout and "axis" in one.stdout
    wrong = tenon("ops", "softmx")
    assert wrong.returncode == 1 and "did you mean 'softmax'" in wrong.stderr


def symbol_files(folder):
    """MXNet's two files of relu(x w^T): the weight is [[1, 0], [0, -1], [1, 1]]."""
    variables = [{"op": "null", "name": n, "inputs": []} for n in ("x", "fc_weight")]
    layer = {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "3", "no_bias": "True"},
             "inputs": [[0, 0, 0], [1, 0, 0]]}
    relu = {"op": "Activation", "name": "act/1", "attrs": {"act_type": "relu"}, "inputs": [[2, 0, 0]]}
    symbol, params = folder / "model-symbol.json", folder / "model-0000.params"
    symbol.write_text(json.dumps({"nodes": [*variables, layer, relu], "arg_nodes": [0, 1], "heads": [[3, 0, 0]]}))
    tensor = struct.pack("<Iii2qiii", 0xF993FAC9, 0, 2, 3, 2, 1, 0, 0) + np.array([1, 0, 0, -1, 1, 1], "float32").tobytes()
    name = b"arg:fc_weight"
    params.write_bytes(struct.pack("<3Q", 0x112, 0, 1) + tensor + struct.pack("<2Q", 1, len(name)) + name)
    return symbol, params


def test_a_symbol_of_mxnet_runs(tmp_path):
    symbol, params = symbol_files(tmp_path)
    np.save(tmp_path / "x.npy", np.array([[2, 3]], "float32"))
    done = tenon("run", symbol, "--params", params, "--input", f"x={tmp_path}/x.npy", "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "act_1.npy"), [[2, 0, 5]])
    assert tenon("run", symbol, "--params", params, "--input", "x=4,2").returncode == 0


def test_a_symbol_of_mxnet_prints_as_a_graph(tmp_path):
    symbol, params = symbol_files(tmp_path)
    for arguments in (["--input", "x=N,2"], ["--input", "x=N,2", "--params", params]):
        done = tenon("opt", symbol, *arguments)
        assert done.returncode == 0, done.stderr
        assert "fc_weight: f32[3,2]" in done.stdout and "%act_1 = relu(%fc) : f32[N,3]" in done.stdout


def test_mistakes_in_a_symbol_of_mxnet_are_named(tmp_path):
    symbol, params = symbol_files(tmp_path)
    done = tenon("run", symbol, "--input", "y=1,2")
    assert done.returncode == 1 and "no variable 'y'" in done.stderr
    assert "variable 'x'" in tenon("run", symbol).stderr
    params.write_bytes(params.read_bytes()[:-1])
    assert "byte" in tenon("run", symbol, "--params", params, "--input", "x=1,2").stderr
    symbol.write_text(symbol.read_text()[:-5])
    assert "byte" in tenon("opt", symbol).stderr
    done = tenon("run", "-", "--params", params, stdin=GRAPH)
    assert done.returncode == 1 and "--params" in done.stderr

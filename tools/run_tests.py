"""Runs the test suites for `./dev test` and counts every test of every runner.

The argument is a comma-separated list of suites. Each suite is built and run by its own runner, whose output is shown; then the
runner's JUnit files are counted. Prints a line per suite and a last line `N passed, N failed, N skipped`. The exit status is 0
only if every suite was built, ran at least one test and failed none.
"""

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 1)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""

    def add(self, outcome):
        setattr(self, outcome, getattr(self, outcome) + 1)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def run(*command, **environment):
    return subprocess.run([str(c) for c in command], cwd=ROOT, env={**os.environ, **environment}).returncode


def outcome(case):
    """The outcome of a <testcase> element as GoogleTest, CTest or pytest writes it."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("result") in ("skipped", "suppressed"):
        return "skipped"
    if case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "failed" if case.get("status") == "fail" else "passed"


def cases(path):
    return list(ElementTree.parse(path).iter("testcase"))


def ctest(preset, *choice, **environment):
    """Runs the C++ tests of one preset. Each test case of a GoogleTest executable counts; any other executable counts as one test."""
    count = Count()
    results = ROOT / "build" / preset / "test-results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    code = run("ctest", "--test-dir", results.parent, "-j", JOBS, "--output-on-failure", "--no-tests=error",
               "--output-junit", results / "ctest.junit", *choice, GTEST_OUTPUT=f"xml:{results}/", GTEST_COLOR="no",
               GTEST_BRIEF="1", **{name: str(value) for name, value in environment.items()})
    if not (results / "ctest.junit").exists():
        return Count(note="ctest ran nothing")
    for test in cases(results / "ctest.junit"):
        inner = results / f"{test.get('name')}.xml"
        outcomes = [outcome(case) for case in cases(inner)] if inner.exists() else [outcome(test)]
        for each in outcomes:
            count.add(each)
        # A crash at exit, or a report of a sanitizer, fails an executable all of whose cases passed.
        if outcome(test) == "failed" and "failed" not in outcomes:
            count.add("failed")
    if code != 0 and count.failed == 0:
        count.note = f"ctest ended with {code}"
    return count


def suite_cpp():
    if run("./dev", "_build_release"):
        return Count(note="the build failed")
    return ctest("release")


def sanitized(preset):
    if run("./dev", "_build_tests", preset):
        return Count(note="the build failed")
    return ctest(preset)


def suite_asan():
    return sanitized("asan")


def suite_tsan():
    return sanitized("tsan")


def suite_python():
    if run("./dev", "_build_release", "tenon", "tenon_cli", "cuda_mock", "nvrtc_mock", "cublaslt_mock", "cudnn_mock"):
        return Count(note="the build failed")
    junit = ROOT / "build" / "release" / "pytest.junit"
    junit.unlink(missing_ok=True)
    # There is one process per core, so threads that wait for work must not spin.
    code = run(sys.executable, "-m", "pytest", "-q", "-n", JOBS, "--dist", "worksteal", "--junitxml", junit, "tests",
               OMP_WAIT_POLICY="passive")
    count = Count()
    if junit.exists():
        for case in cases(junit):
            count.add(outcome(case))
    if code not in (0, 5) and count.failed == 0:
        count.note = f"pytest ended with {code}"
    return count


def suite_mxnet():
    """The plugin in MXNet itself, which ./dev installs into build/mxnet-venv. The suite cpp tests the plugin under a mock host."""
    if run("./dev", "_need_mxnet"):
        return Count(note="pip could not install MXNet")
    if run("./dev", "_build_release", "tenon", "mxnet_plugin", "mxnet_signature_test"):
        return Count(note="the build failed")
    count = ctest("release", "-R", "^mxnet_signature_test$")  # which compares the plugin's declarations with MXNet's header
    junit = ROOT / "build" / "release" / "mxnet.junit"
    junit.unlink(missing_ok=True)
    code = run(ROOT / "build/mxnet-venv/bin/python", "-m", "pytest", "-q", "-n", JOBS, "--dist", "worksteal", "--junitxml", junit, "tests/mxnet",
               PYTHONPATH=str(ROOT / "bindings/python"), OMP_WAIT_POLICY="passive")
    if junit.exists():
        for case in cases(junit):
            count.add(outcome(case))
    if code != 0 and count.failed == 0:
        count.note = f"pytest ended with {code}"
    return count


def suite_lint():
    """Formatting counts as one test."""
    return Count(failed=1) if run("./dev", "_format_check") else Count(passed=1)


def suite_nvidia():
    """Tests with NVIDIA's own libraries, without a GPU: compares headers with Tenon's declarations, makes descriptors, plans graphs of
    cuDNN for GPUs that are not here, and compiles kernels with NVRTC 12 (other tests use 13). Installs about a gigabyte into
    build/nvidia, so it is not part of the default suites."""
    wheels = ROOT / "build" / "nvidia"
    packages = (ROOT / "tools" / "nvidia-libraries.txt").read_text()
    stamp = wheels / "installed"
    if not stamp.exists() or stamp.read_text() != packages:
        shutil.rmtree(wheels, ignore_errors=True)
        if run(sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", wheels, "-r", "tools/nvidia-libraries.txt"):
            return Count(note="pip could not install NVIDIA's libraries")
        stamp.write_text(packages)
        (ROOT / "build" / "release" / "build.ninja").unlink(missing_ok=True)  # so that CMake finds the new headers
    names = ["cublaslt_library_test", "cudnn_library_test", "cudnn_plan_test", "nvrtc_test"]
    if run("./dev", "_build_release", *names):
        return Count(note="the build failed")
    return ctest("release", "-R", f"^({'|'.join(names)})$", TENON_CUBLASLT=wheels / "nvidia" / "cu13" / "lib",
                 TENON_CUDNN=wheels / "nvidia" / "cudnn" / "lib", TENON_NVRTC=wheels / "nvidia" / "cuda_nvrtc" / "lib")


SUITES = {"cpp": suite_cpp, "python": suite_python, "mxnet": suite_mxnet, "asan": suite_asan, "tsan": suite_tsan,
          "lint": suite_lint, "nvidia": suite_nvidia}


def main():
    wanted = sys.argv[1].split(",")
    unknown = [name for name in wanted if name not in SUITES]
    if unknown:
        sys.exit(f"dev: no test suite '{unknown[0]}': {', '.join(SUITES)}")
    total, lines, good = Count(), [], True
    for name in wanted:
        print(f"=== {name}", flush=True)
        begin = time.monotonic()
        count = SUITES[name]()
        if not count.note and count.passed + count.failed == 0:
            count.note = "no test ran"
        if count.note:
            count.failed += 1
        good = good and count.failed == 0
        seconds = time.monotonic() - begin
        lines.append(f"{name:8} {count}  {seconds:6.1f} s" + (f"  ({count.note})" if count.note else ""))
        for kind in ("passed", "failed", "skipped"):
            setattr(total, kind, getattr(total, kind) + getattr(count, kind))
    print("\n" + "\n".join(lines) + f"\n{total}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

"""Reads every #include of the sources and checks the directions of docs/design/overview.md.

Three rules: a layer includes only itself and the layers below it; a vendor's header appears only in its own directory; our own
headers are written in quotes from the repository root (`"src/ir/graph.h"`), the public ones as `"tenon/tenon.h"`.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Prefix of the files of a layer -> prefixes of the headers that they may include.
BASE = ["src/base/"]
DIM = ["src/ir/dim/"] + BASE
IR = ["src/ir/"] + BASE
# The op table: the rows, the functions that their columns point to, the table, then the evaluator of graphs.
ROWS = ["src/ops/rows/"] + IR
MATH = ["src/ops/math/"] + ROWS
SPECIAL = ["src/ops/special/"] + MATH
RULES = ["src/ops/rules/"] + ROWS
BODIES = ["src/ops/bodies/"] + RULES
GRADIENTS = ["src/ops/gradients/"] + BODIES
TABLE = ["src/ops/table.h", "src/ops/graph_body.h"] + GRADIENTS + SPECIAL
OPS = ["src/ops/"] + IR
PASSES = ["src/passes/"] + OPS
# MXNet's graphs: symbols, the table of operators, then the translation.
SYMBOL = [f"src/mxnet/{name}.h" for name in ("attrs", "params", "row", "symbol", "table", "upgrade")] + OPS
BACKEND = ["src/backend/"] + OPS
PLAN = ["src/runtime/plan/"] + PASSES + BACKEND
COMPILE = ["src/runtime/compile/"] + PLAN
RUNTIME = ["src/runtime/"] + COMPILE
# The kernel compiler: the directories in the order in which a kernel passes through them, the script, then the emitters.
KERNEL = ["jit/kernel/"] + OPS
ANALYSIS = ["jit/analysis/"] + KERNEL
SCHEDULE = ["jit/schedule/"] + ANALYSIS
LOWER = ["jit/lower/"] + SCHEDULE
TRANSFORM = ["jit/transform/"] + LOWER
PIPELINE = ["jit/pipeline.h", "jit/group_kernels.h", "jit/repeated_work.h"] + TRANSFORM
OBJECTS = ["jit/objects/"] + OPS
JIT = ["jit/llvm/", "jit/cuda/", "jit/objects/"] + PIPELINE
BACKENDS = ["src/backend/"] + JIT
# What the back ends of all vendors' libraries share; NVIDIA's run on the devices, contexts and streams of nvidia/device.
LIBRARY = ["backends/library/"] + BACKENDS
NVIDIA_LIBRARY = ["backends/nvidia/device/"] + LIBRARY
LAYERS = {
    "src/base/": BASE,
    "src/ir/": IR,
    "src/ir/dim/": DIM,
    "src/ops/": TABLE,
    "src/ops/rows/": ROWS,
    "src/ops/math/": MATH,
    "src/ops/special/": SPECIAL,
    "src/ops/rules/": RULES,
    "src/ops/bodies/": BODIES,
    "src/ops/gradients/": GRADIENTS,
    "src/ops/eval/": OPS,
    "src/backend/": BACKEND,
    "src/passes/": PASSES,
    "src/runtime/": RUNTIME,
    "src/runtime/plan/": PLAN,
    "src/runtime/compile/": COMPILE,
    "src/mxnet/": SYMBOL,
    "src/mxnet/ops/": ["src/mxnet/ops/"] + SYMBOL,
    "src/mxnet/translate/": ["src/mxnet/translate/"] + SYMBOL,
    "src/api/": ["src/api/", "src/mxnet/", "tenon/"] + RUNTIME,
    "src/cli/": ["src/cli/", "src/mxnet/", "tenon/"] + RUNTIME,
    "jit/": PIPELINE,
    "jit/kernel/": KERNEL,
    "jit/analysis/": ANALYSIS,
    "jit/schedule/": SCHEDULE,
    "jit/lower/": LOWER,
    "jit/transform/": TRANSFORM,
    "jit/objects/": OBJECTS,
    "jit/llvm/": ["jit/llvm/", "jit/objects/"] + PIPELINE,
    "jit/cuda/": ["jit/cuda/", "jit/objects/"] + PIPELINE,
    # The list of back ends includes every back end; a back end includes no other back end.
    "backends/list.cc": ["backends/"] + BACKENDS,
    "backends/reference/": ["backends/reference/"] + BACKENDS,
    "backends/rows/": ["backends/rows/"] + BACKENDS,
    "backends/inner/": ["backends/inner/"] + BACKENDS,
    "backends/recurrent/": ["backends/recurrent/", "backends/inner/"] + BACKENDS,
    "backends/attention/": ["backends/attention/", "backends/inner/"] + BACKENDS,
    "backends/products/": ["backends/products/", "backends/inner/"] + BACKENDS,
    "backends/winograd/": ["backends/winograd/", "backends/inner/"] + BACKENDS,
    "backends/cpu/": ["backends/cpu/"] + BACKENDS,
    "backends/library/": LIBRARY,
    "backends/onednn/": ["backends/onednn/", "backends/winograd/", "backends/inner/"] + LIBRARY,
    "backends/nvidia/device/": NVIDIA_LIBRARY,
    "backends/nvidia/kernels/": ["backends/nvidia/kernels/", "backends/nvidia/device/"] + BACKENDS,
    "backends/nvidia/cublaslt/": ["backends/nvidia/cublaslt/"] + NVIDIA_LIBRARY,
    "backends/nvidia/cudnn/": ["backends/nvidia/cudnn/"] + NVIDIA_LIBRARY,
    "bindings/": ["bindings/", "tenon/"],
    "include/tenon/": ["tenon/"],
}

# Where a vendor's headers may appear; NOWHERE: the library is opened at run time through tables of our own.
NOWHERE = ()
DIRECTORIES = [
    (r"llvm(-c)?/", ("jit/llvm/orc.cc",)),
    (r"(oneapi/)?dnnl", ("backends/onednn/",)),
    (r"omp\.h$", ("backends/cpu/",)),
    (r"xxh", ("src/base/",)),
    (r"zstd", ("src/base/",)),
    (r"CLI/", ("src/cli/",)),
    (r"nlohmann/", ("src/mxnet/symbol_parse.cc", "src/cli/bench/")),
    (r"(cuda|nvrtc|cublas|cudnn|driver_types)", NOWHERE),
    (r"Python\.h$", ("bindings/python/",)),
    (r"(torch/|ATen/|c10/)", NOWHERE),
]

OURS = ("src/", "jit/", "backends/", "bindings/", "tenon/", "include/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]*)"|<([^>\n]*)>|(\S.*))', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def violations(path, text, exists=lambda header: True):
    """The violations in the includes of `path`, a sentence each. exists(header): whether one of our headers exists."""
    layer = max((key for key in LAYERS if path.startswith(key)), key=len, default=None)
    if layer is None:
        return [f"{path}: is in no layer of tests/include_direction_test.py"]
    found = []
    for quoted, angled, other in INCLUDE.findall(COMMENT.sub("", text)):
        header = quoted or angled
        if other:
            found.append(f"{path}: includes {other}: spell the header out")
        for pattern, directories in DIRECTORIES:
            if re.match(pattern, header) and not any(path.startswith(directory) for directory in directories):
                found.append(f"{path}: includes {header}, which belongs in {' '.join(directories) or 'no directory'}")
        if angled and header.startswith(OURS) and not (layer == "include/tenon/" and header.startswith("tenon/")):
            found.append(f"{path}: includes <{header}>: our own headers are written in quotes")
        if quoted and not header.startswith(OURS):
            found.append(f"{path}: includes \"{header}\": quotes are for our own headers, from the repository root")
        elif quoted and not any(header.startswith(below) for below in LAYERS[layer]):
            found.append(f"{path}: includes {header}: {layer} may include {' '.join(LAYERS[layer])}")
        elif quoted and not exists(header):
            found.append(f"{path}: includes {header}: there is no such file")
    return found


def sources():
    for folder in ("src", "jit", "backends", "bindings", "include"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".hpp", ".cc", ".c", ".def", ".inc") and path.is_file():
                yield path


def test_every_include_follows_the_layers():
    paths = list(sources())
    assert paths, "no source was read"
    found, read = [], 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        read += len(INCLUDE.findall(text))
        found += violations(path.relative_to(ROOT).as_posix(), text,
                            lambda header: (ROOT / header).is_file() or (ROOT / "include" / header).is_file())
    assert read, "no #include was read"
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("path, line", [
    ("src/ir/graph.cc", '#include "src/ops/op.h"'),
    ("src/base/hash.cc", '#include "src/ir/graph.h"'),
    ("src/ir/dim/dim.cc", '#include "src/ir/graph.h"'),
    ("src/ops/rows/names.h", '#include "src/ops/math/math.h"'),
    ("src/ops/math/erf.cc", '#include "src/ops/special/special.h"'),
    ("src/ops/rules/view.cc", '#include "src/ops/bodies/bodies.h"'),
    ("src/ops/bodies/norm.cc", '#include "src/ops/table.h"'),
    ("src/ops/bodies/norm.cc", '#include "src/ops/gradients/help.h"'),
    ("src/ops/table.cc", '#include "src/ops/eval/eval.h"'),
    ("src/backend/memory.h", '#include "src/runtime/plan/plan.h"'),
    ("src/runtime/plan/plan.cc", '#include "src/runtime/compile/options.h"'),
    ("src/runtime/compile/compile.cc", '#include "src/runtime/program.h"'),
    ("src/runtime/plan/plan.cc", '#include "src/api/capi.h"'),
    ("src/runtime/plan/plan.cc", '#include "backends/cpu/cpu.h"'),
    ("src/api/capi.cc", '#include "jit/kernel/kernel.h"'),
    ("src/mxnet/translate/translate.cc", '#include "src/runtime/program.h"'),
    ("src/mxnet/translate/translate.cc", "#include <nlohmann/json.hpp>"),
    ("src/runtime/program.cc", '#include "src/mxnet/symbol.h"'),
    ("src/mxnet/table.cc", '#include "src/mxnet/translate/translate.h"'),
    ("src/cli/run.cc", '  #  include "jit/kernel/kernel.h"'),
    ("jit/lower/lower.cc", '#include "src/backend/backend.h"'),
    ("jit/lower/lower.cc", '#include "backends/cpu/cpu.h"'),
    ("jit/kernel/print.cc", '#include "jit/analysis/index.h"'),
    ("jit/schedule/schedule.cc", '#include "jit/lower/lower.h"'),
    ("jit/lower/lower.cc", '#include "jit/transform/cpu/tile.h"'),
    ("jit/transform/cpu/tile.cc", '#include "jit/pipeline.h"'),
    ("jit/pipeline.cc", '#include "jit/llvm/emit_llvm.h"'),
    ("jit/llvm/emit_llvm.cc", '#include "jit/cuda/emit_cuda.h"'),
    ("jit/objects/object_slice.cc", '#include "jit/llvm/orc.h"'),
    ("backends/cpu/cpu.cc", '#include "src/runtime/plan/plan.h"'),
    ("backends/cpu/cpu.cc", '#include "backends/onednn/onednn.h"'),
    ("backends/cpu/cpu.cc", "#include <dnnl.hpp>"),
    ("backends/cpu/cpu.cc", '#include "backends/library/call.h"'),
    ("backends/nvidia/kernels/cuda.cc", '#include "backends/library/call.h"'),
    ("backends/library/call.cc", '#include "backends/onednn/steps/call.h"'),
    ("backends/library/call.cc", '#include "backends/nvidia/device/device.h"'),
    ("backends/library/call.cc", '#include "src/runtime/plan/plan.h"'),
    ("backends/library/tensor.h", "#include <dnnl.hpp>"),
    ("backends/nvidia/device/driver.cc", "#include <cuda.h>"),
    ("backends/nvidia/device/driver.cc", '#include "backends/cpu/threads.h"'),
    ("backends/nvidia/kernels/cuda.cc", '#include "backends/nvidia/cublaslt/cublaslt.h"'),
    ("backends/nvidia/cublaslt/library.cc", "#include <cublasLt.h>"),
    ("backends/nvidia/cublaslt/cublaslt.cc", '#include "backends/onednn/recipe.h"'),
    ("backends/nvidia/cudnn/library.cc", "#include <cudnn.h>"),
    ("backends/nvidia/cudnn/cudnn.cc", '#include "backends/nvidia/cublaslt/recipe.h"'),
    ("backends/cpu/cpu.cc", "#include <llvm/IR/Module.h>"),
    ("backends/onednn/matmul.cc", "#include <omp.h>"),
    ("jit/llvm/emit_llvm.cc", "#include <llvm/IR/Module.h>"),
    ("jit/llvm/emit_llvm.cc", "#include <llvm-c/Core.h>"),
    ("jit/cuda/emit_cuda.cc", "#include <nvrtc.h>"),
    ("src/passes/fuse.cc", "#include <oneapi/dnnl/dnnl.hpp>"),
    ("src/runtime/plan/cache.cc", "#include <xxhash.h>"),
    ("src/passes/fuse.cc", '#include "fuse.h"'),
    ("src/passes/fuse.cc", "#include <src/ir/graph.h>"),
    ("src/passes/fuse.cc", "#include FUSE_HEADER"),
    ("bindings/mxnet/plugin.cc", '#include "src/ir/graph.h"'),
    ("include/tenon/tenon.h", '#include "src/ir/graph.h"'),
    ("src/elsewhere/x.cc", "#include <vector>"),
])
def test_a_planted_violation_is_seen(path, line):
    text = f"#include <vector>\n{line}\nint x;\n"
    assert len(violations(path, text)) == 1


@pytest.mark.parametrize("path, line", [
    ("src/passes/fuse.cc", '#include "src/ops/op.h"'),
    ("src/api/capi.cc", '#include "tenon/tenon.h"'),
    ("src/api/capi.cc", '#include "src/mxnet/symbol.h"'),
    ("backends/cpu/cpu.cc", '#include "src/backend/backend.h"'),
    ("backends/cpu/threads.cc", "#include <omp.h>"),
    ("backends/list.cc", '#include "backends/onednn/onednn.h"'),
    ("backends/library/call.h", '#include "src/backend/backend.h"'),
    ("backends/onednn/steps/call.h", '#include "backends/library/call.h"'),
    ("backends/nvidia/cudnn/cudnn.cc", '#include "backends/library/call.h"'),
    ("backends/nvidia/cublaslt/library.cc", '#include "backends/nvidia/device/device.h"'),
    ("backends/nvidia/cudnn/library.cc", '#include "backends/nvidia/device/device.h"'),
    ("backends/onednn/matmul.cc", "#include <dnnl.hpp>"),
    ("jit/llvm/orc.cc", "#include <llvm/IR/Module.h>"),
    ("include/tenon/tenon.hpp", "#include <tenon/tenon.h>"),
    ("src/base/arena.cc", '/* #include "jit/llvm/orc.h" */'),
])
def test_an_allowed_include_is_let_through(path, line):
    assert violations(path, line) == []


def test_a_missing_header_is_seen():
    assert violations("src/ir/graph.cc", '#include "src/ir/nothing.h"', lambda header: False)

#!/usr/bin/env python3
"""`./dev bench gradients`: gradients of convolutions and poolings, as the ratio of eager's time to Tenon's, in turns in one run.

Convolutions are layers of ResNet-50 (batch 8) and MobileNetV3 (depthwise, batch 16). Tenon runs a graph text on kept memory; eager is
aten.convolution_backward. Columns: the gradient by the weight alone, by the input alone, and both. `--last` takes channels_last
tensors on both sides. Poolings run through torch.compile. Every answer is compared with eager's first.
"""

import argparse
import ctypes
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch                                             # noqa: E402

from bench.contenders import compiled                    # noqa: E402
from bench.table import aligned                          # noqa: E402
from bench.timing import describe_machine, interleave, speedup      # noqa: E402
from tenon import _abi                                   # noqa: E402

# name: images, input channels, output channels, input size, kernel, stride, groups
LAYERS = {
    "7x7 s2 3-64": (8, 3, 64, 224, 7, 2, 1),
    "1x1 64-64 @56": (8, 64, 64, 56, 1, 1, 1),
    "3x3 64-64 @56": (8, 64, 64, 56, 3, 1, 1),
    "1x1 64-256 @56": (8, 64, 256, 56, 1, 1, 1),
    "1x1 256-128 @56": (8, 256, 128, 56, 1, 1, 1),
    "3x3 s2 128-128 @56": (8, 128, 128, 56, 3, 2, 1),
    "1x1 s2 256-512 @56": (8, 256, 512, 56, 1, 2, 1),
    "3x3 128-128 @28": (8, 128, 128, 28, 3, 1, 1),
    "1x1 512-128 @28": (8, 512, 128, 28, 1, 1, 1),
    "3x3 256-256 @14": (8, 256, 256, 14, 3, 1, 1),
    "1x1 1024-256 @14": (8, 1024, 256, 14, 1, 1, 1),
    "3x3 512-512 @7": (8, 512, 512, 7, 3, 1, 1),
    "1x1 512-2048 @7": (8, 512, 2048, 7, 1, 1, 1),
    "depthwise 3x3 16 @112": (16, 16, 16, 112, 3, 1, 16),
    "depthwise 3x3 s2 64 @112": (16, 64, 64, 112, 3, 2, 64),
    "depthwise 5x5 120 @28": (16, 120, 120, 28, 5, 1, 120),
    "depthwise 3x3 184 @14": (16, 184, 184, 14, 3, 1, 184),
    "depthwise 5x5 672 @14": (16, 672, 672, 14, 5, 1, 672),
    "depthwise 5x5 960 @7": (16, 960, 960, 7, 5, 1, 960),
}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


def runner(text, inputs, outputs):
    """(a function that runs the graph on these contiguous f32 tensors, the program)"""
    program = _abi.Program(text)
    kept = []

    def pointers(tensors):
        made = []
        for t in tensors:
            assert t.is_contiguous() and t.dtype == torch.float32
            made.append(Tensor(t.data_ptr(), 1, 0, t.dim(), 2, 32, 1, (ctypes.c_int64 * t.dim())(*t.shape), None, 0))
        kept.extend([tensors, made])
        return (ctypes.c_void_p * len(made))(*map(ctypes.addressof, made))

    ins, outs = pointers(inputs), pointers(outputs)
    call = _abi.library().tenon_program_run_on
    run = lambda: _abi.check(call(program.handle, ins, len(inputs), outs, len(outputs), None))
    run.keeps = kept
    return run, program


def convolution(layer, last):
    """{"weight" | "input" | "both": (eager, tenon, program)}"""
    n, c, o, size, k, stride, groups = layer
    pad = k // 2
    positions = (size + 2 * pad - k) // stride + 1
    extra = size + 2 * pad - k - (positions - 1) * stride
    form = torch.channels_last if last else torch.contiguous_format
    x, w, dy = torch.randn(n, c, size, size), torch.randn(o, c // groups, k, k), torch.randn(n, o, positions, positions)
    x, w_eager, dy = x.to(memory_format=form), w.to(memory_format=form), dy.to(memory_format=form)
    stored = (lambda t: t.permute(0, 2, 3, 1)) if last else (lambda t: t)
    typed = lambda t: f"f32[{','.join(map(str, t.shape))}]"
    common = (f"strides=[{stride},{stride}], padding=[{pad},{pad}], padding_high=[{pad},{pad}], dilations=[1,1], groups={groups}"
              + (', layout="channels_last"' if last else ""))
    by_weight = f" %dw = convolution_weight_gradient(%x, %d){{kernel=[{k},{k}], {common}}}\n"
    by_input = f" %dx = convolution(%d, %w){{transposed=true, output_padding=[{extra},{extra}], {common}}}\n"
    parts = {"weight": (by_weight, ["dw"]), "input": (by_input, ["dx"]), "both": (by_input + by_weight, ["dx", "dw"])}
    made = {}
    for name, (body, results) in parts.items():
        mask = ["dx" in results, "dw" in results, False]
        eager = lambda mask=mask: torch.ops.aten.convolution_backward(dy, x, w_eager, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0],
                                                                      groups, mask)
        text = (f"graph @g(%x: {typed(stored(x))}, %w: {typed(w)}, %d: {typed(stored(dy))}) {{\n{body} return "
                + ", ".join("%" + r for r in results) + "\n}")
        outputs = [torch.zeros_like(stored(x).contiguous()) if r == "dx" else torch.zeros_like(w) for r in results]
        run, program = runner(text, [stored(x).contiguous(), w, stored(dy).contiguous()], outputs)
        run()
        want = eager()
        for r, got in zip(results, outputs):
            exact = stored(want[0]) if r == "dx" else want[1]
            error = (got - exact).abs().max() / exact.abs().max()
            assert error < 1e-4, f"{name} {r}: off by {error}"
        made[name] = (eager, run, program)
    return made


def poolings():
    """{name: (function, arguments)}"""
    aten = torch.ops.aten
    x, u, v, z = torch.randn(8, 64, 112, 112), torch.randn(4, 64, 128, 128), torch.randn(8, 64, 56, 56), torch.randn(8, 2048, 7, 7)
    made = {}
    for name, t, args in (("max_pool 3x3 s2 64 @112", x, ([3, 3], [2, 2], [1, 1], [1, 1], False)),
                          ("max_pool 2x2 s2 64 @128", u, ([2, 2], [2, 2], [0, 0], [1, 1], False))):
        y, places = aten.max_pool2d_with_indices(t, *args)
        made[name] = (lambda g, t, places, args=args: aten.max_pool2d_with_indices_backward(g, t, *args, places),
                      (torch.randn_like(y), t, places))
    for name, t, args in (("avg_pool 2x2 s2 64 @56", v, ([2, 2], [2, 2], [0, 0], False, True, None)),
                          ("avg_pool 3x3 s2 64 @56", v, ([3, 3], [2, 2], [1, 1], False, True, None))):
        made[name] = (lambda g, t, args=args: aten.avg_pool2d_backward(g, t, *args), (torch.randn_like(aten.avg_pool2d(t, *args)), t))
    made["adaptive_avg_pool 1x1 2048 @7"] = (lambda g, t: aten._adaptive_avg_pool2d_backward(g, t), (torch.randn(8, 2048, 1, 1), z))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="measures rows whose names contain this")
    parser.add_argument("--last", action="store_true", help="tensors are channels_last")
    parser.add_argument("--explain", action="store_true", help="prints the steps of each program")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    print(describe_machine(), f"{options.threads} threads", "channels_last" if options.last else "channels_first")
    rows = []
    for name, layer in LAYERS.items():
        if options.only not in name:
            continue
        cells = [name]
        for part, (eager, run, program) in convolution(layer, options.last).items():
            if options.explain:
                print(f"--- {name}, {part}\n{program.explain()}")
            times = interleave({"eager": eager, "tenon": run}, options.rounds, round_s=0.02, warm_up=1, clock=clock)
            cells += [round(1e6 * min(times["tenon"])), f"{speedup(times['eager'], times['tenon']):.2f}"]
        rows.append(cells)
        print(*map(str, cells), sep="\t", flush=True)
    with torch.no_grad():
        for name, (function, args) in poolings().items():
            if options.only not in name:
                continue
            ours = compiled(function, "tenon")
            torch.testing.assert_close(ours(*args), function(*args))
            times = interleave({"eager": lambda: function(*args), "tenon": lambda: ours(*args)}, options.rounds, round_s=0.02, warm_up=1, clock=clock)
            rows.append([name, "", "", round(1e6 * min(times["tenon"])), f"{speedup(times['eager'], times['tenon']):.2f}", "", ""])
            print(*map(str, rows[-1]), sep="\t", flush=True)
    print(aligned(["", "weight us", "x", "input us", "x", "both us", "x"], rows))


if __name__ == "__main__":
    main()

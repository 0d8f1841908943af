"""Which tensors of PyTorch Tenon can take, and how graph text names their dtypes and layouts.

Tested by tests/torch/test_lower.py and test_dtypes.py.
"""

import torch

from ...graph_text import Unsupported, Value, input_text, strides_text
from . import layouts, sizes

DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2",
}


def dtype_of(dtype):
    if dtype not in DTYPES:
        raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}, which Tenon does not have")
    return DTYPES[dtype]


CPU = torch.device("cpu")


def why_not(fake, device=CPU):
    """The reason why a tensor cannot be an input or output of a program, or None if it can. device: of the graph."""
    if fake.layout != torch.strided:
        return f"a tensor of layout {str(fake.layout).removeprefix('torch.')}"
    if not same_device(fake.device, device):
        return f"a tensor on {fake.device}" + (f" in a graph on {device}" if device != CPU else "")
    if fake.is_quantized:
        return "a quantized tensor"
    if fake.is_conj() or fake.is_neg():
        return "a lazily conjugated or negated tensor"
    if fake.dtype not in DTYPES:
        return f"a tensor of dtype {str(fake.dtype).removeprefix('torch.')}, which Tenon does not have"
    if fake.dim() > 16:
        return "a tensor of more than 16 axes"
    return None


def same_device(device, of_graph):
    """Whether `device`, which may have no index, is the graph's device."""
    return device.type == of_graph.type and device.index in (None, of_graph.index)


def is_moved(fake, device):
    """Whether a tensor is a scalar on the CPU in a graph on a GPU. PyTorch uses such a scalar as a number; we copy it to the GPU."""
    return device != CPU and fake.device == CPU and fake.dim() == 0


def tensor_input_text(n, value_name, param, donated, size=sizes.text, name=str):
    """param, donated: as in input_text; size, name: functions that write a size and the name of a value."""
    fake = n.meta["val"]
    value = Value(value_name, dtype_of(fake.dtype), sizes.sizes(fake.shape))
    return input_text(value, size, name, layout_text(fake, size), param, donated)


def layout_text(fake, size=sizes.text):
    shape, strides = sizes.sizes(fake.shape), sizes.sizes(fake.stride())
    return "" if layouts.is_dense(shape, strides) else strides_text(layouts.normal_strides(shape, strides), size)

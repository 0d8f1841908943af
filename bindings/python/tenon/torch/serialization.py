"""Saves and loads compiled functions, for torch.compile(f, backend="tenon", fullgraph=True).aot_compile(...) and for function_cache.py.

PyTorch pickles its own wrappers around a compiled graph. The compiled graph is a Function, which pickles as one JSON text: the
graph texts, the host steps, the layout of a frame and the constants, without code objects or classes of this package. A file of
aot_compile starts with format, versions and checksum, which are checked before anything is unpickled. A loaded function makes its
programs at once. If it packs parameters, it makes them in its first call, because aot_compile passes no real tensors to a backend.
Tested by tests/torch/test_serialization.py and test_function_cache.py.
"""

import base64
import builtins
import dataclasses
import hashlib
import itertools
import json
import math
import operator
import threading
import weakref

import torch
from torch._dynamo.aot_compile_types import BundledAOTAutogradSerializableCallable, SerializableCallable
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.functional_utils import ViewMetaSequence
from torch._inductor.output_code import OutputCode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .. import _abi, report
from . import program_cache
from .runtime import frames, packing, refusal, runner

FORMAT = 10  # of the file: its head and the JSON of a Function
_MAGIC = b"tenon saved function\n"


class SerializationError(RuntimeError):
    """A function cannot be saved, or a file cannot be loaded. The message says why."""


class SerializedFunction(SerializableCallable):
    """The backend returns this for aot_compile. function: AOTAutograd's wrapper of a Function."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    @classmethod
    def serialize_compile_artifacts(cls, fn):
        inner = fn.function
        if not isinstance(inner, BundledAOTAutogradSerializableCallable):
            inner = BundledAOTAutogradSerializableCallable(inner)
        body = type(inner).serialize_compile_artifacts(inner)
        return _MAGIC + json.dumps(_head(body)).encode() + b"\n" + body

    @classmethod
    def deserialize_compile_artifacts(cls, data):
        magic, rest = data[:len(_MAGIC)], data[len(_MAGIC):]
        head, newline, body = rest.partition(b"\n")
        try:
            saved = json.loads(head)
            if magic != _MAGIC or not newline or not isinstance(saved, dict):
                raise ValueError
        except ValueError:
            raise SerializationError("tenon: this is not a saved function, or it is damaged") from None
        here = _head(body)
        for key in ("format", "torch"):
            if saved.get(key) != here[key]:
                raise SerializationError(f"tenon: saved by Tenon {saved.get('tenon')} in format {saved.get('format')} under PyTorch "
                                 f"{saved.get('torch')}; this is Tenon {here['tenon']}, format {here['format']}, PyTorch "
                                 f"{here['torch']}: save it again")
        if saved.get("sha256") != here["sha256"]:
            raise SerializationError("tenon: the saved function is damaged: its checksum does not match")
        return cls(BundledAOTAutogradSerializableCallable.deserialize_compile_artifacts(body))


def _head(body):
    return {"format": FORMAT, "tenon": _abi.library().tenon_version_string().decode(), "torch": str(torch.__version__),
            "sha256": hashlib.sha256(body).hexdigest()}


class _Output(OutputCode):
    """Has the methods that PyTorch calls on an OutputCode. A copy is the object itself."""

    def prepare_for_serialization(self):
        pass

    def post_compile(self, example_inputs, constants, graph_kwargs):
        pass

    def set_triton_bundle(self, triton_bundle):
        pass

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


class Function(_Output):
    """A boxed function that can be pickled. It has either a function of runner.py and its Compiled, or `data` (see dump). From data,
    post_compile or the first call makes the function."""

    def __init__(self, call=None, compiled=None, options=None, data=None):
        self.call, self.compiled, self.options, self.data = call, compiled, options, data
        self.keeps_data = True  # whether it may be saved again
        self.lock, self._tenon_record, self._boxed_call = threading.Lock(), None, True  # PyTorch's wrappers copy the last two
        if data is not None and data["indices"]:
            self.call = self._first_call

    def __call__(self, args):
        return self.call(args)

    def _first_call(self, args):
        with self.lock:
            if self.call == self._first_call:
                self._make(args)
        return self.call(args)

    def _make(self, args):
        start, record = report.clock(), self._tenon_record or _record(self.data)
        self.call, self.compiled = _load(self.data, args, record.name, refusal.of_calls(record, self.data["fallback"]))
        record.compiled, record.seconds = self.compiled, report.clock() - start
        for program in record.programs:
            report.track(program)
        self._tenon_record = record
        if not self.keeps_data:
            self.data = None

    def post_compile(self, example_inputs, constants, graph_kwargs):
        """Makes the function of a loaded Function, unless it packs parameters. graph_kwargs: may have a function loaded(data), which
        returns its Record; nobody saves the function again then."""
        if self.data is None:
            return
        if "loaded" in graph_kwargs:
            self._tenon_record, self.keeps_data = graph_kwargs["loaded"](self.data), False
        if not self.data["indices"]:
            self._make(())

    def __reduce__(self):
        data = self.data or dump(self.compiled, self.options, self._tenon_record)
        return _unpickle, (json.dumps(data),)


class Kept(_Output):
    """A compiled function as it goes into the cache of function_cache.py. It is pickled at most once, as a Function."""

    def __init__(self, record, options, kind, written):
        """kind: as in compile.py; written: the indices of the inputs that the graph writes to."""
        self.record, self.options, self.kind, self.written = weakref.ref(record), options, kind, written

    def prepare_for_serialization(self):
        record = self.record()
        if record.compiled is None:
            raise BypassAOTAutogradCache("tenon: a graph runs in PyTorch")
        if _is_for_certain_floats():
            raise BypassAOTAutogradCache("tenon: the function is for certain values of Python floats")
        try:
            with _disable_current_modes():  # constants are real tensors
                data = dump(record.compiled, self.options, record)
        except SerializationError as e:
            raise BypassAOTAutogradCache(str(e)) from e
        self.text = json.dumps(data | {"kind": self.kind, "written": sorted(self.written)})

    def __reduce__(self):
        text, self.text = self.text, None
        return _unpickle, (text,)


class _UnsavedViews(ViewMetaSequence):
    """A record of the views that make an output from its base. Its pickle is None; AOTAutograd then makes the output by its strides."""

    def __init__(self, record):
        self.sequence, self.metadata = record.sequence, record.metadata

    def __reduce__(self):
        return type(None), ()


def leave_views_out_of_pickles(metadata):
    """Replaces the records of views that PyTorch pickles wrongly: for _unsafe_view and resize_ it reads the sizes from freed memory.
    metadata: AOTAutograd's of a graph."""
    for i, output in enumerate(metadata.output_info):
        record = output.view_meta_sequence
        if record is not None and any(type(v).__name__ in ("_unsafe_view_ViewMeta", "resize__ViewMeta") for v in record.sequence):
            metadata.output_info[i] = dataclasses.replace(output, view_meta_sequence=_UnsavedViews(record))


def _is_for_certain_floats():
    """Whether a guard of the graph that is compiled now names a Python float. The graph then has its value as a constant, such as that of a
    float that it returns. The guards of PyTorch's entries are about sizes only."""
    guards = torch._guards.TracingContext.get().fake_mode.shape_env.guards
    return any(symbol_is_type(s, SymT.FLOAT) for guard in guards for s in guard.expr.free_symbols)


def _unpickle(text):
    return Function(data=json.loads(text))


def noted(record, data):
    """The Record of a loaded function, with the fallbacks of the compiled one."""
    for row in data["fallbacks"]:
        record.fallback(*row)
    record.close()
    return record


def _record(data):
    return noted(report.Record(data["name"], data["nodes"]), data)


# --- a function as data ---
def dump(compiled, options, record, pack=()):
    """The JSON data of a function. The loaded function packs in its first call the arguments that the function has packed, and those
    with a number in `pack`."""
    layout, indices, parts = compiled.pool.layout, [], []
    packed = {program: numbers for program, _, numbers in layout.frozen.programs} if layout.frozen else {}
    arguments = iter(compiled.indices)
    for s in layout.segments:
        inputs, numbers = list(s.inputs), list(packed.get(s.program, ()))
        indices += itertools.islice(arguments, len(numbers))
        for argument, word, _ in s.bound:
            if argument in pack:
                numbers.append(inputs.index(word))
                indices.append(argument)
                inputs[numbers[-1]] = None
        made = [(at, rank, given and [*given[:2], _encode(given[2])]) for at, rank, given in s.made]
        parts.append({"text": s.program.text, "values": [v if isinstance(v, int) else str(v) for v in s.values],
                      "inputs": inputs, "numbers": numbers, "fixed": [(number, _encode(tensor)) for number, tensor in s.program.constants], "outputs": s.outputs, "made": made,
                      "bound": [row for row in s.bound if row[0] not in pack], "donated": s.donated})
    return {"name": record.name, "nodes": record.nodes, "num_threads": options.num_threads,
            "device_graphs": options.device_graphs, "fallback": options.fallback, "verify": options.verify,
            "fallbacks": [row for row in record.fallbacks if row[0] != report.CALL],
            "rescues": [(text, {name: _encode(value) for name, value in given.items()}) for text, given in compiled.rescues],
            "body": compiled.body, "device": layout.device, "words": layout.words, "pointers": layout.pointers, "parts": parts, "indices": indices,
            "constants": {name: _encode(value) for name, value in compiled.constants.items()}}


def _load(data, args, name, refused):
    """Makes a function from the data of dump(). Returns (boxed function, Compiled). args: the arguments of the first call, if the
    function packs parameters; name: of the graph; refused: as in codegen.build."""
    if any(args[i].is_inference() for i in data["indices"]):
        raise SerializationError("tenon: parameters made under inference_mode have no version, so they cannot be packed")
    layout, packed, left = frames.Layout(data["device"]), [], iter(data["indices"])
    layout.words, layout.pointers = data["words"], [tuple(p) for p in data["pointers"]]
    for part in data["parts"]:
        inputs, numbers = part["inputs"], part["numbers"]
        fixed = [(number, _decode(tensor)) for number, tensor in part["fixed"]]
        params = packing.Params(len(inputs), [(number, args[next(left)]) for number in numbers] + fixed)
        program = program_cache.program(part["text"], params if numbers or fixed else None, data["num_threads"], layout.device,
                                        data["device_graphs"], data["verify"])
        program.constants = fixed
        if numbers:
            packed.append((program, len(inputs), numbers))
        made = [(at, rank, given and (tuple(given[0]), tuple(given[1]), _decode(given[2]))) for at, rank, given in part["made"]]
        layout.segments.append(frames.Part(program, part["values"], inputs, tuple(part["outputs"]), part["bound"], part["donated"], made))
    if packed:
        layout.frozen = packing.Frozen(packed, [args[i] for i in data["indices"]])
    def decoded(values):
        return {name: _decode(value) for name, value in values.items()}

    uses = [runner.Use(s.program, s.values, None) for s in layout.segments]
    rescues = [(text, decoded(given)) for text, given in data["rescues"]]
    return runner.assemble(data["body"], decoded(data["constants"]), rescues, name, refused, layout, data["indices"], uses)


_NAMED = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}
_MODULES = {"operator": operator, "math": math, "builtins": builtins, "torch": torch, "runner": runner}  # whose functions host steps may call


def _encode(value):
    """The JSON of a constant of the host steps."""
    for kind, cls in _NAMED.items():
        if isinstance(value, cls):
            return [kind, str(value).removeprefix("torch.")]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, torch._ops.OpOverload):
        return ["op", str(value)]
    for kind, module in _MODULES.items():
        if getattr(module, getattr(value, "__name__", ""), None) is value:
            return [kind, value.__name__]
    if type(value) is torch.Tensor and value.layout == torch.strided and value.device.type == "cpu":
        storage = value.detach().contiguous().clone().untyped_storage()
        content = base64.b64encode(bytes(storage)).decode()
        return ["tensor", _encode(value.dtype), list(value.shape), list(value.stride()), content]
    raise SerializationError(f"tenon: a function with a {type(value).__name__} in its host steps cannot be saved")


def _decode(value):
    kind, *rest = value
    if kind in _NAMED:
        return getattr(torch, rest[0])
    if kind == "device":
        return torch.device(rest[0])
    if kind == "float":
        return float.fromhex(rest[0])
    if kind in _MODULES:
        return getattr(_MODULES[kind], rest[0])
    if kind == "op":
        return operator.attrgetter(rest[0])(torch.ops)
    dtype, shape, strides, content = _decode(rest[0]), *rest[1:]
    flat = torch.frombuffer(bytearray(base64.b64decode(content)), dtype=dtype) if content else torch.empty(0, dtype=dtype)
    return torch.empty_strided(shape, strides, dtype=dtype).copy_(flat.reshape(shape))

/* The module tenon._lib._marshal: the work per tensor in a call of a compiled function, in C instead of ctypes.
 *
 * It reads tensors through torch.Tensor.__dlpack_c_exchange_api__, a table of C functions (DLPack 1.3), so neither PyTorch's
 * headers nor its version matter. It uses Python's stable ABI, so one file serves every Python from 3.10 on.
 * A frame (frames.py) is an array of int64, called words. A plan is a bytes object that holds int64.
 * Every function checks the types and bounds of its arguments and raises a Python error.
 * bindings/python/tenon/torch/runtime/marshal.py has the same functions in Python. Tested by tests/torch/ with both.
 */
#include "bindings/python/dlpack.h"
#include "bindings/python/draw.h"
#include "bindings/python/observer.h"
#include "bindings/python/outputs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t (*Run)(void*, const void*, size_t, const void*, size_t, void*); /* tenon_program_run_on */
typedef struct {                                                                /* tenon_run_host */
  size_t struct_size;
  void* user;
  void* (*allocate)(void*, size_t);
  void (*release)(void*, size_t);
} RunHost;
typedef int32_t (*RunWith)(void*, const void*, size_t, const void*, size_t,
                           const RunHost*); /* tenon_program_run_with */

static const Exchange* exchange;
static PyObject* version_name;

static int tensor_of(PyObject* object, Tensor* out) { return tensor_in(exchange, object, out); }

static int64_t first_element(const Tensor* t) { return (int64_t)(intptr_t)t->data + (int64_t)t->byte_offset; }

static int64_t device_word(int32_t type, int32_t id) {
  return (int64_t)((uint64_t)(uint32_t)id << 32 | (uint32_t)type);
}

/* Writes a tensor's address into its DLTensor in a frame. words: the words of the DLTensor: data first, then the device
 * (frames.py, Layout.tensor). rank: if it is not -1, the tensor has to have this rank, and its shape and strides are written
 * too; if it is -1, the frame already holds them. */
static int bind_one(int64_t* words, int64_t rank, PyObject* object) {
  Tensor t;
  if (tensor_of(object, &t) != 0) return -1;
  if (device_word(t.device_type, t.device_id) != words[1]) {
    PyErr_Format(PyExc_TypeError, "tenon: a tensor on device %d of type %d, not %d of type %d",
                 (int)t.device_id, (int)t.device_type, (int)(words[1] >> 32), (int)(int32_t)words[1]);
    return -1;
  }
  words[0] = first_element(&t);
  if (rank < 0) return 0;
  if (t.ndim != rank) {
    PyErr_Format(PyExc_TypeError, "tenon: a tensor of rank %d, not %d", (int)t.ndim, (int)rank);
    return -1;
  }
  for (int64_t i = 0; i < rank; i++) {
    words[6 + i] = t.shape[i];
    words[6 + rank + i] = t.strides[i];
  }
  return 0;
}

/* The int64 of a plan. */
static const int64_t* plan_of(PyObject* object, Py_ssize_t* count) {
  char* bytes;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) return NULL;
  *count = size / (Py_ssize_t)sizeof(int64_t);
  return (const int64_t*)bytes;
}

static PyObject* item(PyObject* args, int64_t index) {
  if (index < 0 || index >= PyList_Size(args)) {
    PyErr_SetString(PyExc_IndexError, "tenon: fewer arguments than the compiled function has");
    return NULL;
  }
  return PyList_GetItem(args, (Py_ssize_t)index);
}

static int takes(Py_ssize_t count, Py_ssize_t expected) {
  if (count != expected) PyErr_Format(PyExc_TypeError, "tenon: %zd arguments, not %zd", expected, count);
  return count == expected;
}

/* For each (i, w, rank) of the plan, binds args[i] at word w. */
static int bind_all(int64_t* words, const int64_t* plan, Py_ssize_t count, PyObject* args) {
  for (Py_ssize_t i = 0; i + 2 < count; i += 3) {
    PyObject* object = item(args, plan[i]);
    if (!object || bind_one(words + plan[i + 1], plan[i + 2], object) != 0) return -1;
  }
  return 0;
}

/* One program of a compiled function. */
typedef struct {
  Run run;
  RunWith run_with; /* for a program with donated inputs; else NULL */
  void* program;
  int64_t inputs, n_inputs, outputs, n_outputs; /* words of the tables of tensors, and their lengths */
  int64_t count;                                /* word that counts calls; -1: none */
  int32_t device_type, device_id;               /* of the program */
  PyObject* plan;                               /* for bind_all */
  PyObject* donated;                            /* (input, index in args) of each donated input */
  PyObject*
      made; /* for each output (word, rank, arguments of empty, or None: the caller passes the output) */
  PyObject* empty; /* makes a tensor */
  PyObject* fail;  /* fail(status) raises */
  PyObject* owner; /* keeps the program alive */
} Step;

static const char kStep[] = "tenon step";

static void step_free(PyObject* capsule) {
  Step* s = PyCapsule_GetPointer(capsule, kStep);
  Py_XDECREF(s->plan);
  Py_XDECREF(s->donated);
  Py_XDECREF(s->made);
  Py_XDECREF(s->empty);
  Py_XDECREF(s->fail);
  Py_XDECREF(s->owner);
  PyMem_Free(s);
}

/* Makes output i, as its row of `made` says, and binds it. */
static PyObject* make_output(const Step* s, int64_t* words, Py_ssize_t i) {
  PyObject* row = PyTuple_GetItem(s->made, i);
  PyObject* tensor = PyObject_CallObject(s->empty, PyTuple_GetItem(row, 2));
  const int64_t word = PyLong_AsLongLong(PyTuple_GetItem(row, 0)),
                rank = PyLong_AsLongLong(PyTuple_GetItem(row, 1));
  if (tensor && bind_one(words + word, rank, tensor) == 0) return tensor;
  Py_XDECREF(tensor);
  return NULL;
}

/* Whether output i gets its memory when the program first writes to it. Its shape is in the frame already. */
static int is_late(const Step* s, Py_ssize_t i) {
  PyObject* row = PyTuple_GetItem(s->made, i);
  return s->run_with && PyTuple_GetItem(row, 2) != Py_None && PyLong_AsLongLong(PyTuple_GetItem(row, 1)) < 0;
}

/* Binds the outputs and returns them as a new tuple, in which late ones are missing. Outputs whose row in `made` has no arguments come
 * from `given`. */
static PyObject* make_outputs(const Step* s, int64_t* words, PyObject* const* given, Py_ssize_t n_given) {
  PyObject* outputs = PyTuple_New((Py_ssize_t)s->n_outputs);
  Py_ssize_t used = 0;
  for (Py_ssize_t i = 0; outputs && i < s->n_outputs; i++) {
    PyObject* row = PyTuple_GetItem(s->made, i);
    const int64_t word = PyLong_AsLongLong(PyTuple_GetItem(row, 0)),
                  rank = PyLong_AsLongLong(PyTuple_GetItem(row, 1));
    PyObject* tensor = NULL;
    if (is_late(s, i)) {
      words[word] = 0;
      continue;
    }
    if (PyTuple_GetItem(row, 2) != Py_None) {
      tensor = make_output(s, words, i);
    } else if (used >= n_given) {
      PyErr_SetString(PyExc_TypeError, "tenon: fewer outputs than the program has");
    } else if (bind_one(words + word, rank, given[used]) == 0) {
      tensor = given[used++];
      Py_INCREF(tensor);
    }
    if (!tensor) {
      Py_CLEAR(outputs);
      break;
    }
    PyTuple_SetItem(outputs, i, tensor);
  }
  return outputs;
}

/* A run of a program with donated inputs. */
typedef struct {
  const Step* step;
  int64_t* words;
  PyObject *args, *outputs;
} LateRun;

static void* allocate_late(void* user, size_t output) {
  const LateRun* r = user;
  const PyGILState_STATE lock = PyGILState_Ensure();
  void* data = NULL;
  PyObject* tensor = make_output(r->step, r->words, (Py_ssize_t)output);
  if (tensor) {
    const int64_t word =
        PyLong_AsLongLong(PyTuple_GetItem(PyTuple_GetItem(r->step->made, (Py_ssize_t)output), 0));
    data = (void*)(intptr_t)r->words[word];
    PyTuple_SetItem(r->outputs, (Py_ssize_t)output, tensor);
  }
  PyGILState_Release(lock);
  return data;
}

/* Replaces the arguments that are donated as this input by Ellipsis; input -1: all that are donated. */
static void drop_donated(const Step* s, PyObject* args, int64_t input) {
  Py_ssize_t count = 0;
  const int64_t* donated = plan_of(s->donated, &count);
  for (Py_ssize_t i = 0; i + 1 < count; i += 2)
    if (input < 0 || donated[i] == input) {
      Py_INCREF(Py_Ellipsis);
      PyList_SetItem(args, (Py_ssize_t)donated[i + 1], Py_Ellipsis);
    }
}

static void release_donated(void* user, size_t input) {
  const LateRun* r = user;
  const PyGILState_STATE lock = PyGILState_Ensure();
  drop_donated(r->step, r->args, (int64_t)input);
  PyGILState_Release(lock);
}

enum {
  kEnvironment = 3
}; /* TENON_ENVIRONMENT; less: the program has refused the tensors and left them as they are */

/* Runs the program with memory that comes late and goes early. If it fails on the way, all donated arguments become Ellipsis, because
 * some may be overwritten. */
static int32_t run_late(const Step* s, int64_t* words, PyObject* args, PyObject* outputs) {
  LateRun run = {s, words, args, outputs};
  const RunHost host = {sizeof host, &run, allocate_late, release_donated};
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status = s->run_with(s->program, words + s->inputs, (size_t)s->n_inputs,
                                              words + s->outputs, (size_t)s->n_outputs, &host);
  Py_END_ALLOW_THREADS for (Py_ssize_t i = 0; status == 0 && i < s->n_outputs; i++) {
    if (PyTuple_GetItem(outputs, i)) continue; /* it has no elements */
    PyObject* tensor = make_output(s, words, i);
    if (!tensor) break;
    PyTuple_SetItem(outputs, i, tensor);
  }
  if (status >= kEnvironment || PyErr_Occurred()) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    drop_donated(s, args, -1);
    PyErr_Restore(type, value, trace);
  }
  return status;
}

/* step(words, args, output...) -> tuple of outputs. Releases the interpreter lock while the program runs. */
static PyObject* call_step(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  Step* s = PyCapsule_GetPointer(self, kStep);
  if (!s) return NULL;
  if (n < 2)
    return PyErr_Format(PyExc_TypeError, "tenon: a step takes a frame and a list, not %zd arguments", n);
  int64_t* words = PyLong_AsVoidPtr(a[0]);
  Py_ssize_t count;
  const int64_t* plan = plan_of(s->plan, &count);
  if (!words || !plan || bind_all(words, plan, count, a[1]) != 0) return NULL;
  PyObject* outputs = make_outputs(s, words, a + 2, n - 2);
  if (!outputs) return NULL;
  void* stream = NULL;
  if (s->device_type != CPU && exchange->current_stream(s->device_type, s->device_id, &stream) != 0) {
    Py_DECREF(outputs);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "tenon: the device has no current stream");
    return NULL;
  }
  if (s->count >= 0) words[s->count]++;
  int32_t status;
  if (s->run_with) {
    status = run_late(s, words, a[1], outputs);
  } else {
    Py_BEGIN_ALLOW_THREADS status = s->run(s->program, words + s->inputs, (size_t)s->n_inputs,
                                           words + s->outputs, (size_t)s->n_outputs, stream);
    Py_END_ALLOW_THREADS
  }
  if (observer_failed() || PyErr_Occurred()) {
    Py_DECREF(outputs);
    return NULL;
  }
  if (status == 0) return outputs;
  Py_DECREF(outputs);
  PyObject* result = PyObject_CallFunction(s->fail, "i", status);
  Py_XDECREF(result);
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "tenon: a program failed");
  return NULL;
}

static PyMethodDef step_method = {"step", (PyCFunction)(void (*)(void))call_step, METH_FASTCALL,
                                  "step(words, args, output...) -> tuple of outputs"};

static int are_outputs(PyObject* made) {
  if (!PyTuple_Check(made)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(made); i++) {
    PyObject* row = PyTuple_GetItem(made, i);
    if (!PyTuple_Check(row) || PyTuple_Size(row) != 3) return 0;
    PyObject* arguments = PyTuple_GetItem(row, 2);
    if (!PyLong_Check(PyTuple_GetItem(row, 0)) || !PyLong_Check(PyTuple_GetItem(row, 1)) ||
        !(arguments == Py_None || PyTuple_Check(arguments)))
      return 0;
  }
  return 1;
}

/* step(function, function with a host, program, owner, plan, donated, (inputs, n), (outputs, n), made, empty, fail, count,
 * (device type, id)) -> a step. */
static PyObject* step(PyObject* self, PyObject* args) {
  (void)self;
  Step* s = PyMem_Calloc(1, sizeof *s);
  if (!s) return PyErr_NoMemory();
  PyObject *capsule = PyCapsule_New(s, kStep, step_free), *function, *with_host, *program;
  if (!capsule) {
    PyMem_Free(s);
    return NULL;
  }
  PyObject *owner, *plan, *donated, *made, *empty, *fail;
  long long in[2], out[2], count;
  int type, id;
  if (!PyArg_ParseTuple(args, "OOOOO!O!(LL)(LL)OOOL(ii):step", &function, &with_host, &program, &owner,
                        &PyBytes_Type, &plan, &PyBytes_Type, &donated, &in[0], &in[1], &out[0], &out[1],
                        &made, &empty, &fail, &count, &type, &id))
    goto failed;
  if (!are_outputs(made) || PyTuple_Size(made) != out[1]) {
    PyErr_SetString(PyExc_TypeError, "tenon: outputs are (word, rank, arguments or None) each");
    goto failed;
  }
  void *address = PyLong_AsVoidPtr(function), *address_with = PyLong_AsVoidPtr(with_host);
  s->program = PyLong_AsVoidPtr(program);
  if (PyErr_Occurred()) goto failed;
  memcpy(&s->run, &address, sizeof s->run);
  if (PyBytes_Size(donated) > 0) memcpy(&s->run_with, &address_with, sizeof s->run_with);
  s->device_type = type, s->device_id = id;
  s->inputs = in[0], s->n_inputs = in[1], s->outputs = out[0], s->n_outputs = out[1], s->count = count;
  Py_INCREF(s->owner = owner);
  Py_INCREF(s->plan = plan);
  Py_INCREF(s->donated = donated);
  Py_INCREF(s->made = made);
  Py_INCREF(s->empty = empty);
  Py_INCREF(s->fail = fail);
  PyObject* result = PyCFunction_NewEx(&step_method, capsule, NULL);
  Py_DECREF(capsule);
  return result;
failed:
  Py_DECREF(capsule);
  return NULL;
}

/* pointer(words, word, rank, tensor): binds the tensor at the word (see bind_one). */
static PyObject* pointer(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  if (!takes(n, 4)) return NULL;
  int64_t* words = PyLong_AsVoidPtr(a[0]);
  const Py_ssize_t word = PyLong_AsSsize_t(a[1]), rank = PyLong_AsSsize_t(a[2]);
  if (!words || PyErr_Occurred() || bind_one(words + word, rank, a[3]) != 0) return NULL;
  Py_RETURN_NONE;
}

enum { kSamples = 3 };

/* The fields of a tensor that current() compares. Some of PyTorch's operators write without a new version: batch norm updates its statistics
 * so, and so do fused optimizers and collectives. They change all elements, hence also the first, middle and last bytes. */
typedef struct {
  int64_t address, version, samples[kSamples];
} State;

/* Reads the address and the version of a tensor. */
static int identify(PyObject* tensor, Tensor* t, State* out) {
  if (tensor_of(tensor, t) != 0) return -1;
  out->address = first_element(t);
  PyObject* version = PyObject_GetAttr(tensor, version_name);
  if (!version) return -1;
  out->version = PyLong_AsLongLong(version);
  Py_DECREF(version);
  return out->version == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Reads the samples of a tensor in the CPU's memory. */
static void sample(const Tensor* t, State* out) {
  const size_t bytes = bytes_spanned(t), n = bytes < sizeof(int64_t) ? bytes : sizeof(int64_t);
  memset(out->samples, 0, sizeof out->samples);
  if (!t->data) return;
  for (size_t i = 0; i < kSamples; i++)
    memcpy(&out->samples[i], (const char*)(intptr_t)out->address + (bytes - n) / (kSamples - 1) * i, n);
}

/* state(args, indices) -> bytes that current() compares: a State of each args[i], which lie in the CPU's memory. */
static PyObject* state(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  Py_ssize_t count;
  const int64_t* indices = takes(n, 2) ? plan_of(a[1], &count) : NULL;
  if (!indices) return NULL;
  PyObject* result = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(State));
  if (!result) return NULL;
  State* states = (State*)PyBytes_AsString(result);
  for (Py_ssize_t i = 0; i < count; i++) {
    Tensor t;
    PyObject* tensor = item(a[0], indices[i]);
    if (!tensor || identify(tensor, &t, &states[i]) != 0) {
      Py_DECREF(result);
      return NULL;
    }
    sample(&t, &states[i]);
  }
  return result;
}

/* current(args, indices, state or None) -> bool: whether state(args, indices) would still return this state. */
static PyObject* current(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  if (!takes(n, 3)) return NULL;
  Py_ssize_t count, words;
  if (a[2] == Py_None) Py_RETURN_FALSE;
  const int64_t *indices = plan_of(a[1], &count), *known = indices ? plan_of(a[2], &words) : NULL;
  if (!known) return NULL;
  if (words * sizeof(int64_t) != count * sizeof(State)) Py_RETURN_FALSE;
  const State* expected = (const State*)known;
  for (Py_ssize_t i = 0; i < count; i++) {
    State now;
    Tensor t;
    PyObject* tensor = item(a[0], indices[i]);
    if (!tensor || identify(tensor, &t, &now) != 0) return NULL;
    if (now.address != expected[i].address || now.version != expected[i].version) Py_RETURN_FALSE;
    sample(&t, &now); /* the memory is that of the packed tensor */
    if (memcmp(now.samples, expected[i].samples, sizeof now.samples) != 0) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

/* The bytes from begin up to end. */
typedef struct {
  int64_t begin, end;
} Span;

static int order_of_spans(const void* a, const void* b) {
  const int64_t x = ((const Span*)a)->begin, y = ((const Span*)b)->begin;
  return (x > y) - (x < y);
}

/* The memory that a tensor's elements span. Empty if the tensor has no elements or no readable memory. */
static Span span_of(PyObject* object) {
  Tensor t;
  Span span = {0, 0};
  if (tensor_of(object, &t) != 0) {
    PyErr_Clear();
    return span;
  }
  const size_t bytes = bytes_spanned(&t);
  if (bytes == 0) return span;
  span.begin = first_element(&t);
  span.end = span.begin + (int64_t)bytes;
  return span;
}

static int meets(const Span* a, const Span* b) { return a->begin < b->end && b->begin < a->end; }

/* apart(args, plan) -> bool: whether the first tensors share no memory with each other or with the other tensors.
 * The plan: how many tensors are first, their indices in the tuple args, then the indices of the others.
 * The spans of the first tensors are sorted and disjoint, so their ends are sorted too. Another span can therefore meet only
 * the last of them that begins before it ends, if it meets any. */
static PyObject* apart(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  Py_ssize_t count;
  const int64_t* plan = takes(n, 2) ? plan_of(a[1], &count) : NULL;
  if (!plan) return NULL;
  if (!PyTuple_Check(a[0]) || count < 1 || plan[0] < 0 || plan[0] >= count)
    return PyErr_Format(PyExc_TypeError, "tenon: apart takes a tuple and a plan");
  for (Py_ssize_t i = 1; i < count; i++)
    if (plan[i] < 0 || plan[i] >= PyTuple_Size(a[0]))
      return PyErr_Format(PyExc_IndexError, "tenon: fewer arguments than the compiled function has");
  Span few[64], *first = plan[0] <= 64 ? few : PyMem_Malloc((size_t)plan[0] * sizeof *few);
  if (!first) return PyErr_NoMemory();
  Py_ssize_t used = 0;
  for (Py_ssize_t i = 1; i <= plan[0]; i++) {
    const Span span = span_of(PyTuple_GetItem(a[0], (Py_ssize_t)plan[i]));
    if (span.begin != span.end) first[used++] = span;
  }
  qsort(first, (size_t)used, sizeof *first, order_of_spans);
  int together = 0;
  for (Py_ssize_t i = 1; i < used; i++) together |= meets(&first[i - 1], &first[i]);
  for (Py_ssize_t i = (Py_ssize_t)plan[0] + 1; used > 0 && !together && i < count; i++) {
    const Span span = span_of(PyTuple_GetItem(a[0], (Py_ssize_t)plan[i]));
    Py_ssize_t low = 0,
               high = used; /* binary search: first[low - 1] is the last that begins before the span ends */
    while (low < high) {
      const Py_ssize_t middle = low + (high - low) / 2;
      if (first[middle].begin < span.end)
        low = middle + 1;
      else
        high = middle;
    }
    together = low > 0 && span.begin != span.end && meets(&first[low - 1], &span);
  }
  if (first != few) PyMem_Free(first);
  return PyBool_FromLong(!together);
}

/* device_alloc and device_free of tenon_context_options: workspace on a device from PyTorch's allocator. The memory is ordered by
 * PyTorch's current stream, on which the program runs. Called without the interpreter lock. */
static void no_error(void* context, const char* kind, const char* message) {
  (void)context, (void)kind, (void)message;
}
static void* device_alloc(void* user, Device device, size_t bytes, void* stream, void** token) {
  (void)user, (void)stream;
  int64_t shape = (int64_t)bytes, stride = 1;
  Tensor prototype = {NULL,   device.type, device.id, 1, 1u | 8u << 8 | 1u << 16,
                      &shape, &stride,     0}; /* uint8 */
  Managed* managed = NULL;
  if (exchange->allocate(&prototype, &managed, NULL, no_error) != 0 || !managed) return NULL;
  *token = managed;
  return (char*)managed->tensor.data + managed->tensor.byte_offset;
}
static void device_free(void* user, Device device, void* block, size_t bytes, void* stream, void* token) {
  (void)user, (void)device, (void)block, (void)bytes, (void)stream;
  Managed* managed = token;
  if (managed->deleter) managed->deleter(managed);
}

/* device_memory() -> (address of device_alloc, address of device_free), or None if PyTorch's table has no allocate. */
static PyObject* device_memory(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  if (!exchange || !exchange->allocate) Py_RETURN_NONE;
  void* (*take)(void*, Device, size_t, void*, void**) = device_alloc;
  void (*give)(void*, Device, void*, size_t, void*, void*) = device_free;
  void *take_at, *give_at;
  memcpy(&take_at, &take, sizeof take_at);
  memcpy(&give_at, &give, sizeof give_at);
  return Py_BuildValue("(NN)", PyLong_FromVoidPtr(take_at), PyLong_FromVoidPtr(give_at));
}

/* open(capsule): sets the exchange table. Called before any other function. */
static PyObject* open_(PyObject* self, PyObject* capsule) {
  (void)self;
  const Exchange* table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (!table) return NULL;
  if (table->header.major != 1) {
    PyErr_Format(PyExc_ImportError, "tenon: DLPack %u.%u, not 1", table->header.major, table->header.minor);
    return NULL;
  }
  if (!table->managed_to_object || !table->from_object || !table->current_stream) {
    PyErr_SetString(PyExc_ImportError, "tenon: PyTorch's DLPack exchange table lacks a function");
    return NULL;
  }
  exchange = table;
  Py_RETURN_NONE;
}

/* outputs(small, dtypes) -> empty. See outputs.h. */
static PyObject* make_empty(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  return takes(n, 2) ? outputs(exchange, a[0], a[1]) : NULL;
}

/* draw(generator, bits, count, p). See draw.h. */
static PyObject* draw_bits(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  return takes(n, 4) ? draw(exchange, a) : NULL;
}

static PyMethodDef methods[] = {
    {"open", open_, METH_O, "open(capsule)"},
    {"pointer", (PyCFunction)(void (*)(void))pointer, METH_FASTCALL, "pointer(words, word, rank, tensor)"},
    {"step", step, METH_VARARGS,
     "step(function, program, owner, plan, inputs, outputs, made, empty, fail, count, device) -> a step"},
    {"observer", (PyCFunction)(void (*)(void))observer, METH_FASTCALL,
     "observer(on_begin, on_end) -> (address of begin, address of end)"},
    {"device_memory", device_memory, METH_NOARGS,
     "device_memory() -> (address of alloc, address of free) or None"},
    {"outputs", (PyCFunction)(void (*)(void))make_empty, METH_FASTCALL,
     "outputs(small, dtypes) -> empty(shape, strides, dtype)"},
    {"outputs_release", outputs_release, METH_NOARGS, "outputs_release(): unmaps the idle blocks"},
    {"outputs_bytes", outputs_bytes, METH_NOARGS, "outputs_bytes() -> (bytes in use, idle bytes)"},
    {"state", (PyCFunction)(void (*)(void))state, METH_FASTCALL, "state(args, indices) -> bytes"},
    {"apart", (PyCFunction)(void (*)(void))apart, METH_FASTCALL, "apart(args, plan) -> bool"},
    {"current", (PyCFunction)(void (*)(void))current, METH_FASTCALL, "current(args, indices, state) -> bool"},
    {"draw", (PyCFunction)(void (*)(void))draw_bits, METH_FASTCALL, "draw(generator, bits, count, p)"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_marshal", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__marshal(void) {
  version_name = PyUnicode_InternFromString("_version");
  return version_name ? PyModule_Create(&module) : NULL;
}

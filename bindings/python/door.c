/* The module tenon._lib._door: what a call of a compiled function does per tensor, in C instead of ctypes.
 *
 * Tensors are read through torch.Tensor.__dlpack_c_exchange_api__, a table of C functions (DLPack 1.3), so neither PyTorch's
 * headers nor its version matter, and Python's stable ABI makes one file serve every Python from 3.10 on. Words are the
 * int64 of a frame (runner.py); plans are bytes of int64. Every function checks its arguments' kinds and bounds and raises.
 * bindings/python/tenon/door.py has the same functions in Python. Tested by tests/torch/ with both.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint32_t dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} Tensor; /* DLTensor */

typedef struct {
  struct {
    uint32_t major, minor;
    void* previous;
  } header;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*from_object)(void* object, Tensor* out); /* borrowed, no stream is synchronised */
  void* current_stream;
} Exchange; /* DLPackExchangeAPI */

typedef int32_t (*Run)(void*, const void*, size_t, const void*, size_t); /* tenon_program_run */

static const Exchange* exchange;
static PyObject* version_name;

/* The address of the first element; NULL with a Python error where the object is no tensor of the host. */
static int address(PyObject* object, int64_t* out) {
  Tensor t;
  if (!exchange || exchange->from_object(object, &t) != 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "tenon: an argument is not a tensor with memory");
    return -1;
  }
  *out = (int64_t)(intptr_t)t.data + (int64_t)t.byte_offset;
  return 0;
}

/* A plan: bytes of int64. */
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

/* bind(words, plan, args): words[plan[2i+1]] = the address of args[plan[2i]]. words: the address of the frame. */
static PyObject* bind(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  if (!takes(n, 3)) return NULL;
  int64_t* words = PyLong_AsVoidPtr(a[0]);
  Py_ssize_t count;
  const int64_t* plan = plan_of(a[1], &count);
  if (!words || !plan) return NULL;
  for (Py_ssize_t i = 0; i + 1 < count; i += 2) {
    PyObject* object = item(a[2], plan[i]);
    if (!object || address(object, &words[plan[i + 1]]) != 0) return NULL;
  }
  Py_RETURN_NONE;
}

/* pointer(words, word, tensor) -> tensor: words[word] = its address. */
static PyObject* pointer(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  if (!takes(n, 3)) return NULL;
  int64_t* words = PyLong_AsVoidPtr(a[0]);
  const Py_ssize_t word = PyLong_AsSsize_t(a[1]);
  if (!words || (word == -1 && PyErr_Occurred()) || address(a[2], &words[word]) != 0) return NULL;
  Py_INCREF(a[2]);
  return a[2];
}

/* run(function, program, inputs, n_inputs, outputs, n_outputs) -> status, with the interpreter lock released. */
static PyObject* run(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  if (!takes(n, 6)) return NULL;
  void* function = PyLong_AsVoidPtr(a[0]);
  void* program = PyLong_AsVoidPtr(a[1]);
  const void* inputs = PyLong_AsVoidPtr(a[2]);
  const size_t n_inputs = PyLong_AsSize_t(a[3]);
  const void* outputs = PyLong_AsVoidPtr(a[4]);
  const size_t n_outputs = PyLong_AsSize_t(a[5]);
  if (PyErr_Occurred()) return NULL;
  Run call;
  memcpy(&call, &function, sizeof call);
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status = call(program, inputs, n_inputs, outputs, n_outputs);
  Py_END_ALLOW_THREADS return PyLong_FromLong(status);
}

/* Address and version of a tensor. */
static int state_of(PyObject* tensor, int64_t out[2]) {
  if (address(tensor, &out[0]) != 0) return -1;
  PyObject* version = PyObject_GetAttr(tensor, version_name);
  if (!version) return -1;
  out[1] = PyLong_AsLongLong(version);
  Py_DECREF(version);
  return out[1] == -1 && PyErr_Occurred() ? -1 : 0;
}

/* state(args, indices) -> bytes, to be compared by current(). */
static PyObject* state(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  Py_ssize_t count;
  const int64_t* indices = takes(n, 2) ? plan_of(a[1], &count) : NULL;
  if (!indices) return NULL;
  PyObject* result = PyBytes_FromStringAndSize(NULL, count * 2 * (Py_ssize_t)sizeof(int64_t));
  if (!result) return NULL;
  char* bytes = PyBytes_AsString(result);
  for (Py_ssize_t i = 0; i < count; i++) {
    int64_t now[2];
    PyObject* tensor = item(a[0], indices[i]);
    if (!tensor || state_of(tensor, now) != 0) {
      Py_DECREF(result);
      return NULL;
    }
    memcpy(bytes + (size_t)i * sizeof now, now, sizeof now);
  }
  return result;
}

/* current(args, indices, state or None) -> whether that is still their state. */
static PyObject* current(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  (void)self;
  if (!takes(n, 3)) return NULL;
  Py_ssize_t count, known;
  if (a[2] == Py_None) Py_RETURN_FALSE;
  const int64_t *indices = plan_of(a[1], &count), *expected = indices ? plan_of(a[2], &known) : NULL;
  if (!expected) return NULL;
  if (known != 2 * count) Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; i < count; i++) {
    int64_t now[2];
    PyObject* tensor = item(a[0], indices[i]);
    if (!tensor || state_of(tensor, now) != 0) return NULL;
    if (now[0] != expected[2 * i] || now[1] != expected[2 * i + 1]) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

/* open(capsule): the exchange table, before any other function. */
static PyObject* open_(PyObject* self, PyObject* capsule) {
  (void)self;
  const Exchange* table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (!table) return NULL;
  if (table->header.major != 1 || !table->from_object) {
    PyErr_Format(PyExc_ImportError, "tenon: DLPack %u.%u, not 1", table->header.major, table->header.minor);
    return NULL;
  }
  exchange = table;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"open", open_, METH_O, "open(capsule)"},
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "bind(words, plan, args)"},
    {"pointer", (PyCFunction)(void (*)(void))pointer, METH_FASTCALL,
     "pointer(words, word, tensor) -> tensor"},
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL,
     "run(function, program, inputs, n, outputs, n) -> status"},
    {"state", (PyCFunction)(void (*)(void))state, METH_FASTCALL, "state(args, indices) -> bytes"},
    {"current", (PyCFunction)(void (*)(void))current, METH_FASTCALL, "current(args, indices, state) -> bool"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_door", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__door(void) {
  version_name = PyUnicode_InternFromString("_version");
  return version_name ? PyModule_Create(&module) : NULL;
}

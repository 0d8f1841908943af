/* See outputs.h. */
#include "bindings/python/outputs.h"

#include <stdlib.h>
#include <string.h>

#include "bindings/python/blocks.h"

static const size_t kLarge = (size_t)1 << 20; /* below, the C library keeps freed blocks itself */

/* A tensor in a block, with its shape and strides. */
typedef struct {
  Managed managed;
  Block block;
  int64_t dims[];
} Output;

static void drop(Managed* managed) {
  Output* output = (Output*)managed;
  block_give(output->block);
  free(output);
}

static const Exchange* exchange;

/* Reads `rank` integers. */
static int read_integers(PyObject* tuple, Py_ssize_t rank, int64_t* out) {
  for (Py_ssize_t i = 0; i < rank; i++) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

enum { kMostRank = 32 };

/* The tensor, None if it is not large, or NULL with a Python error. */
static PyObject* large(PyObject* dtypes, PyObject* shape, PyObject* strides, PyObject* dtype) {
  int64_t dims[2 * kMostRank];
  const Py_ssize_t rank = PyTuple_Check(shape) && PyTuple_Check(strides) ? PyTuple_Size(shape) : -1;
  if (rank < 0 || rank > kMostRank || PyTuple_Size(strides) != rank) Py_RETURN_NONE;
  if (read_integers(shape, rank, dims) != 0 || read_integers(strides, rank, dims + rank) != 0) return NULL;
  PyObject* number = PyDict_GetItemWithError(dtypes, dtype);
  if (!number) return PyErr_Occurred() ? NULL : (Py_INCREF(Py_None), Py_None);
  Tensor tensor = {NULL, CPU,         0, (int32_t)rank, (uint32_t)PyLong_AsUnsignedLong(number),
                   dims, dims + rank, 0};
  const size_t bytes = bytes_spanned(&tensor);
  if (bytes < kLarge) Py_RETURN_NONE;
  const size_t tail = 2 * (size_t)rank * sizeof(int64_t);
  Output* output = calloc(1, sizeof *output + tail);
  if (!output) return PyErr_NoMemory();
  output->block = block_take(bytes);
  if (!output->block.at) { /* PyTorch raises its error */
    free(output);
    Py_RETURN_NONE;
  }
  memcpy(output->dims, dims, tail);
  tensor.data = output->block.at, tensor.shape = output->dims, tensor.strides = output->dims + rank;
  output->managed = (Managed){.major = 1, .minor = 0, .deleter = drop, .tensor = tensor};
  void* object = NULL;
  if (exchange->managed_to_object(&output->managed, &object) == 0) return object;
  drop(&output->managed);
  return NULL;
}

/* self: the tuple (small, dtypes). */
static PyObject* empty(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  if (n != 3) return PyErr_Format(PyExc_TypeError, "tenon: empty takes 3 arguments, not %zd", n);
  PyObject* tensor = large(PyTuple_GetItem(self, 1), a[0], a[1], a[2]);
  if (tensor != Py_None) return tensor;
  Py_DECREF(tensor);
  return PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, 0), a[0], a[1], a[2], NULL);
}

static PyMethodDef empty_method = {"empty", (PyCFunction)(void (*)(void))empty, METH_FASTCALL,
                                   "empty(shape, strides, dtype) -> a tensor on the CPU"};

PyObject* outputs(const Exchange* table, PyObject* small, PyObject* dtypes) {
  if (!PyDict_Check(dtypes))
    return PyErr_Format(PyExc_TypeError, "tenon: outputs takes a function and a dict");
  exchange = table;
  PyObject* state = PyTuple_Pack(2, small, dtypes);
  if (!state) return NULL;
  PyObject* function = PyCFunction_NewEx(&empty_method, state, NULL);
  Py_DECREF(state);
  return function;
}

PyObject* outputs_release(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  blocks_release();
  Py_RETURN_NONE;
}

PyObject* outputs_bytes(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(nn)", (Py_ssize_t)blocks_live(), (Py_ssize_t)blocks_idle());
}

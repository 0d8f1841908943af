/* See outputs.h. */
#define _GNU_SOURCE
#include "bindings/python/outputs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t kLarge = (size_t)1 << 20;    /* below, the C library keeps freed blocks itself */
static const size_t kHugePage = (size_t)2 << 20; /* also the alignment of blocks */
static const uint64_t kOld = 4096; /* tensors made since a block became idle, after which it is unmapped */

typedef struct {
  char* at;
  size_t bytes;
  uint64_t since; /* how many tensors were made before the block became idle */
} Block;

/* The idle blocks, the oldest first. A thread that finds `busy` set does not wait but maps or unmaps its block, so the child of a fork
 * never waits for a thread that it does not have. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static Block idle[1024];
static size_t n_idle;
static _Atomic size_t idle_bytes, live_bytes;
static size_t most_live; /* the largest live_bytes */
static uint64_t made;    /* tensors so far */

static Block map(size_t bytes) {
  Block block = {NULL, bytes, 0};
  const size_t whole = bytes + kHugePage;
  char* at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return block;
  const size_t before = (kHugePage - (uintptr_t)at % kHugePage) % kHugePage;
  if (before) munmap(at, before);
  munmap(at + before + bytes, kHugePage - before);
  block.at = at + before;
  madvise(block.at, bytes, MADV_HUGEPAGE);
  return block;
}

static void unmap(Block block) { munmap(block.at, block.bytes); }

/* Removes an idle block. Called with `busy` set. */
static Block remove_idle(size_t i) {
  const Block block = idle[i];
  idle_bytes -= block.bytes;
  memmove(idle + i, idle + i + 1, (--n_idle - i) * sizeof *idle);
  return block;
}

/* The size of a block for `bytes`, so that sizes that grow slowly from call to call find their block again. */
static size_t size_of_block(size_t bytes) {
  size_t step = 4096;
  while (step * 32 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

/* An idle block of this size, or a new one. Idle blocks never raise the peak: while there are any, they and the blocks in use together
 * take at most the memory that blocks in use once took. */
static Block take(size_t bytes) {
  const size_t wanted = size_of_block(bytes);
  const size_t live = live_bytes += wanted;
  Block block = {NULL, wanted, 0};
  if (atomic_flag_test_and_set(&busy)) return map(wanted);
  for (size_t i = n_idle; i-- > 0 && !block.at;)
    if (idle[i].bytes == wanted) block = remove_idle(i);
  if (live > most_live) most_live = live;
  made++;
  while (n_idle > 0 && (live + idle_bytes > most_live || made - idle[0].since > kOld)) unmap(remove_idle(0));
  atomic_flag_clear(&busy);
  return block.at ? block : map(wanted);
}

static void give(Block block) {
  live_bytes -= block.bytes;
  if (atomic_flag_test_and_set(&busy)) return unmap(block);
  if (n_idle == sizeof idle / sizeof *idle) unmap(remove_idle(0));
  block.since = made;
  idle[n_idle++] = block;
  idle_bytes += block.bytes;
  atomic_flag_clear(&busy);
}

/* A tensor in a block, with its shape and strides. */
typedef struct {
  Managed managed;
  Block block;
  int64_t dims[];
} Output;

static void drop(Managed* managed) {
  Output* output = (Output*)managed;
  if (output->block.at) give(output->block);
  free(output);
}

/* The state of a function `empty`. */
typedef struct {
  const Exchange* exchange;
  PyObject *small, *dtypes;
} Empty;

static const char kEmpty[] = "tenon empty";

static void free_empty(PyObject* capsule) {
  Empty* e = PyCapsule_GetPointer(capsule, kEmpty);
  Py_XDECREF(e->small);
  Py_XDECREF(e->dtypes);
  PyMem_Free(e);
}

/* Reads `rank` integers. */
static int read_integers(PyObject* tuple, Py_ssize_t rank, int64_t* out) {
  for (Py_ssize_t i = 0; i < rank; i++) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

enum { kMostRank = 32 };

/* Bytes from the first element to the end of the last one; 0 without elements or where the number has no size_t. */
static size_t extent(const int64_t* shape, const int64_t* strides, Py_ssize_t rank, size_t element) {
  size_t last = 0;
  for (Py_ssize_t i = 0; i < rank; i++) {
    size_t steps;
    if (shape[i] <= 0 || strides[i] < 0 ||
        __builtin_mul_overflow((size_t)(shape[i] - 1), (size_t)strides[i], &steps) ||
        __builtin_add_overflow(last, steps, &last))
      return 0;
  }
  size_t bytes;
  return last > SIZE_MAX / 4 || __builtin_mul_overflow(last + 1, element, &bytes) || bytes > SIZE_MAX / 4
             ? 0
             : bytes;
}

/* The tensor, None if it is not large, or NULL with a Python error. */
static PyObject* large(const Empty* e, PyObject* shape, PyObject* strides, PyObject* dtype) {
  int64_t dims[2 * kMostRank];
  const Py_ssize_t rank = PyTuple_Check(shape) && PyTuple_Check(strides) ? PyTuple_Size(shape) : -1;
  if (rank < 0 || rank > kMostRank || PyTuple_Size(strides) != rank) Py_RETURN_NONE;
  if (read_integers(shape, rank, dims) != 0 || read_integers(strides, rank, dims + rank) != 0) return NULL;
  PyObject* number = PyDict_GetItemWithError(e->dtypes, dtype);
  if (!number) return PyErr_Occurred() ? NULL : (Py_INCREF(Py_None), Py_None);
  const unsigned long type = PyLong_AsUnsignedLong(number);
  const size_t bytes = extent(dims, dims + rank, rank, (size_t)(type >> 8 & 0xff) / 8);
  if (bytes < kLarge) Py_RETURN_NONE;
  const size_t tail = 2 * (size_t)rank * sizeof(int64_t);
  Output* output = calloc(1, sizeof *output + tail);
  if (!output) return PyErr_NoMemory();
  memcpy(output->dims, dims, tail);
  output->block = take(bytes);
  output->managed = (Managed){.major = 1,
                              .minor = 0,
                              .deleter = drop,
                              .tensor = {output->block.at, CPU, 0, (int32_t)rank, (uint32_t)type,
                                         output->dims, output->dims + rank, 0}};
  if (!output->block.at) { /* the system has no more memory: PyTorch raises its error */
    live_bytes -= output->block.bytes;
    drop(&output->managed);
    Py_RETURN_NONE;
  }
  void* tensor = NULL;
  if (e->exchange->managed_to_object(&output->managed, &tensor) == 0) return tensor;
  drop(&output->managed);
  return NULL;
}

static PyObject* empty(PyObject* self, PyObject* const* a, Py_ssize_t n) {
  const Empty* e = PyCapsule_GetPointer(self, kEmpty);
  if (!e) return NULL;
  if (n != 3) return PyErr_Format(PyExc_TypeError, "tenon: empty takes 3 arguments, not %zd", n);
  PyObject* tensor = large(e, a[0], a[1], a[2]);
  if (tensor != Py_None) return tensor;
  Py_DECREF(tensor);
  return PyObject_CallFunctionObjArgs(e->small, a[0], a[1], a[2], NULL);
}

static PyMethodDef empty_method = {"empty", (PyCFunction)(void (*)(void))empty, METH_FASTCALL,
                                   "empty(shape, strides, dtype) -> a tensor on the CPU"};

PyObject* outputs(const Exchange* exchange, PyObject* small, PyObject* dtypes) {
  if (!PyDict_Check(dtypes) || !exchange->managed_to_object)
    return PyErr_Format(PyExc_TypeError, "tenon: outputs takes a function and a dict");
  Empty* e = PyMem_Calloc(1, sizeof *e);
  if (!e) return PyErr_NoMemory();
  e->exchange = exchange;
  Py_INCREF(e->small = small);
  Py_INCREF(e->dtypes = dtypes);
  PyObject* capsule = PyCapsule_New(e, kEmpty, free_empty);
  if (!capsule) return NULL;
  PyObject* function = PyCFunction_NewEx(&empty_method, capsule, NULL);
  Py_DECREF(capsule);
  return function;
}

PyObject* outputs_release(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  if (!atomic_flag_test_and_set(&busy)) {
    while (n_idle > 0) unmap(remove_idle(n_idle - 1));
    atomic_flag_clear(&busy);
  }
  Py_RETURN_NONE;
}

PyObject* outputs_bytes(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(KK)", (unsigned long long)live_bytes, (unsigned long long)idle_bytes);
}

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
static size_t most_live; /* the largest live_bytes since outputs_release */
static uint64_t made;    /* how many tensors were made so far */

/* NULL if the system has no more memory. */
static char* map(size_t bytes) {
  const size_t whole = bytes + kHugePage;
  char* at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  const size_t before = (kHugePage - (uintptr_t)at % kHugePage) % kHugePage;
  if (before) munmap(at, before);
  at += before;
  munmap(at + bytes, kHugePage - before);
  madvise(at, bytes, MADV_HUGEPAGE);
  return at;
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

/* The smallest idle block of at least these bytes that wastes at most a sixteenth; the newest of several. n_idle: there is none. Called
 * with `busy` set. */
static size_t find_idle(size_t bytes) {
  size_t best = n_idle;
  for (size_t i = n_idle; i-- > 0 && (best == n_idle || idle[best].bytes > bytes);)
    if (idle[i].bytes >= bytes && idle[i].bytes - bytes <= bytes / 16 &&
        (best == n_idle || idle[i].bytes < idle[best].bytes))
      best = i;
  return best;
}

/* An idle block of this size, or a new one; its address is NULL if the system has no more memory. Idle blocks never raise the peak:
 * while there are any, they and the blocks in use together take at most the memory that blocks in use once took. */
static Block take(size_t bytes) {
  Block block = {NULL, size_of_block(bytes), 0};
  if (!atomic_flag_test_and_set(&busy)) {
    const size_t found = find_idle(block.bytes);
    if (found < n_idle) block = remove_idle(found);
    const size_t live = live_bytes += block.bytes;
    if (live > most_live) most_live = live;
    made++;
    while (n_idle > 0 && (live + idle_bytes > most_live || made - idle[0].since > kOld))
      unmap(remove_idle(0));
    atomic_flag_clear(&busy);
  } else {
    live_bytes += block.bytes;
  }
  if (!block.at) block.at = map(block.bytes);
  if (!block.at) live_bytes -= block.bytes;
  return block;
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
  give(output->block);
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
  output->block = take(bytes);
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
  if (!atomic_flag_test_and_set(&busy)) {
    while (n_idle > 0) unmap(remove_idle(n_idle - 1));
    most_live = live_bytes;
    atomic_flag_clear(&busy);
  }
  Py_RETURN_NONE;
}

PyObject* outputs_bytes(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(KK)", (unsigned long long)live_bytes, (unsigned long long)idle_bytes);
}

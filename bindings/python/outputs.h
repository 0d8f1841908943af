/* Tensors for outputs on the CPU. The memory of large ones is that of blocks.h. Tested by tests/torch/test_outputs.py. */
#ifndef TENON_PYTHON_OUTPUTS_H_
#define TENON_PYTHON_OUTPUTS_H_

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include "bindings/python/dlpack.h"

/* outputs(small, dtypes) -> empty(shape, strides, dtype), which makes a tensor on the CPU with elements of any value. Tensors below
 * 1 MiB come from small(shape, strides, dtype). dtypes: the type of an element -> code | bits << 8 | 1 << 16. A larger tensor has
 * storage that cannot grow. Any thread may drop a tensor, with or without the interpreter lock. */
PyObject* outputs(const Exchange* table, PyObject* small, PyObject* dtypes);

/* outputs_release(): unmaps the blocks that are kept for later tensors. From now on they take no more memory, together with tensors in use,
 * than tensors in use take from now on. */
PyObject* outputs_release(PyObject* self, PyObject* unused);

/* outputs_bytes() -> (bytes in use, bytes kept for later tensors). */
PyObject* outputs_bytes(PyObject* self, PyObject* unused);

#endif /* TENON_PYTHON_OUTPUTS_H_ */

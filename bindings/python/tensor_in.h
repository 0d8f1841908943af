/* The memory of a torch.Tensor. Tested by tests/torch/test_marshal.py. */
#ifndef TENON_PYTHON_TENSOR_IN_H_
#define TENON_PYTHON_TENSOR_IN_H_

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include "bindings/python/dlpack.h"

/* The DLTensor of a torch.Tensor, borrowed. Returns -1 and sets a Python error if the object is not such a tensor. */
static inline int tensor_in(const Exchange* table, PyObject* object, Tensor* out) {
  if (table && table->from_object(object, out) == 0) return 0;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "tenon: an argument is not a tensor with memory");
  return -1;
}

#endif /* TENON_PYTHON_TENSOR_IN_H_ */

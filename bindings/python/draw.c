/* See draw.h. */
#include "bindings/python/draw.h"

#include <string.h>

#include "bindings/python/twister.h"

/* Whether a tensor lies on the CPU and has dense bytes, `count` of them or more. */
static int has_bytes(const Tensor* t, int64_t count) {
  const uint32_t u8 = 1 | 8 << 8 | 1 << 16;
  return t->device_type == 1 && t->dtype == u8 && t->ndim == 1 && t->shape[0] >= count &&
         (t->strides[0] == 1 || t->shape[0] <= 1);
}

/* Returns generator.get_state(), whose first bytes lie at *at, and copies these; or NULL with a Python error. */
static PyObject* generator_state(const Exchange* table, PyObject* generator, char** at, Twister* copy) {
  PyObject* state = PyObject_CallMethod(generator, "get_state", NULL);
  Tensor t;
  if (state && tensor_in(table, state, &t) == 0) {
    *at = (char*)t.data + t.byte_offset;
    const int fits = has_bytes(&t, sizeof *copy);
    if (fits) memcpy(copy, *at, sizeof *copy);
    if (fits && copy->left >= 1 && copy->left <= kTwisterWords &&
        copy->next + (uint64_t)copy->left - 1 <= kTwisterWords)
      return state;
    PyErr_SetString(PyExc_ValueError, "tenon: draw got another state than that of a Mersenne twister");
  }
  Py_XDECREF(state);
  return NULL;
}

PyObject* draw(const Exchange* table, PyObject* const* a) {
  Tensor bits;
  if (tensor_in(table, a[1], &bits) != 0) return NULL;
  const int64_t count = PyLong_AsLongLong(a[2]);
  const double p = PyFloat_AsDouble(a[3]);
  if (PyErr_Occurred()) return NULL;
  if (count < 0 || !(p >= 0 && p <= 1) || !has_bytes(&bits, count / 8 + (count % 8 != 0))) {
    PyErr_SetString(PyExc_ValueError, "tenon: draw needs memory for the bits, a count and a probability");
    return NULL;
  }
  for (;;) {
    Twister before, after, now;
    char *at, *at_now;
    PyObject* state = generator_state(table, a[0], &at, &before);
    if (!state) return NULL;
    after = before;
    twister_bits(&after, (uint8_t*)bits.data + bits.byte_offset, count, p);
    PyObject *state_now = generator_state(table, a[0], &at_now, &now), *result = NULL;
    const int unchanged = state_now && memcmp(&before, &now, sizeof now) == 0;
    if (unchanged) {
      memcpy(at, &after, sizeof after);
      result = PyObject_CallMethod(a[0], "set_state", "O", state);
    }
    Py_DECREF(state);
    if (!state_now) return NULL;
    Py_DECREF(state_now);
    if (unchanged) return result;
  }
}

/* See observer.h. */
#include "bindings/python/observer.h"

#include <string.h>

static PyObject *on_begin, *on_end;
static int observed; /* whether begin was ever called */
/* The event of the step that runs. PyTorch closes it when its last reference goes. */
static _Thread_local PyObject* event;

static void begin(void* user, const char* name) {
  (void)user;
  const PyGILState_STATE state = PyGILState_Ensure();
  observed = 1;
  Py_CLEAR(event);
  PyObject* text = PyErr_Occurred() ? NULL : PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
  if (text) event = PyObject_CallFunctionObjArgs(on_begin, text, NULL);
  Py_XDECREF(text);
  PyGILState_Release(state);
}

static void end(void* user) {
  (void)user;
  const PyGILState_STATE state = PyGILState_Ensure();
  if (event && event != Py_None && !PyErr_Occurred()) {
    PyObject* result = PyObject_CallFunctionObjArgs(on_end, event, NULL);
    Py_XDECREF(result);
  }
  Py_CLEAR(event);
  PyGILState_Release(state);
}

int observer_failed(void) {
  if (!observed) return 0;
  Py_CLEAR(event);
  return PyErr_Occurred() != NULL;
}

PyObject* observer(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)self;
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "tenon: observer takes 2 arguments");
    return NULL;
  }
  Py_INCREF(on_begin = arguments[0]);
  Py_INCREF(on_end = arguments[1]);
  void (*begins)(void*, const char*) = begin;
  void (*ends)(void*) = end;
  void *begin_at, *end_at;
  memcpy(&begin_at, &begins, sizeof begin_at);
  memcpy(&end_at, &ends, sizeof end_at);
  return Py_BuildValue("(NN)", PyLong_FromVoidPtr(begin_at), PyLong_FromVoidPtr(end_at));
}

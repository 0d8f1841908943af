/* The observer of steps that the extension module gives to tenon_observe_steps, for events of PyTorch's profiler
 * (tenon/torch/runtime/events.py). Tested by tests/torch/test_profile.py. */
#ifndef TENON_PYTHON_OBSERVER_H_
#define TENON_PYTHON_OBSERVER_H_

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

/* observer(on_begin, on_end) -> (address of begin, address of end), for tenon_observe_steps. Called once. begin calls on_begin(name);
 * end calls on_end with the value that on_begin returned, unless it is None. An error of either, above all a KeyboardInterrupt, stays
 * set in the thread; until the run ends, further steps are not observed. */
PyObject* observer(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

/* Whether the observer failed in the run that this thread has just ended; the Python error is set then. Closes the event of a step that
 * failed. */
int observer_failed(void);

#endif /* TENON_PYTHON_OBSERVER_H_ */

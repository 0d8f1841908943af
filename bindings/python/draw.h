/* Bits of masks from a generator of PyTorch. Tested by tests/torch/test_twister.py. */
#ifndef TENON_PYTHON_DRAW_H_
#define TENON_PYTHON_DRAW_H_

#include "bindings/python/tensor_in.h"

/* draw(generator, bits, count, p): twister_bits of twister.h with the state of a torch.Generator. bits: u8 [(count + 7) // 8]. The thread
 * keeps the interpreter lock. A thread that draws without it meanwhile changes the state, and then the numbers are drawn anew. */
PyObject* draw(const Exchange* table, PyObject* const* arguments);

#endif /* TENON_PYTHON_DRAW_H_ */

// The back end of the row attention: softmax(scale * q k^T + mask) v in one step. Blocks of scores stay in the cache and are never
// stored, so memory does not grow with the square of the length, and a causal mask skips the blocks that it hides. f32, f16 and bf16,
// with sums in f32.
// Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& attention_backend();

}  // namespace tenon

// The back end of products that no library computes as fast: rows matmul and linear.
// - Few rows by a large matrix, such as a step of decoding. The matrix is read in place, in either order, at the rate of the memory.
//   f32, bf16 and f16, with sums in f32.
// - Batches of products of tiny matrices, such as rotations, in f32 and f64. A library needs longer to begin each product than to
//   compute it.
// - Other products of f64, which oneDNN does not have.
// Tested by tests/unit/backends/products_test.cc and tiny_batch_test.cc.
#pragma once

#include "src/backend/backend.h"

namespace tenon {

Backend& products_backend();

}  // namespace tenon

// Which products have so few rows that the memory of the matrix decides. The back end "products" computes them; libraries leave
// the maps behind them to the loops. Tested by tests/unit/backends/products_test.cc.
#pragma once

#include <string>

#include "src/ir/graph.h"

namespace tenon {

// Empty if `node` is a matmul or linear of at most four rows by a large matrix, in f32, f16 or bf16; otherwise the reason why not.
std::string not_of_few_rows(const Graph& graph, const Node& node);

// Whether `node` is a matmul or linear of one row by a matrix that is computed from a tensor of fewer bytes, as quantized weights are. Loops
// read that tensor and compute the numbers of the matrix on the way; other back ends would have the matrix stored.
bool is_of_quantized_matrix(const Graph& graph, const Node& node);

}  // namespace tenon

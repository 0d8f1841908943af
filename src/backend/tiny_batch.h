// Which products are batches of products of tiny matrices. The back end "products" computes them; libraries leave the maps behind
// them to the loops. Tested by tests/unit/backends/tiny_batch_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "src/ir/graph.h"

namespace tenon {

// The most rows, columns and summands of a tiny product. A library computes larger ones as fast.
inline constexpr int64_t kMostTiny = 16;

// Whether `node` is a matmul of many pairs of tiny matrices, in f32 or f64. It depends on sizes only, so passes do not change it.
bool is_tiny_batch(const Graph& graph, const Node& node);
// Empty if it is one that a library computes slower; otherwise the reason why not.
std::string not_of_tiny_batch(const Graph& graph, const Node& node);

}  // namespace tenon

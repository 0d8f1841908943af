// Spec: a group in cuBLASLt's words while sizes are symbols: a product of matrices, activation(alpha * A * B + beta * C + bias),
// with what the graph has behind the product as epilogue. Operands are read in place: buffer, offset and strides.
// Tested by tests/unit/backends/cublaslt_spec_test.cc.
#pragma once

#include <optional>
#include <span>

#include "src/ops/operand.h"

namespace tenon::cublaslt {

enum class Activation : uint8_t { none, relu, gelu };

struct Spec {
  DType dtype = DType::f32;
  bool tf32 = false;  // may be used; of f32 alone
  // The last two axes of each are those of a matrix, the others of the batch.
  Operand a, b;                  // [batch..., M, K] and [batch..., K, N]
  Operand result;                // [batch..., M, N], N innermost in memory
  std::optional<Operand> added;  // C, likewise
  std::optional<Operand> bias;   // along N alone
  Activation activation = Activation::none;
  double alpha = 1, beta = 0;
};

// Whether a group may begin with it: a matmul, a linear.
bool is_product(const Node& node);
// The activation that a node alone is: none where it is no activation that the library has.
Activation activation_of(const Node& node);
// Whether the library takes a product's operand as it lies; else it is stored before, densely.
bool reads_in_place(const Graph& graph, ValueId operand, const StridesOf& strides_of);
// Members in topological order, the product first. unsupported, with the reason, when the library has no words for them.
Result<Spec> make_spec(const Graph& graph, std::span<const ValueId> members, const StridesOf& strides_of);
// " bias gelu" and the like, for people.
std::string epilogue_text(bool bias, bool added, Activation activation);

}  // namespace tenon::cublaslt

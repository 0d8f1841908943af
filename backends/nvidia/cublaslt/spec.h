// Spec: a group in cuBLASLt's terms while sizes are still symbols: activation(alpha * A * B + beta * C + bias), where the maps behind
// the product are the epilogue. Operands are read in place: each has a buffer, an offset and strides.
// Tested by tests/unit/backends/cublaslt_spec_test.cc.
#pragma once

#include <optional>
#include <span>

#include "src/ops/rules/operand.h"

namespace tenon::cublaslt {

enum class Activation : uint8_t { none, relu, gelu };

struct Spec {
  DType dtype = DType::f32;
  bool tf32 = false;  // TF32 is allowed; only for f32
  // The last two axes of each operand are those of a matrix, the others those of the batch.
  Operand a, b;                  // [batch..., M, K] and [batch..., K, N]
  Operand result;                // [batch..., M, N], N innermost in memory
  std::optional<Operand> added;  // C, with the axes of the result
  std::optional<Operand> bias;   // a vector along N
  Activation activation = Activation::none;
  double alpha = 1, beta = 0;
};

// Whether a group may begin with this node: it is a matmul or a linear.
bool is_product(const Node& node);
// The activation that this node computes; none if it is no activation of the library.
Activation activation_of(const Node& node);
// Whether the library reads an operand of a product in place; otherwise it is copied first, densely.
bool reads_in_place(const Graph& graph, ValueId operand, const StridesOf& strides_of);
// Members are in topological order, the product first. unsupported, with the reason: the library cannot express them.
Result<Spec> make_spec(const Graph& graph, std::span<const ValueId> members, const StridesOf& strides_of);
// The epilogue as text, " bias gelu" for example.
std::string epilogue_text(bool bias, bool added, Activation activation);

}  // namespace tenon::cublaslt

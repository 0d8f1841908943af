// Which operators may train: those whose gradient, as Tenon computes it, is MXNet's. What behaves differently in training (batch
// normalization, dropout) is refused by the rows themselves. Tested by tests/unit/mxnet/translate/training_test.cc and
// tests/mxnet/gradients_test.py.
#pragma once

#include <functional>

#include "src/mxnet/row.h"

namespace tenon::mxnet {

// A copy with this attribute stands between a part and what the part reads (docs/mxnet.md, Training); it must stay there.
inline constexpr std::string_view kGuard = "__tenon_guard__";

// By the operator and its attributes.
Status check_gradient(const SymbolNode& node, const Attrs& attrs);

// By dtypes: MXNet computes gradients of integers, Tenon does not. `operand` and `output` give dtypes by number; nullopt: unknown.
using DTypeOf = std::function<std::optional<DType>(size_t)>;
Status check_gradient_dtypes(const SymbolNode& node, const DTypeOf& operand, size_t outputs,
                             const DTypeOf& output);

}  // namespace tenon::mxnet

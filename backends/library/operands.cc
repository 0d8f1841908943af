// See operands.h.
#include "backends/library/operands.h"

#include <utility>

namespace tenon::library {

void insert_axis(Operand& o, size_t at) {
  o.shape.insert(o.shape.begin() + static_cast<long>(at), Dim(1));
  o.strides.insert(o.strides.begin() + static_cast<long>(at), Dim(0));
}

void swap_matrix(Operand& o) {
  const size_t n = o.shape.size();
  std::swap(o.shape[n - 2], o.shape[n - 1]);
  std::swap(o.strides[n - 2], o.strides[n - 1]);
}

std::optional<Operand> spread(Operand o, const Dims& shape) {
  if (o.shape.size() > shape.size()) return std::nullopt;
  while (o.shape.size() < shape.size()) insert_axis(o, 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (o.shape[i] == shape[i]) continue;
    if (o.shape[i] != Dim(1)) return std::nullopt;
    o.shape[i] = shape[i];
    o.strides[i] = Dim(0);
  }
  return o;
}

Operand read(const Graph& graph, ValueId v, const StridesOf& strides_of, bool in_place) {
  return in_place ? operand_of(graph, v, strides_of) : stored_operand(graph, v);
}

Operand written(const Graph& graph, ValueId v, const StridesOf& strides_of) {
  Operand o = stored_operand(graph, v);
  if (auto strides = strides_of(v)) o.strides = std::move(*strides);
  return o;
}

}  // namespace tenon::library

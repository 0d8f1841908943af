// See call.h.
#include "backends/library/call.h"

namespace tenon::library {

void Call::bind(const Graph& graph, std::span<const ValueId> members, std::span<Operand* const> operands,
                Operand& result) {
  inputs = inputs_of(graph, members);
  outputs = {members.back()};
  for (Operand* o : operands) o->buffer = position_of(o->base);
  result.buffer = static_cast<int>(inputs.size());
}

std::string Call::describe() const {
  std::lock_guard lock(mutex_);
  return newest_.empty() ? name : newest_;
}

void Call::planned(std::string text) {
  std::lock_guard lock(mutex_);
  newest_ = std::move(text);
}

}  // namespace tenon::library

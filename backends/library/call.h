// Call: the executable of a group that is one call of a library, at whatever sizes. A library derives from it, keeps its spec there
// and implements prepare(). Tested by tests/unit/backends/library_test.cc.
#pragma once

#include <mutex>
#include <span>
#include <string>

#include "src/backend/backend.h"
#include "src/ops/rules/operand.h"

namespace tenon::library {

class Call : public Executable {
 public:
  std::string name;  // describe() before the first plan

  // Lists what the group reads and writes, and tells the spec's operands and its result their positions among the buffers.
  void bind(const Graph& graph, std::span<const ValueId> members, std::span<Operand* const> operands,
            Operand& result);
  std::string describe() const final;  // the text of the newest plan
  // The text of a plan: the name with sizes and what the library chose. Any thread.
  void planned(std::string text);

 private:
  mutable std::mutex mutex_;  // guards newest_
  std::string newest_;
};

}  // namespace tenon::library

// rematerialization: which values of a group are stored in a local with the length of a row, because several
// loops over the row read them and computing them again costs more. schedule.h decides what costs more.
// Tested by tests/golden/jit/lower_*.tn.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "jit/analysis/index.h"
#include "jit/lower/lower.h"

namespace tenon::jit {

// Whether `from` is the target or is computed from it through values that `crosses` accepts.
template <class Crosses>
bool reaches(const Graph& graph, ValueId from, ValueId target, const Crosses& crosses) {
  std::vector<ValueId> work{from};
  std::set<ValueId> seen;
  while (!work.empty()) {
    const ValueId u = work.back();
    work.pop_back();
    if (u == target) return true;
    if (u < target || !seen.insert(u).second || !crosses(u)) continue;
    for (ValueId i : graph.node(u).inputs) work.push_back(i);
  }
  return false;
}

class Rematerialization {
 public:
  Rematerialization(const LowerInput& in, const std::vector<LoopAxis>& axes);
  bool keeps(ValueId v);

 private:
  bool worth_keeping(ValueId v);
  int loops_using(ValueId v) const;
  int64_t stream_bytes(ValueId v);
  bool member_or_view(ValueId v) const;
  Kind kind(ValueId v) const { return op(in_.graph.node(v).op).kind; }

  const LowerInput& in_;
  const std::vector<LoopAxis>& axes_;
  std::set<ValueId> member_;
  std::vector<ValueId> reduces_;
  std::map<ValueId, bool> worth_;
};

}  // namespace tenon::jit

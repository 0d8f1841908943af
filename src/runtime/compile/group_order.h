// The order in which the groups of a graph run: groups that read a value after the group that makes it, and what
// updates of inputs ask for in addition (updates.h). Among these orders, the one of the groups' numbers, or, if
// fewer bytes of intermediates are alive at once, one in which the group comes next after which the fewest are
// alive. Symbolic sizes count as 64, or as the nearest size in their range. Tested by
// tests/unit/runtime/group_order_test.cc.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "src/ir/graph.h"

namespace tenon {

class GroupOrder {
 public:
  explicit GroupOrder(const Graph& graph);  // with groups, whose numbers are a legal order

  // Puts `writer` behind all other groups that read the value. False, and no change, if one of these groups
  // must run behind `writer`.
  bool put_behind_readers(size_t writer, ValueId v);
  // Puts the writers behind all groups that may find a fault in their operands (an index out of range, a divisor
  // of 0), except for writers that such a group must run behind.
  void put_behind_faults(const Graph& graph, std::span<const size_t> writers);
  // Puts groups that may find a fault before all others, with the groups that they wait for. Leaves groups alone that have a value that
  // waits for checks (waits_for_checks in passes.h).
  void put_checks_first(const Graph& graph);
  // Renumbers the groups of the graph. kept: outputs that are intermediates until all groups have run; other
  // outputs are in the host's memory.
  void apply(Graph& graph, std::span<const ValueId> kept) const;

 private:
  class Memory;
  struct Order {
    std::vector<size_t> groups;
    double peak = 0;  // bytes of intermediates that are alive at once
  };
  std::vector<bool> with_earlier(std::span<const size_t> groups) const;
  Order sorted(Memory memory, bool by_growth) const;
  std::set<size_t> behind_of(size_t group) const;

  size_t count_;
  size_t faults_;  // behind the groups: stands for all groups that may find a fault
  std::vector<std::set<size_t>> after_;
  std::vector<bool> first_;                         // per group: whether it runs as soon as it can
  std::map<ValueId, std::vector<size_t>> readers_;  // each group once
};

}  // namespace tenon

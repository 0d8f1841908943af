// Cost: operations and bytes of values, counted from a graph at one set of sizes. Tested by tests/bench_test.py and
// tests/unit/runtime/profile_test.cc.
#pragma once

#include <cstdint>
#include <span>

#include "src/ir/graph.h"

namespace tenon {

class Cost {
 public:
  // symbols: the values of all symbols, by DimTable::symbol_number. Both must outlive the object.
  Cost(const Graph& graph, std::span<const int64_t> symbols) : g_(graph), symbols_(symbols) {}

  double elements(ValueId v) const;
  double bytes(ValueId v) const;
  double size(Dim d) const { return static_cast<double>(g_.dims->eval(d, symbols_).value_or(0)); }
  // Two per multiply-add of a matrix product, convolution or attention; one per element of the operand of any other contraction, of a reduction
  // and of a scan; one per element of the result of maps and other composites; none for moves and inputs.
  double operations(ValueId v) const;

 private:
  const Graph& g_;
  std::span<const int64_t> symbols_;
};

}  // namespace tenon

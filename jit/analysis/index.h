// Index: the position of an element as an affine expression of the loop axes of a kernel under construction.
// To read a value through a view, lowering rewrites indices from result to operand. A reshape may find that
// an axis must be split in two for the rewrite to stay affine; a concatenation, that an axis must be cut into
// segments. Both leave a Request; lowering then changes the list of axes and starts again. Tested by
// tests/golden/jit/lower_*.tn.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/kernel/kernel.h"
#include "src/ir/dim/dim.h"
#include "src/ir/graph.h"
#include "src/ir/group.h"

namespace tenon::jit {

// coef * variable. The variable is loop axis `id`, or value `id` of the kernel if dynamic. It lies in [0,
// extent); the extent of an axis is in the list of axes.
struct IndexTerm {
  Dim coef;
  bool dynamic = false;
  uint32_t id = 0;
  Dim extent = Dim(0);  // when dynamic
  friend auto operator<=>(const IndexTerm&, const IndexTerm&) = default;
};

struct Index {
  std::vector<IndexTerm> terms;  // sorted by (dynamic, id), no zero coefficient
  Dim offset;
  friend auto operator<=>(const Index&, const Index&) = default;
  const IndexTerm* find_axis(uint32_t axis) const;
};
using Indices = std::vector<Index>;  // one per dimension of a value

// A segment of an axis remembers which piece of `cuts` (ascending) a run along it lies in; piece 0 is below
// cuts[0]. A run is identified by its step and by `begin`: the position where it begins (ends, if the step is
// negative) on the axis without segments.
struct KnownPiece {
  Dim begin;
  int64_t step = 1;
  std::shared_ptr<const Dims> cuts;
  int piece = 0;
};

// A dimension of the group's domain is one or several loop axes. The index of the dimension is the sum of
// weight * (variable + start) over its axes.
struct LoopAxis {
  Dim extent;
  Dim start;           // first position of this segment
  bool inner = false;  // a reduction or scan axis, or the chosen vector axis
  uint32_t dim = 0;    // the dimension of the domain that the axis belongs to
  Dim weight = Dim(1);
  std::vector<KnownPiece> pieces = {};
};
struct DomainDim {
  Dim extent;
  bool folded = false;  // the reductions fold it, or the scan runs along it
};

struct Request {
  enum class Kind { split, segment, decline } kind = Kind::decline;
  uint32_t axis = 0;
  Dim inner_extent = {};  // split: extent becomes (extent / inner_extent, inner_extent)
  Dims bounds = {};       // segment: positions where the axis is cut, ascending, within [0, extent]
  std::string why = {};   // decline
  KnownPiece piece = {};  // segment: describes the first segment; all its cuts are bounds
};

// The values of an index lie within [first, first + count); the index reaches both ends.
struct IndexRange {
  Dim first, count;
};

class IndexMath {
 public:
  IndexMath(DimTable& dims, const std::vector<LoopAxis>& axes) : dims_(dims), axes_(axes) {}

  Index constant(Dim offset) const { return {{}, offset}; }
  Index axis(uint32_t id) const;  // the axis variable plus the start of its segment
  // The index is a value of the kernel in [0, extent).
  Index dynamic(Ref value, Dim extent) const { return {{{Dim(1), true, value, extent}}, Dim(0)}; }
  Index add(const Index& a, const Index& b) const;
  Index scale(const Index& a, Dim factor) const;
  Index shift(const Index& a, Dim offset) const;

  // Whether a <= b for all values of the symbols.
  bool at_most(Dim a, Dim b) const;
  // nullopt: the sign of a coefficient depends on the symbols.
  std::optional<IndexRange> range(const Index& a) const;
  // Computes the operand indices of a reshape from `operand` to `result` dims. False: `request` holds what is
  // in the way.
  bool reshape(const Dims& result, const Indices& at, const Dims& operand, Indices* out,
               Request* request) const;
  // Sum of index * stride.
  Index linear(const Indices& at, const Dims& strides) const;

 private:
  enum class Sign { negative, positive, unknown };  // zero counts as either sign
  Sign sign(Dim d) const;
  Dim extent(const IndexTerm& t) const { return t.dynamic ? t.extent : axes_[t.id].extent; }
  struct Digit {
    Index index;                              // the value of the digit
    Dim least, most;                          // smallest and largest value
    std::vector<std::pair<Dim, Dim>> counts;  // step and extent of each term, all counting upwards
  };
  std::pair<Dim, Dim> divide_terms(Dim a, Dim b) const;
  bool below(const Digit& digit, Dim radix) const;
  bool digits(const Index& linear, const Dims& dims, Indices* out, Request* request) const;
  void check_digits(const Index& linear, const Dims& dims, const Indices& digits) const;
  DimTable& dims_;
  const std::vector<LoopAxis>& axes_;
};

}  // namespace tenon::jit

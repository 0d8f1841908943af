// LoopEmitter: the part of emit_llvm.cc that emits loops, scans and reductions. An axis that runs across lanes
// is a loop over full vectors, several a step, and a masked tail. Tested by tests/unit/jit/llvm/emit_test.cc
// and tests/golden/jit/*.tn.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "jit/analysis/prefetch.h"
#include "jit/llvm/emit_ops.h"

namespace tenon::jit {

class LoopEmitter : protected OpEmitter {
 protected:
  LoopEmitter(const Kernel& kernel, Isa isa) : OpEmitter(kernel, isa), prefetches_(prefetches(kernel)) {}
  virtual ~LoopEmitter() = default;

  virtual void emit_stmt(const Stmt& s) = 0;
  void emit_block(const Block& block) {
    for (const Stmt& s : block) emit_stmt(s);
  }

  // The range [begin, end) of a loop variable.
  std::pair<Int, Int> range(const Axis& axis);
  // Full vectors of a simd axis that one step of its loop computes, a multiple of the accumulators. A body
  // without loops is emitted statement by statement for all of them, so that chains of dependent instructions
  // run side by side (a core holds the instructions of only two or three long bodies at once) and share the
  // loads of constants.
  int vectors_at_once(const Stmt& s) const;
  // Emits elements [begin, end) of the simd axis of `s`: `at_once` full vectors a step up to `full`, then the
  // rest one masked vector at a time. carried: the accumulators, results of vector 0 first. sure: begin < end
  // is known.
  void simd_axis(const Stmt& s, const Int& begin, const Int& full, const Int& end, int at_once, bool sure,
                 std::vector<Carried>& carried);
  void emit_loop(const Stmt& s);
  void emit_scan(const Stmt& s);
  void emit_reduce(const Stmt& s);

 private:
  // Whether a load or store of the body accesses the element of each lane separately.
  bool lane_by_lane(const Stmt& loop, const Stmt& s) const;
  // The base of a prefetched buffer, relative to the current row; selected before all loops. If rows are too
  // long for the cache, the base of what the loop has just read is used instead.
  std::string prefetch_base(const Prefetch& p, const Stmt& loop);
  // Emits one prefetch per cache line of the `count` vectors from `base`.
  void emit_prefetches(const Stmt& s, const Int& base, int count);
  // The values that the body of a simd reduce yields for one vector. Empty for other loops.
  std::vector<std::string> emit_vector(const Stmt& s);
  // Like emit_vector, for `count` vectors, the first at `base`.
  std::vector<std::vector<std::string>> emit_vectors(const Stmt& s, const Int& base, int count);
  void whole_axis(const Stmt& s, std::vector<Carried>& carried);
  std::string select(const std::string& mask, const std::string& type, const std::string& yes,
                     const std::string& no, std::string_view name);
  // The masked rest of an unrolled loop: the vector at `from` elements after the last full step folds into
  // accumulator from / W. One copy of the body serves all vectors.
  void emit_any(const Stmt& s, std::vector<Carried>& carried, const Int& from);
  // Emits axes [from, count) as nested loops over scalars, then `body`.
  void nest(const std::vector<Axis>& axes, size_t from, size_t count, std::vector<Carried>& carried,
            const std::function<void()>& body);
  std::string identity(OpId fold, DType type, int lanes) const;
  // Emits a loop within lanes whose loads jump from lane to lane but step by one along the loop. Takes W
  // steps at a time: loads each square of W x W elements by rows and transposes it. Likewise stores by rows
  // what a scan writes. carried: values of its scans. False: nothing is emitted.
  bool emit_turned(const Stmt& s, std::vector<Carried>& carried);
  std::string fold_pairs(OpId fold, DType type, int lanes, std::vector<std::string> values,
                         const std::string& name);
  std::string fold_halves(OpId fold, DType type, std::string value, const std::string& name);

  int width() const { return simd_.var == kNoRef ? 1 : w_; }
  std::string at_width(const Value& v) { return width() == 1 ? v.text : vector(v); }

  // By the variable that counts tiles: elements of a tile, and the end of the tiled axis.
  std::map<Ref, std::pair<Int, Int>> tiles_;
  std::vector<Prefetch> prefetches_;
  std::vector<Carried>* scans_ = nullptr;  // values of the scans of the innermost `for`
  size_t next_scan_ = 0;
};

}  // namespace tenon::jit

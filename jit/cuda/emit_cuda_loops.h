// CudaLoops: the part of emit_cuda.cc between the par nest and CudaLanes: loops and reductions of one thread,
// of a team that shares a row, and of threads that share a column. Tested by tests/unit/jit/cuda/emit_cuda_test.cc
// and tests/golden/jit/*.tn.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "jit/cuda/emit_cuda_lanes.h"

namespace tenon::jit {

class CudaLoops : protected CudaLanes {
 protected:
  using CudaLanes::CudaLanes;
  ~CudaLoops() = default;

  void emit_control(const Stmt& s) override;
  // The range of a loop variable. Of a variable that counts tiles, also records the range of the tiles.
  struct Range {
    std::string begin, end;
  };
  Range range(const Axis& axis);
  // The last statement of the par nest with loops of its own. There is one.
  const Stmt& last_control() const;

 private:
  void nest(const std::vector<Axis>& axes, size_t count, const std::function<void()>& body);
  void simd_loop(const Stmt& s, const std::function<void()>& body);
  void over_row(const Axis& axis, const Range& r, const std::function<void()>& body);
  void over_chunks(const Axis& axis, const Range& r, const std::function<void()>& body);
  std::string first_lane() const;
  std::string identity(OpId fold, DType t) const;
  void declare(Ref ref, bool lanes, const std::string& name, const std::string& first);
  void emit_loop(const Stmt& s);
  void fold_in_order(const Stmt& s, const std::function<void()>& body);
  void emit_reduce(const Stmt& s);
  void emit_online(const Stmt& s);
  void emit_exps(const Stmt& s);
  void emit_squares(const Stmt& s);
  void each_lane(const std::function<void()>& body);  // lanes that exist
  std::string of_team(const Stmt& s, size_t result) const;

  // By the variable that counts tiles: elements of a tile, and the end of the tiled axis.
  std::map<Ref, std::pair<std::string, std::string>> tiles_;
};

}  // namespace tenon::jit

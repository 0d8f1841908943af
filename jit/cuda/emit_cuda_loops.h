// CudaLoops: the part of emit_cuda.cc between the par nest and CudaLanes: loops and reductions, of one thread, of a team that
// shares a row, of threads that share a column. Tested by tests/unit/jit/emit_cuda_test.cc and tests/golden/jit/*.tn.
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
  // The values of a loop variable; of one that counts tiles, remembers what these are.
  struct Range {
    std::string begin, end;
  };
  Range range(const Axis& axis);

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
  void each_lane(const std::function<void()>& body);  // of those that are there
  std::string of_team(const Stmt& s, size_t result) const;

  std::map<Ref, std::pair<std::string, std::string>>
      tiles_;  // by the variable that counts them: elements of one and of all
};

}  // namespace tenon::jit

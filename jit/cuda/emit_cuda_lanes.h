// CudaLanes: the part of emit_cuda.cc below control flow, as emit_lanes is the part of emit_llvm.cc: values,
// addresses, loads and stores of one kernel, for the one thread that computes them. CudaLoops emits control
// flow. A value that depends on the axis of the simd loop being emitted exists once per lane, within TN_EACH,
// which repeats the next block for the `vector` elements of a thread. Loads of adjacent elements come before
// TN_EACH as vectors, stores after it. Everything else is a scalar. Tested by
// tests/unit/jit/cuda/emit_cuda_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/schedule/cuda_schedule.h"

namespace tenon::jit {

class CudaLanes {
 protected:
  CudaLanes(const Kernel& kernel, const CudaSchedule& schedule);
  ~CudaLanes() = default;

  // Emits a loop or a reduction.
  virtual void emit_control(const Stmt& s) = 0;

  // ---- text ----
  void line(const std::string& text);
  void open(const std::string& text);
  void close();
  static std::string number(int64_t n) { return std::to_string(n); }
  std::string pointer(size_t buffer) const;
  std::string element_at(const Stmt& access, bool each) const;
  std::string vector_at(const Stmt& load) const;
  void store_vector(const Stmt& store, const std::string& value);
  static std::string variable(Ref ref) { return "j" + std::to_string(ref); }
  static std::string value(Ref ref) { return "v" + std::to_string(ref); }
  static std::string accumulator(Ref ref) { return "a" + std::to_string(ref); }
  std::string type(Ref ref) const;
  std::string vector_type(const Stmt& access) const;
  std::string use(Ref ref) const;
  std::string extent(const Extent& e) const;
  static std::string fold_call(OpId fold, const std::string& a, const std::string& b);
  std::string address(const Stmt& s, bool each) const;  // each: the address of lane v
  std::string count_argument() const { return whole_ ? "" : ", count"; }

  // Emits a statement that all threads of a team execute alike.
  void emit_uniform(const Stmt& s);
  // Emits the statements of a simd loop, or of a loop within it. `tail` runs for each lane after them and
  // reads `yields`. Without a tail, the code after them reads `yields`.
  void emit_lanes(const Block& block, const std::function<void()>& tail, const std::vector<Ref>& yields = {});
  // Emits statements before a loop whose body reads `later`.
  void emit_before(const Block& block, const std::set<Ref>& later);
  // From here on, lanes run along this axis.
  void enter_lanes(const Axis& axis, const std::string& end);
  void count_lanes(const Axis& axis, const std::string& end);  // lanes before `end`
  void leave_lanes() { simd_ = kNoRef; }
  // Keeps loads that several loops over a row repeat in registers. declare_kept_loads() declares these.
  void find_kept_loads(const Block& block);
  void declare_kept_loads();
  // Loads of inputs in the body of a loop whose addresses depend on nothing that the body computes. Empty if
  // the body has loops.
  std::vector<const Stmt*> loads_ahead(const Block& body) const;
  // Loads of adjacent elements in a loop with unrolled chunks that are issued for all chunks before the first
  // chunk is computed: loads that are kept anyway, and others as long as registers suffice.
  std::vector<const Stmt*> loads_of_chunks(const Block& body) const;
  // declare_ahead() declares registers of such a load for `steps` steps; load_ahead() loads those of step
  // `step_`. Between begin_ahead() and end_ahead() the body reads them.
  void declare_ahead(const Stmt& s, int steps);
  void load_ahead(const Stmt& s);
  void begin_ahead(const std::vector<const Stmt*>& loads) { ahead_.insert(loads.begin(), loads.end()); }
  void end_ahead() { ahead_.clear(); }

  const Kernel& k_;
  const CudaSchedule& s_;
  std::string text_;
  int depth_ = 1;
  int vector_ = 1, team_ = 1;
  bool whole_ = true;
  Ref simd_ = kNoRef;         // the axis of lanes
  std::vector<bool> varies_;  // differs from lane to lane
  std::vector<bool> array_;   // is in an array of all lanes
  const char* step_ = "u";    // index of a step that is loaded ahead
  std::set<Ref> loop_variable_;
  // Elements of lane v, of accesses that do not go to their buffer.
  std::map<const Stmt*, std::string> elements_;

 private:
  enum class Reach { same, together, apart };  // elements that neighbouring lanes access
  Reach reach(const Stmt& s) const;
  std::string scalar(const Stmt& s) const;
  std::string expression(const Stmt& s) const;
  bool reads_lanes(const Stmt& s) const;
  void emit_lane_scan(const Stmt& s);
  void emit_segment(const std::vector<const Stmt*>& list, const std::set<Ref>& later,
                    const std::function<void()>& tail);
  void emit_each(const Stmt& s);
  bool shares_blocks(const Stmt& s) const;
  std::string first_lane_of(Ref value) const;
  std::string element(const Stmt& s) const;
  std::string stored(const Stmt& s);
  std::string loaded(const Stmt& s) const;
  std::string loaded_ahead(const Stmt& s) const;
  void load_vector(const Stmt& s);

  struct Kept {
    std::string name;
    bool first;
  };
  std::map<const Stmt*, int> stored_;
  std::set<const Stmt*> ahead_;
  std::map<const Stmt*, Kept> kept_loads_;
  std::vector<const Stmt*> first_loads_;  // the first load of each kept group
};

}  // namespace tenon::jit

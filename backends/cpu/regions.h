// Regions: the kernels of one step, or of several steps in a row, arranged in parallel regions. Kernels that do not wait for each
// other run in one region, so that threads are woken, and waited for, once. Immutable; any number of threads may run it.
// Tested by tests/unit/backends/regions_test.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/group_kernels.h"
#include "jit/llvm/compiler.h"
#include "src/backend/backend.h"

namespace tenon {

inline constexpr size_t kMaxBuffers = 128;  // of a launch

// A kernel at the sizes of a plan.
struct Launch {
  jit::KernelFn function;
  std::vector<int64_t> sizes;
  jit::Arguments arguments;
  // The message for each fault number; null: the kernel cannot fault.
  std::shared_ptr<const std::vector<std::string>> faults;
  int64_t iterations = 0;  // of the par nest
  int64_t work = 0;        // vector operations of all iterations
  int64_t scratch = 0;     // bytes per thread
  int threads = 1;         // the most threads that pay if the kernel runs alone
};

// A launch of a step.
struct PlacedLaunch {
  const Launch* launch;  // not owned
  int step = 0;
  int first_buffer = 0;  // of the step, among the buffers of all steps
};

class Regions {
 public:
  Regions() = default;
  // launches: in an order in which they may run one by one. The Launch objects must outlive this object, which keeps pointers to their messages.
  // spans: of the buffers of all steps.
  Regions(std::vector<PlacedLaunch> launches, std::span<const BufferSpan> spans, int threads);
  // A region for each launch of one step.
  static Regions one_by_one(std::span<const Launch> launches);

  size_t count() const { return regions_.size(); }
  int64_t scratch_bytes() const { return temps_ + scratch_; }
  int64_t bytes() const;  // memory that it holds
  // buffers: of all steps, one after another. Fails if a kernel finds a fault. Regions behind it do not run.
  Status run(void* const* buffers, char* scratch, const RunOn& on) const;

 private:
  // A launch, flat: a run walks along arrays. Its sizes and arguments begin at these positions.
  struct Entry {
    jit::KernelFn function;
    const std::vector<std::string>* faults;
    uint32_t size, argument, arguments;
    bool copies;
  };
  struct Argument {
    bool is_temporary;
    int64_t at;  // position among all buffers, or offset in the scratch memory
  };
  // Iterations of a launch that one thread runs.
  struct Piece {
    uint32_t launch;
    int64_t begin, end;
  };
  // A region has as many slots as it keeps threads busy. A thread runs the pieces of its slots.
  struct Region {
    uint32_t first_launch, launches, first_slot;
    int slots;
    bool may_fail;
    int64_t scratch;  // bytes per thread
  };
  struct Call;
  // Whether the launch copies a buffer to itself: a scatter in place.
  bool is_done(const Entry& launch, void* const* buffers) const;
  void add_region(std::span<const PlacedLaunch> launches, std::span<const int64_t> temps_of, int threads);

  std::vector<Entry> launches_;  // region after region
  std::vector<int64_t> sizes_;
  std::vector<Argument> arguments_;
  std::vector<Piece> pieces_;    // slot after slot
  std::vector<uint32_t> slots_;  // the first piece of each
  std::vector<Region> regions_;
  int64_t temps_ = 0,
          scratch_ = 0;  // bytes of all temporaries; of the scratch memory of all threads of a region
};

}  // namespace tenon

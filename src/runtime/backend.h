// Backend: the one abstract class between the runtime and whatever computes. Four moments:
//   bid      while a program is made: which nodes can it run, at what cost, or a sentence why not
//   build    once per program: groups become executables (machine code, descriptors); sizes are still symbols
//   compile  before prepare, for all executables of a plan at once: what depends on sizes and takes long, if anything
//   prepare  once per plan: an executable becomes a step for concrete sizes; microseconds. Any number of threads at once,
//            also for one executable
// A step runs on the hot path: no allocation, no lock, any number of host threads at once.
// Back ends are listed, not registered: all_backends() is defined in backends/list.cc.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/ir/builder.h"
#include "src/ir/group.h"
#include "src/runtime/memory.h"

namespace tenon {

// Runs fn(arg, begin, end) over a partition of [0, n); returns when all are done. Called from any thread.
class Parallel {
 public:
  virtual ~Parallel() = default;
  virtual int threads() const = 0;
  // At most `most` threads; each gets one contiguous range, `thread` is in [0, most).
  using RangeFn = void (*)(void* arg, int thread, int64_t begin, int64_t end);
  virtual void run(int64_t n, int most, RangeFn fn, void* arg) = 0;
};

// Where tensors live, in DLPack's numbers.
struct DeviceId {
  static constexpr int kCpu = 1, kCuda = 2;
  int type = kCpu;
  int index = 0;
  bool is_cpu() const { return type == kCpu; }
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

// Memory of a device, taken and given back in the order of a stream: what was queued before may still use a block when it
// is given back. Any thread.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  struct Block {
    void* data = nullptr;
    void* token = nullptr;  // whatever the owner of the memory wants to know it by
  };
  virtual Result<Block> take(int64_t bytes, void* stream) = 0;  // aligned to 256 bytes
  virtual void give(const Block& block, int64_t bytes, void* stream) = 0;
};

// A plan's launches, gathered instead of queued, so that the device starts them as one. One thread at a time.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual bool begin() = 0;  // anew; false: the device has taken it back
  virtual Status launch(
      void* stream) = 0;  // what came since; only what differs from the last time is told to the device
};

// What a program needs of a device beside its steps. Any thread.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual DeviceMemory& pool() = 0;  // where a host brings no memory of its own
  // A copy of bytes of the host, ready when this returns; goes back when nobody holds it and no queued work can use it.
  virtual Result<std::shared_ptr<void>> keep(const void* bytes, int64_t size) = 0;
  // Whether work can be queued on the stream; with `prepare`, whether plans can be made meanwhile, for which a stream that
  // captures leaves no room.
  virtual Status check_stream(void* stream, bool prepare) = 0;
  virtual bool captures(void* stream) = 0;
  virtual std::unique_ptr<Recording> recording() = 0;  // null: there are enough of them
};

// Which plans on a device are launched as one, from their fourth run on: those of several kernels, if these are so small that
// launching them one by one takes longer than they do; all of several kernels; none.
enum class DeviceGraphs : uint8_t { of_small_kernels, always, never };

// What a run may use.
struct RunOn {
  Parallel& parallel;
  void* stream = nullptr;  // of the program's device; a step that uses one queues its work and does not wait
  DeviceMemory* memory = nullptr;   // of the workspace; null: the host's
  DeviceRuntime* graphs = nullptr;  // of the device, where plans may be launched as one
};

// Whether kernels are compiled again with the sizes of a plan as constants: never, when they turn out to be hot and off
// the calling thread, or with every plan. And what came of it, per program.
enum class SpecializeMode : uint8_t { off, background, wait };
struct Specialization {
  explicit Specialization(SpecializeMode m) : mode(m) {}
  const SpecializeMode mode;
  std::atomic<int64_t> kept{0};     // kernels that run with constants, or did in plans gone since
  std::atomic<int64_t> refused{0};  // those that were not faster, or not within the limits
};

// Sizes of one plan: the values of the graph's symbols.
struct Sizes {
  const DimTable* table;
  std::vector<int64_t> symbols;
  int threads = 1;                                  // the most a step may use
  std::shared_ptr<Specialization> specialize = {};  // null: off
  int64_t eval(Dim d) const;  // TENON_CHECKs: sizes were validated when the plan was made
  std::vector<int64_t> eval(std::span<const Dim> dims) const;
};

// Where a value lives in memory: its strides in elements. Dense row-major unless the binding says otherwise.
struct Layout {
  Dims strides;
  bool dense = true;
};

class Step {
 public:
  virtual ~Step() = default;
  // buffers: the executable's inputs, then its outputs. scratch: scratch_bytes() bytes, 64-byte aligned.
  // What fails is what the system or a device refused: sizes and pointers are checked already.
  virtual Status run(void* const* buffers, char* scratch, const RunOn& on) const = 0;
  // Kernels and library calls that record() adds; negative: it cannot be recorded.
  virtual int recordable() const { return -1; }
  virtual Status record(void* const*, char*, Recording&) const { return {}; }
  virtual int64_t scratch_bytes() const = 0;  // for all its threads together
  virtual int64_t bytes() const = 0;          // what the step itself holds, about
};

class Executable {
 public:
  virtual ~Executable() = default;
  std::vector<ValueId>
      inputs;  // materialised values it reads: graph inputs, constants, outputs of other groups
  std::vector<ValueId> outputs;  // values it writes
  // Outputs that may share the buffer of an input that dies here: (output position, input position).
  std::vector<std::pair<int, int>> inplace;
  virtual Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) = 0;
  // Whether its steps may fail once they run: what they read must still be there then.
  virtual bool may_fail() const { return true; }
  virtual std::string describe() const = 0;       // kernel text, or the library call with its post-ops
  virtual int kernel_count() const { return 0; }  // 0: a library call
  int kernels_compiled = 0;                       // of its kernels, those that had to go through the compiler
};

// What a back end sees of a program under construction.
struct BuildContext {
  const Graph& graph;
  // The layout of every materialised value (by ValueId); other entries are empty.
  const std::vector<Layout>& layouts;
  const std::vector<bool>& materialised;
  // Constants (nodes with op constant) never change for the life of the program: they may be packed, into memory of this
  // allocator.
  const Allocator& allocator;
  DeviceId device = {};
};

struct Bid {
  bool yes = false;
  double cost = 0;  // relative; the lowest wins
  std::string why;  // a sentence, for both answers
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual int device_type() const { return DeviceId::kCpu; }
  virtual bool runs_loops() const { return false; }  // one back end per type of device does
  // Whether programs use it that name no back ends. The evaluator is there to be asked for: it is slower by orders.
  virtual bool runs_unasked() const { return true; }
  // Of a device of this type; null for the CPU. Kept for the life of the process. environment, unsupported: why there is none.
  virtual Result<DeviceRuntime*> runtime(int) { return nullptr; }
  virtual Bid bid(const Graph& graph, ValueId node) const = 0;
  // What `node`, for which this back end bids best, becomes before groups form: itself, or nodes around it that make the same
  // value, where an operand has to lie otherwise, or loops are better at a part of it. Contractions and composites only.
  virtual ValueId legalize(Builder& b, Node node) const { return b.add(std::move(node)); }
  // Whether `node` reads its operand, a strided view, where it lies; else that is stored first, densely.
  virtual bool reads(const Graph&, ValueId /*node*/, ValueId /*operand*/) const { return true; }
  // May `node` (a map whose operand `into` is computed by this group) join the group as an epilogue?
  // `members` are in topological order, the first is the node that won the bid.
  virtual Bid joins(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
                    ValueId node) const = 0;
  // One executable per group, in order. Members of a group are in topological order.
  virtual Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) = 0;
  // What of its executables' prepare() takes long, for all of them at once. compiled: increased by the kernels that went
  // through the compiler.
  virtual Status compile(std::span<Executable* const>, const Sizes&, int*) { return {}; }
  // Runs one pass of the kernel compiler on a kernel's text, for `tenon opt --kernel-pass`. unsupported: the back end compiles no
  // kernels; invalid: there is no such pass, or the text is no kernel.
  virtual Result<std::string> run_kernel_pass(std::string_view /*pass*/, std::string_view /*kernel*/) const {
    return unsupported(std::string(name()) + " compiles no kernels");
  }
  virtual std::string describe() const = 0;  // library and version, for build info; opens nothing
};

// A line of `tenon doctor`.
struct ReportLine {
  std::string label;
  std::string text;
};

std::span<Backend* const> all_backends();  // backends/list.cc, in order of preference
std::vector<ReportLine> gpu_report();      // backends/list.cc: what of a GPU is there, or why not
Parallel& default_parallel();              // backends/list.cc: OpenMP, shared with the host
Backend* find_backend(std::string_view name);

}  // namespace tenon

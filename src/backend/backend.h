// Backend: the one abstract class between the runtime and the code that computes. It has four phases:
//   bid      while a program is made: which nodes the back end can run, at what cost, or a sentence why not
//   build    once per program: groups become executables (machine code, descriptors); sizes are still symbols
//   compile  once per plan, before prepare, for all executables at once: slow work that depends on sizes, if any
//   prepare  once per plan: an executable becomes a step for concrete sizes, in microseconds. Any number of threads at
//            once, also for one executable
// A step runs on the hot path: no lock, no allocation except of tables of pointers above 64 entries, any number of host threads at
// once.
// Back ends are listed, not registered: backends/list.cc defines all_backends().
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/memory.h"
#include "src/base/status.h"
#include "src/ir/builder.h"
#include "src/ir/group.h"

namespace tenon {

// Runs fn(arg, thread, begin, end) on a partition of [0, n); returns when all calls have returned. Called on
// any thread.
class Parallel {
 public:
  virtual ~Parallel() = default;
  virtual int threads() const = 0;
  // Uses at most `most` threads. Each gets one contiguous range; `thread` is in [0, most).
  using RangeFn = void (*)(void* arg, int thread, int64_t begin, int64_t end);
  virtual void run(int64_t n, int most, RangeFn fn, void* arg) = 0;
};

// The device of a tensor, in DLPack's numbers.
struct DeviceId {
  static constexpr int kCpu = 1, kCuda = 2;
  int type = kCpu;
  int index = 0;
  bool is_cpu() const { return type == kCpu; }
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

// Memory of a device, taken and given back in the order of a stream. When a block is given back, work that
// was queued earlier may still use the block. Any thread.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  struct Block {
    void* data = nullptr;
    void* token = nullptr;  // identifies the block to the owner of the memory
  };
  virtual Result<Block> take(int64_t bytes, void* stream) = 0;  // aligned to 256 bytes
  virtual void give(const Block& block, int64_t bytes, void* stream) = 0;
};

// Collects the launches of a plan instead of queuing them, so that the device starts them as one. One thread
// at a time.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual bool begin() = 0;                 // starts anew; false: the device has taken the recording back
  virtual Status launch(void* stream) = 0;  // starts the recorded launches; tells the device only the changes
};

// The services of a device that a program needs besides its steps. Any thread.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual DeviceMemory& pool() = 0;  // for hosts that bring no memory of their own
  // Copies bytes of the host to the device; the copy is ready on return. The device frees the copy when no
  // pointer holds it and no queued work can use it.
  virtual Result<std::shared_ptr<void>> keep(const void* bytes, int64_t size) = 0;
  // Checks that work can be queued on the stream. With `prepare`, also checks that plans can be made
  // meanwhile, which a stream that is capturing does not allow.
  virtual Status check_stream(void* stream, bool prepare) = 0;
  virtual bool captures(void* stream) = 0;
  virtual std::unique_ptr<Recording> recording() = 0;  // null: the device has enough of them
};

// Which plans on a device are launched as one, from their fourth run on: plans of several kernels that are so
// small that launching them one by one takes longer than running them; all plans of several kernels; none.
enum class DeviceGraphs : uint8_t { of_small_kernels, always, never };

// The resources of one run.
struct RunOn {
  Parallel& parallel;
  void* stream = nullptr;  // stream of the program's device; steps queue their work there and do not wait
  DeviceMemory* memory = nullptr;   // for the workspace; null: the host's memory
  DeviceRuntime* graphs = nullptr;  // of the device, if plans may be launched as one
};

// The sizes of one plan: the values of the graph's symbols.
struct Sizes {
  const DimTable* table;
  std::vector<int64_t> symbols;
  int threads = 1;            // the most threads a step may use
  int64_t eval(Dim d) const;  // throws StatusError (invalid) if the size has no value
  std::vector<int64_t> eval(std::span<const Dim> dims) const;
};

// The strides of a stored value, in elements. Dense row-major unless the binding says otherwise.
struct Layout {
  Dims strides;
  bool dense = true;
};

// BufferSpan is the memory of a buffer of a step. Two buffers overlap if they have the same space; in space 0, the workspace, they overlap
// only if their bytes do.
struct BufferSpan {
  int space = 0;
  int64_t begin = 0, end = 0;  // bytes of space 0; equal for constants
  bool of_input = false;       // an input of the program may lie there
};

class Step {
 public:
  virtual ~Step() = default;
  // buffers: the executable's inputs, then its outputs. scratch: scratch_bytes() bytes, 64-byte aligned.
  // Fails only if the system or a device refuses something: sizes and pointers have been checked.
  virtual Status run(void* const* buffers, char* scratch, const RunOn& on) const = 0;
  // The number of kernels and library calls that record() adds; negative: the step cannot be recorded.
  virtual int recordable() const { return -1; }
  virtual Status record(void* const*, char*, Recording&) const { return {}; }
  virtual int64_t scratch_bytes() const = 0;  // for all threads together
  virtual int64_t bytes() const = 0;          // memory that the step holds, approximately
};

class Executable {
 public:
  virtual ~Executable() = default;
  std::vector<ValueId> inputs;   // stored values it reads: inputs, constants, outputs of groups
  std::vector<ValueId> outputs;  // values it writes
  // The position of an input among the buffers of a step.
  int position_of(ValueId input) const {
    const auto at = std::find(inputs.begin(), inputs.end(), input);
    TENON_CHECK(at != inputs.end(), "a group reads a value that it does not list");
    return static_cast<int>(at - inputs.begin());
  }
  // Outputs that may share the buffer of an input that is dead afterwards: (output position, input position).
  std::vector<std::pair<int, int>> inplace;
  virtual Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) = 0;
  // A Joiner makes one step that replaces several consecutive steps, whose executables all return this joiner. It returns null if that
  // gains nothing. spans describes the buffers of all these steps; threads is that of their Sizes. The steps must outlive the result.
  // An executable that returns null is never joined.
  struct JoinedPart {
    const Step* step;
    int first_buffer;  // among the buffers of all steps
  };
  using Joiner = std::unique_ptr<Step> (*)(std::span<const JoinedPart> parts,
                                           std::span<const BufferSpan> spans, int threads);
  virtual Joiner joiner() const { return nullptr; }
  // Whether a running step may fail, other than at the exit of the process. If it may, no earlier or same step overwrites an
  // input of the program.
  virtual bool may_fail() const { return true; }
  // Asks for steps that cannot fail. prepare() then takes all memory that a run may need, although most runs do not use it.
  // Afterwards may_fail() is false if all steps have what they may need.
  virtual void take_ahead() {}
  virtual std::string describe() const = 0;       // kernel text, or the library call with its post-ops
  virtual int kernel_count() const { return 0; }  // 0: a library call
  int kernels_compiled = 0;                       // kernels that went through the compiler
};

// The part of a program under construction that a back end sees.
struct BuildContext {
  const Graph& graph;
  // The layout of every stored value, by ValueId; other entries are empty.
  const std::vector<Layout>& layouts;
  const std::vector<bool>& materialised;
  // Constants (nodes with op constant) do not change for the life of the program, so a back end may pack
  // them, into memory of this allocator.
  const Allocator& allocator;
  DeviceId device = {};
  bool for_short_rows = true;  // whether loops along rows of unknown length may have a version for short rows
  // The strides of a stored value; nullopt for a value to read through.
  std::optional<Dims> strides_of(ValueId v) const {
    return materialised[v] ? std::optional(layouts[v].strides) : std::nullopt;
  }
};

struct Bid {
  bool yes = false;
  double cost = 0;  // relative; the lowest bid wins
  std::string why;  // a sentence in both cases

  // Yes at this cost; if the status is not ok, no, with its message as the reason.
  static Bid at(double cost, std::string why, const Status& status) {
    return status.ok() ? Bid{true, cost, std::move(why)} : Bid{false, 0, status.message()};
  }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual int device_type() const { return DeviceId::kCpu; }
  virtual bool runs_loops() const { return false; }  // true for one back end per device type
  // Whether programs that name no back ends use this one. False for the evaluator, which is slower by orders
  // of magnitude.
  virtual bool runs_unasked() const { return true; }
  // The runtime of the device with this index; null for the CPU. Lives as long as the process. Fails with
  // environment or unsupported if there is no such device.
  virtual Result<DeviceRuntime*> runtime(int) { return nullptr; }
  virtual Bid bid(const Graph& graph, ValueId node) const = 0;
  // The replacement of `node`, for which this back end made the best bid, before groups form: the node
  // itself, or several nodes with the same value, if an operand needs another layout or loops are better for
  // a part. Contractions, composites and opaque ops only.
  virtual ValueId legalize(Builder& b, Node node) const { return b.add(std::move(node)); }
  // Whether `node` reads `operand`, a strided view, in place; otherwise the operand is stored densely first.
  virtual bool reads(const Graph&, ValueId /*node*/, ValueId /*operand*/) const { return true; }
  // Whether `node`, a map that reads a value of this group, may join the group as an epilogue. `members` are
  // in topological order; the first is the node for which this back end won the bid.
  virtual Bid joins(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
                    ValueId node) const = 0;
  // Builds one executable per group, in order. The members of a group are in topological order. A back end that builds each group by
  // itself implements build_group() instead.
  virtual Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) {
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      auto group = build_group(context, members);
      if (!group.ok()) return group.status().at("group of " + context.graph.value_name(members.back()));
      built.push_back(std::move(*group));
    }
    return built;
  }
  virtual Result<std::unique_ptr<Executable>> build_group(const BuildContext&, std::span<const ValueId>) {
    return unsupported(std::string(name()) + " builds no groups");
  }
  // Does the slow part of prepare() for all executables of a plan in one batch. Adds to *compiled the number
  // of kernels that went through the compiler.
  virtual Status compile(std::span<Executable* const>, const Sizes&, int*) { return {}; }
  // Runs one pass of the kernel compiler on the text of a kernel, for `tenon opt --kernel-pass`. Fails with
  // unsupported if the back end compiles no kernels, with invalid if no pass has this name or the text is no
  // kernel.
  virtual Result<std::string> run_kernel_pass(std::string_view /*pass*/, std::string_view /*kernel*/) const {
    return unsupported(std::string(name()) + " compiles no kernels");
  }
  virtual std::string describe() const = 0;  // library and version, for build info; loads nothing
};

// A line of `tenon doctor`.
struct ReportLine {
  std::string label;
  std::string text;
};

std::span<Backend* const> all_backends();  // backends/list.cc, in order of preference
std::vector<ReportLine> gpu_report();      // backends/list.cc: parts of the GPU stack, or why absent
Parallel& default_parallel();              // backends/list.cc: OpenMP, shared with the host
Backend* find_backend(std::string_view name);

}  // namespace tenon

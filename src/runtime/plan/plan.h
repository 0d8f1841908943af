// Plan: a program at one set of sizes: the steps in order, and the buffers of each step. Making a plan takes
// microseconds plus the time a library needs to create its primitives. Immutable; any number of threads may
// run it. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/backend/memory.h"
#include "src/passes/passes.h"

namespace tenon {

// The location of one buffer of a step.
struct BufferRef {
  enum class Kind : uint8_t { input, output, constant, workspace } kind = Kind::workspace;
  int index = 0;  // input, output: position in the host's list
  int64_t offset =
      0;  // from the start of the workspace, or of the input or output that holds an intermediate
  const void* constant = nullptr;
};

// A step and its buffers, which follow each other in the list of the plan.
struct PlannedStep {
  const Step* step = nullptr;
  uint32_t first_buffer = 0, buffer_count = 0;
  int executable = -1;  // the first, if several are joined; -1: copies of updates
  int64_t scratch = 0;  // offset of its scratch memory in the workspace
};

// The input of Plan::make; owned by the program.
struct PlanSource {
  const Graph* graph = nullptr;
  std::vector<std::unique_ptr<Executable>> executables;  // one per group, in running order
  std::vector<int> input_of;                             // per value: position in the host's inputs, or -1
  // Per value: position of its first output binding, or of the output whose memory it shares; else -1.
  std::vector<int> output_of;
  std::vector<ValueId> sized;  // one value of each type
  std::vector<std::pair<Backend*, std::vector<Executable*>>> by_backend;
  std::vector<const void*> constant_at;  // per value: its bytes on the device; empty: on the host

  // Updates of inputs that are computed as intermediates and copied after all other steps. The source of the
  // copies has an input and an output for each of them.
  struct Copies {
    const PlanSource* source = nullptr;
    std::vector<ValueId> from;
    std::vector<int> to;  // positions of outputs
  } copies = {};

  DeviceGraphs graphs = DeviceGraphs::never;
  bool uses_host_memory = false;  // whether intermediates may lie in donated inputs and in outputs
  Recomputed recomputed;          // zero without a budget
  void find_sized();              // call it once `graph` is set
  int reference_steps() const;    // steps of back ends that run only if asked
};

class Plan {
 public:
  static Result<std::unique_ptr<Plan>> make(PlanSource& source, std::vector<int64_t> symbols, int threads);

  // run() calls begin and end around every step, on the thread of the run. `executable` is a position in PlanSource::executables, or -1
  // for the copies of updates.
  struct Watch {
    virtual void begin(int executable) = 0;
    virtual void end() = 0;

   protected:
    ~Watch() = default;
  };
  // A host that gives memory to outputs and takes that of donated inputs while a run goes on. Called on the thread of the run.
  struct Host {
    // Memory for an output without, before the first step that writes to it; null if there is none.
    virtual void* allocate(int output) = 0;
    // No later step uses the memory of this donated input, and none can fail.
    virtual void release(int input) = 0;

   protected:
    ~Host() = default;
  };
  // The pointers have been checked. The workspace comes from `arenas`, or from on.memory. Fails only if the
  // system or a device refuses something; some outputs may have been written then. With a watch, the steps run
  // one by one; on a device, a step ends when it is launched. Only with a host may outputs be null.
  Status run(void* const* inputs, void** outputs, ArenaPool& arenas, const RunOn& on, Host* host = nullptr,
             Watch* watch = nullptr) const;

  std::span<const int64_t> symbols() const { return std::span(key_).first(key_.size() - 1); }
  const std::vector<int64_t>& key() const { return key_; }  // the symbols, then the number of threads
  int64_t workspace_bytes() const { return workspace_; }
  int64_t intermediate_bytes() const { return intermediate_; }
  int64_t unshared_bytes() const { return unshared_; }  // of the intermediates, if each had its own memory
  int64_t donated_bytes() const { return donated_; }    // of the donated inputs that hold intermediates
  int64_t output_bytes() const { return in_outputs_; }  // of the outputs that hold intermediates
  int64_t bytes() const;                                // of the plan and its steps, approximately
  // The expected shape and strides of every host tensor, and the bytes it touches, from its address on.
  struct Expected {
    std::vector<int64_t> shape, strides;
    int64_t elements = 0;
    int64_t low = 0, high = 0;
  };
  std::vector<Expected> inputs, outputs;
  std::vector<std::pair<int, int>> in_place;  // (output, input) pairs that may be one buffer
  int kernels_compiled = 0;                   // for these sizes

 private:
  // Has every executable prepare its step. place: ValueId -> BufferRef.
  template <class Place>
  Status prepare_steps(const PlanSource& source, const Sizes& sizes, const Place& place);
  // The steps that copy updates to inputs, behind all others.
  template <class Place>
  Status prepare_copies(const PlanSource::Copies& copies, const Sizes& sizes, const Place& place);
  // Places the scratch memory of each step beside the intermediates that are alive while it runs. executables: how many there are.
  void place_scratch(const std::vector<Lifetime>& intermediates, int executables);
  // Sets in_place.
  void find_in_place(const PlanSource& source);
  // Steps in running order, and after which of them the host gets donated inputs back, in the same order.
  struct Order {
    struct Release {
      size_t step;
      int input;
    };
    std::vector<PlannedStep> steps;
    std::vector<Release> releases;
  };
  // The executable behind those of a step of an order: a joined step stands for all up to that of the next step. executables: how many
  // there are.
  static int end_of(const Order& order, size_t step, int executables);
  void find_releases(const PlanSource& source, Order& order) const;
  template <class Each>
  Status for_each(const Order& order, void* const* inputs, void** outputs, char* base, Host* host,
                  const Each& each) const;
  Status run_as_one(void* const* inputs, void** outputs, char* base, const RunOn& on, bool* done) const;

  int recordable_ = 0;  // kernels and library calls; 0: do not launch as one

  std::vector<int64_t> key_;
  std::vector<std::unique_ptr<Step>> owned_;
  Order single_;  // one step for each executable
  Order joined_;  // a run executes these; each replaces one or several of the others
  std::vector<BufferRef> buffers_;
  size_t most_buffers_ = 0;
  int64_t workspace_ = 0;     // intermediates and scratch
  int64_t intermediate_ = 0;  // intermediates alone
  int64_t unshared_ = 0;
  int64_t donated_ = 0, in_outputs_ = 0;

  // Launches all steps as one, after the first kRunsFirst runs, by one thread at a time. Declared after the
  // steps, so that it is destroyed before them: they own what is launched.
  struct AsOne {
    std::mutex mutex;
    std::unique_ptr<Recording> recording;
    std::atomic<int> runs{0};
    std::atomic<bool> given_up{false};
  };
  mutable AsOne as_one_;
};

}  // namespace tenon

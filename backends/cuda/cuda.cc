// See cuda.h. A step is a list of launches with their size arguments ready; a run adds pointers. A pointer that is not
// aligned to 16 bytes takes the form of the launch whose vectors are single elements, compiled when it first comes.
#include "backends/cuda/cuda.h"

#include <algorithm>

#include "backends/cuda/code.h"
#include "backends/cuda/forms.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/recording.h"
#include "jit/lowered.h"
#include "jit/nvrtc.h"
#include "src/base/align.h"

namespace tenon {
namespace {

using cuda::CuFunction;
using cuda::DeviceKernel;
using cuda::Form;
using cuda::Missing;
constexpr int64_t kVector = 16;  // bytes that one thread reads or writes at once

struct DeviceLaunch {
  DeviceKernel* kernel = nullptr;
  std::vector<int64_t> sizes;
  struct Argument {
    int buffer;      // position in the step's buffer list; -1: a temporary
    int64_t offset;  // of a temporary in the step's scratch
  };
  std::vector<Argument> buffers;
  int64_t longest = 0;            // elements of the longest buffer
  int64_t temps = 0;              // bytes, in front of the locals
  Form aligned, single;           // the latter takes pointers of any alignment
  CuFunction function = nullptr;  // of the aligned form
  int64_t scratch_bytes() const {
    return temps + std::max(aligned.launch.scratch_bytes, single.launch.scratch_bytes);
  }
};

class CudaStep final : public Step {
 public:
  const cuda::Device* device = nullptr;
  std::vector<DeviceLaunch> launches;

  int64_t scratch_bytes() const override {
    int64_t most = 0;
    for (const DeviceLaunch& l : launches) most = std::max(most, l.scratch_bytes());
    return most;
  }
  int64_t bytes() const override {
    size_t sum = sizeof *this;
    for (const DeviceLaunch& l : launches)
      sum += sizeof l + l.sizes.size() * sizeof(int64_t) + l.buffers.size() * sizeof(DeviceLaunch::Argument);
    return static_cast<int64_t>(sum);
  }

  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    const cuda::Current current(*device);
    TENON_TRY(current.status());
    const auto stream = static_cast<cuda::CuStream>(on.stream);
    for (const DeviceLaunch& l : launches) {
      cuda::Work w;
      TENON_TRY(fill(w, l, buffers, scratch, stream));
      TENON_TRY(w.queue(*device, stream));
    }
    return {};
  }
  int recordable() const override { return static_cast<int>(launches.size()); }
  Status record(void* const* buffers, char* scratch, Recording& recording) const override {
    for (const DeviceLaunch& l : launches) {
      cuda::Work w;
      TENON_TRY(fill(w, l, buffers, scratch, nullptr));
      cuda::add(recording, w);
    }
    return {};
  }

 private:
  Status fill(cuda::Work& w, const DeviceLaunch& l, void* const* buffers, char* scratch,
              cuda::CuStream stream) const {
    uint64_t bits = 0;
    for (const DeviceLaunch::Argument& a : l.buffers) {
      w.add(reinterpret_cast<uint64_t>(a.buffer < 0 ? scratch + a.offset : buffers[a.buffer]));
      bits |= w.values[w.count - 1];
    }
    const Form* form = &l.aligned;
    w.function = l.function;
    if (bits % kVector != 0 && l.aligned.schedule != l.single.schedule) {
      form = &l.single;
      TENON_ASSIGN(w.function, single(l, stream));
    }
    for (int64_t size : l.sizes)
      w.add(static_cast<uint64_t>(size));  // 32 bits of it, where indices have no more
    if (form->schedule.locals == jit::CudaSchedule::Locals::global) {
      w.add(reinterpret_cast<uint64_t>(scratch + l.temps));
      w.add(static_cast<uint64_t>(form->launch.scratch_stride));
    }
    w.blocks = static_cast<unsigned>(form->launch.blocks);
    w.threads = static_cast<unsigned>(form->launch.threads);
    w.shared_bytes = static_cast<unsigned>(form->launch.shared_bytes);
    return {};
  }

  // Compiled when a pointer that is not aligned first comes.
  Result<CuFunction> single(const DeviceLaunch& l, cuda::CuStream stream) const {
    if (CuFunction ready = l.kernel->function(l.single)) return ready;
    TENON_TRY(cuda::may_make(*device, stream,
                             "kernel @" + l.kernel->lowered().kernel.name +
                                 " is not compiled for tensors that are not aligned to 16 bytes"));
    cuda::Wanted wanted = l.kernel->wanted(l.single);
    TENON_TRY(cuda::load(*device, {&wanted, 1}));
    l.kernel->add(wanted);
    return wanted.function;
  }
};

class CudaGroup final : public Executable {
 public:
  const cuda::Device* device = nullptr;
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  std::vector<std::vector<int>> positions;
  std::vector<std::vector<Dim>> lengths;  // per kernel and buffer: elements from first to last

  // What of the kernels these sizes need; nothing of those that have nothing to do.
  void missing(const Sizes& sizes, std::vector<Missing>& list) const {
    for (size_t k = 0; k < kernels.size(); ++k) {
      Missing m{kernels[k].get(), sizes.eval(kernels[k]->lowered().sizes), kVector, longest(k, sizes)};
      if (jit::par_iterations(kernels[k]->lowered().kernel, m.sizes.data(), 1) > 0)
        list.push_back(std::move(m));
    }
  }

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<CudaStep>();
    step->device = device;
    for (size_t k = 0; k < kernels.size(); ++k) {
      const jit::LoweredKernel& lowered = kernels[k]->lowered();
      DeviceLaunch l;
      l.kernel = kernels[k].get();
      l.sizes = sizes.eval(lowered.sizes);
      if (jit::par_iterations(lowered.kernel, l.sizes.data(), 1) == 0) continue;
      l.longest = longest(k, sizes);
      std::vector<int64_t> offsets;
      for (const jit::Temp& t : lowered.temps) {
        offsets.push_back(l.temps);
        l.temps += align_up(sizes.eval(t.length) * size_of(t.type));
      }
      for (size_t b = 0; b < lowered.buffers.size(); ++b)
        l.buffers.push_back(positions[k][b] >= 0
                                ? DeviceLaunch::Argument{positions[k][b], 0}
                                : DeviceLaunch::Argument{-1, offsets[lowered.buffers[b] - jit::kTempBuffer]});
      if (l.buffers.size() + l.sizes.size() + 2 > cuda::Work::kMostArguments)
        return unsupported("a kernel of too many arguments");
      l.single = kernels[k]->form(l.sizes, 1, l.longest);
      // There after compile(), unless another thread has learnt since that it spills.
      for (;;) {
        l.aligned = kernels[k]->form(l.sizes, kVector, l.longest);
        if ((l.function = kernels[k]->function(l.aligned))) break;
        const Missing one{kernels[k].get(), l.sizes, kVector, l.longest};
        TENON_TRY(cuda::load_missing(*device, {&one, 1}, nullptr));
      }
      step->launches.push_back(std::move(l));
    }
    return std::unique_ptr<Step>(std::move(step));
  }
  std::string describe() const override {
    std::string text;
    for (const auto& k : kernels) text += jit::print(k->lowered().kernel);
    return text;
  }
  int kernel_count() const override { return static_cast<int>(kernels.size()); }

 private:
  int64_t longest(size_t k, const Sizes& sizes) const {
    int64_t most = 0;
    for (const jit::Temp& t : kernels[k]->lowered().temps) most = std::max(most, sizes.eval(t.length));
    for (Dim length : lengths[k]) most = std::max(most, sizes.eval(length));
    return most;
  }
};

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  int device_type() const override { return DeviceId::kCuda; }
  bool runs_loops() const override { return true; }
  Result<DeviceRuntime*> runtime(int index) override { return cuda::runtime_of(index); }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Status loops = jit::has_loops(graph, v);
    return loops.ok() ? Bid{true, 1, "runs as loops"} : Bid{false, 0, loops.message()};
  }

  Bid absorb(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
             ValueId v) const override {
    const Status joins = jit::may_join(graph, uses, members, v, jit::Target::gpu);
    if (!joins.ok()) return {false, 0, joins.message()};
    return {true, 1, "one schedule covers it"};
  }

  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    const Graph& g = context.graph;
    const Uses uses(g);
    TENON_ASSIGN(const cuda::Device* device, cuda::device(context.device.index));
    // Plans need it; a host should know now, while it can still do without us.
    TENON_ASSIGN(const jit::Nvrtc* nvrtc, jit::Nvrtc::get());
    TENON_TRY(cuda::check_compiler(device->driver(), *nvrtc, device->description().architecture));
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      auto group = std::make_unique<CudaGroup>();
      group->device = device;
      group->inputs = inputs_of(g, members);
      group->outputs = outputs_of(g, uses, members);
      auto strides = [&](ValueId v) -> std::optional<Dims> {
        if (!context.materialised[v]) return std::nullopt;
        return context.layouts[v].strides;
      };
      auto lowered = jit::lower({g, members, group->outputs, strides, jit::Target::gpu});
      if (!lowered.ok()) return lowered.status().at("group of " + g.value_name(members.back()));
      for (const auto& k : *lowered) {
        Status valid = jit::verify(k.kernel);
        TENON_CHECK(valid.ok(), valid.message() + "\n" + jit::print(k.kernel));
        std::vector<Dim>& lengths = group->lengths.emplace_back();
        for (ValueId v : k.buffers) lengths.push_back(v < jit::kTempBuffer ? reach(g, context, v) : Dim(0));
      }
      group->positions = jit::positions(*lowered, group->inputs, group->outputs);
      group->inplace = jit::inplace(*lowered, group->inputs, group->outputs);
      for (jit::LoweredKernel& k : *lowered)
        group->kernels.push_back(std::make_unique<DeviceKernel>(*device, std::move(k)));
      built.push_back(std::move(group));
    }
    return built;
  }

  Status compile(std::span<Executable* const> executables, const Sizes& sizes, int* compiled) override {
    std::vector<Missing> list;
    const cuda::Device* device = nullptr;
    for (Executable* e : executables) {
      const auto& group = static_cast<const CudaGroup&>(*e);
      device = group.device;
      group.missing(sizes, list);
    }
    return list.empty() ? Status() : cuda::load_missing(*device, list, compiled);
  }

  std::string describe() const override { return "kernels through NVRTC, opened on first use"; }

 private:
  // Elements from the first to the last of a value in memory, about: size times stride of the axis that reaches farthest is no
  // more than their sum.
  static Dim reach(const Graph& g, const BuildContext& context, ValueId v) {
    DimTable& dims = *g.dims;
    Dim sum(1);
    const Dims &shape = g.type(v).shape, &strides = context.layouts[v].strides;
    for (size_t a = 0; a < shape.size(); ++a) sum = dims.add(sum, dims.mul(shape[a], strides[a]));
    return sum;
  }
};

}  // namespace

Backend& cuda_backend() {
  static CudaBackend& backend = *new CudaBackend;  // never destroyed: threads may be at work at exit
  return backend;
}

}  // namespace tenon

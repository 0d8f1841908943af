// See cuda.h. A step is a list of launches whose size arguments are ready; a run adds the pointers. If a pointer is not aligned to
// 16 bytes, the launch takes a form that accesses single elements, which is compiled when such a pointer first comes.
#include "backends/nvidia/kernels/cuda.h"

#include <algorithm>

#include "backends/nvidia/device/memory.h"
#include "backends/nvidia/device/recording.h"
#include "backends/nvidia/kernels/forms.h"
#include "jit/cuda/nvrtc.h"
#include "jit/group_kernels.h"
#include "jit/pipeline.h"
#include "src/base/align.h"
#include "src/base/threads/immortal.h"

namespace tenon {
namespace {

using cuda::CuFunction;
using cuda::DeviceKernel;
using cuda::Missing;
constexpr int64_t kVector = 16;  // bytes that one thread reads or writes at once

// A form, and the arguments behind the pointers, which are the same for every run.
struct ReadyForm {
  cuda::Form form;
  CuFunction function = nullptr;  // null: not loaded when the plan was made
  std::vector<uint64_t>
      values;  // sizes; if locals are in global memory, also a placeholder for their address, and their stride
};

struct DeviceLaunch {
  DeviceKernel* kernel = nullptr;
  jit::Arguments arguments;   // temporaries lie in front of the locals
  ReadyForm aligned, single;  // `single` takes pointers of any alignment
  int64_t scratch_bytes() const {
    return arguments.temps +
           std::max(aligned.form.variant.launch.scratch_bytes, single.form.variant.launch.scratch_bytes);
  }
  int64_t bytes() const {
    return static_cast<int64_t>(sizeof *this + arguments.list.size() * sizeof(arguments.list[0]) +
                                (aligned.values.size() + single.values.size()) * sizeof(uint64_t));
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
    int64_t sum = sizeof *this;
    for (const DeviceLaunch& l : launches) sum += l.bytes();
    return sum;
  }

  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    const cuda::Current current(*device);
    TENON_TRY(current.status());
    const auto stream = static_cast<cuda::CuStream>(on.stream);
    for (const DeviceLaunch& l : launches) {
      cuda::Work w;
      TENON_TRY(fill(w, l, buffers, scratch, &stream));
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
  // Fills w with the launch. stream: the stream it will be queued on; null for a recording, which never happens while the caller
  // captures.
  Status fill(cuda::Work& w, const DeviceLaunch& l, void* const* buffers, char* scratch,
              const cuda::CuStream* stream) const {
    uint64_t bits = 0;
    for (const auto& a : l.arguments.list) {
      w.add(reinterpret_cast<uint64_t>(a.at(buffers, scratch)));
      bits |= w.values[w.count - 1];
    }
    const bool single = bits % kVector != 0 && !jit::same_code(l.aligned.form.variant, l.single.form.variant);
    const ReadyForm& ready = single ? l.single : l.aligned;
    w.function = ready.function;
    if (single) {
      TENON_ASSIGN(w.function, loaded(l, stream));
    }
    for (uint64_t value : ready.values) w.add(value);
    if (ready.form.variant.schedule.locals == jit::CudaSchedule::Locals::global)
      w.values[w.count - 2] = reinterpret_cast<uint64_t>(scratch + l.arguments.temps);
    w.blocks = static_cast<unsigned>(ready.form.variant.launch.blocks);
    w.threads = static_cast<unsigned>(ready.form.variant.launch.threads);
    w.shared_bytes = static_cast<unsigned>(ready.form.variant.launch.shared_bytes);
    return {};
  }

  // The function of the form for any alignment. Compiles it if it is not loaded.
  Result<CuFunction> loaded(const DeviceLaunch& l, const cuda::CuStream* stream) const {
    if (CuFunction ready = l.kernel->function(l.single.form)) return ready;
    if (stream)
      TENON_TRY(cuda::may_make(*device, *stream,
                               "kernel @" + l.kernel->lowered().kernel.name +
                                   " is not compiled for tensors that are not aligned to 16 bytes"));
    cuda::Wanted wanted = l.kernel->wanted(l.single.form);
    TENON_TRY(cuda::load(*device, {&wanted, 1}));
    l.kernel->add(wanted);
    return wanted.function;
  }
};

// A kernel of a group, and the two kernels that replace it if it spills.
struct Piece {
  DeviceKernel kernel;
  std::vector<int> positions;
  std::vector<Dim> lengths;  // per buffer: elements from the first to the last
  std::vector<std::unique_ptr<Piece>> halves = {};

  int64_t longest(const Sizes& sizes) const {
    int64_t most = 0;
    for (const jit::Temp& t : kernel.lowered().temps) most = std::max(most, sizes.eval(t.length));
    for (Dim length : lengths) most = std::max(most, sizes.eval(length));
    return most;
  }
};

// A piece at the sizes of a plan.
struct Sized {
  Piece& piece;
  std::vector<int64_t> sizes;
  int64_t longest;
  cuda::Form aligned;
};

class CudaGroup final : public Executable {
 public:
  const cuda::Device* device = nullptr;
  std::vector<std::unique_ptr<Piece>> pieces;

  // The launches, without those that have no iterations. Whether a form spills is known only after it is loaded.
  std::vector<Sized> sized(const Sizes& sizes) {
    std::vector<Sized> list;
    for (const auto& p : pieces) add(*p, sizes, list);
    return list;
  }
  // The forms of the launches that are not loaded.
  static std::vector<Missing> missing(const std::vector<Sized>& launches) {
    std::vector<Missing> list;
    for (const Sized& s : launches)
      if (!s.piece.kernel.function(s.aligned)) list.push_back({&s.piece.kernel, s.aligned});
    return list;
  }

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    // compile() has loaded everything, unless another thread has found since then that a form spills.
    std::vector<Sized> launches = sized(sizes);
    for (std::vector<Missing> list; !(list = missing(launches)).empty(); launches = sized(sizes))
      TENON_TRY(cuda::load_missing(*device, list, nullptr));
    auto step = std::make_unique<CudaStep>();
    step->device = device;
    for (const Sized& s : launches) {
      DeviceLaunch l;
      l.kernel = &s.piece.kernel;
      l.arguments =
          jit::arguments(l.kernel->lowered(), s.piece.positions, [&](Dim d) { return sizes.eval(d); });
      if (l.arguments.list.size() + s.sizes.size() + 2 > cuda::Work::kMostArguments)
        return unsupported("a kernel of too many arguments");
      l.single = ready(s, l.kernel->form(s.sizes, 1, s.longest));
      l.aligned = ready(s, s.aligned);
      TENON_CHECK(l.aligned.function, "a kernel that was loaded is not there");
      step->launches.push_back(std::move(l));
    }
    return std::unique_ptr<Step>(std::move(step));
  }
  std::string describe() const override {
    std::string text;
    for (const auto& p : pieces) text += jit::print(p->kernel.lowered().kernel);
    return text;
  }
  int kernel_count() const override { return static_cast<int>(pieces.size()); }

 private:
  static void add(Piece& p, const Sizes& sizes, std::vector<Sized>& list) {
    Sized s{p, sizes.eval(p.kernel.lowered().sizes), p.longest(sizes), {}};
    if (jit::par_iterations(p.kernel.lowered().kernel, s.sizes.data(), 1) == 0) return;
    s.aligned = p.kernel.form(s.sizes, kVector, s.longest);
    if (!s.aligned.spills || p.halves.empty()) return list.push_back(std::move(s));
    for (const auto& half : p.halves) add(*half, sizes, list);
  }
  static ReadyForm ready(const Sized& s, cuda::Form form) {
    ReadyForm r{std::move(form), nullptr, {}};
    r.function = s.piece.kernel.function(r.form);
    for (int64_t size : s.sizes)
      r.values.push_back(static_cast<uint64_t>(size));  // kernels with 32-bit indices read the low half
    if (r.form.variant.schedule.locals == jit::CudaSchedule::Locals::global) {
      r.values.push_back(0);
      r.values.push_back(static_cast<uint64_t>(r.form.variant.launch.scratch_stride));
    }
    return r;
  }
};

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  int device_type() const override { return DeviceId::kCuda; }
  bool runs_loops() const override { return true; }
  Result<DeviceRuntime*> runtime(int index) override { return cuda::runtime_of(index); }

  Bid bid(const Graph& graph, ValueId v) const override {
    return Bid::at(1, "runs as loops", jit::has_loops(graph, v));
  }

  Bid joins(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
            ValueId v) const override {
    return Bid::at(1, "one schedule covers it", jit::may_join(graph, uses, members, v, jit::Target::gpu));
  }

  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    const Graph& g = context.graph;
    const Uses uses(g);
    TENON_ASSIGN(const cuda::Device* device, cuda::device(context.device.index));
    // Plans need NVRTC. An error here comes early enough for the host to run the graph itself.
    TENON_ASSIGN(const jit::Nvrtc* nvrtc, jit::Nvrtc::get());
    TENON_TRY(cuda::check_compiler(device->driver(), *nvrtc, device->description().architecture));
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      auto group = std::make_unique<CudaGroup>();
      group->device = device;
      group->inputs = inputs_of(g, members);
      group->outputs = outputs_of(g, uses, members);
      auto strides = [&](ValueId v) { return context.strides_of(v); };
      auto lowered = jit::make_kernels({g, members, group->outputs, strides, jit::Target::gpu});
      if (!lowered.ok()) return lowered.status().at("group of " + g.value_name(members.back()));
      group->inplace = jit::inplace(*lowered, group->inputs, group->outputs);
      for (jit::LoweredKernel& k : *lowered)
        group->pieces.push_back(piece(context, *device, *group, std::move(k)));
      built.push_back(std::move(group));
    }
    return built;
  }

  Status compile(std::span<Executable* const> executables, const Sizes& sizes, int* compiled) override {
    for (;;) {  // a form that turns out to spill is replaced by another one, which may be missing too
      std::vector<Missing> list;
      const cuda::Device* device = nullptr;
      for (Executable* e : executables) {
        auto& group = static_cast<CudaGroup&>(*e);
        device = group.device;
        std::ranges::move(CudaGroup::missing(group.sized(sizes)), std::back_inserter(list));
      }
      if (list.empty()) return {};
      TENON_TRY(cuda::load_missing(*device, list, compiled));
    }
  }

  std::string describe() const override { return "kernels through NVRTC, opened on first use"; }

 private:
  static constexpr int kMostCuts = 2;  // depth: a half may be cut once more
  static std::unique_ptr<Piece> piece(const BuildContext& context, const cuda::Device& device,
                                      const CudaGroup& group, jit::LoweredKernel k, int cuts = kMostCuts) {
    const Status valid = jit::verify(k.kernel);
    TENON_CHECK(valid.ok(), valid.message() + "\n" + jit::print(k.kernel));
    const Graph& g = context.graph;
    std::vector<Dim> lengths;
    for (jit::BufferId b : k.buffers) {
      const auto* v = std::get_if<ValueId>(&b);
      lengths.push_back(v ? reach(g, context, *v) : Dim(0));
    }
    std::vector<int> positions = jit::positions({&k, 1}, group.inputs, group.outputs)[0];
    auto halves = cuts > 0 ? jit::fission(k, *g.dims) : std::nullopt;
    auto whole = std::unique_ptr<Piece>(
        new Piece{{device, std::move(k), /*whole=*/!halves}, std::move(positions), std::move(lengths)});
    if (halves) {
      whole->halves.push_back(piece(context, device, group, std::move(halves->first), cuts - 1));
      whole->halves.push_back(piece(context, device, group, std::move(halves->second), cuts - 1));
    }
    return whole;
  }

  // An upper bound of the elements from the first to the last one of a value in memory: 1 plus the sum of size times stride over
  // all axes.
  static Dim reach(const Graph& g, const BuildContext& context, ValueId v) {
    DimTable& dims = *g.dims;
    Dim sum(1);
    const Dims &shape = g.type(v).shape, &strides = context.layouts[v].strides;
    for (size_t a = 0; a < shape.size(); ++a) sum = dims.add(sum, dims.mul(shape[a], strides[a]));
    return sum;
  }
};

}  // namespace

Backend& cuda_backend() { return immortal<CudaBackend>(); }

}  // namespace tenon

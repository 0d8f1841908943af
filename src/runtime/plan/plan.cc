// See plan.h. Tested by tests/unit/runtime/run_test.cc.
#include "src/runtime/plan/plan.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "src/base/log.h"
#include "src/base/stack_array.h"
#include "src/ir/op.h"
#include "src/ir/verify.h"
#include "src/runtime/plan/bind.h"
#include "src/runtime/plan/intermediates.h"
#include "src/runtime/plan/join_steps.h"

namespace tenon {

int64_t Sizes::eval(Dim d) const {
  if (d.is_const()) return d.value();
  const auto v = table->eval(d, symbols);
  if (!v) throw StatusError(invalid("the size " + table->print(d) + " has no value that fits into 64 bits"));
  return *v;
}

std::vector<int64_t> Sizes::eval(std::span<const Dim> dims) const {
  std::vector<int64_t> out;
  out.reserve(dims.size());
  for (Dim d : dims) out.push_back(eval(d));
  return out;
}

namespace {

Plan::Expected expected(const Sizes& sizes, const TensorType& type, const std::optional<Dims>& strides) {
  Plan::Expected e;
  e.shape = sizes.eval(type.shape);
  // In an empty tensor the other axes may have any length, and no stride matters.
  const bool empty = std::find(e.shape.begin(), e.shape.end(), 0) != e.shape.end();
  e.elements = empty ? 0 : 1;
  if (!empty)
    for (int64_t n : e.shape) e.elements *= n;
  e.strides.assign(e.shape.size(), 1);
  if (empty) return e;
  if (strides) {
    e.strides = sizes.eval(*strides);
  } else {
    for (size_t i = e.shape.size(); i-- > 1;) e.strides[i - 1] = e.strides[i] * e.shape[i];
  }
  const int64_t size = size_of(type.dtype);
  e.high = size;
  for (size_t i = 0; i < e.shape.size(); ++i) {
    const int64_t reach = e.strides[i] * (e.shape[i] - 1) * size;
    (reach < 0 ? e.low : e.high) += reach;
  }
  return e;
}

// Bytes that a kernel reads and writes in about the time a host needs to launch it: 5 us at 3.35 TB/s (H100).
constexpr int64_t kSmallKernel = int64_t{16} << 20;

// Bytes of a value, with an error message where plain_bytes is negative.
Result<int64_t> bytes_of(const Graph& g, const Sizes& sizes, ValueId v) {
  const TensorType& type = g.type(v);
  if (const int64_t bytes = plain_bytes(sizes, type); bytes >= 0) return bytes;
  const std::string who = g.value_name(v) + ": " + g.print_type(type);
  int64_t bytes = size_of(type.dtype);
  bool empty = false, fits = true;
  std::string shape;
  for (Dim d : type.shape) {
    const auto n = sizes.table->eval(d, sizes.symbols);
    if (!n) return invalid(who + ": the size " + g.dims->print(d) + " has no value that fits into 64 bits");
    if (*n < 0)
      return invalid(who + ": the size " + g.dims->print(d) + " is negative: " + std::to_string(*n));
    shape += (shape.empty() ? "" : ",") + std::to_string(*n);
    if (*n == 0)
      empty = true;
    else
      fits = fits && !__builtin_mul_overflow(bytes, *n, &bytes);
  }
  if (empty) return 0;
  if (!fits) return invalid(who + " = [" + shape + "] has more bytes than 64 bits can count");
  return bytes;
}

// Checks that a stored value stays within kMostBytes, strides included.
Status check_extent(const Graph& g, const Sizes& sizes, ValueId v, const std::optional<Dims>& strides) {
  TENON_ASSIGN(const int64_t bytes, bytes_of(g, sizes, v));
  auto who = [&] { return g.value_name(v) + ": " + g.print_type(g.type(v)); };
  if (bytes > kMostBytes)
    return invalid(who() + " has " + std::to_string(bytes) + " bytes, more than any memory");
  if (!strides || bytes == 0) return {};
  __int128 reach = 0;
  for (size_t a = 0; a < strides->size(); ++a) {
    const auto stride = sizes.table->eval((*strides)[a], sizes.symbols);
    if (!stride)
      return invalid(who() + ": the stride " + g.dims->print((*strides)[a]) +
                     " has no value that fits into 64 bits");
    const __int128 far = static_cast<__int128>(*stride) * (sizes.eval(g.type(v).shape[a]) - 1);
    reach += far < 0 ? -far : far;
    if (reach > kMostBytes) return invalid(who() + ": its strides reach farther than any memory");
  }
  return {};
}

}  // namespace

void PlanSource::find_sized() {
  std::unordered_set<std::string> seen;
  for (ValueId v = 0; v < graph->nodes.size(); ++v)
    if (seen.insert(graph->print_type(graph->type(v))).second) sized.push_back(v);
}

int PlanSource::reference_steps() const {
  size_t count = 0;
  for (auto& [backend, all] : by_backend)
    if (!backend->runs_unasked()) count += all.size();
  return static_cast<int>(count);
}

namespace {

// Checks the sizes of all values, and that stored values fit into memory.
Status check_values(const PlanSource& source, const Sizes& sizes) {
  const Graph& g = *source.graph;
  for (ValueId v : source.sized)
    if (auto bytes = bytes_of(g, sizes, v); !bytes.ok()) return bytes.status();
  for (const InputBinding& i : g.inputs) TENON_TRY(check_extent(g, sizes, i.value, i.strides));
  for (const OutputBinding& o : g.outputs) TENON_TRY(check_extent(g, sizes, o.value, o.strides));
  for (const auto& e : source.executables)
    for (ValueId v : e->outputs) TENON_TRY(check_extent(g, sizes, v, std::nullopt));
  return {};
}

}  // namespace

Result<std::unique_ptr<Plan>> Plan::make(PlanSource& source, std::vector<int64_t> symbols, int threads) {
  const Graph& g = *source.graph;
  auto plan = std::make_unique<Plan>();
  plan->key_ = symbols;
  plan->key_.push_back(threads);
  const Sizes sizes{g.dims.get(), std::move(symbols), threads};
  TENON_TRY(check_values(source, sizes));
  plan->inputs.reserve(g.inputs.size());
  plan->outputs.reserve(g.outputs.size());
  for (const InputBinding& i : g.inputs) plan->inputs.push_back(expected(sizes, g.type(i.value), i.strides));
  for (const OutputBinding& o : g.outputs) {
    const std::optional<Dims>& strides = o.updates ? g.inputs[*o.updates].strides : o.strides;
    plan->outputs.push_back(expected(sizes, g.type(o.value), strides));
    const Plan::Expected& e = plan->outputs.back();
    if (strides && may_overlap(e.shape, e.strides))
      return invalid(g.value_name(o.value) + " = " + print_shape(e.shape) + ": the output's strides " +
                     print_shape(e.strides) + " put several elements in one place");
  }
  plan->find_in_place(source);
  TENON_ASSIGN(const Intermediates in, place_intermediates(source, sizes, *plan));
  plan->intermediate_ = in.workspace;
  plan->unshared_ = in.unshared;
  plan->donated_ = in.in_donated;
  plan->in_outputs_ = in.in_outputs;
  for (const PlanSource* part : {static_cast<const PlanSource*>(&source), source.copies.source})
    for (size_t b = 0; part && b < part->by_backend.size(); ++b)
      TENON_TRY(
          part->by_backend[b].first->compile(part->by_backend[b].second, sizes, &plan->kernels_compiled));
  auto place = [&](ValueId v) -> BufferRef {
    if (source.output_of[v] >= 0) return {BufferRef::Kind::output, source.output_of[v], 0, nullptr};
    if (source.input_of[v] >= 0) return {BufferRef::Kind::input, source.input_of[v], 0, nullptr};
    if (in.slot[v] >= 0) {
      const Lifetime& l = in.lifetimes[in.slot[v]];
      if (l.region < 0) return {BufferRef::Kind::workspace, 0, l.offset, nullptr};
      const HostMemory& memory = in.regions[l.region];
      return {memory.kind, memory.index, l.offset, nullptr};
    }
    return {BufferRef::Kind::constant, 0, 0,
            source.constant_at.empty() ? attr_as<std::shared_ptr<ConstantData>>(g.node(v), "data")->bytes
                                       : source.constant_at[v]};
  };
  TENON_TRY(plan->prepare_steps(source, sizes, place));
  TENON_TRY(plan->prepare_copies(source.copies, sizes, place));
  plan->place_scratch(in.lifetimes, static_cast<int>(source.executables.size()));
  for (Order* order : {&plan->single_, &plan->joined_}) plan->find_releases(source, *order);
  return plan;
}

template <class Place>
Status Plan::prepare_steps(const PlanSource& source, const Sizes& sizes, const Place& place) {
  const Graph& g = *source.graph;
  const bool only_small = source.graphs == DeviceGraphs::of_small_kernels;
  bool recorded = source.graphs != DeviceGraphs::never;
  int64_t moved = 0;
  const size_t first = single_.steps.size(), first_buffer = buffers_.size();
  std::vector<int64_t> bytes;  // of the buffers
  single_.steps.reserve(first + source.executables.size());
  for (size_t i = 0; i < source.executables.size(); ++i) {
    const std::unique_ptr<Executable>& e = source.executables[i];
    // Skip a step that writes nothing: next to a size of 0, other sizes may be so large that a loop over them
    // never ends.
    if (std::ranges::all_of(e->outputs, [&](ValueId v) { return plain_bytes(sizes, g.type(v)) == 0; }))
      continue;
    TENON_ASSIGN(std::unique_ptr<Step> step, e->prepare(sizes));
    recorded = recorded && step->recordable() >= 0;
    recordable_ += step->recordable();
    single_.steps.push_back({step.get(), static_cast<uint32_t>(buffers_.size()),
                             static_cast<uint32_t>(e->inputs.size() + e->outputs.size()),
                             static_cast<int>(i)});
    owned_.push_back(std::move(step));
    for (const auto* values : {&e->inputs, &e->outputs})
      for (ValueId v : *values) {
        bytes.push_back(plain_bytes(sizes, g.type(v)));
        if (only_small) moved += bytes.back();
        buffers_.push_back(place(v));
      }
  }
  if (!recorded || (only_small && moved > recordable_ * kSmallKernel)) recordable_ = 0;
  const std::span<PlannedStep> made = std::span(single_.steps).subspan(first);
  if (sizes.threads > 1) {
    const std::span<const BufferRef> refs = std::span(buffers_).subspan(first_buffer);
    const auto spans = spans_of(refs, bytes, static_cast<int>(inputs.size()), in_place);
    join_steps(source, made, spans, sizes.threads, owned_, joined_.steps);
  } else {
    joined_.steps.insert(joined_.steps.end(), made.begin(), made.end());
  }
  return {};
}

int Plan::end_of(const Order& order, size_t step, int executables) {
  const bool is_last = step + 1 == order.steps.size() || order.steps[step + 1].executable < 0;
  return is_last ? executables : order.steps[step + 1].executable;
}

void Plan::place_scratch(const std::vector<Lifetime>& intermediates, int executables) {
  workspace_ = intermediate_;
  for (Order* order : {&single_, &joined_})
    for (size_t i = 0; i < order->steps.size(); ++i) {
      PlannedStep& s = order->steps[i];
      most_buffers_ = std::max<size_t>(most_buffers_, s.buffer_count);
      const int64_t bytes = s.step->scratch_bytes();
      if (bytes == 0) continue;
      // Copies run behind the last executable.
      const int first = s.executable < 0 ? executables : s.executable;
      const int last = s.executable < 0 ? executables : end_of(*order, i, executables) - 1;
      s.scratch = free_offset(intermediates, bytes, first, last);
      workspace_ = std::max(workspace_, s.scratch + align_up(bytes));
    }
}

template <class Place>
Status Plan::prepare_copies(const PlanSource::Copies& copies, const Sizes& sizes, const Place& place) {
  if (!copies.source) return {};  // its steps are never recorded
  const PlanSource& source = *copies.source;
  const auto place_copy = [&](ValueId v) -> BufferRef {
    if (source.input_of[v] >= 0) return place(copies.from[source.input_of[v]]);
    return {BufferRef::Kind::output, copies.to[source.output_of[v]], 0, nullptr};
  };
  const size_t first = single_.steps.size(), first_joined = joined_.steps.size();
  TENON_TRY(prepare_steps(source, sizes, place_copy));
  for (const std::span<PlannedStep> list :
       {std::span(single_.steps).subspan(first), std::span(joined_.steps).subspan(first_joined)})
    for (PlannedStep& s : list) s.executable = -1;
  return {};
}

// An output that updates an input is written in place, or copied to the input. Any other output may share the memory of an input if the
// executable that first writes to the output's memory allows it, no later step reads the input, and no step from there on can fail. A host that then
// computes the outputs itself finds its inputs unchanged.
void Plan::find_in_place(const PlanSource& source) {
  const Graph& g = *source.graph;
  for (size_t o = g.plain_outputs(); o < g.outputs.size(); ++o)
    in_place.push_back({static_cast<int>(o), *g.outputs[o].updates});
  std::set<ValueId> read_later;
  std::vector<size_t> first(
      g.outputs.size(), source.executables.size());  // the executable that first writes to an output's memory
  for (size_t s = source.executables.size(); s-- > 0;)
    for (ValueId v : source.executables[s]->outputs)
      if (source.output_of[v] >= 0) first[source.output_of[v]] = s;
  for (size_t s = source.executables.size(); s-- > 0;) {
    const Executable& e = *source.executables[s];
    if (e.may_fail()) return;
    for (auto [out, in] : e.inplace) {
      const int o = source.output_of[e.outputs[out]], i = source.input_of[e.inputs[in]];
      if (o < 0 || i < 0 || source.output_of[e.inputs[in]] >= 0 || read_later.contains(e.inputs[in]))
        continue;
      if (g.outputs[o].updates || first[o] != s || g.inputs[i].donated) continue;
      if (g.type(g.outputs[o].value) != g.type(e.outputs[out])) continue;
      if (g.type(e.outputs[out]).dtype == g.type(e.inputs[in]).dtype && outputs[o].shape == inputs[i].shape &&
          outputs[o].strides == inputs[i].strides)
        in_place.push_back({o, i});
    }
    read_later.insert(e.inputs.begin(), e.inputs.end());
  }
}

namespace {

// The workspace of one run; given back in the destructor.
class Workspace {
 public:
  Workspace(ArenaPool& arenas, const RunOn& on) : arenas_(arenas), on_(on) {}
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    if (arena_) arenas_.give(std::move(arena_));
    if (block_.data) on_.memory->give(block_, bytes_, on_.stream);
  }
  // trims: whether the system gets memory back that earlier runs needed and this one does not.
  Result<char*> take(int64_t bytes, bool trims) {
    if (bytes == 0) return nullptr;
    if (!on_.memory) {
      try {
        arena_ = arenas_.take(bytes);
      } catch (const std::bad_alloc&) {
        return environment("the intermediates of a run take " + std::to_string(bytes) +
                           " bytes: out of memory");
      }
      if (trims) arena_->trim(bytes);
      return arena_->data();
    }
    TENON_ASSIGN(block_, on_.memory->take(bytes, on_.stream));
    bytes_ = bytes;
    return static_cast<char*>(block_.data);
  }

 private:
  ArenaPool& arenas_;
  const RunOn& on_;
  std::unique_ptr<Arena> arena_;
  DeviceMemory::Block block_;
  int64_t bytes_ = 0;
};

// Tells a watch of a step, also if the step throws.
class WatchedStep {
 public:
  WatchedStep(Plan::Watch& watch, int executable) : watch_(watch) { watch_.begin(executable); }
  WatchedStep(const WatchedStep&) = delete;
  WatchedStep& operator=(const WatchedStep&) = delete;
  ~WatchedStep() { watch_.end(); }

 private:
  Plan::Watch& watch_;
};

}  // namespace

// The steps after which donated inputs go back to the host: the last that uses the memory, and none before a step that can fail.
void Plan::find_releases(const PlanSource& source, Order& order) const {
  std::vector<size_t> last(inputs.size(), 0);
  size_t safe = 0;
  for (size_t s = 0; s < order.steps.size(); ++s) {
    const PlannedStep& step = order.steps[s];
    for (const BufferRef& ref : std::span(buffers_).subspan(step.first_buffer, step.buffer_count))
      if (ref.kind == BufferRef::Kind::input) last[ref.index] = s;
    if (step.executable < 0) continue;
    const int end = end_of(order, s, static_cast<int>(source.executables.size()));
    for (int e = step.executable; e < end; ++e)
      if (source.executables[static_cast<size_t>(e)]->may_fail()) safe = s;
  }
  for (size_t i = 0; i < inputs.size() && !order.steps.empty(); ++i)
    if (source.graph->inputs[i].donated)
      order.releases.push_back({std::max(last[i], safe), static_cast<int>(i)});
  std::ranges::stable_sort(order.releases, {}, &Order::Release::step);
}

template <class Each>
Status Plan::for_each(const Order& order, void* const* inputs, void** outputs, char* base, Host* host,
                      const Each& each) const {
  StackArray<void*, 64> pointers(most_buffers_);
  auto release = order.releases.begin();
  for (size_t at = 0; at < order.steps.size(); ++at) {
    const PlannedStep& s = order.steps[at];
    const BufferRef* ref = &buffers_[s.first_buffer];
    for (uint32_t i = 0; i < s.buffer_count; ++i, ++ref) {
      switch (ref->kind) {
        case BufferRef::Kind::input:
          pointers[i] = static_cast<char*>(inputs[ref->index]) + ref->offset;
          break;
        case BufferRef::Kind::output:
          if (host && !outputs[ref->index] && this->outputs[ref->index].elements > 0) {
            outputs[ref->index] = host->allocate(ref->index);
            if (!outputs[ref->index]) return environment("the host has no memory for an output");
          }
          pointers[i] = static_cast<char*>(outputs[ref->index]) + ref->offset;
          break;
        case BufferRef::Kind::constant: pointers[i] = const_cast<void*>(ref->constant); break;
        case BufferRef::Kind::workspace: pointers[i] = base + ref->offset; break;
      }
    }
    TENON_TRY(each(s, pointers.data(), base + s.scratch));
    for (; host && release != order.releases.end() && release->step == at; ++release)
      host->release(release->input);
  }
  return {};
}

// Sets *done if the run is complete; otherwise the caller runs the steps one by one. A device may accept
// steps that it refuses as a whole.
Status Plan::run_as_one(void* const* inputs, void** outputs, char* base, const RunOn& on, bool* done) const {
  constexpr int kFewestKernels = 4, kRunsFirst = 3;
  if (recordable_ < kFewestKernels || as_one_.given_up) return {};
  if (as_one_.runs < kRunsFirst) return ++as_one_.runs, Status();
  std::unique_lock lock(as_one_.mutex, std::try_to_lock);
  if (!lock || on.graphs->captures(on.stream)) return {};
  std::unique_ptr<Recording>& recording = as_one_.recording;
  if (!recording) recording = on.graphs->recording();
  if (!recording || !recording->begin()) {
    recording.reset();
    as_one_.runs = 0;  // other plans are launched more often
    return {};
  }
  Status launched = for_each(single_, inputs, outputs, base, nullptr,
                             [&](const PlannedStep& s, void* const* pointers, char* scratch) {
                               return s.step->record(pointers, scratch, *recording);
                             });
  if (launched.ok()) launched = recording->launch(on.stream);
  if (!launched.ok()) {
    recording.reset();
    as_one_.given_up = true;
    log("warning", "launched kernel by kernel from now on: " + launched.message());
    return {};
  }
  *done = true;
  return {};
}

Status Plan::run(void* const* inputs, void** outputs, ArenaPool& arenas, const RunOn& on, Host* host,
                 Watch* watch) const {
  Workspace workspace(arenas, on);
  // A backward pass trims: the saved values and the gradients need memory at the same time.
  TENON_ASSIGN(char* base, workspace.take(workspace_, !joined_.releases.empty()));
  if (watch) {
    return for_each(single_, inputs, outputs, base, host,
                    [&](const PlannedStep& s, void* const* pointers, char* scratch) {
                      const WatchedStep watched(*watch, s.executable);
                      return s.step->run(pointers, scratch, on);
                    });
  }
  if (on.graphs) {
    bool done = false;
    TENON_TRY(run_as_one(inputs, outputs, base, on, &done));
    if (done) return {};
  }
  return for_each(joined_, inputs, outputs, base, host,
                  [&](const PlannedStep& s, void* const* pointers, char* scratch) {
                    return s.step->run(pointers, scratch, on);
                  });
}

int64_t Plan::bytes() const {
  size_t sum = sizeof *this + key_.capacity() * sizeof(int64_t) +
               (single_.steps.capacity() + joined_.steps.capacity()) * sizeof(PlannedStep) +
               (single_.releases.capacity() + joined_.releases.capacity()) * sizeof(Order::Release) +
               buffers_.capacity() * sizeof(BufferRef);
  for (const auto* list : {&inputs, &outputs})
    for (const Expected& e : *list)
      sum += sizeof e + (e.shape.capacity() + e.strides.capacity()) * sizeof(int64_t);
  for (const auto& step : owned_) sum += static_cast<size_t>(step->bytes());
  return static_cast<int64_t>(sum);
}

}  // namespace tenon

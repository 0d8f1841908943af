// See intermediates.h.
#include "src/runtime/plan/intermediates.h"

#include <algorithm>
#include <set>

#include "src/runtime/plan/join_steps.h"

namespace tenon {

int64_t plain_bytes(const Sizes& sizes, const TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  bool empty = false, fits = true;
  for (Dim d : type.shape) {
    const auto n = d.is_const() ? std::optional(d.value()) : sizes.table->eval(d, sizes.symbols);
    if (!n || *n < 0) return -1;
    if (*n == 0)
      empty = true;
    else
      fits = fits && !__builtin_mul_overflow(bytes, *n, &bytes);
  }
  return empty ? 0 : fits ? bytes : -1;
}

namespace {

// A step waits for an earlier one if it reuses the memory of that step's values. Small values therefore keep their memory until the last
// step of the row, so that joined steps need not wait.
void keep_small_values(const PlanSource& source, Intermediates& in) {
  for (size_t first = 0, last = 0; first < source.executables.size(); first = last + 1) {
    last = last_of_row(source, first);
    for (size_t s = first; s < last; ++s)
      for (ValueId v : source.executables[s]->outputs)
        if (in.slot[v] >= 0 && in.lifetimes[in.slot[v]].bytes <= kSmallValue)
          in.lifetimes[in.slot[v]].last = std::max(in.lifetimes[in.slot[v]].last, static_cast<int>(last));
  }
}

// Memory that intermediates may use, with the tensor that it belongs to.
struct Places {
  std::vector<Region> regions;
  std::vector<HostMemory> owners;
  void add(BufferRef::Kind kind, size_t index, const Region& region) {
    owners.push_back({kind, static_cast<int>(index)});
    regions.push_back(region);
  }
};

// A tensor with gaps may surround memory of other tensors.
bool is_dense(const Plan::Expected& e, DType dtype) {
  return e.elements > 0 && e.low == 0 && e.high == e.elements * size_of(dtype);
}

// Outputs hold intermediates of at least so many bytes.
constexpr int64_t kLarge = int64_t{1} << 20;

// The outputs that are no input's memory either, the smallest first. A step may write to one until the first step that writes the output
// itself. So a large intermediate takes memory that the run needs later in any case.
void add_outputs(const PlanSource& source, const Plan& plan, Places& places) {
  const Graph& g = *source.graph;
  std::vector<int> written(g.outputs.size(), -1);  // by which step first
  for (size_t s = source.executables.size(); s-- > 0;)
    for (ValueId v : source.executables[s]->outputs)
      if (source.output_of[v] >= 0) written[source.output_of[v]] = static_cast<int>(s);
  for (auto [output, input] : plan.in_place) written[output] = -1;
  std::vector<std::pair<int64_t, size_t>> by_size;
  for (size_t o = 0; o < g.plain_outputs(); ++o) {
    const Plan::Expected& e = plan.outputs[o];
    if (written[o] > 0 && is_dense(e, g.type(g.outputs[o].value).dtype) && e.high >= kLarge)
      by_size.emplace_back(e.high, o);
  }
  std::ranges::sort(by_size);
  for (auto [bytes, o] : by_size) places.add(BufferRef::Kind::output, o, {bytes, 0, written[o], kLarge});
}

// A donated input holds no intermediate smaller than this part of it, which would keep the host from getting the memory back.
constexpr int64_t kSmallPart = 4;

// The donated inputs, the one that is read last first: its memory is probably in a cache. A step may write to one if neither it nor a
// later step reads the input, and if neither can fail: a host may then compute the outputs itself.
void add_donated(const PlanSource& source, const Plan& plan, Places& places) {
  const Graph& g = *source.graph;
  int safe = 0;                                // the first step behind all that can fail
  std::vector<int> unread(g.nodes.size(), 0);  // per value: the first step behind all that read it
  for (size_t s = 0; s < source.executables.size(); ++s) {
    const Executable& e = *source.executables[s];
    if (e.may_fail()) safe = static_cast<int>(s) + 1;
    for (ValueId v : e.inputs) unread[v] = static_cast<int>(s) + 1;
  }
  std::vector<std::pair<int, size_t>> latest;  // the step, negative, and the input
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const InputBinding& in = g.inputs[i];
    if (in.donated && is_dense(plan.inputs[i], g.type(in.value).dtype))
      latest.emplace_back(-std::max(safe, unread[in.value]), i);
  }
  std::ranges::sort(latest);
  for (auto [from, i] : latest) {
    Region region{plan.inputs[i].high, -from};
    region.least = std::max(region.least, region.bytes / kSmallPart);
    places.add(BufferRef::Kind::input, i, region);
  }
}

}  // namespace

Result<Intermediates> place_intermediates(const PlanSource& source, const Sizes& sizes, const Plan& plan) {
  const Graph& g = *source.graph;
  Intermediates in;
  in.slot.assign(g.nodes.size(), -1);
  __int128 all = 0;
  for (size_t s = 0; s < source.executables.size(); ++s) {
    const Executable& e = *source.executables[s];
    for (ValueId v : e.outputs) {
      if (source.output_of[v] >= 0) continue;
      const int64_t bytes = plain_bytes(sizes, g.type(v));
      all += bytes;
      in.slot[v] = static_cast<int>(in.lifetimes.size());
      in.lifetimes.push_back({bytes, static_cast<int>(s), static_cast<int>(s), -1, 0});
    }
    for (ValueId v : e.inputs)
      if (in.slot[v] >= 0) in.lifetimes[in.slot[v]].last = static_cast<int>(s);
  }
  for (ValueId v : source.copies.from)
    if (in.slot[v] >= 0) in.lifetimes[in.slot[v]].last = static_cast<int>(source.executables.size());
  if (all > kMostBytes)
    return invalid("the intermediates have " +
                   std::to_string(static_cast<int64_t>(std::min<__int128>(all, INT64_MAX))) +
                   " bytes, more than any memory");
  in.unshared = static_cast<int64_t>(all);
  if (sizes.threads > 1) keep_small_values(source, in);
  for (size_t s = 0; s < source.executables.size(); ++s) {
    const Executable& e = *source.executables[s];
    std::vector<bool> given(e.inputs.size(), false);
    for (auto [out, operand] : e.inplace) {
      const int to = in.slot[e.outputs[out]], from = in.slot[e.inputs[operand]];
      if (to < 0 || from < 0 || given[operand] || in.lifetimes[to].share >= 0) continue;
      if (in.lifetimes[from].last != static_cast<int>(s) ||
          in.lifetimes[from].bytes != in.lifetimes[to].bytes)
        continue;
      in.lifetimes[to].share = from;
      given[operand] = true;
    }
  }
  Places places;
  if (source.uses_host_memory) {
    add_outputs(source, plan, places);
    add_donated(source, plan, places);
  }
  in.workspace = assign_offsets(in.lifetimes, places.regions);
  std::set<int> used;
  for (const Lifetime& l : in.lifetimes) {
    if (l.region < 0 || !used.insert(l.region).second) continue;
    const bool is_input = places.owners[l.region].kind == BufferRef::Kind::input;
    (is_input ? in.in_donated : in.in_outputs) += places.regions[l.region].bytes;
  }
  in.regions = std::move(places.owners);
  return in;
}

}  // namespace tenon

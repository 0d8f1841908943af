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

// The memory of donated inputs. A step may write to it if neither it nor a later step reads the input, and if neither can
// fail: a host may then compute the outputs itself. An input with gaps may surround memory of other tensors. Adds the
// positions of the inputs to `donated`.
std::vector<Region> donated(const PlanSource& source, std::span<const Plan::Expected> inputs,
                            std::vector<int>& donated) {
  std::vector<Region> regions;
  if (!source.uses_donated) return regions;
  const Graph& g = *source.graph;
  int safe = 0;                                // the first step behind all that can fail
  std::vector<int> unread(g.nodes.size(), 0);  // per value: the first step behind all that read it
  for (size_t s = 0; s < source.executables.size(); ++s) {
    const Executable& e = *source.executables[s];
    if (e.may_fail()) safe = static_cast<int>(s) + 1;
    for (ValueId v : e.inputs) unread[v] = static_cast<int>(s) + 1;
  }
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const InputBinding& in = g.inputs[i];
    const int64_t bytes = inputs[i].elements * size_of(g.type(in.value).dtype);
    if (!in.donated || inputs[i].low != 0 || inputs[i].high != bytes) continue;
    donated.push_back(static_cast<int>(i));
    regions.push_back({bytes, std::max(safe, unread[in.value])});
  }
  return regions;
}

}  // namespace

Result<Intermediates> place_intermediates(const PlanSource& source, const Sizes& sizes,
                                          std::span<const Plan::Expected> inputs) {
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
    in.lifetimes[in.slot[v]].last = static_cast<int>(source.executables.size());
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
  const std::vector<Region> regions = donated(source, inputs, in.donated);
  in.workspace = assign_offsets(in.lifetimes, regions);
  std::set<int> used;
  for (const Lifetime& l : in.lifetimes)
    if (l.region >= 0 && used.insert(l.region).second) in.in_donated += regions[l.region].bytes;
  return in;
}

}  // namespace tenon

// See rematerialization.h.
#include "jit/lower/rematerialization.h"

#include <algorithm>

#include "jit/schedule/schedule.h"

namespace tenon::jit {

Rematerialization::Rematerialization(const LowerInput& in, const std::vector<LoopAxis>& axes)
    : in_(in), axes_(axes), member_(in.members.begin(), in.members.end()) {
  for (ValueId v : in.members)
    if (kind(v) == Kind::reduce && !in.is_sum(v)) reduces_.push_back(v);
}

// Whether a row of this value is worth a local: several loops read it, and computing it again costs more.
bool Rematerialization::worth_keeping(ValueId v) {
  auto [it, is_new] = worth_.try_emplace(v, false);
  if (!is_new) return it->second;
  if (!member_.count(v) || kind(v) != Kind::map || loops_using(v) < 2) return false;
  Dims row, par;
  for (const LoopAxis& a : axes_) (a.inner ? row : par).push_back(a.extent);
  const bool expensive = op(in_.graph.node(v).op).expensive;
  return worth_[v] = keeps_row({expensive, stream_bytes(v)}, in_.graph.dims->product(row), par);
}

// False if every loop reads the value only through another kept value.
bool Rematerialization::keeps(ValueId v) {
  if (!worth_keeping(v)) return false;
  int users = 0;
  for (ValueId u : in_.members) {
    const auto& inputs = in_.graph.node(u).inputs;
    if (!std::count(inputs.begin(), inputs.end(), v)) continue;
    if (!worth_keeping(u) || loops_using(u) < loops_using(v)) return true;
    ++users;
  }
  return users == 0 || std::count(in_.outputs.begin(), in_.outputs.end(), v);
}

// Bytes of memory that an element of v is computed from, without broadcast or kept operands.
int64_t Rematerialization::stream_bytes(ValueId v) {
  std::set<ValueId> seen;
  std::vector<ValueId> work{v};
  const Dim elements = in_.graph.dims->product(in_.graph.type(v).shape);
  int64_t bytes = 0;
  while (!work.empty()) {
    const Node& n = in_.graph.node(work.back());
    work.pop_back();
    for (ValueId i : n.inputs) {
      if (!seen.insert(i).second || (member_.count(i) && (kind(i) == Kind::reduce || worth_keeping(i))))
        continue;
      if (member_or_view(i))
        work.push_back(i);
      else if (in_.graph.dims->product(in_.graph.type(i).shape) == elements)
        bytes += size_of(in_.graph.type(i).dtype);
    }
  }
  return bytes;
}

// Number of loops (reductions and the final loop) that would compute the value.
int Rematerialization::loops_using(ValueId v) const {
  int count = 0;
  auto uses = [&](ValueId from) {  // without crossing another reduction
    return reaches(in_.graph, from, v,
                   [&](ValueId u) { return member_or_view(u) && (u == from || kind(u) != Kind::reduce); });
  };
  for (ValueId r : reduces_) count += uses(r);
  for (ValueId o : in_.outputs)
    if (kind(o) != Kind::reduce && uses(o)) return count + 1;
  return count;
}

bool Rematerialization::member_or_view(ValueId v) const {
  return member_.count(v) || op(in_.graph.node(v).op).view;
}

}  // namespace tenon::jit

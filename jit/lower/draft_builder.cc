// See draft_builder.h.
#include "jit/lower/draft_builder.h"

#include <algorithm>

#include "src/ops/rows/names.h"

namespace tenon::jit {

void DraftBuilder::reset() {
  draft_ = KernelDraft();
  depth_.clear();
  par_ = Scope();
  scopes_.clear();
  fixed_.clear();
  stored_.clear();
  constants_.clear();
}

DraftBlock& DraftBuilder::block_at(int depth) {
  if (depth == 0) return par_.block;
  if (scopes_.empty()) {
    decline("a value along the reduced axis is used outside its loop");
    return par_.block;
  }
  return scopes_.back().block;
}

Ref DraftBuilder::emit(DraftStmt s, DType type, int least_depth) {
  int depth = least_depth;
  for (Ref a : s.stmt.args) depth = std::max(depth, depth_[a]);
  s.stmt.type = type;
  const Ref result = s.stmt.result = new_ref(compute_type(type), depth);
  block_at(depth).push_back(std::move(s));
  return result;
}

// CPU only: to read the fault word of a GPU, the host would have to wait for the GPU.
Ref DraftBuilder::checked_op(const Node& node, OpId op, std::vector<Ref> args, DType type) {
  DraftStmt s{{.kind = Stmt::Kind::op, .op = op, .args = std::move(args)}};
  const std::vector<Ref>& operands = s.stmt.args;
  const Fault& fault = tenon::op(op).fault;
  if (!fault.what.empty() && in_.target == Target::cpu && is_integer(draft_.types[operands.back()]) &&
      !(fault.of_last && is_sure(fault, operands)))
    s.stmt.fault = number_in(draft_.faults, static_cast<ValueId>(&node - graph().nodes.data())) + 1;
  return emit(std::move(s), type);
}

// Whether the last operand is a constant that is no fault.
bool DraftBuilder::is_sure(const Fault& fault, const std::vector<Ref>& args) const {
  const auto last = constants_.find(args.back());
  if (last == constants_.end()) return false;
  std::vector<int64_t> operands(args.size());
  operands.back() = last->second.i;
  return !fault.eval(operands.data());
}

Ref DraftBuilder::round_to(Ref value, DType narrow) {
  const Ref r = emit({{.kind = Stmt::Kind::cast, .args = {value}}}, narrow);
  return stored_[r] = r;
}

Ref DraftBuilder::as_stored(ValueId v, Ref r) {
  const DType type = graph().type(v).dtype;
  if (!is_narrow(type)) return r;
  if (auto it = stored_.find(r); it != stored_.end()) return it->second;
  return stored_[r] = round_to(r, type);
}

// The value of an index, as i64.
Ref DraftBuilder::index_value(const Index& at) {
  Ref sum = kNoRef;
  auto plus = [&](Ref r) { sum = sum == kNoRef ? r : scalar_op(ops::add, {sum, r}, DType::i64); };
  for (const IndexTerm& t : at.terms) {
    Ref v = t.id;
    if (!t.dynamic) {
      fixed_.insert(t.id);
      v = emit({.stmt = {.kind = Stmt::Kind::index}, .axis = t.id}, DType::i64, axes_[t.id].inner ? 1 : 0);
    }
    plus(t.coef == Dim(1) ? v : scalar_op(ops::mul, {v, size_value(t.coef)}, DType::i64));
  }
  if (at.offset != Dim(0) || sum == kNoRef) plus(size_value(at.offset));
  return sum;
}

// ---- memory ----

DraftBuffer DraftBuilder::new_local(DType type) {
  Dims extents;
  for (const LoopAxis& a : axes_)
    if (a.inner) extents.push_back(a.extent);
  draft_.locals.push_back({type, dims().product(extents)});
  return {DraftBuffer::Kind::local, static_cast<int>(draft_.locals.size()) - 1};
}

int DraftBuilder::depth_of(const Index& at) const {
  int depth = 0;
  for (const IndexTerm& t : at.terms)
    depth = std::max(depth, t.dynamic ? depth_[t.id] : (axes_[t.id].inner ? 1 : 0));
  return depth;
}

Ref DraftBuilder::load_tensor(ValueId v, const Index& address, int least_depth) {
  const DType type = graph().type(v).dtype;
  const Ref r = load(argument(v), compute_type(type), address, least_depth);
  if (is_narrow(type)) stored_[r] = r;
  return r;
}

void DraftBuilder::note(const Access& access) {
  if (std::ranges::find(draft_.accesses, access) == draft_.accesses.end()) draft_.accesses.push_back(access);
}

Ref DraftBuilder::load(DraftBuffer buffer, DType type, const Index& address, int least_depth) {
  note({address, false, buffer.id()});
  return emit({.stmt = {.kind = Stmt::Kind::load}, .buffer = buffer, .address = address}, type,
              std::max(least_depth, depth_of(address)));
}

void DraftBuilder::store(DraftBuffer buffer, const Index& address, Ref value) {
  note({address, true, buffer.id()});
  const int depth = std::max(depth_of(address), scopes_.empty() ? 0 : 1);
  block_at(depth).push_back(
      {.stmt = {.kind = Stmt::Kind::store, .args = {value}}, .buffer = buffer, .address = address});
}

}  // namespace tenon::jit

// DraftBuilder: the part of lowering that makes the statements of a draft. A statement stands in the par nest
// if it depends on par axes only, otherwise in the innermost open loop. Tested by tests/golden/jit/lower_*.tn.
#pragma once

#include <map>
#include <set>

#include "jit/lower/index_maps.h"
#include "jit/lower/kernel_draft.h"

namespace tenon::jit {

class DraftBuilder : public Evaluator {
 public:
  const IndexMath& index() const override { return index_; }
  const std::vector<LoopAxis>& axes() const override { return axes_; }
  bool failed() const override { return request_.has_value(); }
  Ref fail(Request request) override {
    if (!request_) request_ = std::move(request);
    return 0;
  }
  Ref scalar_op(OpId op, std::vector<Ref> args, DType type) override {
    return emit({{.kind = Stmt::Kind::op, .op = op, .args = std::move(args)}}, type);
  }
  Ref checked_op(const Node& node, OpId op, std::vector<Ref> args, DType type) override;
  Ref cast_to(Ref value, DType type) override {
    if (draft_.types[value] == type) return value;
    return emit({{.kind = Stmt::Kind::cast, .args = {value}}}, type);
  }
  Ref literal(DType type, Scalar value) override {
    const Ref r = emit({{.kind = Stmt::Kind::constant, .literal = value}}, type);
    constants_[r] = value;
    return r;
  }
  Ref size_value(Dim d) override {
    if (d.is_const()) return literal(DType::i64, Scalar::of(d.value()));
    return emit({{.kind = Stmt::Kind::size, .size = number_in(draft_.sizes, d)}}, DType::i64);
  }
  Ref index_value(const Index& at) override;

 protected:
  using Key = std::pair<ValueId, Indices>;
  struct Scope {
    int number = 0;
    DraftBlock block;
    std::map<Key, Ref> memo;
  };

  DraftBuilder(const LowerInput& in, std::vector<LoopAxis> axes)
      : Evaluator(in.graph), in_(in), axes_(std::move(axes)), index_(dims(), axes_) {}

  void reset();
  // least_depth: 1 keeps the statement in the inner loop.
  Ref emit(DraftStmt s, DType type, int least_depth = 0);
  Ref new_ref(DType type, int depth) {
    draft_.types.push_back(type);
    depth_.push_back(depth);
    return static_cast<Ref>(draft_.types.size() - 1);
  }
  // An f32 rounded to a value of the narrow float type: the result of a cast in the graph.
  Ref round_to(Ref value, DType narrow);
  // r, the value of v, as a tensor would hold it: rounded to the 16-bit float, for a reader whose result
  // jumps.
  Ref as_stored(ValueId v, Ref r);

  DraftBuffer argument(ValueId v) { return {DraftBuffer::Kind::argument, number_in(draft_.arguments, v)}; }
  // A local with an element for each point of the inner axes.
  DraftBuffer new_local(DType type);
  int depth_of(const Index& at) const;
  Ref load_tensor(ValueId v, const Index& address, int least_depth = 0);
  Ref load(DraftBuffer buffer, DType type, const Index& address, int least_depth = 0);
  void store(DraftBuffer buffer, const Index& address, Ref value);

  void open_loop() { scopes_.emplace_back().number = ++scope_count_; }
  // Moves the statements of the innermost open loop into the loop.
  void close_loop(DraftStmt& loop) {
    loop.body = std::move(scopes_.back().block);
    scopes_.pop_back();
  }

  const LowerInput& in_;
  std::vector<LoopAxis> axes_;
  IndexMath index_;
  std::optional<Request> request_;
  KernelDraft draft_;
  std::vector<int> depth_;  // per Ref: 0 par level, 1 inner loop
  Scope par_;
  std::vector<Scope> scopes_;  // open inner loops
  std::set<uint32_t> fixed_;   // axes whose variables are used as values
  std::map<Ref, Ref> stored_;  // narrow floats: the value as the tensor holds it

 private:
  // Adds the access to those of the draft, once.
  void note(const Access& access);
  DraftBlock& block_at(int depth);
  bool is_sure(const Fault& fault, const std::vector<Ref>& args) const;

  std::map<Ref, Scalar> constants_;
  int scope_count_ = 0;
};

}  // namespace tenon::jit

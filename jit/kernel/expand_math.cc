// expand_math: replaces rows that have a math column by the simpler rows of their body, until none is left.
// The kernel is verified before and after. Values keep their names. Every constant of the bodies occurs once,
// at the top of the par body. Rows that machine code spells for their operand class stay. Tested by
// tests/unit/jit/kernel/kernel_test.cc and tests/golden/jit/*.tn.
#include <bit>
#include <map>

#include "jit/kernel/kernel.h"

namespace tenon::jit {
namespace {

class Expander final : public MathBuilder {
 public:
  using Spelled = bool (*)(const Op&, DType);
  Expander(Kernel& kernel, Spelled spelled) : kernel_(kernel), spelled_(spelled) {}

  void run() {
    Block& body = kernel_.body[0].body;
    expand(body);
    body.insert(body.begin(), std::make_move_iterator(constants_.begin()),
                std::make_move_iterator(constants_.end()));
  }

  uint32_t op(OpId id, std::initializer_list<uint32_t> operands) override { return emit(id, {operands}); }
  uint32_t cast(uint32_t value, DType to) override { return convert(Stmt::Kind::cast, value, to); }
  uint32_t bitcast(uint32_t value, DType to) override { return convert(Stmt::Kind::bitcast, value, to); }
  uint32_t constant(DType type, double value) override {
    // Rounded to the type, so that bodies whose constants differ only beyond f32 share them.
    if (type == DType::f32) value = static_cast<float>(value);
    return is_float(type) ? literal(type, Scalar::of(value))
                          : literal(type, Scalar::of(static_cast<int64_t>(value)));
  }
  uint32_t constant_int(DType type, int64_t value) override {
    return is_float(type) ? constant(type, static_cast<double>(value)) : literal(type, Scalar::of(value));
  }
  DType type_of(uint32_t value) const override { return kernel_.types[value]; }

 private:
  Ref resolve(Ref ref) const {
    auto found = replaced_.find(ref);
    return found == replaced_.end() ? ref : found->second;
  }

  void expand(Block& block) {
    Block out;
    for (Stmt& s : block) {
      for (Ref& arg : s.args) arg = resolve(arg);
      for (Term& t : s.address)
        if (t.var != kNoRef) t.var = resolve(t.var);
      expand(s.body);
      for (Ref& ref : s.yields) ref = resolve(ref);
      if (s.kind != Stmt::Kind::op || !has_math(s.op, s.args)) {
        out.push_back(std::move(s));
        continue;
      }
      Block* outer = out_;
      out_ = &out;
      Ref value = emit(s.op, s.args);
      out_ = outer;
      replaced_[s.result] = value;
      if (kernel_.names[value].empty()) std::swap(kernel_.names[value], kernel_.names[s.result]);
    }
    block = std::move(out);
  }

  bool has_math(OpId id, const std::vector<Ref>& args) const {
    const Op& row = tenon::op(id);
    return row.math && !spelled_(row, kernel_.types[args.back()]);
  }

  Ref emit(OpId id, std::vector<Ref> args) {
    if (has_math(id, args)) return tenon::op(id).math(*this, args);
    std::vector<DType> types;
    for (Ref arg : args) types.push_back(kernel_.types[arg]);
    Result<DType> type = scalar_result_type(id, types);
    TENON_CHECK(type.ok(), "math body: " + type.status().message());
    Stmt s;
    s.kind = Stmt::Kind::op;
    s.op = id;
    s.type = *type;
    s.args = std::move(args);
    return push(std::move(s));
  }

  Ref convert(Stmt::Kind kind, Ref value, DType to) {
    Stmt s;
    s.kind = kind;
    s.type = to;
    s.args = {value};
    return push(std::move(s));
  }

  Ref push(Stmt s) {
    Ref ref = s.result = kernel_.add_ref(compute_type(s.type));
    out_->push_back(std::move(s));
    return ref;
  }

  Ref literal(DType type, Scalar value) {
    int64_t bits = value.is_int ? value.i : std::bit_cast<int64_t>(value.d);
    auto [place, fresh] = known_.try_emplace({type, bits}, kNoRef);
    if (!fresh) return place->second;
    Stmt s;
    s.kind = Stmt::Kind::constant;
    s.type = type;
    s.literal = value;
    s.result = place->second = kernel_.add_ref(type);
    constants_.push_back(std::move(s));
    return place->second;
  }

  Kernel& kernel_;
  const Spelled spelled_;
  Block* out_ = nullptr;
  Block constants_;
  std::map<std::pair<DType, int64_t>, Ref> known_;
  std::map<Ref, Ref> replaced_;
};

}  // namespace

void expand_math(Kernel& kernel) {
  expand_math(kernel, [](const Op& row, DType last) { return !spelling(row, last).empty(); });
}

void expand_math(Kernel& kernel, bool (*spelled)(const Op& row, DType last)) {
  kernel.names.resize(kernel.types.size());  // names are optional, but new values need entries
  Expander(kernel, spelled).run();
}

}  // namespace tenon::jit

// expand_math: replaces rows that have a math column by the simpler rows of their body, until none is left.
// The kernel is verified before and after. Values keep their names. Every constant of the bodies occurs once,
// at the top of the par body. Rows that machine code spells for their operand class stay. Tested by
// tests/unit/jit/kernel/kernel_test.cc and tests/golden/jit/*.tn.
#include <bit>
#include <map>

#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"

namespace tenon::jit {
namespace {

class Expander final : public MathBuilder {
 public:
  using Spelled = bool (*)(const Op&, DType);
  Expander(Kernel& kernel, Spelled spelled) : kernel_(kernel), spelled_(spelled) {}

  void run() {
    Block& body = kernel_.body[0].body;
    rewrite(body, [&](Stmt& s, Block& out) { expand(s, out); });
    append(constants_, std::move(body));
    body = std::move(constants_);
  }

  uint32_t op(OpId id, std::initializer_list<uint32_t> operands) override { return emit(id, {operands}); }
  uint32_t cast(uint32_t value, DType to) override { return here().cast(value, to); }
  uint32_t bitcast(uint32_t value, DType to) override { return here().bitcast(value, to); }
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
  KernelBuilder here() { return {kernel_, *out_}; }

  void expand(Stmt& s, Block& out) {
    each_read(s, [&](Ref& ref) {
      if (const auto found = replaced_.find(ref); found != replaced_.end()) ref = found->second;
    });
    if (s.kind != Stmt::Kind::op || !has_math(s.op, s.args)) return out.push_back(std::move(s));
    out_ = &out;
    const Ref value = emit(s.op, s.args);
    replaced_[s.result] = value;
    if (kernel_.names[value].empty()) std::swap(kernel_.names[value], kernel_.names[s.result]);
  }

  bool has_math(OpId id, const std::vector<Ref>& args) const {
    const Op& row = tenon::op(id);
    return row.math && !spelled_(row, kernel_.types[args.back()]);
  }

  Ref emit(OpId id, std::vector<Ref> args) {
    if (has_math(id, args)) return tenon::op(id).math(*this, args);
    return here().op(id, std::move(args));
  }

  Ref literal(DType type, Scalar value) {
    int64_t bits = value.is_int ? value.i : std::bit_cast<int64_t>(value.d);
    auto [place, fresh] = known_.try_emplace({type, bits}, kNoRef);
    if (fresh) place->second = KernelBuilder(kernel_, constants_).constant(type, value);
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

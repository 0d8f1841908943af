// See kernels.h.
#include "backends/attention/kernels.h"

#include <array>

namespace tenon::attention {
namespace {

// "1" or "0" if the stride of the lanes is known when the kernel is compiled, else the symbol.
std::string lane_stride(Dim stride, const char* symbol) {
  return stride == Dim(1) ? "1" : stride == Dim(0) ? "0" : symbol;
}

struct ScoresText {
  std::string parameters, body, value;
};

// The scores of products %s [R,K]: times %scale, plus the mask, and -inf where a causal mask hides them.
ScoresText scores_text(const Spec& spec) {
  ScoresText made{"%s: f32[R,K] strides=[S,1], %scale: f32[]",
                  "  %nothing = full{value=-inf, shape=[], dtype=f32}\n"
                  "  %zero = full{value=0.0, shape=[], dtype=f32}\n"
                  "  %scaled = mul(%s, %scale)\n",
                  "%scaled"};
  if (spec.mask_column) {
    const bool wide = spec.dtype == DType::f32;
    made.parameters += ", %mask: " + std::string(name(spec.dtype)) + "[R,K] strides=[A," +
                       lane_stride(*spec.mask_column, "B") + "]";
    made.body += wide ? "  %masked = add(%scaled, %mask)\n"
                      : "  %wide_mask = cast(%mask){dtype=f32}\n  %masked = add(%scaled, %wide_mask)\n";
    made.value = "%masked";
  }
  if (spec.causal) {
    made.parameters += ", %first_hidden: i32[]";
    made.body += R"(  %row = iota{shape=[R,1], dtype=i32, axis=0}
  %column = iota{shape=[1,K], dtype=i32, axis=1}
  %end = add(%row, %first_hidden)
  %seen = lt(%column, %end)
  %cut = where(%seen, )" +
                 made.value + ", %nothing)\n";
    made.value = "%cut";
  }
  if (spec.dropout) {
    made.parameters += ", %kept: bool[R,K] strides=[G,1], %gain: f32[]";
    made.body += "  %factor = where(%kept, %gain, %zero)\n";
  }
  return made;
}

// The line of a kernel that applies dropout.
constexpr std::string_view kDropout = "  %kept_weights = mul(%weights, %factor)\n";

constexpr std::string_view kSizes = ", %ks: i64[] = S, %ka: i64[] = A, %kb: i64[] = B, %kg: i64[] = G";

std::string block_text(const Spec& spec) {
  const ScoresText scores = scores_text(spec);
  return "graph @softmax_block(" + scores.parameters + ", %largest: f32[R,1], %total: f32[R,1]" +
         std::string(kSizes) + ") {\n" + scores.body + "  %most = max(" + scores.value +
         "){axes=[1], keepdims=true}\n" +
         R"(  %new_largest = maximum(%largest, %most)
  %unseen = eq(%new_largest, %nothing)
  %shift = where(%unseen, %zero, %new_largest)
  %below = sub()" +
         scores.value + R"(, %shift)
  %weights = exp(%below)
)" + std::string(spec.dropout ? kDropout : "") +
         R"(  %sum = sum(%weights){axes=[1], keepdims=true}
  %step = sub(%largest, %shift)
  %factors = exp(%step)
  %carried = mul(%total, %factors)
  %new_total = add(%carried, %sum)
  return %new_largest strides=[1,1], )" +
         (spec.dropout ? "%kept_weights" : "%weights") +
         R"( strides=[S,1], %factors strides=[1,1], %new_total strides=[1,1]
})";
}

// A row that sees nothing has the weights 0.
std::string softmax_text(const Spec& spec) {
  const ScoresText scores = scores_text(spec);
  return "graph @attention_softmax(" + scores.parameters + std::string(kSizes) + ") {\n" + scores.body +
         "  %largest = max(" + scores.value + "){axes=[1], keepdims=true}\n" +
         R"(  %unseen = eq(%largest, %nothing)
  %shift = where(%unseen, %zero, %largest)
  %below = sub()" +
         scores.value + R"(, %shift)
  %exponentials = exp(%below)
  %total = sum(%exponentials){axes=[1], keepdims=true}
  %one = full{value=1.0, shape=[], dtype=f32}
  %divisor = where(%unseen, %one, %total)
  %weights = div(%exponentials, %divisor)
)" + std::string(spec.dropout ? kDropout : "") +
         "  return %weights strides=[S,1]" + (spec.dropout ? ", %kept_weights strides=[S,1]" : "") + "\n}";
}

std::string softmax_gradient_text(bool dropout) {
  const std::string rows = ": f32[R,K] strides=[S,1], ", kept = dropout ? "%kept_weights" : "%weights";
  return "graph @attention_softmax_gradient(" + kept + rows + "%d" + rows +
         (dropout ? "%weights" + rows : "") + "%scale: f32[], %ks: i64[] = S) {\n  %weighted = mul(" + kept +
         ", %d)\n  %total = sum(%weighted){axes=[1], keepdims=true}\n" +
         (dropout ? "  %shift = mul(%weights, %total)\n  %product = sub(%weighted, %shift)\n"
                  : "  %centered = sub(%d, %total)\n  %product = mul(%weights, %centered)\n") +
         "  %y = mul(%product, %scale)\n  return %y strides=[S,1]\n}";
}

std::string quotient_text(const Spec& spec) {
  const std::string type(name(spec.dtype)), result = spec.dtype == DType::f32 ? "%quotient" : "%y";
  return R"(graph @attention_quotient(%sums: f32[R,D] strides=[S,1], %total: f32[R,1], %ks: i64[] = S, %ky: i64[] = Y, %ke: i64[] = E) {
  %zero = full{value=0.0, shape=[], dtype=f32}
  %one = full{value=1.0, shape=[], dtype=f32}
  %unseen = eq(%total, %zero)
  %divisor = where(%unseen, %one, %total)
  %quotient = div(%sums, %divisor)
)" + (spec.dtype == DType::f32 ? "" : "  %y = cast(%quotient){dtype=" + type + "}\n") +
         "  return " + result + " strides=[Y," + lane_stride(spec.result_element, "E") + "]\n}";
}

std::string store_text(const Spec& spec) {
  const std::string type(name(spec.dtype));
  return "graph @attention_store(%x: f32[R,D] strides=[S,1], %ks: i64[] = S, %ky: i64[] = Y, %ke: i64[] = E) "
         "{\n"
         "  %one = full{value=1.0, shape=[], dtype=f32}\n  %y = " +
         (spec.dtype == DType::f32 ? "mul(%x, %one)" : "cast(%x){dtype=" + type + "}") +
         "\n  return %y strides=[Y," + lane_stride(spec.result_element, "E") + "]\n}";
}

std::string widen_text(DType dtype) {
  return "graph @attention_widen(%x: " + std::string(name(dtype)) +
         R"([R,D] strides=[A,1], %ka: i64[] = A, %kz: i64[] = Z) {
  %y = cast(%x){dtype=f32}
  return %y strides=[Z,1]
})";
}

}  // namespace

Result<std::unique_ptr<Softmax>> Softmax::make(Rows rows, const Spec& spec, const Allocator& allocator) {
  auto made = std::make_unique<Softmax>();
  made->causal_ = spec.causal;
  made->has_mask_ = spec.mask_column.has_value();
  made->dropout_ = spec.dropout;
  const std::string text = rows == Rows::whole ? softmax_text(spec) : block_text(spec);
  TENON_ASSIGN(made->kernel_, inner::Kernel::make(text, allocator));
  return made;
}

Status Softmax::run(const Step& step, const Scores& scores, std::initializer_list<const void*> others,
                    char* scratch) const {
  std::array<void*, 12> buffers;
  size_t count = 0;
  const auto add = [&](const void* p) { buffers[count++] = const_cast<void*>(p); };
  add(scores.products);
  add(scores.scale);
  if (has_mask_) add(scores.mask);
  if (causal_) add(scores.first_hidden);
  if (dropout_) {
    add(scores.kept);
    add(scores.gain);
  }
  for (const void* p : others) add(p);
  return inner::run(step, buffers.data(), scratch);
}

Result<Kernels> Kernels::make(const Spec& spec, const Allocator& allocator) {
  Kernels made;
  Spec uncut = spec;
  uncut.causal = false;
  TENON_ASSIGN(made.whole, Softmax::make(Softmax::Rows::in_blocks, uncut, allocator));
  if (spec.causal) {
    TENON_ASSIGN(made.cut, Softmax::make(Softmax::Rows::in_blocks, spec, allocator));
  }
  TENON_ASSIGN(made.quotient, inner::Kernel::make(quotient_text(spec), allocator));
  if (spec.dtype != DType::f32) {
    TENON_ASSIGN(made.widen, inner::Kernel::make(widen_text(spec.dtype), allocator));
  }
  return made;
}

int Kernels::compiled() const {
  return whole->kernel().compiled() + quotient->compiled() + (cut ? cut->kernel().compiled() : 0) +
         (widen ? widen->compiled() : 0);
}

Result<GradientKernels> GradientKernels::make(const Spec& spec, const Allocator& allocator) {
  GradientKernels made;
  TENON_ASSIGN(made.softmax, Softmax::make(Softmax::Rows::whole, spec, allocator));
  TENON_ASSIGN(made.softmax_gradient, inner::Kernel::make(softmax_gradient_text(spec.dropout), allocator));
  if (spec.dtype != DType::f32 || spec.result_element != Dim(1)) {
    TENON_ASSIGN(made.store, inner::Kernel::make(store_text(spec), allocator));
  }
  if (spec.dtype != DType::f32) {
    TENON_ASSIGN(made.widen, inner::Kernel::make(widen_text(spec.dtype), allocator));
  }
  return made;
}

int GradientKernels::compiled() const {
  return softmax->kernel().compiled() + softmax_gradient->compiled() + (store ? store->compiled() : 0) +
         (widen ? widen->compiled() : 0);
}

}  // namespace tenon::attention

// See cell.h. The graphs of the modes are texts: r, z, n and i, f, g, o are the gates; x comes from the sequence, s from the state.
#include "backends/recurrent/cell.h"

#include "src/ops/rules/recurrent.h"

namespace tenon::recurrent {
namespace {

constexpr std::string_view kGru = R"(
graph @gru(%xr: f32[B,U] strides=[X,1], %xz: f32[B,U] strides=[X,1], %xn: f32[B,U] strides=[X,1],
           %sr: f32[B,U] strides=[S,1], %sz: f32[B,U] strides=[S,1], %sn: f32[B,U] strides=[S,1],
           %h: f32[B,U] strides=[H,1], %ks: i64[] = X, %kt: i64[] = S, %ku: i64[] = H, %kv: i64[] = R) {
  %ar = add(%xr, %sr)
  %r = sigmoid(%ar)
  %az = add(%xz, %sz)
  %z = sigmoid(%az)
  %rn = mul(%r, %sn)
  %an = add(%xn, %rn)
  %n = tanh(%an)
  %d = sub(%h, %n)
  %zd = mul(%z, %d)
  %y = add(%n, %zd)
  return %y strides=[R,1]
})";
constexpr std::string_view kLstm = R"(
graph @lstm(%xi: f32[B,U] strides=[X,1], %xf: f32[B,U] strides=[X,1], %xg: f32[B,U] strides=[X,1], %xo: f32[B,U] strides=[X,1],
            %si: f32[B,U] strides=[S,1], %sf: f32[B,U] strides=[S,1], %sg: f32[B,U] strides=[S,1], %so: f32[B,U] strides=[S,1],
            %c: f32[B,U] strides=[H,1], %ks: i64[] = X, %kt: i64[] = S, %ku: i64[] = H, %kv: i64[] = R) {
  %ai = add(%xi, %si)
  %i = sigmoid(%ai)
  %af = add(%xf, %sf)
  %f = sigmoid(%af)
  %ag = add(%xg, %sg)
  %g = tanh(%ag)
  %ao = add(%xo, %so)
  %o = sigmoid(%ao)
  %fc = mul(%f, %c)
  %ig = mul(%i, %g)
  %cell = add(%fc, %ig)
  %t = tanh(%cell)
  %y = mul(%o, %t)
  return %cell strides=[H,1], %y strides=[R,1]
})";
constexpr std::string_view kTanh = R"(
graph @rnn_tanh(%x: f32[B,U] strides=[X,1], %s: f32[B,U] strides=[S,1], %ks: i64[] = X, %kt: i64[] = S, %kv: i64[] = R) {
  %a = add(%x, %s)
  %y = tanh(%a)
  return %y strides=[R,1]
})";
constexpr std::string_view kRelu = R"(
graph @rnn_relu(%x: f32[B,U] strides=[X,1], %s: f32[B,U] strides=[S,1], %ks: i64[] = X, %kt: i64[] = S, %kv: i64[] = R) {
  %a = add(%x, %s)
  %zero = full{value=0.0, shape=[], dtype=f32}
  %y = maximum(%a, %zero)
  return %y strides=[R,1]
})";

std::string_view text_of(std::string_view mode) {
  return mode == "lstm" ? kLstm : mode == "gru" ? kGru : mode == "tanh" ? kTanh : kRelu;
}

}  // namespace

Result<std::unique_ptr<Cell>> Cell::make(std::string_view mode, const Allocator& allocator) {
  auto made = std::make_unique<Cell>();
  made->gates_ = gates_of(mode);
  made->has_state_ = mode == "lstm" || mode == "gru";
  TENON_ASSIGN(made->kernel_, inner::Kernel::make(text_of(mode), allocator));
  return made;
}

Result<std::unique_ptr<Step>> Cell::prepare(const Shape& shape) const {
  return kernel_->prepare({{"B", shape.rows},
                           {"U", shape.units},
                           {"X", shape.x_stride},
                           {"S", shape.s_stride},
                           {"H", shape.state_stride},
                           {"R", shape.result_stride}});
}

Status Cell::run(const Step& step, const float* x, int64_t x_by, const float* s, int64_t s_by,
                 const float* state, float* cell, float* result, char* scratch) const {
  constexpr int kMostBuffers = 11;  // of an LSTM: 4 gates twice, the cell twice, the result
  void* buffers[kMostBuffers];
  int count = 0;
  const auto add = [&](const float* p) { buffers[count++] = const_cast<float*>(p); };
  for (int i = 0; i < gates_; ++i) add(x + i * x_by);
  for (int i = 0; i < gates_; ++i) add(s + i * s_by);
  if (has_state_) add(state);
  if (cell) add(cell);
  add(result);
  return inner::run(step, buffers, scratch);
}

}  // namespace tenon::recurrent

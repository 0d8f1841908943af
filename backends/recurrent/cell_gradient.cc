// See cell_gradient.h. The graphs of the modes are texts. r, z, n and i, f, g, o are the gates; x comes from the sequence, s from the
// state, dy from the graph, p from the product of the later step, and k is the carry.
#include "backends/recurrent/cell_gradient.h"

#include "src/ops/rules/recurrent.h"

namespace tenon::recurrent {
namespace {

constexpr std::string_view kGruGradient = R"(
graph @gru_gradient(%xr: f32[B,U] strides=[X,1], %sr: f32[B,U] strides=[S,1], %xz: f32[B,U] strides=[X,1], %sz: f32[B,U] strides=[S,1],
                    %sn: f32[B,U] strides=[S,1], %xn: f32[B,U] strides=[X,1], %dy: f32[B,U] strides=[D,1], %p: f32[B,U] strides=[P,1],
                    %k: f32[B,U] strides=[H,1], %h: f32[B,U] strides=[H,1], %kx: i64[] = X, %ks: i64[] = S, %kd: i64[] = D,
                    %kp: i64[] = P, %kh: i64[] = H, %kr: i64[] = R) {
  %one = full{value=1.0, shape=[], dtype=f32}
  %ar = add(%xr, %sr)
  %r = sigmoid(%ar)
  %az = add(%xz, %sz)
  %z = sigmoid(%az)
  %rs = mul(%r, %sn)
  %an = add(%xn, %rs)
  %n = tanh(%an)
  %dyp = add(%dy, %p)
  %dh = add(%dyp, %k)
  %z1 = sub(%one, %z)
  %nn = mul(%n, %n)
  %n1 = sub(%one, %nn)
  %dhz = mul(%dh, %z1)
  %dn = mul(%dhz, %n1)
  %dsn = mul(%dn, %r)
  %r1 = sub(%one, %r)
  %rr = mul(%r, %r1)
  %dns = mul(%dn, %sn)
  %dr = mul(%dns, %rr)
  %zz = mul(%z, %z1)
  %hn = sub(%h, %n)
  %dhn = mul(%dh, %hn)
  %dz = mul(%dhn, %zz)
  %next = mul(%dh, %z)
  return %dn strides=[R,1], %dsn strides=[R,1], %dr strides=[R,1], %dz strides=[R,1], %next strides=[H,1]
})";
constexpr std::string_view kLstmGradient = R"(
graph @lstm_gradient(%xi: f32[B,U] strides=[X,1], %si: f32[B,U] strides=[S,1], %xf: f32[B,U] strides=[X,1], %sf: f32[B,U] strides=[S,1],
                     %xg: f32[B,U] strides=[X,1], %sg: f32[B,U] strides=[S,1], %xo: f32[B,U] strides=[X,1], %so: f32[B,U] strides=[S,1],
                     %after: f32[B,U] strides=[H,1], %dy: f32[B,U] strides=[D,1], %p: f32[B,U] strides=[P,1],
                     %k: f32[B,U] strides=[H,1], %before: f32[B,U] strides=[H,1], %kx: i64[] = X, %ks: i64[] = S, %kd: i64[] = D,
                     %kp: i64[] = P, %kh: i64[] = H, %kr: i64[] = R) {
  %one = full{value=1.0, shape=[], dtype=f32}
  %ai = add(%xi, %si)
  %i = sigmoid(%ai)
  %af = add(%xf, %sf)
  %f = sigmoid(%af)
  %ag = add(%xg, %sg)
  %g = tanh(%ag)
  %ao = add(%xo, %so)
  %o = sigmoid(%ao)
  %t = tanh(%after)
  %dh = add(%dy, %p)
  %tt = mul(%t, %t)
  %t1 = sub(%one, %tt)
  %ot = mul(%o, %t1)
  %dht = mul(%dh, %ot)
  %dc = add(%k, %dht)
  %i1 = sub(%one, %i)
  %ii = mul(%i, %i1)
  %dcg = mul(%dc, %g)
  %di = mul(%dcg, %ii)
  %f1 = sub(%one, %f)
  %ff = mul(%f, %f1)
  %dcb = mul(%dc, %before)
  %df = mul(%dcb, %ff)
  %gg = mul(%g, %g)
  %g1 = sub(%one, %gg)
  %dci = mul(%dc, %i)
  %dg = mul(%dci, %g1)
  %o1 = sub(%one, %o)
  %oo = mul(%o, %o1)
  %dhc = mul(%dh, %t)
  %do = mul(%dhc, %oo)
  %next = mul(%dc, %f)
  return %di strides=[R,1], %df strides=[R,1], %dg strides=[R,1], %do strides=[R,1], %next strides=[H,1]
})";
constexpr std::string_view kLstmCell = R"(
graph @lstm_cell(%xi: f32[B,U] strides=[X,1], %si: f32[B,U] strides=[S,1], %xf: f32[B,U] strides=[X,1], %sf: f32[B,U] strides=[S,1],
                 %xg: f32[B,U] strides=[X,1], %sg: f32[B,U] strides=[S,1], %c: f32[B,U] strides=[H,1], %kx: i64[] = X, %ks: i64[] = S,
                 %kh: i64[] = H) {
  %ai = add(%xi, %si)
  %i = sigmoid(%ai)
  %af = add(%xf, %sf)
  %f = sigmoid(%af)
  %ag = add(%xg, %sg)
  %g = tanh(%ag)
  %fc = mul(%f, %c)
  %ig = mul(%i, %g)
  %cell = add(%fc, %ig)
  return %cell strides=[H,1]
})";
constexpr std::string_view kTanhGradient = R"(
graph @rnn_tanh_gradient(%dy: f32[B,U] strides=[D,1], %p: f32[B,U] strides=[P,1], %y: f32[B,U] strides=[H,1], %kd: i64[] = D,
                         %kp: i64[] = P, %kh: i64[] = H, %kr: i64[] = R) {
  %one = full{value=1.0, shape=[], dtype=f32}
  %dh = add(%dy, %p)
  %yy = mul(%y, %y)
  %y1 = sub(%one, %yy)
  %dx = mul(%dh, %y1)
  return %dx strides=[R,1]
})";
constexpr std::string_view kReluGradient = R"(
graph @rnn_relu_gradient(%dy: f32[B,U] strides=[D,1], %p: f32[B,U] strides=[P,1], %y: f32[B,U] strides=[H,1], %kd: i64[] = D,
                         %kp: i64[] = P, %kh: i64[] = H, %kr: i64[] = R) {
  %zero = full{value=0.0, shape=[], dtype=f32}
  %dh = add(%dy, %p)
  %off = le(%y, %zero)
  %dx = where(%off, %zero, %dh)
  return %dx strides=[R,1]
})";

std::string_view text_of_gradient(std::string_view mode) {
  return mode == "lstm"   ? kLstmGradient
         : mode == "gru"  ? kGruGradient
         : mode == "tanh" ? kTanhGradient
                          : kReluGradient;
}

// The buffers of a kernel, in the order of its text.
struct Buffers {
  static constexpr int kMost = 18;  // of an LSTM: 4 gates twice, 5 operands, 5 results
  void* at[kMost];
  int count = 0;
  void add(const float* p) { at[count++] = const_cast<float*>(p); }
  // The inputs of a gate.
  void add_gate(const CellGradient::At& a, int gate) {
    add(a.x + gate * a.size);
    add(a.s + gate * a.size);
  }
};

}  // namespace

Result<std::unique_ptr<CellGradient>> CellGradient::make(std::string_view mode, const Allocator& allocator) {
  auto made = std::make_unique<CellGradient>();
  made->gates_ = gates_of(mode);
  TENON_ASSIGN(made->kernel_, inner::Kernel::make(text_of_gradient(mode), allocator));
  if (mode == "lstm") {
    TENON_ASSIGN(made->cell_, inner::Kernel::make(kLstmCell, allocator));
  }
  return made;
}

Result<std::unique_ptr<Step>> CellGradient::prepare(const Shape& shape) const {
  return kernel_->prepare({{"B", shape.rows},
                           {"U", shape.units},
                           {"X", shape.x_stride},
                           {"S", shape.s_stride},
                           {"D", shape.dy_stride},
                           {"P", shape.product_stride},
                           {"H", shape.size},
                           {"R", gates_ * shape.size}});
}

Result<std::unique_ptr<Step>> CellGradient::prepare_cell(const Shape& shape) const {
  return cell_->prepare({{"B", shape.rows},
                         {"U", shape.units},
                         {"X", shape.x_stride},
                         {"S", shape.s_stride},
                         {"H", shape.size}});
}

Status CellGradient::run(const Step& step, const At& at, char* scratch) const {
  Buffers b;
  if (gates_ == 4) {
    for (int gate = 0; gate < 4; ++gate) b.add_gate(at, gate);
    for (const float* p : {at.after, at.dy, at.product, at.carry, at.before}) b.add(p);
    for (int gate = 0; gate < 4; ++gate) b.add(at.dx + gate * at.size);
    b.add(at.next);
  } else if (gates_ == 3) {
    b.add_gate(at, 0);
    b.add_gate(at, 1);
    b.add(at.s + 2 * at.size);
    b.add(at.x + 2 * at.size);
    for (const float* p : {at.dy, at.product, at.carry, at.before}) b.add(p);
    b.add(at.dx + 2 * at.size);
    b.add(at.ds + 2 * at.size);
    b.add(at.dx);
    b.add(at.dx + at.size);
    b.add(at.next);
  } else {
    for (const float* p : {at.dy, at.product, at.after}) b.add(p);
    b.add(at.dx);
  }
  return inner::run(step, b.at, scratch);
}

Status CellGradient::run_cell(const Step& step, const At& at, float* after, char* scratch) const {
  Buffers b;
  for (int gate = 0; gate < 3; ++gate) b.add_gate(at, gate);
  b.add(at.before);
  b.add(after);
  return inner::run(step, b.at, scratch);
}

std::string CellGradient::describe() const {
  return cell_ ? cell_->describe() + "\n" + kernel_->describe() : kernel_->describe();
}

int CellGradient::compiled() const { return kernel_->compiled() + (cell_ ? cell_->compiled() : 0); }

}  // namespace tenon::recurrent

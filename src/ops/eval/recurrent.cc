// See src/ops/eval/kinds.h. The row recurrent: one step after another, in double. The hidden states are rounded as they are
// stored; the cell is not.
#include <cmath>

#include "src/ir/op.h"
#include "src/ops/eval/kinds.h"
#include "src/ops/math/scalar.h"
#include "src/ops/rules/recurrent.h"

namespace tenon {
namespace {

using Matrix = std::vector<double>;

Matrix matrix_of(const HostTensor& t) {
  Matrix m(static_cast<size_t>(t.count()));
  for (size_t i = 0; i < m.size(); ++i) m[i] = t.get(static_cast<int64_t>(i)).d;
  return m;
}

double product(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += a[k] * b[k];
  return sum;
}

// The next hidden state of one unit from the inputs x and s of its gates, `by` apart: from the sequence, and from the state h.
// Updates the cell of an LSTM.
double next(const std::string& mode, const double* x, const double* s, int64_t by, double h, double& cell) {
  const auto both = [&](int64_t gate) { return x[gate * by] + s[gate * by]; };
  if (mode == "lstm") {
    cell = scalar::sigmoid(both(1)) * cell + scalar::sigmoid(both(0)) * std::tanh(both(2));
    return scalar::sigmoid(both(3)) * std::tanh(cell);
  }
  if (mode == "gru") {
    const double fresh = std::tanh(x[2 * by] + scalar::sigmoid(both(0)) * s[2 * by]);
    return fresh + scalar::sigmoid(both(1)) * (h - fresh);
  }
  return mode == "tanh" ? std::tanh(both(0)) : both(0) > 0 || std::isnan(both(0)) ? both(0) : 0;
}

}  // namespace

Status eval_recurrent(const Node& node, Operands in, HostTensor& out) {
  const auto& mode = attr_as<std::string>(node, "mode");
  const bool reverse = attr_as<bool>(node, "reverse"), projected = in.size() > 5;
  const int64_t steps = in[0]->shape[0], batch = in[0]->shape[1], rows = in[0]->shape[2];
  const int64_t width = in[1]->shape[1], size = rows / gates_of(mode);
  const Matrix x = matrix_of(*in[0]), weight = matrix_of(*in[2]), bias = matrix_of(*in[3]);
  const Matrix projection = projected ? matrix_of(*in[5]) : Matrix();
  Matrix state = matrix_of(*in[1]), cell(static_cast<size_t>(batch * size));
  if (in.size() > 4) cell = matrix_of(*in[4]);
  Matrix from_state(static_cast<size_t>(rows)), hidden(static_cast<size_t>(size));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = reverse ? steps - 1 - i : i;
    for (int64_t b = 0; b < batch; ++b) {
      double* h = state.data() + b * width;
      for (int64_t r = 0; r < rows; ++r)
        from_state[static_cast<size_t>(r)] =
            bias[static_cast<size_t>(r)] + product(weight.data() + r * width, h, width);
      for (int64_t u = 0; u < size; ++u)
        hidden[static_cast<size_t>(u)] =
            next(mode, x.data() + (t * batch + b) * rows + u, from_state.data() + u, size,
                 projected ? 0 : h[u], cell[static_cast<size_t>(b * size + u)]);
      for (int64_t p = 0; p < width; ++p) {
        const int64_t at = (t * batch + b) * width + p;
        out.set(at, {projected ? product(projection.data() + p * size, hidden.data(), size)
                               : hidden[static_cast<size_t>(p)],
                     0});
        h[p] = out.get(at).d;
      }
    }
  }
  if (attr_as<bool>(node, "cell"))
    for (int64_t i = 0; i < batch * size; ++i)
      out.set(steps * batch * width + i, {cell[static_cast<size_t>(i)], 0});
  return {};
}

}  // namespace tenon

// See src/ops/eval/kinds.h. The rows recurrent and recurrent_gradient: one step after another, in double. The hidden states are
// rounded as they are stored; the cell is not.
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

// The gradients of one unit in one step. dx, ds: of the inputs x and s of its gates, `by` apart. h: the state before the step, y: after
// it, dy: its gradient. before, after: the cell. Updates the gradient of the cell; returns that of h without its products.
double back(const std::string& mode, const double* x, const double* s, int64_t by, double h, double y,
            double dy, double before, double after, double& dcell, double* dx, double* ds) {
  const auto both = [&](int64_t gate) { return x[gate * by] + s[gate * by]; };
  if (mode == "lstm") {
    const double i = scalar::sigmoid(both(0)), f = scalar::sigmoid(both(1)), g = std::tanh(both(2)),
                 o = scalar::sigmoid(both(3));
    const double t = std::tanh(after);
    dcell += dy * o * (1 - t * t);
    const double d[] = {dcell * g * i * (1 - i), dcell * before * f * (1 - f), dcell * i * (1 - g * g),
                        dy * t * o * (1 - o)};
    for (int64_t gate = 0; gate < 4; ++gate) dx[gate * by] = ds[gate * by] = d[gate];
    dcell *= f;
    return 0;
  }
  if (mode == "gru") {
    const double r = scalar::sigmoid(both(0)), z = scalar::sigmoid(both(1)),
                 n = std::tanh(x[2 * by] + r * s[2 * by]);
    const double dn = dy * (1 - z) * (1 - n * n);
    dx[0] = ds[0] = dn * s[2 * by] * r * (1 - r);
    dx[by] = ds[by] = dy * (h - n) * z * (1 - z);
    dx[2 * by] = dn;
    ds[2 * by] = dn * r;
    return dy * z;
  }
  dx[0] = ds[0] = mode == "tanh" ? dy * (1 - y * y) : y <= 0 ? 0 : dy;
  return 0;
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

Status eval_recurrent_gradient(const Node& node, Operands in, HostTensor& out) {
  const auto& mode = attr_as<std::string>(node, "mode");
  const bool reverse = attr_as<bool>(node, "reverse"), is_lstm = mode == "lstm";
  const int64_t steps = in[0]->shape[0], batch = in[0]->shape[1], size = in[0]->shape[2];
  const int64_t rows = size * gates_of(mode), of_state = batch * size, of_gates = batch * rows;
  const Matrix y = matrix_of(*in[0]), dy = matrix_of(*in[1]), h = matrix_of(*in[2]),
               weight = matrix_of(*in[3]);
  const Matrix zeros(static_cast<size_t>(steps * of_gates));
  const Matrix x = in.size() > 4 ? matrix_of(*in[4]) : zeros, s = in.size() > 5 ? matrix_of(*in[5]) : zeros;
  const auto at = [&](int64_t i) { return reverse ? steps - 1 - i : i; };  // where step i lies
  std::vector<Matrix> cells;  // before each step, and after the last
  if (is_lstm) {
    cells.push_back(matrix_of(*in[6]));
    for (int64_t i = 0; i < steps; ++i) {
      cells.push_back(cells.back());
      for (int64_t k = 0; k < of_state; ++k) {
        const int64_t first = at(i) * of_gates + k / size * rows + k % size;
        next(mode, x.data() + first, s.data() + first, size, 0, cells.back()[static_cast<size_t>(k)]);
      }
    }
  }
  Matrix dh(static_cast<size_t>(of_state)), dcell = dh, dx(static_cast<size_t>(steps * of_gates)), ds = dx;
  if (in.size() > 7) dcell = matrix_of(*in[7]);
  for (int64_t i = steps - 1; i >= 0; --i) {
    const double* before = i > 0 ? y.data() + at(i - 1) * of_state : h.data();
    for (int64_t k = 0; k < of_state; ++k) {
      const auto unit = static_cast<size_t>(k);
      const int64_t first = at(i) * of_gates + k / size * rows + k % size, here = at(i) * of_state + k;
      const auto cell = [&](int64_t step) { return is_lstm ? cells[static_cast<size_t>(step)][unit] : 0; };
      dh[unit] = back(mode, x.data() + first, s.data() + first, size, before[k], y[static_cast<size_t>(here)],
                      dy[static_cast<size_t>(here)] + dh[unit], cell(i), cell(i + 1), dcell[unit],
                      dx.data() + first, ds.data() + first);
    }
    for (int64_t k = 0; k < of_state; ++k)
      for (int64_t r = 0; r < rows; ++r)
        dh[static_cast<size_t>(k)] += ds[static_cast<size_t>(at(i) * of_gates + k / size * rows + r)] *
                                      weight[static_cast<size_t>(r * size + k % size)];
  }
  int64_t end = 0;
  const auto put = [&](const Matrix& m) {
    for (const double v : m) out.set(end++, {v, 0});
  };
  put(dx);
  if (mode == "gru") put(ds);
  put(dh);
  if (is_lstm) put(dcell);
  return {};
}

}  // namespace tenon

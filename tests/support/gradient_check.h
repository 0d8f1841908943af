// Compares gradients with finite differences in f64. Sizes have the values 3, 4 and 2, in the order of the symbols.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "src/ir/text.h"
#include "src/ops/eval/eval.h"

namespace tenon {

class Numbers {
 public:
  explicit Numbers(unsigned seed) : random_(seed) {}
  HostTensor floats(DType dtype, std::vector<int64_t> shape, double low, double high) {
    HostTensor out(dtype, std::move(shape));
    std::uniform_real_distribution<double> number(low, high);
    for (int64_t i = 0; i < out.count(); ++i) out.set_number(i, number(random_));
    return out;
  }
  HostTensor whole(DType dtype, std::vector<int64_t> shape, int64_t low, int64_t high) {
    HostTensor out(dtype, std::move(shape));
    std::uniform_int_distribution<int64_t> number(low, high);
    for (int64_t i = 0; i < out.count(); ++i) out.set_number(i, static_cast<double>(number(random_)));
    return out;
  }

 private:
  std::mt19937 random_;
};

// The shapes of the inputs with 3, 4 and 2 for the symbols.
inline std::vector<int64_t> shape_of(const Graph& graph, const TensorType& type) {
  std::vector<int64_t> values = {3, 4, 2}, shape;
  values.resize(std::max<size_t>(graph.dims->symbol_count(), 3), 2);
  for (Dim d : type.shape) shape.push_back(*graph.dims->eval(d, values));
  return shape;
}

inline double dot(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += a.number(i) * b.number(i);
  return sum;
}

inline HostTensor moved(const HostTensor& x, const HostTensor& along, double by) {
  HostTensor out = x;
  for (int64_t i = 0; i < x.count(); ++i) out.set_number(i, x.number(i) + by * along.number(i));
  return out;
}

// Compares the gradient of sum <head, output> by input k with the change of that sum along random directions. The
// gradient graph has the graph's inputs, then one head per output.
inline void compare(const Graph& graph, const Graph& gradients, std::vector<HostTensor> inputs, int k,
                    size_t output, unsigned seed) {
  Numbers numbers(seed + 1000);  // not those of the inputs
  std::vector<HostTensor> heads, given = inputs;
  for (const OutputBinding& o : graph.outputs) {
    heads.push_back(numbers.floats(graph.type(o.value).dtype, shape_of(graph, graph.type(o.value)), -1, 1));
    given.push_back(heads.back());
  }
  const auto got = evaluate(gradients, given);
  ASSERT_TRUE(got.ok()) << got.status().message() << "\n" << print(gradients);
  const HostTensor& gradient = (*got)[output];
  ASSERT_EQ(gradient.shape, inputs[k].shape);
  if (gradient.count() == 0) return;
  double magnitude = 0;  // of the terms of a value, which bounds its rounding
  auto value = [&](const HostTensor& at) {
    std::vector<HostTensor> changed = inputs;
    changed[k] = at;
    const auto outputs = evaluate(graph, changed);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    double sum = 0;
    magnitude = 0;
    for (size_t o = 0; outputs.ok() && o < heads.size(); ++o) {
      sum += dot(heads[o], (*outputs)[o]);
      for (int64_t i = 0; i < heads[o].count(); ++i)
        magnitude += std::fabs(heads[o].number(i) * (*outputs)[o].number(i));
    }
    return sum;
  };
  for (int turn = 0; turn < 3; ++turn) {
    const HostTensor along = numbers.floats(DType::f64, inputs[k].shape, -1, 1);
    const double h = 1e-6;
    const double wanted = (value(moved(inputs[k], along, h)) - value(moved(inputs[k], along, -h))) / (2 * h);
    if (std::isnan(wanted) && std::isnan(dot(gradient, along))) continue;  // var of one element
    double scale = std::fabs(wanted) + 1e-2;
    for (int64_t i = 0; i < along.count(); ++i) scale += std::fabs(along.number(i) * gradient.number(i));
    const double rounding = std::numeric_limits<double>::epsilon() * magnitude / h;
    ASSERT_NEAR(dot(gradient, along), wanted, 1e-6 * scale + (std::isfinite(rounding) ? rounding : 0))
        << print(gradients);
  }
}

}  // namespace tenon

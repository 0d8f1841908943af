// Graphs of the mock of cuDNN (cudnn_mock.cc): products, maps and reductions over tensors of four axes, in double. Intermediate values
// are rounded to their types.
#pragma once

#include <cmath>
#include <set>

#include "tests/mocks/cudnn/cudnn_mock_compute.h"

using namespace tenon::cudnn;

namespace {

struct Tensor {
  Array array;
  bool within = false, number = false;
};
struct Node {
  int type, mode = 0;  // kDnn...Operation
  int64_t axis = -1;
  std::vector<int64_t> inputs = {};  // ids; for maps those of x, b and t that are given
  int64_t output = 0;
};

inline double rounded(int type, double value) {
  alignas(8) char bytes[8] = {};
  switch (type) {
    case kDnnI32:
    case kDnnBoolean: return value;
    default: store(type, bytes, value); return load(type, bytes);
  }
}

struct GraphJob {
  std::map<int64_t, Tensor> tensors;
  std::vector<Node> nodes;

  // The first mismatch, or "".
  std::string check() const {
    std::set<int64_t> made;
    int results = 0;
    for (const Node& n : nodes) {
      for (int64_t id : n.inputs)
        if (tensors.at(id).within && !made.count(id)) return "an operand that nothing has made";
      if (!made.insert(n.output).second || tensors.at(n.output).number) return "a tensor that is made twice";
      results += !tensors.at(n.output).within;
      if (tensors.at(n.output).array.dims.size() != 4) return "tensors of four axes";
      if (const std::string wrong = n.type == kDnnProductOperation ? check_product(n) : check_others(n);
          !wrong.empty())
        return wrong;
    }
    return results == 1 ? "" : "one result leaves a graph";
  }

  std::string text() const {
    const Array &q = array(nodes[0].inputs[0]), &k = array(nodes[0].inputs[1]);
    std::string t = "attention " + by(q.dims) + " by " + by({k.dims[0], k.dims[1], k.dims[3], k.dims[2]}) +
                    " " + type_name(q.type);
    for (const Node& n : nodes) {
      if (n.type != kDnnPointwiseOperation) continue;
      if (n.mode == kDnnIndex && n.axis == 2) t += " causal";
      const Tensor& other = tensors.at(n.inputs.back());
      if (n.mode == kDnnAdd && !other.within)
        t += " mask " + by(other.array.dims) + " " + type_name(other.array.type);
    }
    return t;
  }
  int64_t result() const {
    for (const Node& n : nodes)
      if (!tensors.at(n.output).within) return n.output;
    return 0;
  }

  // data: addresses of the tensors in memory, by id.
  void run(const std::map<int64_t, char*>& data) const {
    std::map<int64_t, std::vector<double>> values;
    for (const auto& [id, tensor] : tensors) {
      if (tensor.within || id == result()) continue;
      Dense read(tensor.array);
      read.read(data.at(id));
      values[id] = read.values;
    }
    for (const Node& n : nodes) {
      const Array& out = array(n.output);
      std::vector<double> result(static_cast<size_t>(out.count()), 0.0);
      size_t at = 0;
      each(out.dims, [&](const int64_t* i) {
        result[at++] = rounded(out.type, n.type == kDnnProductOperation     ? product(n, i, values)
                                         : n.type == kDnnReductionOperation ? reduced(n, i, values)
                                                                            : mapped(n, i, values));
      });
      values[n.output] = std::move(result);
    }
    Dense written(array(result()));
    written.values = values[result()];
    written.write(data.at(result()));
  }

 private:
  using Values = std::map<int64_t, std::vector<double>>;
  const Array& array(int64_t id) const { return tensors.at(id).array; }

  template <class F>
  static void each(const std::vector<int64_t>& dims, F&& f) {
    int64_t i[4];
    for (i[0] = 0; i[0] < dims[0]; ++i[0])
      for (i[1] = 0; i[1] < dims[1]; ++i[1])
        for (i[2] = 0; i[2] < dims[2]; ++i[2])
          for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
  }
  // Axes of size 1 are broadcast.
  double at(int64_t id, const int64_t* i, const Values& values) const {
    const auto& d = array(id).dims;
    int64_t place = 0;
    for (int a = 0; a < 4; ++a) place = place * d[a] + (d[a] == 1 ? 0 : i[a]);
    return values.at(id)[static_cast<size_t>(place)];
  }

  std::string check_product(const Node& n) const {
    const auto &a = array(n.inputs[0]).dims, &b = array(n.inputs[1]).dims, &c = array(n.output).dims;
    if (a[0] != c[0] || b[0] != c[0] || a[1] != c[1] || b[1] == 0 || c[1] % b[1])
      return "batches that do not fit";
    return a[2] == c[2] && b[3] == c[3] && a[3] == b[2] ? "" : "matrices that do not fit";
  }
  double product(const Node& n, const int64_t* i, const Values& values) const {
    const auto &a = array(n.inputs[0]).dims, &b = array(n.inputs[1]).dims;
    double sum = 0;
    for (int64_t k = 0; k < a[3]; ++k) {
      const int64_t left[] = {i[0], i[1], i[2], k}, right[] = {i[0], i[1] / (a[1] / b[1]), k, i[3]};
      sum += at(n.inputs[0], left, values) * at(n.inputs[1], right, values);
    }
    return sum;
  }

  std::string check_others(const Node& n) const {
    const bool reduces = n.type == kDnnReductionOperation;
    const auto& out = array(n.output).dims;
    for (int64_t id : n.inputs)
      for (size_t a = 0; a < 4; ++a) {
        const int64_t wide = reduces ? array(id).dims[a] : out[a],
                      narrow = reduces ? out[a] : array(id).dims[a];
        if (narrow != wide && narrow != 1) return "sizes that do not fit";
      }
    if (reduces) return "";
    const size_t wanted = n.mode == kDnnSelect                                            ? 3
                          : n.mode == kDnnExp || n.mode == kDnnLog || n.mode == kDnnIndex ? 1
                                                                                          : 2;
    if (n.inputs.size() != wanted) return "operands of a map";
    return (n.mode == kDnnIndex) == (n.axis >= 0) ? "" : "an axis of a map";
  }
  double reduced(const Node& n, const int64_t* i, const Values& values) const {
    const auto &from = array(n.inputs[0]).dims, &to = array(n.output).dims;
    double result = n.mode == kDnnReduceMax ? -INFINITY : 0;
    std::vector<int64_t> folded(4, 1);
    for (size_t a = 0; a < 4; ++a)
      if (to[a] == 1) folded[a] = from[a];
    each(folded, [&](const int64_t* j) {
      int64_t place[4];
      for (int a = 0; a < 4; ++a) place[a] = to[static_cast<size_t>(a)] == 1 ? j[a] : i[a];
      const double v = at(n.inputs[0], place, values);
      if (n.mode == kDnnReduceMax && v == -INFINITY) result = NAN;  // the library may do this
      result = n.mode != kDnnReduceMax               ? result + v
               : std::isnan(result) || std::isnan(v) ? NAN
                                                     : std::max(result, v);
    });
    return result;
  }
  double mapped(const Node& n, const int64_t* i, const Values& values) const {
    const auto operand = [&](size_t k) { return at(n.inputs[k], i, values); };
    switch (n.mode) {
      case kDnnAdd: return operand(0) + operand(1);
      case kDnnMul: return operand(0) * operand(1);
      case kDnnDiv: return operand(0) / operand(1);
      case kDnnSub: return operand(0) - operand(1);
      case kDnnExp: return std::exp(operand(0));
      case kDnnLog: return std::log(operand(0));
      case kDnnGreaterOrEqual: return operand(0) >= operand(1);
      case kDnnIndex: return static_cast<double>(i[n.axis]);
      case kDnnSelect: return operand(2) != 0 ? operand(0) : operand(1);
      default: return NAN;
    }
  }
};

}  // namespace

// Runs programs from text to tensors and compares with the evaluator. For tests/unit/runtime/run_test.cc and the tests of back
// ends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "src/base/status.h"
#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/runtime/program.h"

namespace tenon {

inline HostTensor random_tensor(DType dtype, const std::vector<int64_t>& shape, uint32_t seed) {
  HostTensor t(dtype, shape);
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < t.count(); ++i) {
    if (is_float(dtype))
      t.set(i, {normal(rng), 0});
    else
      t.set(i, {0, static_cast<int64_t>(rng() % (is_bool(dtype) ? 2 : 5))});
  }
  return t;
}

// Random numbers for each input of a graph. other: the sizes that are no constants.
inline std::vector<HostTensor> random_inputs(const Graph& graph, int64_t other = 3) {
  std::vector<HostTensor> inputs;
  for (const InputBinding& input : graph.inputs) {
    const TensorType& type = graph.type(input.value);
    std::vector<int64_t> shape;
    for (const Dim d : type.shape) shape.push_back(d.is_const() ? d.value() : other);
    inputs.push_back(random_tensor(type.dtype, shape, static_cast<uint32_t>(inputs.size()) + 1));
  }
  return inputs;
}

inline Tensor tensor_of(HostTensor& t) { return {t.bytes.data(), t.dtype, t.shape, {}}; }

// Outputs of the same types, filled with bytes of 0xA5, so that an element that a program does not write shows.
inline std::vector<HostTensor> blank_like(const std::vector<HostTensor>& expected) {
  std::vector<HostTensor> blank = expected;
  for (HostTensor& t : blank) std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0xA5});
  return blank;
}

// The program of a text. Ends the test if there is none.
inline std::shared_ptr<Program> program_of(const std::string& text, int threads = 1) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message() + "\n" + text);
  ProgramOptions options;
  options.threads = threads;
  auto program = Program::make(*graph, options, {});
  TENON_CHECK(program.ok(), program.status().message() + "\n" + text);
  return *program;
}

inline Status run(Program& program, std::vector<HostTensor>& inputs, std::vector<HostTensor>& outputs) {
  std::vector<Tensor> in, out;
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  for (HostTensor& t : outputs) out.push_back(tensor_of(t));
  return program.run(in, out);
}

}  // namespace tenon

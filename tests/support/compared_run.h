// compared_run: runs a program of one output and compares the result with the evaluator. For tests of back ends of products.
#pragma once

#include <string>
#include <vector>

#include "tests/support/run_help.h"

namespace tenon {

struct ComparedRun {
  HostTensor result;
  std::string explained;
};

// Runs the graph of this text on random inputs; a back end must take each of its steps. An element y of the result may differ by
// tolerance(dtype) * (4 + |y|). If strides are given, the elements of the result lie at these distances.
inline ComparedRun compared_run(const std::string& text, double tolerance(DType), int threads,
                                const std::vector<int64_t>& strides = {}) {
  SCOPED_TRACE(text);
  const auto program = program_of(text, threads);
  EXPECT_EQ(program->stats().reference_steps, 0);
  const auto graph = parse_graph(text);
  std::vector<HostTensor> inputs = random_inputs(*graph);
  std::vector<Tensor> in;
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  const auto expected = evaluate(*graph, inputs);
  TENON_CHECK(expected.ok(), expected.status().message());
  std::vector<HostTensor> results = blank_like(*expected);
  std::vector<Tensor> out = {tensor_of(results[0])};
  out[0].strides = strides;
  const Status status = program->run(in, out);
  EXPECT_TRUE(status.ok()) << status.message();
  const HostTensor& wanted = (*expected)[0];
  const double bound = tolerance(wanted.dtype);
  for (int64_t i = 0; i < wanted.count(); ++i) {
    int64_t at = strides.empty() ? i : 0;
    for (int64_t axis = std::ssize(strides), rest = i; axis-- > 0; rest /= wanted.shape[axis])
      at += rest % wanted.shape[axis] * strides[axis];
    EXPECT_NEAR(results[0].number(at), wanted.number(i), bound * (4 + std::abs(wanted.number(i))))
        << "element " << i;
    if (testing::Test::HasFailure()) break;
  }
  return {results[0], program->explain(false)};
}

}  // namespace tenon

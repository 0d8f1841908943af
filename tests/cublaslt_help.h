// Programs with products of matrices for tests/cublaslt*_test.cc: cuBLASLt is its mock (cublaslt_mock.cc), which checks what it is
// told and computes in double, and kernels run under the mock driver.
#pragma once

#include <gmock/gmock.h>

#include <sstream>

#include "backends/cublaslt/choice.h"
#include "tests/cublaslt_mock.h"
#include "tests/cuda_program_help.h"

namespace tenon {

inline const CublasLtMock& lt() { return CublasLtMock::get(); }

inline std::string typed(std::string text, const std::string& type) {
  for (size_t at; (at = text.find("T[")) != text.npos;) text.replace(at, 1, type);
  return text;
}

class CublasLt : public CudaProgramTest {
 protected:
  static void SetUpTestSuite() {
    CudaProgramTest::SetUpTestSuite();
    setenv("TENON_CUBLASLT", TENON_CUBLASLT_MOCK, 1);
    mock().set("devices=2");
  }
  void SetUp() override {
    CudaProgramTest::SetUp();
    lt().reset();
    cublaslt::forget_choices();
  }
  // No fault was found by the mocks; of the library only handles and choices are alive.
  void TearDown() override {
    cublaslt::forget_choices();
    cublaslt::forget_library();
    EXPECT_STREQ(lt().leaks(), "");
    EXPECT_THAT(mock().leaks(), testing::Not(testing::HasSubstr("written")));
  }

  std::shared_ptr<Program> make(const Graph& graph) {
    auto program = Program::make(graph, options, {});
    TENON_CHECK(program.ok(), program.status().message());
    return *program;
  }
  static std::vector<HostTensor> inputs_of(const Graph& graph, const std::vector<int64_t>& symbols) {
    std::vector<HostTensor> inputs;
    for (const InputBinding& in : graph.inputs) {
      std::vector<int64_t> shape;
      for (Dim d : graph.type(in.value).shape) shape.push_back(*graph.dims->eval(d, symbols));
      inputs.push_back(
          random_tensor(graph.type(in.value).dtype, shape, static_cast<uint32_t>(inputs.size() + 1)));
    }
    return inputs;
  }
  DeviceMemory& pool() {
    auto runtime = cuda::runtime_of(options.device.index);
    TENON_CHECK(runtime.ok(), runtime.status().message());
    return (*runtime)->pool();
  }
  // Tensors `shift` bytes behind an aligned address.
  Status run(Program& program, std::vector<HostTensor> inputs, std::vector<HostTensor>& outputs,
             int64_t shift = 0) {
    std::vector<std::unique_ptr<OnDevice>> in, out;
    std::vector<Tensor> in_list, out_list;
    for (HostTensor& t : inputs) {
      in.push_back(std::make_unique<OnDevice>(pool(), t, shift));
      in_list.push_back(in.back()->tensor());
      in_list.back().device = options.device;
    }
    for (HostTensor& t : outputs) {
      std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0xA5});
      out.push_back(std::make_unique<OnDevice>(pool(), t, shift));
      out_list.push_back(out.back()->tensor());
      out_list.back().device = options.device;
    }
    TENON_TRY(program.run(in_list, out_list, kStream));
    for (size_t o = 0; o < out.size(); ++o) outputs[o] = out[o]->read();
    return {};
  }
  // Runs at these sizes and compares with the evaluator.
  void check(Program& program, const Graph& graph, const std::vector<int64_t>& symbols, int64_t shift = 0) {
    std::vector<HostTensor> inputs = inputs_of(graph, symbols);
    auto expected = evaluate(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    std::vector<HostTensor> got;
    for (const HostTensor& e : *expected) got.emplace_back(e.dtype, e.shape);
    const Status status = run(program, inputs, got, shift);
    ASSERT_TRUE(status.ok()) << status.message() << "\n" << lt().leaks() << program.explain(false);
    for (size_t o = 0; o < got.size(); ++o)
      for (int64_t i = 0; i < got[o].count(); ++i) {
        const double want = (*expected)[o].number(i);
        const double tolerance = got[o].dtype == DType::f64   ? 1e-12
                                 : got[o].dtype == DType::f32 ? 3e-5
                                                              : 2e-2;
        ASSERT_NEAR(got[o].number(i), want, tolerance * std::max(1.0, std::abs(want)))
            << "output " << o << " element " << i << "\n"
            << program.explain(false);
      }
  }
  void check(const std::string& text, const std::vector<int64_t>& symbols = {}) {
    const Graph graph = parsed(text.c_str());
    check(*make(graph), graph, symbols);
  }
  static std::vector<std::string> products() {
    std::vector<std::string> lines;
    std::istringstream log(lt().log());
    for (std::string line; std::getline(log, line);)
      if (line.starts_with("cublasLtMatmul ")) lines.push_back(line.substr(15));
    return lines;
  }
};

inline const std::string kMlp = R"(graph @f(%x: T[N,K], %w: T[K,M], %b: T[M]) {
  %h = matmul(%x, %w)
  %s = add(%h, %b)
  %g = gelu(%s){approximate="tanh"}
  %n = softmax(%g){axis=-1}
  return %n
})";

}  // namespace tenon

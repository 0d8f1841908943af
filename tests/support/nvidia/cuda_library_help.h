// A fixture for programs that use one of NVIDIA's libraries, for tests/unit/backends/cublaslt*_test.cc and
// tests/unit/backends/cudnn*_test.cc. The library is its mock, which checks its arguments and computes in double. Kernels run on the
// mock driver.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "tests/support/nvidia/cuda_program_help.h"

namespace tenon {

class CudaLibraryTest : public CudaProgramTest {
 protected:
  virtual const MockControls& library() const = 0;
  virtual void forget_algorithms() const = 0;
  virtual void forget_library() const = 0;
  void forget() const {
    forget_algorithms();
    forget_library();
  }

  static void SetUpTestSuite() {
    CudaProgramTest::SetUpTestSuite();
    mock().set("devices=2");
  }
  void SetUp() override {
    CudaProgramTest::SetUp();
    library().reset();
    forget_algorithms();
  }
  // Checks that the mocks found no fault, and that nothing of the library is alive after forget().
  void TearDown() override {
    forget();
    EXPECT_STREQ(library().leaks(), "");
    EXPECT_THAT(mock().leaks(), testing::Not(testing::HasSubstr("written")));
  }

  std::string faults() const override { return library().leaks() + CudaProgramTest::faults(); }

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
  // Runs at these sizes and compares with the evaluator.
  void check(Program& program, const Graph& graph, const std::vector<int64_t>& symbols,
             int64_t shift = 0) const {
    CudaProgramTest::check(program, graph, inputs_of(graph, symbols), shift);
  }
  void check(const std::string& text, const std::vector<int64_t>& symbols = {}) const {
    const Graph graph = parsed(text);
    check(*make(graph), graph, symbols);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream log(library().log());
    for (std::string line; std::getline(log, line);) all.push_back(line);
    return all;
  }

  // Lets every call of these functions fail once. Checks that the program returns an error, except for Destroy functions, and that
  // the next run succeeds. Calls expect(status, function) for every error. Returns the number of errors.
  int fail_in_turn(std::span<const char* const> functions, const Graph& graph,
                   const std::vector<int64_t>& symbols, int code,
                   const std::function<void(const Status&, const std::string&)>& expect) const {
    auto once = [&](bool expect_ok) -> Status {
      auto program = Program::make(graph, options, {});
      if (!program.ok()) return program.status();
      const std::vector<HostTensor> inputs = inputs_of(graph, symbols);
      std::vector<HostTensor> got = *evaluate(graph, inputs);
      Status status = run(**program, inputs, got);
      if (status.ok() && expect_ok) check(**program, graph, symbols);
      return status;
    };
    EXPECT_TRUE(once(true).ok());
    forget();
    EXPECT_STREQ(library().leaks(), "");
    library().reset();
    EXPECT_TRUE(once(false).ok());
    forget();
    std::map<std::string, int> calls;
    for (const char* function : functions) {
      calls[function] = library().calls(function);
      EXPECT_GE(calls[function], 1) << function;
    }
    const std::string before = mock().leaks();
    int failed = 0;
    for (const auto& [function, times] : calls)
      for (int nth = 1; nth <= times; ++nth) {
        SCOPED_TRACE(function + ", call " + std::to_string(nth));
        library().reset();
        library().fail(function.c_str(), nth, code);
        const Status status = once(false);
        EXPECT_EQ(status.ok(), function.find("Destroy") != function.npos) << status.message();
        if (!status.ok()) {
          expect(status, function);
          ++failed;
        }
        library().fail(function.c_str(), 0, 0);
        EXPECT_TRUE(once(true).ok());  // the failure leaves no trace
        forget();
        EXPECT_STREQ(library().leaks(), "");
        EXPECT_EQ(mock().leaks(), before);
      }
    return failed;
  }

  // Runs one program on four threads, each with its own tensor for input number `input`.
  void check_threads(const Graph& graph, const std::vector<int64_t>& symbols, size_t input, int runs) const {
    const auto program = make(graph);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::vector<HostTensor> inputs = inputs_of(graph, symbols);
        inputs[input] = random_tensor(inputs[input].dtype, inputs[input].shape, 100 + t);
        const auto expected = evaluate(graph, inputs);
        for (int i = 0; i < runs; ++i) {
          std::vector<HostTensor> got = *expected;
          bool ok = run(*program, inputs, got).ok();
          for (int64_t e = 0; ok && e < got[0].count(); ++e)
            ok = std::abs(got[0].number(e) - (*expected)[0].number(e)) < 3e-5;
          wrong += !ok;
        }
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
  }
};

}  // namespace tenon

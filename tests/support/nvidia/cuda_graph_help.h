// Fixtures for plans that are launched as CUDA graphs, for tests/unit/backends/*_graph_test.cc. All runs get the same memory, so that
// graphs need no update.
#pragma once

#include <gmock/gmock.h>

#include "tests/support/nvidia/cuda_program_help.h"

namespace tenon {

// Device memory of a host that always hands out the same block.
class Held final : public DeviceMemory {
 public:
  Held(DeviceMemory& from, int64_t bytes) : from_(from), bytes_(bytes) {
    auto block = from.take(bytes, kStream);
    TENON_CHECK(block.ok(), block.status().message());
    block_ = *block;
  }
  ~Held() override { from_.give(block_, bytes_, kStream); }
  Result<Block> take(int64_t bytes, void*) override {
    TENON_CHECK(bytes <= bytes_, "more than there is");
    return block_;
  }
  void give(const Block&, int64_t, void*) override {}

 private:
  DeviceMemory& from_;
  const int64_t bytes_;
  Block block_;
};

// Inputs and one output on the device.
class Tensors {
 public:
  Tensors(DeviceMemory& memory, const Graph& graph, std::vector<HostTensor> inputs, int64_t shift = 0)
      : inputs_(std::move(inputs)) {
    for (HostTensor& t : inputs_) in.push_back(std::make_unique<OnDevice>(memory, t, shift));
    auto expected = evaluate(graph, inputs_);
    TENON_CHECK(expected.ok(), expected.status().message());
    output_ = (*expected)[0];
    out = std::make_unique<OnDevice>(memory, output_, shift);
  }
  std::vector<std::unique_ptr<OnDevice>> in;
  std::unique_ptr<OnDevice> out;

 private:
  std::vector<HostTensor> inputs_;
  HostTensor output_;
};

// Adds CUDA graphs to the fixture of a library.
template <class Library>
class GraphsOf : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    held = std::make_unique<Held>(this->memory(), 1 << 20);
    this->options.graphs = DeviceGraphs::always;
    this->options.device_memory = held.get();
  }
  void TearDown() override {
    program.reset();
    tensors.reset();
    held.reset();
    for (const char* left : {"executable", "graph", "stream"})
      EXPECT_THAT(mock().leaks(), testing::Not(testing::HasSubstr(left)));
    Library::TearDown();
  }
  void use(const std::string& text, const std::vector<int64_t>& symbols) {
    graph = parsed(text);
    program = this->make(graph);
    tensors = made(symbols);
  }
  std::unique_ptr<Tensors> made(const std::vector<int64_t>& symbols, int64_t shift = 0) {
    return std::make_unique<Tensors>(this->memory(), graph, this->inputs_of(graph, symbols), shift);
  }
  static int count(const std::string& call) { return mock().calls(call.c_str()); }

  Status try_on(Tensors& t) {
    std::vector<Tensor> in;
    for (const auto& each : t.in) in.push_back(each->tensor());
    return program->run(in, std::vector<Tensor>{t.out->tensor()}, kStream);
  }
  // Runs the program and compares with the evaluator.
  void run_on(Tensors& t) {
    std::memset(t.out->tensor().data, 0xff, t.out->read().bytes.size());
    const Status status = try_on(t);
    ASSERT_TRUE(status.ok()) << status.message() << this->faults();
    std::vector<HostTensor> now;
    for (const auto& each : t.in) now.push_back(each->read());
    const auto expected = evaluate(graph, now);
    ASSERT_TRUE(expected.ok());
    const HostTensor got = t.out->read();
    for (int64_t i = 0; i < got.count(); ++i) ASSERT_NEAR(got.number(i), (*expected)[0].number(i), 3e-5);
  }
  void run_on() { run_on(*tensors); }
  // Lets calls of the driver fail, each at its first or second use, and checks that the results are right all the same.
  void refuse_in_turn() {
    for (const char* call : {"cuStreamCreate", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
                             "cuGraphAddChildGraphNode", "cuGraphInstantiateWithFlags", "cuGraphLaunch"})
      for (int nth : {1, 2}) {
        SCOPED_TRACE(std::string(call) + " " + std::to_string(nth));
        program = this->make(graph);
        mock().fail(call, nth, 1);
        for (int i = 0; i < 6; ++i) run_on();
        mock().fail(call, 0, 0);
      }
  }

  std::unique_ptr<Held> held;
  Graph graph;
  std::shared_ptr<Program> program;
  std::unique_ptr<Tensors> tensors;
};

}  // namespace tenon

// A fixture for programs on a device, for tests/unit/backends/cuda_*_test.cc, with the mock driver and the mock NVRTC. Their memory
// and code are the host's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/nvidia/device/memory.h"
#include "backends/nvidia/kernels/code.h"
#include "tests/mocks/cuda/cuda_mock.h"
#include "tests/support/paths.h"
#include "tests/support/run_help.h"

namespace tenon {

inline const CudaMock& mock() { return CudaMock::get(); }
inline void* const kStream = reinterpret_cast<void*>(7);

// A tensor on the device, `shift` bytes behind the beginning of its memory.
class OnDevice {
 public:
  OnDevice(DeviceMemory& memory, HostTensor& tensor, int64_t shift = 0)
      : memory_(memory), tensor_(tensor), bytes_(static_cast<int64_t>(tensor.bytes.size()) + shift) {
    auto block = memory.take(std::max<int64_t>(bytes_, 1), kStream);
    TENON_CHECK(block.ok(), block.status().message());
    block_ = *block;
    data_ = static_cast<char*>(block_.data) + shift;
    if (!tensor.bytes.empty())
      std::memcpy(data_, tensor.bytes.data(), tensor.bytes.size());  // the mock's memory is host memory
  }
  OnDevice(const OnDevice&) = delete;
  ~OnDevice() { memory_.give(block_, bytes_, kStream); }
  Tensor tensor() const { return {data_, tensor_.dtype, tensor_.shape, {}, {DeviceId::kCuda, 0}}; }
  HostTensor read() const {
    HostTensor t(tensor_.dtype, tensor_.shape);
    if (!t.bytes.empty()) std::memcpy(t.bytes.data(), data_, t.bytes.size());
    return t;
  }

 private:
  DeviceMemory& memory_;
  HostTensor& tensor_;
  const int64_t bytes_;
  DeviceMemory::Block block_;
  char* data_ = nullptr;
};

inline Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  return *graph;
}

// Replaces every T in front of a bracket by this type.
inline std::string typed(std::string text, const std::string& type) {
  for (size_t at; (at = text.find("T[")) != text.npos;) text.replace(at, 1, type);
  return text;
}

// The same elements, rounded to another type.
inline HostTensor as(DType type, const HostTensor& t) {
  HostTensor result(type, t.shape);
  for (int64_t i = 0; i < t.count(); ++i) result.set(i, convert_element(t.get(i), t.dtype, type));
  return result;
}

class CudaProgramTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TENON_CUDA_DRIVER", kCudaMock, 1);
    setenv("TENON_NVRTC", kNvrtcMock, 1);
    mock().reset();
  }
  void SetUp() override { options.device = {DeviceId::kCuda, 0}; }

  virtual std::string faults() const { return mock().leaks(); }
  DeviceMemory& memory() const {
    auto r = cuda::runtime_of(options.device.index);
    TENON_CHECK(r.ok(), r.status().message());
    return (*r)->pool();
  }
  std::shared_ptr<Program> make(const Graph& graph) const {
    auto program = Program::make(graph, options, {});
    TENON_CHECK(program.ok(), program.status().message());
    return *program;
  }
  // Runs with tensors `shift` bytes behind an aligned address.
  Status run(Program& program, std::vector<HostTensor> inputs, std::vector<HostTensor>& outputs,
             int64_t shift = 0) const {
    std::vector<std::unique_ptr<OnDevice>> in, out;
    std::vector<Tensor> in_list, out_list;
    auto take = [&](HostTensor& t, auto& kept, auto& list) {
      kept.push_back(std::make_unique<OnDevice>(memory(), t, shift));
      list.push_back(kept.back()->tensor());
      list.back().device = options.device;
    };
    for (HostTensor& t : inputs) take(t, in, in_list);
    for (HostTensor& t : outputs) {
      std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0xA5});
      take(t, out, out_list);
    }
    TENON_TRY(program.run(in_list, out_list, kStream));
    for (size_t o = 0; o < out.size(); ++o) outputs[o] = out[o]->read();
    return {};
  }
  // Runs on the device and compares with the evaluator; `graph` may have wider types than the program.
  void check(Program& program, const Graph& graph, const std::vector<HostTensor>& inputs,
             int64_t shift = 0) const {
    std::vector<HostTensor> same, got;
    for (size_t i = 0; i < inputs.size(); ++i)
      same.push_back(as(graph.type(graph.inputs[i].value).dtype, inputs[i]));
    auto expected = evaluate(graph, same);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Graph& own = program.graph();
    for (size_t o = 0; o < expected->size(); ++o)
      got.emplace_back(own.type(own.outputs[o].value).dtype, (*expected)[o].shape);
    const Status status = run(program, inputs, got, shift);
    ASSERT_TRUE(status.ok()) << status.message() << "\n" << faults() << program.explain(false);
    for (size_t o = 0; o < got.size(); ++o)
      for (int64_t i = 0; i < got[o].count(); ++i) {
        const double want = (*expected)[o].number(i);
        const double tolerance = got[o].dtype == DType::f64   ? 1e-12
                                 : got[o].dtype == DType::f32 ? 3e-5
                                                              : 2e-2;
        if (std::isnan(want) && std::isnan(got[o].number(i))) continue;
        ASSERT_NEAR(got[o].number(i), want, tolerance * std::max(1.0, std::abs(want)))
            << "output " << o << " element " << i << "\n"
            << program.explain(false);
      }
  }

  ProgramOptions options;
};

}  // namespace tenon

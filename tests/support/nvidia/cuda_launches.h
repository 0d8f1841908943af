// The calls that a program makes to the driver, for golden texts: kernels with their grids and arguments, nodes of graphs. The mock
// driver logs them; nothing is compiled or run. Used by tests/golden/golden_test.cc.
#pragma once

#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/nvidia/cuda_program_help.h"
#include "tests/support/paths.h"

namespace tenon {

// Renumbers the names of the mock: M7 and M9 become M1 and M2, and likewise for other kinds of objects.
inline std::string renumbered(const std::string& text) {
  std::map<char, std::set<int>> numbers;
  std::string result;
  for (const bool first : {true, false})
    for (size_t at = 0; at < text.size(); ++at) {
      size_t end = at + 1;
      const bool alone = at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]));
      while (alone && std::isupper(static_cast<unsigned char>(text[at])) &&
             std::isdigit(static_cast<unsigned char>(text[end])))
        ++end;
      std::set<int>& known = numbers[text[at]];
      if (end > at + 1 && first) known.insert(std::stoi(text.substr(at + 1, end - at - 1)));
      if (first) continue;
      result += text[at];
      if (end == at + 1) continue;
      const auto place = known.find(std::stoi(text.substr(at + 1, end - at - 1)));
      result += std::to_string(std::distance(known.begin(), place) + 1);
      at = end - 1;
    }
  return result;
}

inline Result<std::string> run_on_mock(const Graph& graph, std::span<const int64_t> symbols, bool as_one) {
  setenv("TENON_CUDA_DRIVER", kCudaMock, 1);
  setenv("TENON_NVRTC", kNvrtcMock, 1);
  setenv("TENON_NVRTC_MOCK_RUN", "off", 1);
  ProgramOptions options;
  options.device = {DeviceId::kCuda, 0};
  options.graphs = as_one ? DeviceGraphs::always : DeviceGraphs::never;
  options.backends = {"cuda"};
  TENON_ASSIGN(const std::shared_ptr<Program> program, Program::make(graph, options, {}));
  TENON_ASSIGN(DeviceRuntime * runtime, cuda::runtime_of(0));
  std::vector<HostTensor> tensors;
  auto add = [&](ValueId v) {
    std::vector<int64_t> shape;
    for (Dim d : graph.type(v).shape) shape.push_back(graph.dims->eval(d, symbols).value());
    tensors.emplace_back(graph.type(v).dtype, shape);
  };
  for (const InputBinding& i : graph.inputs) add(i.value);
  for (const OutputBinding& o : graph.outputs) add(o.value);
  std::vector<std::unique_ptr<OnDevice>> kept;
  std::vector<Tensor> list;
  for (HostTensor& t : tensors) {
    kept.push_back(std::make_unique<OnDevice>(runtime->pool(), t));
    list.push_back(kept.back()->tensor());
  }
  const auto inputs = std::span(list).first(graph.inputs.size()),
             outputs = std::span(list).subspan(graph.inputs.size());
  std::string text;
  for (int runs = as_one ? 4 : 1; runs > 0; --runs) {
    const size_t before = std::string(mock().log()).size();
    TENON_TRY(program->run(inputs, outputs, kStream));
    text = std::string(mock().log()).substr(before);
  }
  std::istringstream lines(text);
  std::string log;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("cuLaunch") || line.starts_with("cuGraph")) log += line + "\n";
  unsetenv("TENON_NVRTC_MOCK_RUN");
  return renumbered(log);
}

}  // namespace tenon

// MXNet's symbols and .params files as models of the command line. Tested by tests/cli_test.py.
#include <algorithm>
#include <cstring>

#include "src/cli/npy.h"
#include "src/cli/verbs.h"
#include "src/mxnet/params.h"
#include "src/mxnet/translate/translate.h"

namespace tenon::cli {
namespace {

std::string sizes_of(const std::vector<int64_t>& shape) {
  std::string out;
  for (const int64_t n : shape) out += (out.empty() ? "" : ",") + std::to_string(n);
  return out;
}

HostTensor tensor_of(const mxnet::Param& param, const std::string& bytes) {
  HostTensor t(param.dtype, param.shape);
  std::memcpy(t.bytes.data(), bytes.data() + param.offset, param.size);
  return t;
}

// What is known of variables, and their tensors by the names of variables.
struct Known {
  std::vector<mxnet::Given> given;
  std::map<std::string, HostTensor> tensors;

  void add(const std::string& name, HostTensor tensor, bool param) {
    given.push_back({name, tensor.dtype, sizes_of(tensor.shape), param});
    tensors[name] = std::move(tensor);
  }
};

// The file may hold more than the symbol has, as in MXNet.
Status read_params(const std::string& path, const mxnet::Symbol& symbol, Known& known) {
  TENON_ASSIGN(const std::string bytes, read_file(path));
  auto params = mxnet::parse_params({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
  if (!params.ok()) return params.status().at(path);
  for (const mxnet::Param& param : *params) {
    const bool used = std::any_of(
        symbol.nodes.begin(), symbol.nodes.end(),
        [&](const mxnet::SymbolNode& node) { return node.is_variable() && node.name == param.name; });
    if (used && !known.tensors.contains(param.name)) known.add(param.name, tensor_of(param, bytes), true);
  }
  return {};
}

}  // namespace

Result<Model> read_symbol(const std::string& path, std::vector<std::string>& inputs,
                          const std::string& params) {
  TENON_ASSIGN(const std::string text, read_file(path));
  auto symbol = mxnet::parse_symbol(text);
  if (!symbol.ok()) return symbol.status().at(path);
  Known known;
  for (const std::string& item : inputs) {
    const size_t equals = std::min(item.find('='), item.size());
    const std::string name = item.substr(0, equals), value = item.substr(std::min(equals + 1, item.size()));
    if (value.ends_with(".npy")) {
      TENON_ASSIGN(HostTensor tensor, read_npy(value));
      known.add(name, std::move(tensor), false);
    } else {
      known.given.push_back({name, std::nullopt, value, false});
    }
  }
  inputs.clear();
  if (!params.empty()) TENON_TRY(read_params(params, *symbol, known));
  auto graph = mxnet::translate(*symbol, {}, known.given);
  if (!graph.ok()) return graph.status().at(path);
  Model model;
  for (const InputBinding& in : graph->inputs) {
    const Node& node = graph->node(in.value);
    if (const auto it = known.tensors.find(node.origin); it != known.tensors.end())
      model.tensors[node.name] = it->second;
  }
  model.graph = std::move(*graph);
  return model;
}

}  // namespace tenon::cli

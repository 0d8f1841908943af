// The functions of tenon.h that build a graph step by step. A failing step returns its error at once, and the
// graph keeps the error for finalize. Tested by tests/abi/capi*.c.

#include "src/api/guard.h"
#include "src/base/text.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/ops/eval/host_tensor.h"
#include "src/ops/rows/names.h"
#include "src/passes/gradient.h"

using tenon::api::guarded;

namespace tenon {
namespace {

Status keep(tenon_graph* graph, const Status& status) {
  graph->errors.push_back(status);
  return status;
}

Status check_building(const tenon_graph* graph, const std::string& function) {
  if (!graph) return invalid(function + ": graph is NULL");
  if (!graph->builder) return invalid(function + ": graph @" + graph->graph.name + " is finished");
  return {};
}

// One step of building: body returns the new value. `out` may point into the body's operands.
template <class Body>
tenon_status step(tenon_graph* graph, const char* function, tenon_value* out, Body&& body) {
  tenon_value value = TENON_NO_VALUE;
  const tenon_status status = guarded([&]() -> Status {
    TENON_TRY(check_building(graph, function));
    if (!out) return keep(graph, invalid(std::string(function) + ": out is NULL"));
    Result<ValueId> v = body();
    if (!v.ok()) return keep(graph, v.status());
    value = *v;
    return {};
  });
  if (out) *out = value;
  return status;
}

std::string text(const char* s) { return s ? s : ""; }
std::string shown(const char* name) {
  return name ? "%" + std::string(name).substr(0, 80) : "an unnamed value";
}

Result<Dims> read_strides(Graph& g, const char* strides) {
  auto dims = parse_sizes(*g.dims, strides);
  return dims.ok() ? dims : Result<Dims>(dims.status().at("strides \"" + text(strides) + "\""));
}

Result<ValueId> add_input(tenon_graph* graph, const char* name, tenon_dtype dtype, const char* dims,
                          const tenon_input_options* options) {
  Graph& g = graph->graph;
  const std::string who = "input " + shown(name);
  tenon_input_options given;
  TENON_TRY(api::read_struct(options, "tenon_input_options", &given).at(who));
  const auto type = dtype_from_dlpack(dtype.code, dtype.bits);
  if (!type || dtype.lanes != 1)
    return invalid(who + " has dtype code " + std::to_string(dtype.code) + ", " + std::to_string(dtype.bits) +
                   " bits, " + std::to_string(dtype.lanes) + " lanes");
  if (!dims) return invalid(who + ": dims is NULL");
  auto shape = parse_sizes(*g.dims, dims);
  if (!shape.ok()) return shape.status().at(who + ": dims \"" + text(dims) + "\"");
  InputBinding binding;
  binding.param = given.param != 0;
  binding.donated = given.donated != 0;
  if (given.strides) {
    auto strides = read_strides(g, given.strides);
    if (!strides.ok()) return strides.status().at(who);
    binding.strides = *strides;
  }
  if (given.symbol) {
    if (!is_name(given.symbol))
      return invalid(who + ": the symbol '" + text(given.symbol) + "' is not a name");
    binding.symbol = g.dims->symbol(given.symbol);
  }
  auto v = graph->builder->try_input(text(name), {*type, std::move(*shape)});
  if (!v.ok()) return v.status().at(who);
  binding.value = *v;
  g.inputs.back() = std::move(binding);
  return *v;
}

Result<ValueId> add_constant(tenon_graph* graph, const char* name, const tenon_tensor* data) {
  const std::string who = "constant " + shown(name);
  if (!data) return invalid(who + ": data is NULL");
  Tensor tensor;
  TENON_TRY(api::read_tensor(data, "constant", 0, &tensor));
  const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  for (int64_t n : shape)
    if (n < 0) return invalid(who + " has a negative size");
  const auto bytes = element_bytes(tensor.dtype, shape);
  if (!bytes) return invalid(who + ": its size overflows");
  if (*bytes > 0 && !tensor.data) return invalid(who + " has no data");
  auto owner = std::make_shared<std::string>(static_cast<size_t>(*bytes), '\0');
  const std::vector<int64_t> dense = dense_strides(shape);
  const std::vector<int64_t> strides =
      tensor.strides.empty() ? dense : std::vector<int64_t>(tensor.strides.begin(), tensor.strides.end());
  const int64_t size = size_of(tensor.dtype);
  walk(shape, {dense, strides}, [&](const std::vector<int64_t>& at) {
    std::memcpy(owner->data() + at[0] * size, static_cast<const char*>(tensor.data) + at[1] * size,
                static_cast<size_t>(size));
  });
  auto constant = std::make_shared<ConstantData>();
  constant->bytes = owner->data();
  constant->size = owner->size();
  constant->owner = owner;
  constant->id = next_constant_id();
  return graph->builder->try_add(
      ops::constant, {},
      {{"dtype", tensor.dtype}, {"shape", Dims(shape.begin(), shape.end())}, {"data", constant}}, text(name));
}

// The error of a node whose operand failed earlier: there is nothing new to report.
constexpr const char* kBroken = "an operand failed before";

Result<ValueId> add_node(tenon_graph* graph, const char* op_name, const tenon_value* inputs, size_t n_inputs,
                         const char* attrs, const char* name) {
  Graph& g = graph->graph;
  if (!op_name) return invalid(shown(name) + ": op is NULL");
  const std::string who = shown(name) + " = " + text(op_name).substr(0, 80);
  if (n_inputs > 0 && !inputs) return invalid(who + ": inputs is NULL");
  const auto id = find_op(op_name);
  if (!id) {
    Nearest nearest(op_name);
    for (int i = 0; i < op_count(); ++i) nearest.offer(op(static_cast<OpId>(i)).name);
    return invalid(who + ": unknown op" + nearest.hint());
  }
  if (n_inputs > g.nodes.size() * 64 + 64)
    return invalid(who + ": " + std::to_string(n_inputs) + " operands");
  std::vector<ValueId> operands;
  for (size_t i = 0; i < n_inputs; ++i) {
    if (inputs[i] == TENON_NO_VALUE && !graph->errors.empty()) return Status(Code::invalid, kBroken);
    if (inputs[i] >= g.nodes.size())
      return invalid(who + ": operand " + std::to_string(i) +
                     " is no value of the graph: " + std::to_string(inputs[i]));
    operands.push_back(inputs[i]);
  }
  auto given = parse_attrs(g.dims, op(*id), text(attrs));
  if (!given.ok()) return given.status().at(who + ": attrs \"" + text(attrs).substr(0, 80) + "\"");
  auto v = graph->builder->try_add(*id, std::move(operands), std::move(*given), text(name));
  return v.ok() ? v : Result<ValueId>(v.status().at(shown(name)));
}

Status differentiate(tenon_graph* graph, std::span<const tenon_value> targets, const tenon_value* heads,
                     std::span<const tenon_value> wrt, std::vector<ValueId>* out) {
  const char* function = "tenon_graph_add_gradients";
  std::vector<ValueId> given;
  if (heads) given.assign(heads, heads + targets.size());
  for (std::span<const tenon_value> values : {targets, wrt})
    for (tenon_value v : values)
      if (v == TENON_NO_VALUE && !graph->errors.empty()) return {Code::invalid, kBroken};
  auto gradients = add_gradients(*graph->builder, targets, given, wrt);
  if (!gradients.ok()) return gradients.status().at(function);
  *out = std::move(*gradients);
  return {};
}

}  // namespace
}  // namespace tenon

extern "C" {

tenon_status tenon_graph_create(const char* name, tenon_graph** out) {
  return guarded([&]() -> tenon::Status {
    if (!out) return tenon::invalid("tenon_graph_create: out is NULL");
    *out = nullptr;
    if (name && !tenon::is_name(name)) return tenon::invalid("the graph's name cannot be spelled in text");
    auto handle = std::make_unique<tenon_graph>();
    if (name) handle->graph.name = name;
    handle->finished = false;
    handle->builder = std::make_unique<tenon::Builder>(handle->graph);
    *out = handle.release();
    return {};
  });
}

tenon_status tenon_graph_add_input(tenon_graph* graph, const char* name, tenon_dtype dtype, const char* dims,
                                   const tenon_input_options* options, tenon_value* out) {
  return tenon::step(graph, "tenon_graph_add_input", out,
                     [&] { return tenon::add_input(graph, name, dtype, dims, options); });
}

tenon_status tenon_graph_add_constant(tenon_graph* graph, const char* name, const tenon_tensor* data,
                                      tenon_value* out) {
  return tenon::step(graph, "tenon_graph_add_constant", out,
                     [&] { return tenon::add_constant(graph, name, data); });
}

tenon_status tenon_graph_add_node(tenon_graph* graph, const char* op, const tenon_value* inputs,
                                  size_t n_inputs, const char* attrs, const char* name, tenon_value* out) {
  return tenon::step(graph, "tenon_graph_add_node", out,
                     [&] { return tenon::add_node(graph, op, inputs, n_inputs, attrs, name); });
}

tenon_status tenon_graph_add_gradients(tenon_graph* graph, const tenon_value* targets, size_t n_targets,
                                       const tenon_value* heads, const tenon_value* wrt, size_t n_wrt,
                                       tenon_value* out) {
  const char* function = "tenon_graph_add_gradients";
  std::vector<tenon::ValueId> gradients(n_wrt, TENON_NO_VALUE);
  const tenon_status status = guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_building(graph, function));
    if ((n_targets > 0 && !targets) || (n_wrt > 0 && (!wrt || !out)))
      return tenon::keep(graph, tenon::invalid(std::string(function) + ": targets, wrt or out is NULL"));
    const tenon::Status added =
        tenon::differentiate(graph, {targets, n_targets}, heads, {wrt, n_wrt}, &gradients);
    return added.ok() ? added : tenon::keep(graph, added);
  });
  if (out) std::copy(gradients.begin(), gradients.end(), out);
  return status;
}

tenon_status tenon_graph_set_outputs(tenon_graph* graph, const tenon_value* values, size_t n_values,
                                     const char* const* strides) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_building(graph, "tenon_graph_set_outputs"));
    tenon::Graph& g = graph->graph;
    if (n_values > 0 && !values)
      return tenon::keep(graph, tenon::invalid("tenon_graph_set_outputs: values is NULL"));
    std::vector<tenon::OutputBinding> outputs;
    for (size_t i = 0; i < n_values; ++i) {
      const std::string who = "output " + std::to_string(i);
      if (values[i] == TENON_NO_VALUE && !graph->errors.empty()) return tenon::invalid(tenon::kBroken);
      if (values[i] >= g.nodes.size())
        return tenon::keep(graph,
                           tenon::invalid(who + " is no value of the graph: " + std::to_string(values[i])));
      outputs.push_back({values[i], std::nullopt});
      if (!strides || !strides[i]) continue;
      auto dims = tenon::read_strides(g, strides[i]);
      if (!dims.ok()) return tenon::keep(graph, dims.status().at(who));
      outputs.back().strides = *dims;
    }
    g.outputs = std::move(outputs);
    return {};
  });
}

tenon_status tenon_graph_add_update(tenon_graph* graph, tenon_value input, tenon_value value) {
  return guarded([&]() -> tenon::Status {
    if (!graph) return tenon::invalid("tenon_graph_add_update: graph is NULL");
    if (!graph->builder)
      return tenon::invalid("tenon_graph_add_update: graph @" + graph->graph.name + " is finished");
    tenon::Graph& g = graph->graph;
    if ((input == TENON_NO_VALUE || value == TENON_NO_VALUE) && !graph->errors.empty())
      return tenon::invalid(tenon::kBroken);
    for (const tenon_value v : {input, value})
      if (v >= g.nodes.size())
        return tenon::keep(
            graph, tenon::invalid("tenon_graph_add_update: no value of the graph: " + std::to_string(v)));
    const auto found = std::ranges::find(g.inputs, input, &tenon::InputBinding::value);
    if (found == g.inputs.end())
      return tenon::keep(graph, tenon::invalid("tenon_graph_add_update: " + g.value_name(input) +
                                               " is no input of the graph"));
    g.outputs.push_back({value, found->strides, static_cast<int>(found - g.inputs.begin())});
    return {};
  });
}

tenon_status tenon_graph_finalize(tenon_graph* graph) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_building(graph, "tenon_graph_finalize"));
    tenon::Code code = tenon::Code::unsupported;  // only if all errors are unsupported
    std::string all;
    auto add = [&](const tenon::Status& error) {
      if (error.code() != tenon::Code::unsupported) code = error.code();
      all += (all.empty() ? "" : "\n") + error.message();
    };
    for (const tenon::Status& error : graph->errors)
      if (error.message() != tenon::kBroken) add(error);
    if (graph->errors.empty()) {
      const tenon::Status sound = tenon::verify(graph->graph);
      if (!sound.ok()) add(sound);
    }
    if (!all.empty()) return {code, all};
    graph->builder.reset();
    graph->finished = true;
    return {};
  });
}
}

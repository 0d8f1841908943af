// The functions of tenon.h for MXNet's symbols and params: check, translate, call. Tested by tests/abi/capi_symbol.c.
#include "src/api/guard.h"
#include "src/mxnet/params.h"
#include "src/mxnet/translate/partition.h"
#include "src/mxnet/translate/translate.h"

using tenon::api::guarded;

struct tenon_symbol : tenon::api::Counted {
  tenon::mxnet::Symbol symbol;
};

struct tenon_params : tenon::api::Counted {
  std::vector<tenon::mxnet::Param> list;
  std::vector<std::vector<std::max_align_t>> bytes;  // of each
};

namespace tenon {
namespace {

Status check_symbol(const tenon_symbol* symbol, const char* function) {
  return symbol ? Status() : invalid(std::string(function) + ": symbol is NULL");
}

Status check_node(const tenon_symbol* symbol, size_t node, const char* function) {
  TENON_TRY(check_symbol(symbol, function));
  const size_t count = symbol->symbol.nodes.size();
  if (node < count) return {};
  return invalid(std::string(function) + ": node " + std::to_string(node) + " of " + std::to_string(count));
}

Result<mxnet::Options> read_symbol_options(const tenon_symbol_options* options) {
  tenon_symbol_options given;
  TENON_TRY(api::read_struct(options, "tenon_symbol_options", &given));
  if (given.min_nodes < 0) return invalid("tenon_symbol_options: min_nodes is negative");
  mxnet::Options out;
  out.training = given.training != 0;
  out.min_nodes = std::max(given.min_nodes, 1);
  std::string_view names = given.op_names ? given.op_names : "";
  while (!names.empty()) {
    const size_t comma = names.find(',');
    if (comma != 0) out.op_names.emplace_back(names.substr(0, comma));
    names = comma == names.npos ? std::string_view() : names.substr(comma + 1);
  }
  return out;
}

Result<mxnet::Given> read_given(const tenon_symbol_input* input, size_t position) {
  const std::string who = "symbol input " + std::to_string(position);
  tenon_symbol_input given;
  TENON_TRY(api::read_struct(input, "tenon_symbol_input", &given).at(who));
  if (!given.name) return invalid(who + ": name is NULL");
  mxnet::Given out;
  out.name = given.name;
  out.param = given.param != 0;
  if (given.dims) out.dims = given.dims;
  if (given.dtype.bits == 0) return out;
  out.dtype = dtype_from_dlpack(given.dtype.code, given.dtype.bits);
  if (!out.dtype || given.dtype.lanes != 1)
    return invalid(who + " has dtype code " + std::to_string(given.dtype.code) + ", " +
                   std::to_string(given.dtype.bits) + " bits, " + std::to_string(given.dtype.lanes) +
                   " lanes");
  return out;
}

}  // namespace
}  // namespace tenon

extern "C" {

tenon_status tenon_symbol_parse(const char* json, size_t length, tenon_symbol** out) {
  return guarded([&]() -> tenon::Status {
    if (!json || !out) return tenon::invalid("tenon_symbol_parse: json and out must not be NULL");
    *out = nullptr;
    TENON_ASSIGN(auto symbol,
                 tenon::mxnet::parse_symbol({json, length == TENON_NTS ? std::strlen(json) : length}));
    auto* handle = new tenon_symbol;
    handle->symbol = std::move(symbol);
    *out = handle;
    return {};
  });
}

tenon_status tenon_symbol_print(const tenon_symbol* symbol, char* buffer, size_t capacity, size_t* length) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_symbol(symbol, "tenon_symbol_print"));
    return tenon::api::write_text(tenon::mxnet::print_symbol(symbol->symbol), "tenon_symbol_print", buffer,
                                  capacity, length);
  });
}

void tenon_symbol_retain(tenon_symbol* symbol) { tenon::api::retain(symbol); }
void tenon_symbol_release(tenon_symbol* symbol) { tenon::api::release(symbol); }

size_t tenon_symbol_node_count(const tenon_symbol* symbol) {
  return symbol ? symbol->symbol.nodes.size() : 0;
}

tenon_status tenon_symbol_node(const tenon_symbol* symbol, size_t node, const char** op, const char** name) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_symbol(symbol, "tenon_symbol_node"));
    const auto& nodes = symbol->symbol.nodes;
    if (node >= nodes.size())
      return tenon::invalid("tenon_symbol_node: node " + std::to_string(node) + " of " +
                            std::to_string(nodes.size()));
    if (op) *op = nodes[node].op.c_str();
    if (name) *name = nodes[node].name.c_str();
    return {};
  });
}

tenon_status tenon_symbol_attribute(const tenon_symbol* symbol, size_t node, const char* key,
                                    const char** value) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_node(symbol, node, "tenon_symbol_attribute"));
    if (!key || !value) return tenon::invalid("tenon_symbol_attribute: key and value must not be NULL");
    const std::string* found = symbol->symbol.nodes[node].attr(key);
    *value = found ? found->c_str() : nullptr;
    return {};
  });
}

tenon_status tenon_symbol_entries(const tenon_symbol* symbol, size_t node, tenon_symbol_entry* entries,
                                  size_t capacity, size_t* count) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_symbol(symbol, "tenon_symbol_entries"));
    if (node != TENON_SYMBOL_HEADS) TENON_TRY(tenon::check_node(symbol, node, "tenon_symbol_entries"));
    if (!count || (capacity > 0 && !entries))
      return tenon::invalid("tenon_symbol_entries: entries and count must not be NULL");
    const auto& from = node == TENON_SYMBOL_HEADS ? symbol->symbol.heads : symbol->symbol.nodes[node].inputs;
    *count = from.size();
    for (size_t i = 0; i < std::min(capacity, from.size()); ++i) entries[i] = {from[i].node, from[i].output};
    return {};
  });
}

tenon_status tenon_symbol_query(const tenon_symbol* symbol, const tenon_symbol_options* options,
                                tenon_symbol_query_fn fn, void* user) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_symbol(symbol, "tenon_symbol_query"));
    if (!fn) return tenon::invalid("tenon_symbol_query: fn is NULL");
    TENON_ASSIGN(const auto given, tenon::read_symbol_options(options));
    const auto answers = tenon::mxnet::check(symbol->symbol, given);
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto& node = symbol->symbol.nodes[i];
      if (node.is_variable()) continue;
      const tenon::Status& status = answers[i].status;
      fn(user, i, node.name.c_str(), node.op.c_str(), status.ok(), status.message().c_str());
    }
    return {};
  });
}

tenon_status tenon_symbol_partition(const tenon_symbol* symbol, const tenon_symbol_options* options,
                                    int32_t* parts, size_t n) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_symbol(symbol, "tenon_symbol_partition"));
    const size_t nodes = symbol->symbol.nodes.size();
    if (n != nodes || (n > 0 && !parts))
      return tenon::invalid("tenon_symbol_partition: needs " + std::to_string(nodes) + " parts, given " +
                            std::to_string(parts ? n : 0));
    TENON_ASSIGN(const auto given, tenon::read_symbol_options(options));
    const std::vector<int32_t> found = tenon::mxnet::partition(symbol->symbol, given);
    std::copy(found.begin(), found.end(), parts);
    return {};
  });
}

tenon_status tenon_symbol_graph(const tenon_symbol* symbol, const tenon_symbol_options* options,
                                const tenon_symbol_input* inputs, size_t n_inputs, tenon_graph** out) {
  return guarded([&]() -> tenon::Status {
    TENON_TRY(tenon::check_symbol(symbol, "tenon_symbol_graph"));
    if (!out) return tenon::invalid("tenon_symbol_graph: out is NULL");
    *out = nullptr;
    if (n_inputs > 0 && !inputs) return tenon::invalid("tenon_symbol_graph: inputs is NULL");
    TENON_ASSIGN(const auto chosen, tenon::read_symbol_options(options));
    std::vector<tenon::mxnet::Given> given;
    for (size_t i = 0; i < n_inputs; ++i) {
      // A caller of another version has entries of another size.
      const auto* entry = reinterpret_cast<const tenon_symbol_input*>(reinterpret_cast<const char*>(inputs) +
                                                                      i * inputs->struct_size);
      if (entry->struct_size != inputs->struct_size)
        return tenon::invalid("symbol input " + std::to_string(i) +
                              " has another struct_size than the first");
      TENON_ASSIGN(auto one, tenon::read_given(entry, i));
      given.push_back(std::move(one));
    }
    TENON_ASSIGN(tenon::Graph graph, tenon::mxnet::translate(symbol->symbol, chosen, given));
    auto* handle = new tenon_graph;
    handle->graph = std::move(graph);
    *out = handle;
    return {};
  });
}

tenon_status tenon_params_parse(const void* bytes, size_t length, tenon_params** out) {
  return guarded([&]() -> tenon::Status {
    if (!bytes || !out) return tenon::invalid("tenon_params_parse: bytes and out must not be NULL");
    *out = nullptr;
    const auto* begin = static_cast<const unsigned char*>(bytes);
    TENON_ASSIGN(auto list, tenon::mxnet::parse_params({begin, length}));
    auto handle = std::make_unique<tenon_params>();
    handle->list = std::move(list);
    for (const tenon::mxnet::Param& param : handle->list) {
      constexpr size_t kUnit = sizeof(std::max_align_t);
      auto& copy = handle->bytes.emplace_back(param.size / kUnit + 1);
      std::memcpy(copy.data(), begin + param.offset, param.size);
    }
    *out = handle.release();
    return {};
  });
}

void tenon_params_retain(tenon_params* params) { tenon::api::retain(params); }
void tenon_params_release(tenon_params* params) { tenon::api::release(params); }

size_t tenon_params_count(const tenon_params* params) { return params ? params->list.size() : 0; }

tenon_status tenon_params_get(const tenon_params* params, size_t index, const char** name,
                              tenon_tensor* out) {
  return guarded([&]() -> tenon::Status {
    if (!params) return tenon::invalid("tenon_params_get: params is NULL");
    if (index >= params->list.size())
      return tenon::invalid("tenon_params_get: tensor " + std::to_string(index) + " of " +
                            std::to_string(params->list.size()));
    const tenon::mxnet::Param& param = params->list[index];
    if (name) *name = param.name.c_str();
    if (!out) return {};
    *out = {};
    out->data = const_cast<std::max_align_t*>(params->bytes[index].data());
    out->device.type = 1;
    out->ndim = static_cast<int32_t>(param.shape.size());
    out->dtype = {tenon::info(param.dtype).dlpack_code, tenon::info(param.dtype).dlpack_bits, 1};
    out->shape = const_cast<int64_t*>(param.shape.data());
    return {};
  });
}
}

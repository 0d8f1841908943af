// A C++11 wrapper of tenon.h: handles release themselves, and failures are exceptions. It offers nothing that
// tenon.h does not. A failure throws tenon::Error; its what() is tenon_last_error(). The conventions of
// tenon.h on threads and lifetimes hold.
#ifndef TENON_TENON_HPP_
#define TENON_TENON_HPP_

#include <tenon/tenon.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class Error : public std::runtime_error {
 public:
  explicit Error(tenon_status status) : std::runtime_error(tenon_last_error()), status_(status) {}
  tenon_status status() const noexcept { return status_; }

 private:
  tenon_status status_;
};

inline void check(tenon_status status) {
  if (status != TENON_OK) throw Error(status);
}

// One reference to a handle. Copying adds a reference.
template <class T, void (*Retain)(T*), void (*Release)(T*)>
class Handle {
 public:
  Handle() noexcept : handle_(nullptr) {}
  explicit Handle(T* owned) noexcept : handle_(owned) {}
  Handle(const Handle& other) noexcept : handle_(other.handle_) { Retain(handle_); }
  Handle(Handle&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Handle& operator=(Handle other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { Release(handle_); }
  T* get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  T* handle_;
};

// A structure with struct_size set and all other fields zero.
template <class T>
T init() {
  T value = T();
  value.struct_size = sizeof(T);
  return value;
}

template <class T>
tenon_dtype dtype_of();
template <>
inline tenon_dtype dtype_of<float>() {
  return {2, 32, 1};
}
template <>
inline tenon_dtype dtype_of<double>() {
  return {2, 64, 1};
}
template <>
inline tenon_dtype dtype_of<int64_t>() {
  return {0, 64, 1};
}
template <>
inline tenon_dtype dtype_of<int32_t>() {
  return {0, 32, 1};
}
template <>
inline tenon_dtype dtype_of<int16_t>() {
  return {0, 16, 1};
}
template <>
inline tenon_dtype dtype_of<int8_t>() {
  return {0, 8, 1};
}
template <>
inline tenon_dtype dtype_of<uint8_t>() {
  return {1, 8, 1};
}
template <>
inline tenon_dtype dtype_of<bool>() {
  return {6, 8, 1};
}

// The caller's memory with its shape. Strides are in elements; no strides mean dense row-major.
class Tensor {
 public:
  template <class T>
  Tensor(T* data, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
      : Tensor(data, dtype_of<T>(), std::move(shape), std::move(strides)) {}
  Tensor(void* data, tenon_dtype dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
      : shape_(std::move(shape)), strides_(std::move(strides)), data_(data), dtype_(dtype) {}

  // Valid until this Tensor changes or is destroyed.
  tenon_tensor view() const {
    tenon_tensor t = tenon_tensor();
    t.data = data_;
    t.device.type = 1;
    t.ndim = static_cast<int32_t>(shape_.size());
    t.dtype = dtype_;
    t.shape = const_cast<int64_t*>(shape_.data());
    t.strides = strides_.empty() ? nullptr : const_cast<int64_t*>(strides_.data());
    return t;
  }
  const std::vector<int64_t>& shape() const noexcept { return shape_; }

 private:
  std::vector<int64_t> shape_, strides_;
  void* data_;
  tenon_dtype dtype_;
};

// Pointers to the views of tensors, in the form that the C functions take.
class TensorList {
 public:
  explicit TensorList(const std::vector<const Tensor*>& tensors) : views_(tensors.size()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i]) views_[i] = tensors[i]->view();
      pointers_.push_back(tensors[i] ? &views_[i] : nullptr);
    }
  }
  explicit TensorList(const std::vector<Tensor>& tensors) : views_(tensors.size()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      views_[i] = tensors[i].view();
      pointers_.push_back(&views_[i]);
    }
  }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;
  const tenon_tensor* const* data() const { return pointers_.data(); }
  size_t size() const { return pointers_.size(); }

 private:
  std::vector<tenon_tensor> views_;
  std::vector<const tenon_tensor*> pointers_;
};

class Context : public Handle<tenon_context, tenon_context_retain, tenon_context_release> {
 public:
  using Handle::Handle;
  static Context create(const tenon_context_options& options) {
    tenon_context* out = nullptr;
    check(tenon_context_create(&options, &out));
    return Context(out);
  }
};

struct Answer {
  tenon_value node;
  std::string name, op, backend, why;
};

// A finished graph.
class Graph : public Handle<tenon_graph, tenon_graph_retain, tenon_graph_release> {
 public:
  using Handle::Handle;
  static Graph parse(const std::string& text) {
    tenon_graph* out = nullptr;
    check(tenon_graph_parse(text.data(), text.size(), &out));
    return Graph(out);
  }
  std::string print() const {
    size_t length = 0;
    check(tenon_graph_print(get(), nullptr, 0, &length));
    std::vector<char> text(length + 1);
    check(tenon_graph_print(get(), text.data(), text.size(), &length));
    return std::string(text.data(), length);
  }
  // The graph of the gradients.
  Graph gradient(const tenon_gradient_options& options = init<tenon_gradient_options>()) const {
    tenon_graph* out = nullptr;
    check(tenon_graph_gradient(get(), &options, &out));
    return Graph(out);
  }
  std::vector<Answer> query(int32_t device_type = 1) const {
    std::vector<Answer> answers;
    tenon_device device = tenon_device();
    device.type = device_type;
    check(tenon_graph_query(get(), device, &Graph::collect, &answers));
    return answers;
  }

 private:
  static void collect(void* user, tenon_value node, const char* name, const char* op, const char* backend,
                      const char* why) {
    static_cast<std::vector<Answer>*>(user)->push_back(Answer{node, name, op, backend, why});
  }
};

struct SymbolAnswer {
  size_t node;
  std::string name, op;
  bool translated;
  std::string why;
};

// What is known of a variable of a symbol: its dims, "N,3,224,224", and its dtype.
struct SymbolInput {
  explicit SymbolInput(std::string variable) : name(std::move(variable)) {}
  SymbolInput(std::string variable, tenon_dtype type, std::string sizes, bool is_param = false)
      : name(std::move(variable)), dims(std::move(sizes)), dtype(type), shaped(true), param(is_param) {}

  std::string name, dims;
  tenon_dtype dtype = tenon_dtype();  // bits 0: unknown
  bool shaped = false;                // whether dims is known
  bool param = false;
};

// A symbol of MXNet.
class Symbol : public Handle<tenon_symbol, tenon_symbol_retain, tenon_symbol_release> {
 public:
  using Handle::Handle;
  static Symbol parse(const std::string& json) {
    tenon_symbol* out = nullptr;
    check(tenon_symbol_parse(json.data(), json.size(), &out));
    return Symbol(out);
  }
  std::string print() const {
    size_t length = 0;
    check(tenon_symbol_print(get(), nullptr, 0, &length));
    std::vector<char> text(length + 1);
    check(tenon_symbol_print(get(), text.data(), text.size(), &length));
    return std::string(text.data(), length);
  }
  size_t node_count() const { return tenon_symbol_node_count(get()); }
  // The names of the variables, which are the inputs of graph(), in order.
  std::vector<std::string> variables() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < node_count(); ++i) {
      const char *op = nullptr, *name = nullptr;
      check(tenon_symbol_node(get(), i, &op, &name));
      if (std::string(op) == "null") names.push_back(name);
    }
    return names;
  }
  std::vector<SymbolAnswer> query(const tenon_symbol_options& options = init<tenon_symbol_options>()) const {
    std::vector<SymbolAnswer> answers;
    check(tenon_symbol_query(get(), &options, &Symbol::collect, &answers));
    return answers;
  }
  std::vector<int32_t> partition(const tenon_symbol_options& options = init<tenon_symbol_options>()) const {
    std::vector<int32_t> parts(node_count());
    check(tenon_symbol_partition(get(), &options, parts.data(), parts.size()));
    return parts;
  }
  Graph graph(const std::vector<SymbolInput>& inputs,
              const tenon_symbol_options& options = init<tenon_symbol_options>()) const {
    std::vector<tenon_symbol_input> known(inputs.size(), init<tenon_symbol_input>());
    for (size_t i = 0; i < inputs.size(); ++i) {
      known[i].name = inputs[i].name.c_str();
      known[i].dtype = inputs[i].dtype;
      known[i].dims = inputs[i].shaped ? inputs[i].dims.c_str() : nullptr;
      known[i].param = inputs[i].param;
    }
    tenon_graph* out = nullptr;
    check(tenon_symbol_graph(get(), &options, known.data(), known.size(), &out));
    return Graph(out);
  }

 private:
  static void collect(void* user, size_t node, const char* name, const char* op, int32_t translated,
                      const char* why) {
    static_cast<std::vector<SymbolAnswer>*>(user)->push_back(
        SymbolAnswer{node, name, op, translated != 0, why});
  }
};

// The tensors of a .params file.
class Params : public Handle<tenon_params, tenon_params_retain, tenon_params_release> {
 public:
  using Handle::Handle;
  static Params parse(const std::string& bytes) {
    tenon_params* out = nullptr;
    check(tenon_params_parse(bytes.data(), bytes.size(), &out));
    return Params(out);
  }
  size_t size() const { return tenon_params_count(get()); }
  std::string name(size_t index) const {
    const char* text = nullptr;
    check(tenon_params_get(get(), index, &text, nullptr));
    return text;
  }
  // Valid as long as some Params holds the file.
  Tensor tensor(size_t index) const {
    tenon_tensor t = tenon_tensor();
    check(tenon_params_get(get(), index, nullptr, &t));
    return Tensor(t.data, t.dtype, std::vector<int64_t>(t.shape, t.shape + t.ndim));
  }
};

// A graph under construction. Each step throws when it fails. Do not use a builder that has thrown.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& name = "main") {
    tenon_graph* out = nullptr;
    check(tenon_graph_create(name.c_str(), &out));
    graph_ = Graph(out);
  }
  tenon_value input(const std::string& name, tenon_dtype dtype, const std::string& dims,
                    const tenon_input_options* options = nullptr) {
    tenon_value v = TENON_NO_VALUE;
    check(tenon_graph_add_input(graph_.get(), name.c_str(), dtype, dims.c_str(), options, &v));
    return v;
  }
  tenon_value constant(const Tensor& data) {
    tenon_value v = TENON_NO_VALUE;
    tenon_tensor view = data.view();
    check(tenon_graph_add_constant(graph_.get(), nullptr, &view, &v));
    return v;
  }
  tenon_value node(const std::string& op, std::initializer_list<tenon_value> inputs,
                   const std::string& attrs = "", const std::string& name = "") {
    tenon_value v = TENON_NO_VALUE;
    check(tenon_graph_add_node(graph_.get(), op.c_str(), inputs.begin(), inputs.size(), attrs.c_str(),
                               name.empty() ? nullptr : name.c_str(), &v));
    return v;
  }
  // heads: empty for ones, or one value per target.
  std::vector<tenon_value> gradients(const std::vector<tenon_value>& targets,
                                     const std::vector<tenon_value>& wrt,
                                     const std::vector<tenon_value>& heads = {}) {
    if (!heads.empty() && heads.size() != targets.size())
      throw std::invalid_argument("gradients: one head per target");
    std::vector<tenon_value> out(wrt.size(), TENON_NO_VALUE);
    check(tenon_graph_add_gradients(graph_.get(), targets.data(), targets.size(),
                                    heads.empty() ? nullptr : heads.data(), wrt.data(), wrt.size(),
                                    out.data()));
    return out;
  }
  // updates: (input, new value) pairs, see tenon_graph_add_update().
  Graph finish(std::initializer_list<tenon_value> outputs,
               std::initializer_list<std::pair<tenon_value, tenon_value>> updates = {}) {
    check(tenon_graph_set_outputs(graph_.get(), outputs.begin(), outputs.size(), nullptr));
    for (const auto& update : updates)
      check(tenon_graph_add_update(graph_.get(), update.first, update.second));
    check(tenon_graph_finalize(graph_.get()));
    return std::move(graph_);
  }

 private:
  Graph graph_;
};

class Program : public Handle<tenon_program, tenon_program_retain, tenon_program_release> {
 public:
  using Handle::Handle;
  explicit Program(const Graph& graph, const tenon_program_options& options = init<tenon_program_options>(),
                   const std::vector<const Tensor*>& params = {})
      : Program(create(graph, options, params)) {}

  void update_params(const std::vector<const Tensor*>& params) {
    TensorList list(params);
    check(tenon_program_update_params(get(), list.data(), list.size()));
  }
  // stream: for a program on a GPU, which queues its work on this stream.
  void run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
           void* stream = nullptr) const {
    TensorList in(inputs), out(outputs);
    check(tenon_program_run_on(get(), in.data(), in.size(), out.data(), out.size(), stream));
  }
  // For programs with frozen inputs, whose entries may be nullptr.
  void run(const std::vector<const Tensor*>& inputs, const std::vector<const Tensor*>& outputs,
           void* stream = nullptr) const {
    TensorList in(inputs), out(outputs);
    check(tenon_program_run_on(get(), in.data(), in.size(), out.data(), out.size(), stream));
  }
  // 0 means the default.
  void set_limits(int64_t max_plans, int64_t max_plan_bytes) {
    check(tenon_program_set_limits(get(), max_plans, max_plan_bytes));
  }
  tenon_program_stats stats() const {
    tenon_program_stats s = init<tenon_program_stats>();
    check(tenon_program_get_stats(get(), &s));
    return s;
  }
  std::string explain(bool json = false) const {
    const char* text = nullptr;
    size_t length = 0;
    check(tenon_program_explain(get(), json ? 1 : 0, &text, &length));
    return std::string(text, length);
  }

 private:
  static Program create(const Graph& graph, const tenon_program_options& options,
                        const std::vector<const Tensor*>& params) {
    TensorList list(params);
    tenon_program* out = nullptr;
    check(tenon_program_create(graph.get(), &options, list.data(), list.size(), &out));
    return Program(out);
  }
};

// The counters of the cache on disk, for this process.
inline tenon_cache_stats cache_stats() {
  tenon_cache_stats s = init<tenon_cache_stats>();
  check(tenon_cache_get_stats(&s));
  return s;
}

}  // namespace tenon

#endif  // TENON_TENON_HPP_

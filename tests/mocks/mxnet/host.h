// A host that does with the plugin what MXNet does: opens the library, reads what it registers, partitions symbols, creates states,
// runs and destroys them. For tests without MXNet.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/mxnet/abi.h"
#include "tests/support/paths.h"

namespace tenon::plugin {

// The functions of the library at `path`, as members.
struct Functions {
#define X(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
  TENON_MXNET_ABI(X)
#undef X

  explicit Functions(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
#define X(result, name, ...)                                               \
  name = reinterpret_cast<result (*)(__VA_ARGS__)>(dlsym(library, #name)); \
  if (!name) throw std::runtime_error(#name);
    TENON_MXNET_ABI(X)
#undef X
  }
};

struct Array {
  int dtype = kFloat32;
  std::vector<int64_t> shape;
  std::vector<float> data;  // of any dtype, as bytes

  explicit Array(std::vector<int64_t> sizes) : shape(std::move(sizes)) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    data.resize(static_cast<size_t>(count));
  }
};

// A symbol that MXNet wrote, with the shapes of its variables and outputs (tests/mxnet/record.py).
struct Recorded {
  std::string json;
  std::vector<Array> inputs, outputs;

  explicit Recorded(const std::string& name,
                    const std::string& folder = std::string(kSourceDirectory) + "/tests/mxnet/recorded/") {
    std::ifstream text(folder + name + ".json"), shapes(folder + name + ".txt");
    std::stringstream all;
    all << text.rdbuf();
    json = all.str();
    uint32_t seed = 1;
    for (std::string line, side; std::getline(shapes, line);) {
      std::istringstream words(line);
      words >> side;
      std::vector<int64_t> sizes;
      for (int64_t size; words >> size;) sizes.push_back(size);
      (side == "in" ? inputs : outputs).emplace_back(sizes);
      if (side != "in") continue;
      for (float& each : inputs.back().data) {
        seed = seed * 1664525u + 1013904223u;
        each = static_cast<float>(seed >> 8) / (1 << 24);
        if (sizes.size() > 1) each = (each - 0.5f) / 8;  // vectors stay positive: some are variances
      }
    }
    if (json.empty() || inputs.empty() || outputs.empty())
      throw std::runtime_error("no recorded symbol " + name);
  }
};

// One side of a call in MXNet's form.
struct Side {
  std::vector<const int64_t*> shapes;
  std::vector<int> ranks, dtypes, device_ids, storage;
  std::vector<void*> data;
  std::vector<size_t> versions;
  std::vector<const char*> devices;

  explicit Side(std::vector<Array>& arrays) {
    for (Array& each : arrays) {
      shapes.push_back(each.shape.data());
      ranks.push_back(static_cast<int>(each.shape.size()));
      dtypes.push_back(each.dtype);
      data.push_back(each.data.data());
      versions.push_back(1);
      devices.push_back("cpu");
      device_ids.push_back(0);
      storage.push_back(0);
    }
  }
  int count() const { return static_cast<int>(data.size()); }
};

class Host {
 public:
  using Strings = std::map<std::string, std::string>;

  // Loads as MXLoadLib does, and throws what MXNet would log as fatal.
  explicit Host(const std::string& path) : f(path) {
    if (f._opVersion() != kLibraryVersion) throw std::runtime_error("version");
    if (!f.initialize(10901)) throw std::runtime_error("initialize" + messages());
    if (f._opRegSize() != 1 || f._partRegSize() != 1 || f._passRegSize() != 0)
      throw std::runtime_error("counts");
    const char *name = nullptr, **forward_devices, **backward_devices, **create_devices;
    Token *forward, *backward, *create, parse, type, storage_type, shape, mutate;
    int forward_count = 0, backward_count = 0, create_count = 0;
    f._opRegGet(0, &name, &is_subgraph, &forward_devices, &forward, &forward_count, &backward_devices,
                &backward, &backward_count, &create_devices, &create, &create_count, &parse, &type,
                &storage_type, &shape, &mutate);
    op = name;
    if (create_count != 1 || forward_count != 0 || backward_count != 0) throw std::runtime_error("functions");
    create_ = create[0];
    if (f._partRegGetCount(0, &name) != 1) throw std::runtime_error("strategies");
    backend = name;
    const char *strategy = nullptr, *subgraph_op = nullptr;
    f._partRegGet(0, 0, &strategy, &supported_, &selector_, &review_, &subgraph_op);
    if (op != subgraph_op || selector_) throw std::runtime_error("the operator of the strategy");
  }

  // What MXNet adds to the message of a failed call.
  std::string messages() const {
    std::string all;
    for (int i = 0; i < f._msgSize(); ++i) {
      const char* text = nullptr;
      f._msgGet(i, &text);
      all += std::string("\n\t[") + std::to_string(i) + "] " + text;
    }
    return all;
  }
  void expect(int result) const {
    const std::string text = messages();
    if (!result) throw std::runtime_error(text);
  }

  std::vector<int> supported(const std::string& json, int nodes, const Strings& options = {}) const {
    std::vector<int> ids(static_cast<size_t>(nodes), -2);
    const Lists lists(options);
    expect(f._partCallSupportedOps(supported_, json.c_str(), nodes, ids.data(), lists.keys.data(),
                                   lists.values.data(), lists.count()));
    return ids;
  }

  // The attributes of the node, or throws if the subgraph is rejected.
  Strings review(const std::string& json, const Strings& options = {}) const {
    int accept = 0, count = 0;
    char **keys = nullptr, **values = nullptr;
    const Lists lists(options);
    expect(f._partCallReviewSubgraph(review_, json.c_str(), 0, &accept, lists.keys.data(),
                                     lists.values.data(), lists.count(), &keys, &values, &count, nullptr, 0,
                                     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                     0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    if (!accept) throw std::runtime_error("rejected" + messages());
    Strings attributes;
    for (int i = 0; i < count; ++i) {
      attributes[keys[i]] = values[i];
      f._opCallFree(keys[i]);
      f._opCallFree(values[i]);
    }
    f._opCallFree(keys);
    f._opCallFree(values);
    return attributes;
  }

  void* create(const std::string& json, Strings attributes, const std::vector<Array>& inputs,
               const char* device = "cpu") const {
    attributes["subgraph_sym_json"] = json;
    const Lists lists(attributes);
    std::vector<std::vector<unsigned>> sizes;
    std::vector<int> ranks, dtypes;
    for (const Array& each : inputs) {
      sizes.emplace_back(each.shape.begin(), each.shape.end());
      ranks.push_back(static_cast<int>(each.shape.size()));
      dtypes.push_back(each.dtype);
    }
    std::vector<unsigned*> shapes;
    for (auto& each : sizes) shapes.push_back(each.data());
    void* state = nullptr;
    expect(f._opCallCreateOpState(create_, lists.keys.data(), lists.values.data(), lists.count(), device, 0,
                                  shapes.data(), ranks.data(), static_cast<int>(shapes.size()), dtypes.data(),
                                  &state));
    if (!static_cast<StateHead*>(state)->created) throw std::runtime_error("MXNet would warn");
    return state;
  }

  void run(void* state, std::vector<Array>& inputs, std::vector<Array>& outputs, bool forward = true) const {
    Side in(inputs), out(outputs);
    expect(f._opCallFStatefulCompute(
        forward, state, in.shapes.data(), in.ranks.data(), in.data.data(), in.dtypes.data(),
        in.versions.data(), in.devices.data(), in.device_ids.data(), in.count(), out.shapes.data(),
        out.ranks.data(), out.data.data(), out.dtypes.data(), out.versions.data(), out.devices.data(),
        out.device_ids.data(), out.count(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        in.storage.data(), out.storage.data(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        nullptr, nullptr, nullptr));
  }

  const Functions f;
  std::string op, backend;
  int is_subgraph = 0;

 private:
  struct Lists {
    std::vector<const char*> keys, values;
    explicit Lists(const Strings& strings) {
      for (const auto& [key, value] : strings) {
        keys.push_back(key.c_str());
        values.push_back(value.c_str());
      }
    }
    int count() const { return static_cast<int>(keys.size()); }
  };

  Token create_ = nullptr, supported_ = nullptr, review_ = nullptr, selector_ = nullptr;
};

}  // namespace tenon::plugin

// The mock driver's libraries, kernels and launches; see cuda_mock.cc.
#include <elf.h>

#include "tests/mocks/cuda/cuda_host_gpu.h"
#include "tests/mocks/cuda/cuda_mock_state.h"

namespace tenon::cuda::mock {

bool make_launch(Launch& l, KernelOf* kernel, const CuKernelNode& n) {
  l = {kernel,     {n.grid_x, n.grid_y, n.grid_z}, {n.block_x, n.block_y, n.block_z}, n.shared_bytes, {},
       n.arguments};
  const uint64_t threads = uint64_t{n.block_x} * n.block_y * n.block_z;
  if (!n.grid_x || !n.grid_y || !n.grid_z || n.grid_x > 2147483647u || n.grid_y > 65535 || n.grid_z > 65535)
    return false;
  if (threads == 0 || threads > 1024 || kernel->own_shared + n.shared_bytes > kernel->most_shared || n.extra)
    return false;
  for (size_t i = 0; i < kernel->kinds.size(); ++i) {
    if (!n.arguments || !n.arguments[i]) return false;
    uint64_t value = 0;
    std::memcpy(&value, n.arguments[i], kernel->kinds[i] == '4' ? 4 : 8);
    l.values.push_back(value);
  }
  if (!kernel->kinds.empty()) l.given = nullptr;
  return true;
}

std::string describe(const Launch& l) {
  std::string text = cat(l.kernel->name, " grid ", l.grid[0], " ", l.grid[1], " ", l.grid[2], " block ",
                         l.block[0], " ", l.block[1], " ", l.block[2], " shared ", l.shared);
  std::string values;
  for (size_t i = 0; i < l.values.size(); ++i) {
    values += i ? ", " : "";
    if (l.kernel->kinds[i] == 'p')
      values += place(l.values[i]);
    else
      values += l.kernel->kinds[i] == '4' ? cat(static_cast<int32_t>(l.values[i]))
                                          : cat(static_cast<int64_t>(l.values[i]));
  }
  return l.values.empty() ? text : text + " (" + values + ")";
}

int execute(const Launch& l) {
  State& s = state();
  if (!l.kernel->entry) return 0;
  std::vector<uint64_t> values = l.values;
  std::vector<void*> pointers;
  for (uint64_t& v : values) pointers.push_back(&v);
  void** arguments = l.kernel->kinds.empty() ? l.given : pointers.data();
  const std::string before = s.faults;
  const char* wrong = l.kernel->entry(arguments, int64_t{l.grid[0]} * l.grid[1] * l.grid[2],
                                      l.block[0] * l.block[1] * l.block[2], l.shared, s.order);
  if (wrong && *wrong) {
    fault(l.kernel->name + ": " + wrong);
    return kLaunchFailed;
  }
  for (const auto& m : s.memory) check_canaries(*m, "after " + l.kernel->name);
  return s.faults == before ? 0 : kIllegalAddress;
}

std::string describe(const Item& item) {
  std::string text = item.launch.kernel ? describe(item.launch) : item.text;
  for (const Item& child : item.child) text += (text.empty() ? "" : "; ") + describe(child);
  return text;
}

int execute(const Item& item) {
  if (item.launch.kernel) return execute(item.launch);
  if (item.work) item.work();
  for (const Item& child : item.child)
    if (const int code = execute(child)) return code;
  return 0;
}

void finish_copies(CuStream stream) {
  for (const auto& copy : std::exchange(state().copies[stream], {})) copy();
}

int queue(CuStream stream, const Item& item) {
  if (!captures(stream)) return finish_copies(stream), execute(item);
  const auto graph = state().captured.find(stream);
  if (graph == state().captured.end()) return 0;
  auto node = std::make_unique<Node>();
  node->name = state().number("N");
  node->item = item;
  if (!item.launch.values.empty()) node->item.launch.given = nullptr;
  graph->second->nodes.push_back(std::move(node));
  return 0;
}

}  // namespace tenon::cuda::mock

namespace {

KernelOf* add_kernel(LibraryOfKernels& library, const std::string& name, const std::string& kinds,
                     Entry entry) {
  auto kernel = std::make_unique<KernelOf>();
  kernel->name = name;
  kernel->kinds = kinds;
  kernel->entry = entry;
  KernelOf* at = kernel.get();
  state().kernels.insert(at);
  library.kernels[name] = std::move(kernel);
  return at;
}

// Reads the sections .text.NAME of an ELF file in memory. The file must be complete.
bool read_cubin(LibraryOfKernels& library, const char* code) {
  Elf64_Ehdr head;
  std::memcpy(&head, code, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
  auto section = [&](size_t i) {
    Elf64_Shdr s;
    std::memcpy(&s, code + head.e_shoff + i * sizeof s, sizeof s);
    return s;
  };
  const Elf64_Shdr names = section(head.e_shstrndx);
  for (size_t i = 0; i < head.e_shnum; ++i) {
    const std::string name = code + names.sh_offset + section(i).sh_name;
    if (name.rfind(".text.", 0) == 0) add_kernel(library, name.substr(6), "", nullptr);
  }
  return true;
}

bool read_list(LibraryOfKernels& library, const std::string& list) {
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t equals = item.find('=');
    add_kernel(library, item.substr(0, equals), equals == item.npos ? "" : item.substr(equals + 1), nullptr);
  }
  return true;
}

// Finds a kernel. A kernel of a shared object is made by the first request.
KernelOf* kernel_named(LibraryOfKernels& library, const std::string& name) {
  const auto found = library.kernels.find(name);
  if (found != library.kernels.end()) return found->second.get();
  if (!library.object) return nullptr;
  const auto entry = reinterpret_cast<Entry>(dlsym(library.object, ("mock_" + name).c_str()));
  const auto* kinds = static_cast<const char*>(dlsym(library.object, ("mock_signature_" + name).c_str()));
  const auto shared = reinterpret_cast<int64_t (*)()>(dlsym(library.object, ("mock_shared_" + name).c_str()));
  KernelOf* k = add_kernel(library, name, kinds ? kinds : "", entry);
  if (shared) k->own_shared = static_cast<unsigned>(shared());
  return k;
}

void unload(LibraryOfKernels& library) {
  for (const auto& [name, kernel] : library.kernels) state().kernels.erase(kernel.get());
}

}  // namespace

TN_DRIVER cuLibraryLoadData(CuLibrary* library, const void* code, int*, void**, unsigned, int*, void**,
                            unsigned) {
  return call("cuLibraryLoadData", Needs::init, [&](std::string& text) {
    if (unsafe()) return kCaptureForbids;
    auto made = std::make_unique<LibraryOfKernels>();
    const char* bytes = static_cast<const char*>(code);
    if (std::strncmp(bytes, "TENONSO:", 8) == 0) made->object = dlopen(bytes + 8, RTLD_NOW | RTLD_LOCAL);
    if (made->object) tn_host::runs_here(made->object);
    const bool good =
        made->object || (std::strncmp(bytes, "TENONLIST:", 10) == 0
                             ? read_list(*made, bytes + 10)
                             : std::strncmp(bytes, ELFMAG, SELFMAG) == 0 && read_cubin(*made, bytes));
    if (!good) return kInvalidImage;
    made->name = text = state().number("L");
    *library = keep<CuLibrary>(state().libraries, std::move(made));
    return 0;
  });
}

TN_DRIVER cuLibraryUnload(CuLibrary library) {
  return call("cuLibraryUnload", Needs::init, [&](std::string& text) {
    LibraryOfKernels* l = find(state().libraries, library);
    if (!l) return kInvalidHandle;
    text = l->name;
    if (unsafe()) return kCaptureForbids;
    unload(*l);
    state().libraries.erase(library);
    return 0;
  });
}

TN_DRIVER cuLibraryGetKernel(CuKernel* kernel, CuLibrary library, const char* name) {
  return call("cuLibraryGetKernel", Needs::init, [&](std::string& text) {
    LibraryOfKernels* l = find(state().libraries, library);
    if (!l) return kInvalidHandle;
    text = cat(name, " of ", l->name);
    KernelOf* k = kernel_named(*l, name);
    if (!k) return kCuNotFound;
    return *kernel = reinterpret_cast<CuKernel>(k), 0;
  });
}

TN_DRIVER cuKernelSetAttribute(int attribute, int value, CuKernel kernel, CuDevice device) {
  return call("cuKernelSetAttribute", Needs::init, [&](std::string& text) {
    KernelOf* k = kernel_of(kernel);
    if (!k) return kInvalidHandle;
    text = cat(k->name, " ", attribute, " = ", value, " on ", device);
    const auto all = static_cast<int64_t>(k->own_shared) + value;
    if (attribute != kCuMaxDynamicSharedBytes || value < 0 || all > state().settings["shared"])
      return kInvalidValue;
    return k->most_shared = static_cast<unsigned>(all), 0;
  });
}

TN_DRIVER cuKernelGetFunction(CuFunction* function, CuKernel kernel) {
  return call("cuKernelGetFunction", Needs::context, [&](std::string& text) {
    KernelOf* k = kernel_of(kernel);
    if (!k) return kInvalidHandle;
    text = k->name + " in " + stack.back()->name;
    if (unsafe()) return kCaptureForbids;
    return *function = reinterpret_cast<CuFunction>(k), 0;
  });
}

TN_DRIVER cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                         CuStream stream, void** arguments, void** extra) {
  return call("cuLaunchKernel", Needs::context, [&](std::string& text) {
    KernelOf* k = kernel_of(function);
    if (!k) return kInvalidHandle;
    Launch l;
    const bool good = make_launch(l, k,
                                  {function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                                   arguments, extra, nullptr, nullptr});
    text = describe(l) + of(stream) + (captures(stream) ? " captured" : "");
    if (!good) return kInvalidValue;
    return queue(stream, {l, {}});
  });
}

// Two kernels for tests of the mock itself: "TENONSO:" and its own path.
extern "C" {
extern const char mock_signature_count[] __attribute__((visibility("default")));
const char mock_signature_count[] = "p8";
}
TN_CONTROL const char* mock_count(void** arguments, int64_t, unsigned, int64_t, int order) {
  float* to = *static_cast<float**>(arguments[0]);
  const int64_t n = *static_cast<int64_t*>(arguments[1]);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(i + 1000 * order);
  return "";
}
TN_CONTROL const char* mock_broken(void**, int64_t, unsigned, int64_t, int) {
  return "block 0 thread 3: waits";
}

// The version functions of two libraries, for `tenon doctor`.
TN_CONTROL size_t cublasLtGetVersion() { return 130102; }
TN_CONTROL size_t cudnnGetVersion() { return 91901; }

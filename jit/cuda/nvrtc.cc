// See nvrtc.h.
#include "jit/cuda/nvrtc.h"

#include <elf.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "src/base/text.h"

namespace tenon::jit {

LibrarySearch Nvrtc::search() {
  return {"NVRTC",
          {"libnvrtc.so.13", "libnvrtc.so.12"},
          "TENON_NVRTC",
          {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"},
          "libnvrtc-builtins"};
}

Result<const Nvrtc*> Nvrtc::get() {
  // Never destroyed: threads may compile at exit.
  static const Result<Nvrtc>& opened = *new Result<Nvrtc>(open(search()));
  if (!opened.ok()) return opened.status();
  return &*opened;
}

constexpr int kOldest = 12;  // oldest supported major version of CUDA
Result<Nvrtc> Nvrtc::open(const LibrarySearch& where) {
  Nvrtc n;
  TENON_ASSIGN(n.library_, SharedLibrary::open(where));
  int (*version)(int*, int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*list)(int*) = nullptr;
  TENON_TRY(n.library_.resolve("nvrtcVersion", version));
  TENON_TRY(n.library_.resolve("nvrtcGetNumSupportedArchs", count));
  TENON_TRY(n.library_.resolve("nvrtcGetSupportedArchs", list));
  TENON_TRY(n.library_.resolve("nvrtcCreateProgram", n.create_));
  TENON_TRY(n.library_.resolve("nvrtcCompileProgram", n.compile_));
  TENON_TRY(n.library_.resolve("nvrtcDestroyProgram", n.destroy_));
  TENON_TRY(n.library_.resolve("nvrtcGetProgramLogSize", n.log_size_));
  TENON_TRY(n.library_.resolve("nvrtcGetProgramLog", n.log_));
  TENON_TRY(n.library_.resolve("nvrtcGetCUBINSize", n.cubin_size_));
  TENON_TRY(n.library_.resolve("nvrtcGetCUBIN", n.cubin_));
  TENON_TRY(n.library_.resolve("nvrtcGetPTXSize", n.ptx_size_));
  TENON_TRY(n.library_.resolve("nvrtcGetPTX", n.ptx_));
  TENON_TRY(n.library_.resolve("nvrtcGetErrorString", n.error_));
  int major = 0, minor = 0, known = 0;
  if (version(&major, &minor) != 0 || count(&known) != 0) return environment(n.path() + " does not answer");
  n.version_ = major * 100 + minor;
  if (major < kOldest)
    return environment("NVRTC " + n.path() + " is of CUDA " + std::to_string(major) + "." +
                       std::to_string(minor) + "; " + std::to_string(kOldest) + ".0 or newer is needed");
  n.architectures_.resize(static_cast<size_t>(known));
  if (list(n.architectures_.data()) != 0) return environment(n.path() + " does not list its architectures");
  std::sort(n.architectures_.begin(), n.architectures_.end());
  return n;
}

Result<int> Nvrtc::architecture_for(int device) const {
  int best = 0;
  for (int a : architectures_)
    if (a <= device && a / 10 == device / 10) best = std::max(best, a);
  if (best == 0)
    return unsupported("NVRTC " + std::to_string(version_ / 100) + "." + std::to_string(version_ % 100) +
                       " makes no code for sm_" + std::to_string(device));
  return best;
}

Result<CudaBinary> Nvrtc::compile(const std::string& text, const std::string& name, int architecture,
                                  bool contract, bool with_ptx) const {
  const auto start = std::chrono::steady_clock::now();
  Program program = nullptr;
  if (int failed = create_(&program, text.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr))
    return environment(std::string("NVRTC: ") + error_(failed));
  struct Destroy {
    const Nvrtc& n;
    Program& program;
    ~Destroy() { n.destroy_(&program); }
  } destroy{*this, program};
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  std::vector<const char*> options{target.c_str(), "--std=c++17", contract ? "--fmad=true" : "--fmad=false",
                                   "--ptxas-options=-v", "--no-source-include"};
  if (version_ >= 1209) options.push_back("--no-cache");
  const int failed = compile_(program, static_cast<int>(options.size()), options.data());
  std::string log;
  if (size_t size = 0; log_size_(program, &size) == 0 && size > 1) {
    log.resize(size);
    log_(program, log.data());
    log.resize(std::strlen(log.c_str()));
  }
  if (failed) return invalid("NVRTC: " + std::string(error_(failed)) + " in " + name + "\n" + log);
  CudaBinary binary;
  binary.architecture = architecture;
  size_t size = 0;
  if (cubin_size_(program, &size) != 0 || size == 0) return environment("NVRTC gave no code for " + name);
  binary.cubin.resize(size);
  if (cubin_(program, binary.cubin.data()) != 0) return environment("NVRTC gave no code for " + name);
  if (with_ptx && ptx_size_(program, &size) == 0) {
    binary.ptx.resize(size);
    ptx_(program, binary.ptx.data());
  }
  read_ptxas(log, binary);
  binary.code_bytes = code_bytes(binary.cubin, name);
  binary.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return binary;
}

void read_ptxas(const std::string& log, CudaBinary& binary) {
  auto number_before = [&](const std::string& words) -> int64_t {
    int64_t sum = 0;
    for (size_t at = log.find(words); at != log.npos; at = log.find(words, at + 1)) {
      size_t begin = at;
      while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
      sum += begin < at ? std::stoll(log.substr(begin, at - begin)) : 0;
    }
    return sum;
  };
  binary.registers = static_cast<int>(number_before(" registers"));
  binary.spill_bytes = number_before(" bytes spill stores") + number_before(" bytes spill loads");
  binary.shared_bytes = number_before(" bytes smem");
}

int64_t code_bytes(const std::string& cubin, const std::string& name) {
  Elf64_Ehdr head;
  if (cubin.size() < sizeof head) return 0;
  std::memcpy(&head, cubin.data(), sizeof head);
  auto section = [&](size_t i, Elf64_Shdr& to) {
    const size_t at = head.e_shoff + i * sizeof(Elf64_Shdr);
    if (i >= head.e_shnum || at > cubin.size() || cubin.size() - at < sizeof to) return false;
    std::memcpy(&to, cubin.data() + at, sizeof to);
    return true;
  };
  Elf64_Shdr names, s;
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || !section(head.e_shstrndx, names)) return 0;
  for (size_t i = 0; section(i, s); ++i) {
    const size_t at = names.sh_offset + s.sh_name;
    if (at < cubin.size() &&
        std::string_view(cubin.data() + at, ::strnlen(cubin.data() + at, cubin.size() - at)) ==
            ".text." + name)
      return static_cast<int64_t>(s.sh_size);
  }
  return 0;
}

}  // namespace tenon::jit

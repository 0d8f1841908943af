// nvrtc: NVIDIA's run-time compiler, opened on first use and never linked. CUDA text comes in; machine code
// for one architecture (a cubin) goes out, with the statistics of ptxas. Any thread; compiles run in
// parallel. Needs no driver and no GPU. Tested by tests/unit/jit/cuda/nvrtc_test.cc.
#pragma once

#include <string>
#include <vector>

#include "src/base/shared_library.h"

namespace tenon::jit {

struct CudaBinary {
  std::string cubin;
  std::string ptx;           // if requested
  int architecture = 0;      // 90: sm_90
  int registers = 0;         // per thread
  int64_t spill_bytes = 0;   // stored and loaded, per thread
  int64_t shared_bytes = 0;  // static
  int64_t code_bytes = 0;    // size of the kernel's section
  double milliseconds = 0;
};

class Nvrtc {
 public:
  // The compiler of the process. environment: not found; the message lists the places searched.
  static Result<const Nvrtc*> get();
  static Result<Nvrtc> open(const LibrarySearch& search);
  static LibrarySearch search();

  const std::string& path() const { return library_.path(); }
  int version() const { return version_; }  // 1300: 13.0
  const std::vector<int>& architectures() const { return architectures_; }
  // The architecture to compile for: the device's own, or the largest of the same major version that NVRTC
  // knows. unsupported: there is none.
  Result<int> architecture_for(int device) const;

  // Compiles the kernel `name` of `text`. invalid, with the compiler's log: the text is wrong.
  Result<CudaBinary> compile(const std::string& text, const std::string& name, int architecture,
                             bool contract = false, bool with_ptx = false) const;

 private:
  using Program = void*;
  SharedLibrary library_;
  int version_ = 0;
  std::vector<int> architectures_;
  int (*create_)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile_)(Program, int, const char* const*) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*log_size_)(Program, size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
  int (*cubin_size_)(Program, size_t*) = nullptr;
  int (*cubin_)(Program, char*) = nullptr;
  int (*ptx_size_)(Program, size_t*) = nullptr;
  int (*ptx_)(Program, char*) = nullptr;
  const char* (*error_)(int) = nullptr;
};

// Reads the output of ptxas -v for one kernel.
void read_ptxas(const std::string& log, CudaBinary& binary);
// Bytes of the section .text.NAME of a 64-bit ELF file; 0: there is none.
int64_t code_bytes(const std::string& cubin, const std::string& name);

}  // namespace tenon::jit

// compiler: kernels as machine code of the CPU: the instruction sets, the text that LLVM reads, and the
// compiler of the process. Tested by tests/unit/jit/llvm/compiler_test.cc and tests/unit/jit/llvm/emit_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

// The instruction sets that the emitter may use. Names: "sse2", "avx2" (with FMA and F16C), "avx512" (F, BW,
// DQ, VL).
enum class Isa : uint8_t { sse2, avx2, avx512 };
Isa host_isa();  // the best of the machine, or the one that TENON_ISA forces
std::string_view isa_name(Isa isa);
std::string_view isa_needs(Isa isa);  // the instruction sets, for cpu_lacks()
int lanes(Isa isa);                   // of every simd loop: 4, 8, 16

// The function of a compiled kernel. Runs the par iterations [begin, end) of par_iterations(kernel, sizes,
// lanes). Every split into ranges gives the same bits. `buffers`: in the order of Kernel::buffers without
// locals. The buffers of a kernel that can fault end with its fault word, an int32_t that any thread writes,
// and only on a fault. `scratch`: 64-byte aligned, private to the calling thread, at least
// scratch_bytes(kernel, sizes) long.
using KernelFn = void (*)(void* const* buffers, const int64_t* sizes, char* scratch, int64_t begin,
                          int64_t end);

// LLVM IR text of one module, whose symbol is the kernel's name. emit_llvm prints the kernel as it stands and
// requires a legal one; llvm_text legalizes the kernel first.
std::string emit_llvm(const Kernel& kernel, Isa isa);
std::string llvm_text(const Kernel& kernel, Isa isa);

// Code in memory. It stays alive while a reference exists.
struct Code {
  KernelFn function = nullptr;
  std::string symbol;
  std::shared_ptr<void> memory;
};
// One compiler per process, any thread. Identical texts compile once (single flight).
class Compiler {
 public:
  static Compiler& get();
  // Compiles the kernels in parallel. Returns one result per kernel, in order. Kernels that differ only in
  // names share code. compiled: receives how many kernels this call compiled with LLVM.
  Result<std::vector<std::shared_ptr<const Code>>> compile(const std::vector<const Kernel*>& kernels, Isa isa,
                                                           int* compiled = nullptr);
  struct Stats {
    int64_t compiled = 0;     // kernels that went through LLVM
    int64_t from_disk = 0;    // kernels that an earlier process had compiled
    int64_t shared = 0;       // requests answered by code in memory
    double milliseconds = 0;  // sum over compile threads
    int64_t code_bytes = 0;
  };
  Stats stats() const;

 private:
  struct Impl;
  Compiler();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::jit

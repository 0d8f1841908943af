// Checks of CUDA text on the host: check_tries() compares kernels with the interpreter in several orders of threads; check_fault()
// plants faults in the text, which the host must find. Used by emit_cuda*_test.cc and join_online_reductions_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/support/nvidia/cuda_memory.h"
#include "tests/support/nvidia/cuda_run.h"

namespace tenon::jit {

struct CudaTry {
  KernelCase c;
  CudaKernel kernel;  // kernels of one list have different names
  CudaDevice device = {};
  int64_t most_blocks = INT64_MAX;
  size_t shift = 0;  // bytes from an aligned address to every buffer
  int lanes = 16;    // for the interpreter

  std::string words() const {
    std::string text = kernel.kernel.name;
    for (int64_t n : c.sizes) text += " " + std::to_string(n);
    return text + ": " + describe(kernel.schedule);
  }
};

// Returns "" if the buffers are right, otherwise the difference.
using Difference =
    std::function<std::string(const KernelCase&, const BufferBytes& got, const BufferBytes& want)>;

// Compares kernels with the interpreter, and requires the same bits in every order of threads.
inline void check_tries(const std::vector<CudaTry>& tries, const Difference& differs = first_difference) {
  std::map<std::string, std::vector<CudaKernel>> kernels;
  std::map<std::string, std::unique_ptr<CudaProgram>> programs;
  for (const CudaTry& t : tries) kernels[cuda_settings(t.kernel.schedule)].push_back(t.kernel);
  for (const auto& [settings, list] : kernels) {
    auto program = CudaProgram::compile(list);
    ASSERT_TRUE(program.ok()) << program.status().message();
    programs[settings] = std::move(*program);
  }
  for (const CudaTry& t : tries) {
    SCOPED_TRACE(t.words());
    const CudaProgram& program = *programs[cuda_settings(t.kernel.schedule)];
    BufferBytes want = t.c.data, first;
    const Status status = interpret(t.c.kernel, views(t.c, want), t.c.sizes, t.lanes);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int order : kThreadOrders) {
      Memory memory(t.c.data, t.shift);
      ASSERT_EQ(program.run(t.kernel, memory.pointers.data(), t.c.sizes, order, t.device, t.most_blocks), "");
      ASSERT_TRUE(memory.intact()) << "written beside a buffer";
      const BufferBytes got = memory.bytes();
      if (first.empty()) first = got;
      ASSERT_EQ(first_difference(t.c, got, first), "") << "another order of threads";
      ASSERT_EQ(differs(t.c, got, want), "")
          << print(t.kernel.kernel) << cuda_text(t.kernel.kernel, t.kernel.schedule);
    }
  }
}

using Edit = std::function<void(std::string&)>;

// An edit that replaces every `from`, which must occur; an empty `from` changes nothing.
inline Edit planted(const char* from, const char* to) {
  return [from, to](std::string& text) {
    const size_t length = std::strlen(from);
    int count = 0;
    for (size_t at = 0; length && (at = text.find(from, at)) != text.npos; ++count) {
      text.replace(at, length, to);
      at += std::strlen(to);
    }
    EXPECT_TRUE(count > 0 || !length) << from << "\n" << text.substr(text.find("extern \"C\" __global__"));
  };
}

// Checks that the runs find the fault that the edit plants, or no fault if `what` is "nothing".
inline void check_fault(const CudaTry& t, const char* what, const Edit& edit,
                        const Difference& differs = first_difference) {
  SCOPED_TRACE(what);
  const auto program = CudaProgram::compile({t.kernel}, edit);
  ASSERT_TRUE(program.ok()) << program.status().message();
  BufferBytes want = t.c.data;
  ASSERT_TRUE(interpret(t.c.kernel, views(t.c, want), t.c.sizes).ok());
  std::string found;
  for (int order : kThreadOrders) {
    Memory memory(t.c.data, t.shift);
    found += (*program)->run(t.kernel, memory.pointers.data(), t.c.sizes, order, t.device, t.most_blocks);
    found += (memory.intact() ? "" : "written beside a buffer ") + differs(t.c, memory.bytes(), want);
  }
  EXPECT_EQ(!found.empty(), std::strcmp(what, "nothing") != 0) << found;
}

}  // namespace tenon::jit

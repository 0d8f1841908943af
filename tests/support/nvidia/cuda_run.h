// Runs CUDA text on the host: emits kernels, compiles them into one shared object with the primitives of tests/support/nvidia/cuda_host.h in
// front, and launches them with any order of threads. Used by emit_cuda*_test.cc and join_online_reductions_test.cc.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jit/cuda/cuda_code.h"
#include "jit/cuda/cuda_text.h"
#include "jit/cuda/emit_cuda.h"
#include "jit/pipeline.h"
#include "tests/mocks/cuda/cuda_host_gpu.h"
#include "tests/support/host_object.h"

namespace tenon::jit {

// A kernel and its schedule.
struct CudaKernel {
  CudaKernel() = default;
  CudaKernel(Kernel k, const CudaSchedule& s) : kernel(std::move(k)), schedule(s) {}
  CudaKernel(const KernelVariant& v) : kernel(*v.kernel), schedule(v.schedule) {}
  Kernel kernel;
  CudaSchedule schedule;
};

class CudaProgram {
 public:
  // Compiles kernels with equal cuda_settings() and different names. `edit` may change the text.
  static Result<std::unique_ptr<CudaProgram>> compile(const std::vector<CudaKernel>& kernels,
                                                      const std::function<void(std::string&)>& edit = {}) {
    std::string text = cuda_settings(kernels[0].schedule) +
                       "#include \"tests/support/nvidia/cuda_host.h\"\n" + std::string(cuda_prelude());
    for (const CudaKernel& k : kernels) {
      TENON_CHECK(cuda_settings(k.schedule) == cuda_settings(kernels[0].schedule), "one setting per program");
      text += cuda_text(k.kernel, k.schedule) + launcher(k);
    }
    if (edit) edit(text);
    auto program = std::make_unique<CudaProgram>();
    const tn_host::Object object = tn_host::object_of(text);
    if (object.path.empty())
      return environment(object.log.substr(0, 4000) + "\n" +
                         text.substr(text.size() > 6000 ? text.size() - 6000 : 0));
    program->library_ = dlopen(object.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!program->library_) return environment(dlerror());
    tn_host::runs_here(program->library_);
    return program;
  }
  CudaProgram() = default;
  CudaProgram(const CudaProgram&) = delete;
  ~CudaProgram() {
    if (library_) dlclose(library_);
  }

  // Returns "", or the first error. most_blocks: the largest grid.
  std::string run(const CudaKernel& k, void* const* buffers, const std::vector<int64_t>& sizes, int order,
                  const CudaDevice& device = {}, int64_t most_blocks = INT64_MAX) const {
    using Run =
        const char* (*)(void* const*, const int64_t*, char*, int64_t, int64_t, unsigned, int64_t, int);
    const auto run = reinterpret_cast<Run>(dlsym(library_, ("run_" + k.kernel.name).c_str()));
    TENON_CHECK(run, "no launcher");
    const CudaLaunch l = cuda_launch(k.kernel, k.schedule, sizes, device);
    std::vector<char> scratch(static_cast<size_t>(l.scratch_bytes) + 16, '\xff');
    char* aligned = scratch.data() + (16 - reinterpret_cast<uintptr_t>(scratch.data()) % 16) % 16;
    return run(buffers, sizes.data(), aligned, l.scratch_stride, std::min(l.blocks, most_blocks),
               static_cast<unsigned>(l.threads), l.shared_bytes, order);
  }

 private:
  static std::string launcher(const CudaKernel& k) {
    std::string call;
    int number = 0;
    for (const Buffer& b : k.kernel.buffers) {
      if (b.role == Buffer::Role::local) continue;
      call += (number ? ", (" : "(") + std::string(cuda_memory_type(b.type)) + "*)p[" +
              std::to_string(number) + "]";
      ++number;
    }
    for (size_t i = 0; i < k.kernel.sizes.size(); ++i)
      call += (number++ ? ", (tn_ix)sizes[" : "(tn_ix)sizes[") + std::to_string(i) + "]";
    if (k.schedule.locals == CudaSchedule::Locals::global) call += ", scratch, (tn_ix)stride";
    return "extern \"C\" const char* run_" + k.kernel.name +
           "(void* const* p, const int64_t* sizes, char* scratch, int64_t stride, int64_t blocks, unsigned "
           "threads, int64_t shared, "
           "int order) {\n  return tn_host_launch([=] { " +
           k.kernel.name + "(" + call + "); }, blocks, threads, shared, order);\n}\n";
  }

  void* library_ = nullptr;
};

}  // namespace tenon::jit

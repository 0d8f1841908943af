// Defines the functions of src/backend/backend.h that name particular back ends: the list of all back ends in order of
// preference, the GPU report and the default thread pool.
#include "backends/attention/attention.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/threads.h"
#include "backends/nvidia/cublaslt/cublaslt.h"
#include "backends/nvidia/cudnn/cudnn.h"
#include "backends/nvidia/device/report.h"
#include "backends/nvidia/kernels/cuda.h"
#if TENON_HAVE_ONEDNN
#include "backends/onednn/onednn.h"
#endif
#include "backends/products/products.h"
#include "backends/recurrent/recurrent.h"
#include "backends/reference/reference.h"
#include "backends/rows/rows.h"
#include "src/backend/backend.h"

namespace tenon {

std::span<Backend* const> all_backends() {
  static Backend* const backends[] = {
#if TENON_HAVE_ONEDNN
      &onednn_backend(),
#endif
      &cpu_backend(),       &rows_backend(), &recurrent_backend(), &attention_backend(), &products_backend(),
      &reference_backend(), &cuda_backend(), &cublaslt_backend(),  &cudnn_backend(),
  };
  return backends;
}

Backend* find_backend(std::string_view name) {
  for (Backend* b : all_backends())
    if (b->name() == name) return b;
  return nullptr;
}

std::vector<ReportLine> gpu_report() { return cuda::report(); }

Parallel& default_parallel() { return openmp_parallel(); }

}  // namespace tenon

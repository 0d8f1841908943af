// See cuda_code.h. An entry on disk is the statistics of ptxas, "registers 40 spills 0\n", and then the
// cubin.
#include "jit/cuda/cuda_code.h"

#include <cstdio>

#include "jit/cuda/cuda_text.h"
#include "jit/cuda/emit_cuda.h"
#include "jit/cuda/nvrtc.h"
#include "src/base/log.h"
#include "src/base/store/disk_cache.h"

namespace tenon::jit {
namespace {

std::string stored(const CudaCode& code) {
  return "registers " + std::to_string(code.registers) + " spills " + std::to_string(code.spill_bytes) +
         "\n" + code.cubin;
}

Status read_stored(const std::string& object, CudaCode& code) {
  long long spills = 0;
  int end = 0;
  if (std::sscanf(object.c_str(), "registers %d spills %lld%n", &code.registers, &spills, &end) != 2 ||
      object[static_cast<size_t>(end)] != '\n')
    return environment("it lacks the line with registers and spills");
  code.spill_bytes = spills;
  code.cubin = object.substr(static_cast<size_t>(end) + 1);
  return code.cubin.empty() ? environment("it holds no code") : Status();
}

std::string with_prelude(const CudaSchedule& schedule, const std::string& text) {
  return cuda_settings(schedule) + std::string(cuda_primitives()) + std::string(cuda_prelude()) + text;
}

}  // namespace

std::string cuda_text(const Kernel& kernel, const CudaSchedule& schedule) {
  return emit_cuda(legalize(kernel, cuda_spells, schedule.approximate), schedule);
}

std::string cuda_source(const Kernel& kernel, const CudaSchedule& schedule) {
  return with_prelude(schedule, cuda_text(kernel, schedule));
}

Result<CudaCode> cuda_code(const KernelVariant& variant, int architecture) {
  const Kernel& kernel = *variant.kernel;
  const CudaSchedule& schedule = variant.schedule;
  TENON_ASSIGN(const Nvrtc* nvrtc, Nvrtc::get());
  TENON_ASSIGN(const int made_for, nvrtc->architecture_for(architecture));
  const std::string alone = cuda_text(kernel, schedule), text = cuda_settings(schedule) + alone,
                    source = with_prelude(schedule, alone), target = "sm_" + std::to_string(made_for),
                    producer = "NVRTC " + std::to_string(nvrtc->version() / 100) + "." +
                               std::to_string(nvrtc->version() % 100) + " " + target;
  if (dump_wanted("kernel")) dump("kernel", print(kernel));
  if (dump_wanted("cuda")) dump("cuda", "// " + describe(variant) + "\n" + text);
  CudaCode code;
  const DiskRequest request{disk_key({"tenon object", producer, source, text}), text, kernel.name, target,
                            ""};
  if (DiskCache::get().find(request, [&](const std::string& object) { return read_stored(object, code); }))
    return code;
  TENON_ASSIGN(CudaBinary binary, nvrtc->compile(source, kernel.name, made_for, schedule.approximate));
  code = {std::move(binary.cubin), binary.registers, binary.spill_bytes, true};
  DiskCache::get().keep(request, stored(code), producer);
  log_row("compile", "kernel,isa,bytes,ms,why",
          {kernel.name, target, std::to_string(binary.code_bytes), std::to_string(binary.milliseconds),
           "neither this process nor the disk has its code"});
  return code;
}

}  // namespace tenon::jit

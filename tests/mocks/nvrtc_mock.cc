// NVRTC without a GPU, for tests. libnvrtc_mock.so has the functions that jit/cuda/nvrtc.cc looks up. It compiles a kernel's text with
// the host's compiler; tests/support/nvidia/cuda_host.h replaces the primitives of a device. Its "cubin" is a TENONSO:PATH, which the mock
// driver runs (tests/mocks/cuda/cuda_mock.cc).
// TENON_NVRTC_MOCK_LOG: the log of compiles, for reports of ptxas; with TENON_NVRTC_MOCK_LOG_OF only for texts that contain that
// string. TENON_NVRTC_MOCK_MAJOR: the major version. TENON_NVRTC_MOCK_RUN=off: nothing is compiled, and launches are only logged.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/host_object.h"
#include "tests/support/paths.h"

#define TN_NVRTC extern "C" __attribute__((visibility("default"))) int

namespace {

struct Program {
  std::string text, cubin, log;
};

// The name of a kernel, and the type and kind of each argument (tests/mocks/cuda/cuda_mock.cc).
struct Signature {
  std::string name, kinds;
  std::vector<std::string> types;
};

Signature signature_of(const std::string& text) {
  const std::string mark = "extern \"C\" __global__ void __launch_bounds__(";
  const size_t name_at = text.find(") ", text.find(mark) + mark.size()) + 2;
  const size_t open = text.find('(', name_at), close = text.find(')', open);
  const bool wide = text.find("#define TN_WIDE 1") != text.npos;
  Signature s{text.substr(name_at, open - name_at), "", {}};
  std::istringstream parameters(text.substr(open + 1, close - open - 1));
  for (std::string p; std::getline(parameters, p, ',');) {
    s.types.push_back(p.substr(0, p.rfind(' ')));
    s.kinds += p.find('*') != p.npos ? 'p' : wide ? '8' : '4';
  }
  return s;
}

// The function that the mock driver calls for the kernel. It gets the arguments as pointers to their values.
std::string entry_of(const Signature& s) {
  std::string call;
  for (size_t i = 0; i < s.types.size(); ++i)
    call += (call.empty() ? "*(" : ", *(") + s.types[i] + "*)a[" + std::to_string(i) + "]";
  return "extern \"C\" const char mock_signature_" + s.name + "[] = \"" + s.kinds +
         "\";\nextern \"C\" int64_t mock_shared_" + s.name +
         "() { return tn_host_shared_bytes(); }\nextern \"C\" const char* mock_" + s.name +
         "(void** a, int64_t blocks, unsigned threads, int64_t shared, int order) {\n  "
         "return tn_host_launch([=] { " +
         s.name + "(" + call + "); }, blocks, threads, shared, order);\n}\n";
}

// Compiles a text that is written for a device.
tn_host::Object compiled(std::string text) {
  const std::string primitives =
      tn_host::read(std::string(kSourceDirectory) + "/jit/cuda/cuda_primitives.cuh");
  const size_t at = text.find(primitives);
  if (primitives.empty() || at == text.npos) return {"", "the primitives of a device are not in the text"};
  text.replace(at, primitives.size(), "#include \"tests/support/nvidia/cuda_host.h\"\n");
  return tn_host::object_of(text + entry_of(signature_of(text)));
}

std::string given_log(const Program& program) {
  const char *text = std::getenv("TENON_NVRTC_MOCK_LOG"), *of = std::getenv("TENON_NVRTC_MOCK_LOG_OF");
  const bool here = text && (!of || program.text.find(of) != std::string::npos);
  return here ? text : "ptxas info    : Used 32 registers, 0 bytes spill stores, 0 bytes spill loads";
}

template <class Text>
int copy(const Text& text, char* to) {
  std::memcpy(to, text.data(), text.size());
  return 0;
}

Program* of(void* program) { return static_cast<Program*>(program); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
TN_NVRTC nvrtcVersion(int* major, int* minor) {
  const char* given = std::getenv("TENON_NVRTC_MOCK_MAJOR");
  return *major = given ? std::atoi(given) : 13, *minor = 0, 0;
}
TN_NVRTC nvrtcGetNumSupportedArchs(int* count) { return *count = 4, 0; }
TN_NVRTC nvrtcGetSupportedArchs(int* list) {
  for (int a : {80, 90, 100, 120}) *list++ = a;
  return 0;
}
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int error) {
  return error == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}
TN_NVRTC nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                            const char* const*) {
  return *program = new Program{text, "", ""}, 0;
}
TN_NVRTC nvrtcCompileProgram(void* program, int, const char* const*) {
  Program& p = *of(program);
  if (const char* run = std::getenv("TENON_NVRTC_MOCK_RUN"); run && !std::strcmp(run, "off")) {
    const Signature s = signature_of(p.text);
    return p.cubin = "TENONLIST:" + s.name + "=" + s.kinds, p.log = given_log(p), 0;
  }
  const tn_host::Object object = compiled(p.text);
  if (object.path.empty()) return p.log = object.log, 6;
  p.log = given_log(p);
  p.cubin = "TENONSO:" + object.path;
  return 0;
}
TN_NVRTC nvrtcDestroyProgram(void** program) { return delete of(*program), *program = nullptr, 0; }
TN_NVRTC nvrtcGetProgramLogSize(void* program, size_t* size) {
  return *size = of(program)->log.size() + 1, 0;
}
TN_NVRTC nvrtcGetProgramLog(void* program, char* to) {
  return to[of(program)->log.size()] = 0, copy(of(program)->log, to);
}
TN_NVRTC nvrtcGetCUBINSize(void* program, size_t* size) { return *size = of(program)->cubin.size(), 0; }
TN_NVRTC nvrtcGetCUBIN(void* program, char* to) { return copy(of(program)->cubin, to); }
TN_NVRTC nvrtcGetPTXSize(void* program, size_t* size) { return *size = 0, program ? 0 : 1; }
TN_NVRTC nvrtcGetPTX(void*, char*) { return 0; }
// NOLINTEND(readability-identifier-naming)

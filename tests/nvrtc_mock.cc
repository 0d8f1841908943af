// NVRTC without a GPU, for tests: libnvrtc_mock.so has the functions that jit/nvrtc.cc asks for. It compiles a kernel's text
// with the host's compiler, with the GPU of tests/cuda_host.h in the place of the primitives of a device; its "cubin" is a
// TENONSO:PATH, which the mock driver runs (tests/cuda_mock.cc). Objects are kept in the build tree under the hash of what they
// were made from, so a text is compiled once. TENON_NVRTC_MOCK_LOG: what the log holds, for reports of ptxas; with
// TENON_NVRTC_MOCK_LOG_OF only that of texts in which this stands.
// TENON_NVRTC_MOCK_MAJOR: of its version. TENON_NVRTC_MOCK_RUN=off: nothing is compiled, and launches are only written down.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#define TN_NVRTC extern "C" __attribute__((visibility("default"))) int

namespace {

struct Program {
  std::string text, cubin, log;
};

std::string file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

uint64_t fnv(const std::string& text, uint64_t hash = 14695981039346656037u) {
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

// A kernel's name, and for each argument its type and kind (tests/cuda_mock.cc).
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

// What the mock driver calls for the kernel: its arguments come as pointers to their values.
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

constexpr const char* kCompile = TENON_CXX " -std=c++20 -O0 -w -fPIC -ffp-contract=off ";

std::string hex(uint64_t hash) {
  char name[32];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  return name;
}

// What stands at `path` once `make(temporary)` has made it, if it was not there: by whichever process and thread is first.
template <class Make>
bool made_once(const std::string& path, const Make& make) {
  namespace fs = std::filesystem;
  if (fs::exists(path)) return true;
  fs::create_directories(fs::path(path).parent_path());
  const std::string own =
      path + "." + std::to_string(getpid()) + "." + std::to_string(reinterpret_cast<uintptr_t>(&own));
  const bool good = make(own);
  std::error_code ignored;
  if (good) fs::rename(own, path, ignored);
  for (const char* end : {"", ".cc", ".log"}) fs::remove(own + end, ignored);
  return good;
}

// A folder with the host's GPU as a precompiled header, which is most of what there is to compile.
std::string prepared(const std::string& header) {
  const std::string folder = TENON_NVRTC_MOCK_FOLDER "/" + hex(fnv(file(header), fnv(kCompile)));
  made_once(folder + "/tests/cuda_host.h.gch", [&](const std::string& own) {
    return std::system(
               (kCompile + std::string("-I" TENON_SOURCE_DIR " -x c++-header -o ") + own + " " + header)
                   .c_str()) == 0;
  });
  return folder;  // without it the header itself serves
}

// The object of a text; empty, with the compiler's log, where it does not compile.
std::string object_of(std::string text, std::string& log) {
  const std::string primitives = file(TENON_SOURCE_DIR "/jit/cuda_primitives.cuh");
  const std::string header = TENON_SOURCE_DIR "/tests/cuda_host.h";
  const size_t at = text.find(primitives);
  if (primitives.empty() || at == text.npos) {
    log = "the primitives of a device are not in the text";
    return "";
  }
  text.replace(at, primitives.size(), "#include \"tests/cuda_host.h\"\n");
  text += entry_of(signature_of(text));
  const std::string folder = prepared(header);
  const std::string object = folder + "/" + hex(fnv(text)) + ".so";
  const bool good = made_once(object, [&](const std::string& own) {
    std::ofstream(own + ".cc") << text;
    const std::string command = kCompile + ("-I" + folder) + " -I" TENON_SOURCE_DIR " -shared -o " + own +
                                " " + own + ".cc > " + own + ".log 2>&1";
    const bool compiled = std::system(command.c_str()) == 0;
    log = file(own + ".log");
    return compiled;
  });
  return good ? object : "";
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
  const std::string object = object_of(p.text, p.log);
  if (object.empty()) return 6;
  p.log = given_log(p);
  p.cubin = "TENONSO:" + object;
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

// Env: the table of all TENON_* variables, each with its default and a sentence; `tenon env` prints it. No
// other file calls getenv. Each accessor says when it reads the environment. Tested by
// tests/unit/base/base_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// X(accessor, name, default, accepted, sentence). accepted: the values, "on|off", or kAnyText, kCount,
// kBytes. The default is always accepted.
#define TENON_ENV(X)                                                                                      \
  X(cache, "TENON_CACHE", "on", "on|read|off|0|1",                                                        \
    "Kernels and graphs on disk: on, read (nothing is written) or off.")                                  \
  X(cache_bytes, "TENON_CACHE_BYTES", "1G", kBytes,                                                       \
    "Bytes on disk above which the longest unused entries are removed; a number, with K, M, G or T.")     \
  X(cache_dir, "TENON_CACHE_DIR", "", kAnyText,                                                           \
    "Directory of kernels and graphs on disk; empty means $XDG_CACHE_HOME/tenon or ~/.cache/tenon.")      \
  X(cublaslt, "TENON_CUBLASLT", "", kAnyText,                                                             \
    "cuBLASLt: a file, a directory or off; empty means to look for it.")                                  \
  X(cuda_driver, "TENON_CUDA_DRIVER", "", kAnyText,                                                       \
    "The CUDA driver: a file, a directory or off; empty means to look for it.")                           \
  X(cudnn, "TENON_CUDNN", "", kAnyText, "cuDNN: a file, a directory or off; empty means to look for it.") \
  X(dump, "TENON_DUMP", "", kAnyText,                                                                     \
    "Comma list of stages whose text is logged as they are made (parse, a pass, kernel, llvm, all).")     \
  X(isa, "TENON_ISA", "", "sse2|avx2|avx512",                                                             \
    "Vector instructions of CPU kernels: sse2, avx2 or avx512; empty means the best the machine has.")    \
  X(jit_profile, "TENON_JIT_PROFILE", "", "perf|gdb",                                                     \
    "perf writes the addresses of CPU kernels to /tmp/perf-PID.map, where perf report looks; "            \
    "gdb makes each kernel known to gdb as a function tenon_KERNEL.")                                     \
  X(num_threads, "TENON_NUM_THREADS", "0", kCount,                                                        \
    "Threads of one run; 0 means as many as OpenMP would use.")                                           \
  X(log, "TENON_LOG", "", kAnyText,                                                                       \
    "Comma list of topics to print to stderr while the host has set no logger; all for every topic.")     \
  X(marshal, "TENON_MARSHAL", "", "ctypes",                                                               \
    "ctypes makes the Python package call the library through ctypes, not through its own module.")       \
  X(nvrtc, "TENON_NVRTC", "", kAnyText, "NVRTC: a file, a directory or off; empty means to look for it.") \
  X(verify, "TENON_VERIFY", "0", "0|1", "1 checks every invariant between passes in release builds too.") \
  X(winograd, "TENON_WINOGRAD", "on", "on|off",                                                           \
    "Convolutions of 3x3 windows on the CPU in fewer products: on, or off, which leaves them to oneDNN.")

inline constexpr std::string_view kAnyText = "<text>", kCount = "<0 to 4096>", kBytes = "<bytes>";

struct EnvVar {
  std::string_view name;
  std::string_view fallback;
  std::string_view accepted;
  std::string_view meaning;
};
std::span<const EnvVar> env_vars();
// The error in a value, "is 'of', none of on, read, off: it counts as on"; empty if the value is accepted.
std::string env_wrong(const EnvVar& var, std::string_view value);

// The values as text, or the defaults if unset, read from the environment at each call: env::dump(),
// env::isa(), ...
namespace env {
#define X(accessor, ...) std::string accessor();
TENON_ENV(X)
#undef X
}  // namespace env

// TENON_NUM_THREADS as a number, read once per process; 0 if it is not a valid number.
int env_threads();
// Reads "1G", "500M" or "65536" as a number of bytes; nullopt if the text is none.
std::optional<int64_t> read_bytes(std::string_view text);
// TENON_VERIFY=1, read once per process.
bool env_verify();
// The user's cache directory: XDG_CACHE_HOME, else .cache in HOME; empty if neither is an absolute path.
std::string env_cache_home();
// Whether `item` or "all" is in the comma list.
bool in_list(std::string_view list, std::string_view item);

// One sentence for each TENON_* variable of the process that is not in the table, with the nearest name, and
// for each variable whose value is not accepted. warn_of_env() logs the sentences once per process, under the
// topic "warning".
std::vector<std::string> env_warnings();
void warn_of_env();

}  // namespace tenon

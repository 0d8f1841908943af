// See status.h. Tested by tests/unit/base/base_test.cc.
#include "src/base/status.h"

#include <cerrno>
#include <cstring>

namespace tenon {

const char* code_name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid: return "invalid";
    case Code::unsupported: return "unsupported";
    case Code::environment: return "environment";
    case Code::internal: return "internal";
  }
  return "unknown";
}

Status system_error(const std::string& what) { return environment(what + ": " + std::strerror(errno)); }

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + message + " (" + condition +
                      ")");
}

}  // namespace tenon

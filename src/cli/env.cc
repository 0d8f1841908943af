// tenon env: prints every TENON_* variable with its value, default and meaning, and warns of unknown ones.
// Tested by tests/cli_test.py.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "src/base/env.h"
#include "src/base/text.h"
#include "src/cli/verbs.h"

namespace tenon::cli {
namespace {

struct Value {
  std::string_view name;
  std::string (*read)();
};
constexpr Value kValues[] = {
#define X(accessor, name, ...) {name, tenon::env::accessor},
    TENON_ENV(X)
#undef X
};

}  // namespace

int env() {
  for (size_t i = 0; i < env_vars().size(); ++i) {
    const EnvVar& var = env_vars()[i];
    const std::string value = printable(kValues[i].read());
    print_line(fmt::format("{}={}{}\n    {}", var.name, value,
                           value == var.fallback ? ""
                                                 : fmt::format("    (default: {})",
                                                               var.fallback.empty() ? "empty" : var.fallback),
                           var.meaning));
  }
  for (const std::string& warning : env_warnings())
    std::fprintf(stderr, "tenon: warning: %s\n", warning.c_str());
  return kDone;
}

}  // namespace tenon::cli

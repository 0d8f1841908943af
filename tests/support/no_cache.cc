// Linked into every test: none of them reads or writes the kernels that its user has on disk.
#include <cstdlib>

namespace {
[[maybe_unused]] const int off = setenv("TENON_CACHE", "off", 1);
}

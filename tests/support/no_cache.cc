// Linked into every test, so that none reads or writes the user's cache of kernels on disk.
#include <cstdlib>

namespace {
[[maybe_unused]] const int off = setenv("TENON_CACHE", "off", 1);
}

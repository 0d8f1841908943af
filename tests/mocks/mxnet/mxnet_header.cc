// Compares bindings/mxnet/abi.h with lib_api.h of an installed MXNet: this file compiles only if they agree. It is empty if that header
// is not installed; CMake reports this.
#if __has_include(<mxnet/lib_api.h>)
#include "bindings/mxnet/abi.h"
#include "tests/support/same_call.h"

#include <mxnet/lib_api.h>

#include <cstddef>

namespace tenon::plugin {
namespace {

namespace theirs = ::mxnet::ext;

static_assert(!Same<void(), int()>::value && !Same<void(Token), void(void*)>::value);
static_assert(!Same<int(const char* const*), int(char* const*)>::value);

#define X(result, name, ...) static_assert(Same<result(__VA_ARGS__), decltype(::name)>::value, #name);
TENON_MXNET_ABI(X)
#undef X

static_assert(kLibraryVersion == MX_LIBRARY_VERSION);
static_assert(kFloat32 == int{theirs::kFloat32} && kFloat64 == int{theirs::kFloat64} &&
              kFloat16 == int{theirs::kFloat16} && kUint8 == int{theirs::kUint8} &&
              kInt32 == int{theirs::kInt32} && kInt8 == int{theirs::kInt8} && kInt64 == int{theirs::kInt64});

// The layout of the state that MXNet reads: a pointer, then ignore_warn, then `created`, which is private.
static_assert(sizeof(StateHead) == sizeof(theirs::CustomStatefulOp));
static_assert(offsetof(StateHead, quiet) == sizeof(void*) &&
              offsetof(StateHead, created) == sizeof(void*) + 1);

}  // namespace
}  // namespace tenon::plugin
#endif

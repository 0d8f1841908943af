// Declares the interface through which MXNet 1.9.1 loads libraries of operators (version 11), so that no header of MXNet is needed:
// one list of functions, which MXNet resolves by name, and the two records whose bytes it reads. tests/mocks/mxnet/mxnet_header.cc
// compares everything here with the header lib_api.h of an installed MXNet, exports.map exports the names.
//
// Functions that return int return 1 for success and 0 for failure, the two numbers of _*RegSize, _*RegGetCount, _msgSize and
// _opVersion aside. After each call MXNet reads the messages of the library on the same thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::plugin {

constexpr int kLibraryVersion = 11;

// MXNet receives such a value from _opRegGet or _partRegGet and passes it back; it never calls it.
using Token = void (*)();
// Memory of the host that lives until the end of the call.
using HostAlloc = void* (*)(void* host, int bytes);
using SparseAlloc = void (*)(void* host, int, int, int, void**, int64_t**, int64_t**);
using ArrayAlloc = void (*)(const void* host, const int64_t* shape, int rank, const char* device, int id,
                            int dtype, const char* name, int is_arg, void** data);

// What _opCallCreateOpState returns: MXNet reads `created`, and warns if it is false and `quiet` is false.
struct StateHead {
  void* unused = nullptr;
  bool quiet = true;
  bool created = true;
};

// Numbers of dtypes.
enum Dtype : int { kFloat32, kFloat64, kFloat16, kUint8, kInt32, kInt8, kInt64, kBool, kBfloat16 = 12 };

// Long lists of parameters that several functions share.
// The tensors of one side of a call: shapes, ranks, data, dtypes, versions, device names, device numbers, count.
#define TENON_MXNET_TENSORS const int64_t**, int*, void**, int*, size_t*, const char**, int*, int
// Memory, streams, storage types and random numbers of a call.
#define TENON_MXNET_RESOURCES                                                                                \
  HostAlloc, void*, HostAlloc, void*, void*, SparseAlloc, void*, int*, int*, void**, void**, void**, void**, \
      int64_t*, int64_t*, int64_t*, int64_t*, void*, void*
// Keys and values of options or attributes, and their count.
#define TENON_MXNET_STRINGS const char* const*, const char* const*, int
// Tensors by name: names, count, data, shapes, ranks, dtypes, versions, device names, device numbers.
#define TENON_MXNET_NAMED                                                                              \
  const char* const*, int, void* const*, const int64_t* const*, const int*, const int*, const size_t*, \
      const char* const*, const int*

// X(result, name, parameters...)
#define TENON_MXNET_ABI(X)                                                                                \
  X(int, _opVersion)                                                                                      \
  X(int, _msgSize)                                                                                        \
  X(void, _msgGet, int, const char**)                                                                     \
  X(int, initialize, int)                                                                                 \
  X(void, _opCallFree, void*)                                                                             \
  X(int, _opRegSize)                                                                                      \
  X(void, _opRegGet, int, const char**, int*, const char***, Token**, int*, const char***, Token**, int*, \
    const char***, Token**, int*, Token*, Token*, Token*, Token*, Token*)                                 \
  X(int, _opCallParseAttrs, Token, TENON_MXNET_STRINGS, int*, int*)                                       \
  X(int, _opCallInferShape, Token, TENON_MXNET_STRINGS, unsigned**, int*, int, unsigned***, int**,        \
    unsigned***, int**, int)                                                                              \
  X(int, _opCallInferType, Token, TENON_MXNET_STRINGS, int*, int, int*, int)                              \
  X(int, _opCallInferSType, Token, TENON_MXNET_STRINGS, int*, int, int*, int)                             \
  X(int, _opCallFCompute, Token, TENON_MXNET_STRINGS, TENON_MXNET_TENSORS, TENON_MXNET_TENSORS,           \
    TENON_MXNET_RESOURCES)                                                                                \
  X(int, _opCallMutateInputs, Token, TENON_MXNET_STRINGS, int**, int*)                                    \
  X(int, _opCallCreateOpState, Token, TENON_MXNET_STRINGS, const char*, int, unsigned**, int*, int,       \
    const int*, void**)                                                                                   \
  X(void, _opCallDestroyOpState, void*)                                                                   \
  X(int, _opCallFStatefulCompute, int, void*, TENON_MXNET_TENSORS, TENON_MXNET_TENSORS,                   \
    TENON_MXNET_RESOURCES)                                                                                \
  X(int, _partRegSize)                                                                                    \
  X(int, _partRegGetCount, int, const char**)                                                             \
  X(void, _partRegGet, int, int, const char**, Token*, Token*, Token*, const char**)                      \
  X(int, _partCallSupportedOps, Token, const char*, int, int*, TENON_MXNET_STRINGS)                       \
  X(int, _partCallCreateSelector, Token, const char*, void**, TENON_MXNET_STRINGS)                        \
  X(void, _partCallSelect, void*, int, int*)                                                              \
  X(void, _partCallSelectInput, void*, int, int, int*)                                                    \
  X(void, _partCallSelectOutput, void*, int, int, int*)                                                   \
  X(void, _partCallFilter, void*, int*, int, int**, int*)                                                 \
  X(void, _partCallReset, void*)                                                                          \
  X(int, _partCallReviewSubgraph, Token, const char*, int, int*, TENON_MXNET_STRINGS, char***, char***,   \
    int*, TENON_MXNET_NAMED, TENON_MXNET_NAMED)                                                           \
  X(int, _passRegSize)                                                                                    \
  X(void, _passRegGet, int, Token*, const char**)                                                         \
  X(int, _passCallGraphPass, Token, const char*, char**, TENON_MXNET_STRINGS, const char*,                \
    TENON_MXNET_NAMED, TENON_MXNET_NAMED, ArrayAlloc, const void*)

}  // namespace tenon::plugin

namespace tenon::plugin {
extern "C" {
#define X(result, name, ...) __attribute__((visibility("default"))) result name(__VA_ARGS__) noexcept;
TENON_MXNET_ABI(X)
#undef X
}
}  // namespace tenon::plugin

// schedule_cuda: how a kernel runs on a GPU: which threads share an iteration of the par nest, how many elements a thread
// takes at once, where locals lie. Pure functions of the kernel, its sizes and a description of the device; no device is
// needed to test them. Tested by tests/unit/jit/cuda_schedule_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

struct CudaDevice {
  std::string name;
  int architecture = 90;  // compute capability: 10 * major + minor
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
  int64_t registers = 65536;           // per multiprocessor, 32 bits each
  int64_t shared_bytes = 232448;       // that one block may ask for
  int64_t bytes_in_flight = 46 << 10;  // per multiprocessor, to keep the memory busy
};

struct CudaSchedule {
  enum class Form : uint8_t {
    flat,   // a thread per par iteration; where the par nest is simd, per `vector` elements of its last axis
    row,    // a team of threads per par iteration, which shares the simd loops within
    tiled,  // a block per tile of two axes of a map that transposes (jit/analysis/transposing.h)
  };
  enum class Locals : uint8_t {
    none,
    registers,  // each thread keeps the elements it computes, and what it loads in more than one loop
    shared,     // shared memory of the block, per team
    global,     // scratch memory, per team
  };
  Form form = Form::flat;
  Locals locals = Locals::none;
  int block = 256;  // threads
  int team = 1;     // threads per par iteration: a power of two up to 32, or all of the block
  int vector = 1;   // elements of a simd axis per thread and step
  int chunks = 0;   // row, registers: steps of a simd loop, unrolled; 0: a loop
  int cluster =
      1;  // row: blocks per par iteration, from sm_90 on; each keeps the elements of its own threads
  int along = 0,
      across = 0;  // tiled: elements of a tile along the axis of lanes, and along the other; powers of two
  // flat: steps of a reduction in order, or vectors of a map, that a thread loads before the first folds or is computed.
  int ahead = 1;
  // flat, of a map: a thread takes vectors along these axes of the par nest, bit by bit, with what is the same for all of them
  // read once; 0: along none. How many it takes the launch says.
  unsigned outer = 0;
  int rows = 1;              // flat: threads that share each column of a reduction in order; a power of two
  bool whole = false;        // simd axes are multiples of `vector`
  bool wide = false;         // 64-bit indices
  bool approximate = false;  // functions good enough for results of 16 bits
  friend bool operator==(const CudaSchedule&, const CudaSchedule&) = default;
};

// "row 32x8 vector 4 registers 2": for logs and golden texts.
std::string describe(const CudaSchedule& schedule);

// Whether the kernel is one map: lanes along its par nest, nothing but scalars within.
bool is_map(const Kernel& kernel);

// What a kernel needs before it is scheduled.
enum class CudaRewrite : uint8_t {
  merge_map,               // the inner loop of a map becomes part of the par nest
  join_online_reductions,  // rows that nothing keeps are read as seldom as possible
};
using CudaDecision = std::variant<CudaSchedule, CudaRewrite>;

// The schedule of the kernel as it stands, or the rewrite that must come first. sizes: of the kernel's size arguments. alignment: bytes to which all pointers are aligned. longest_buffer: elements, where values
// are addresses (-1: unknown). relax_level: how often the compiler ran out of registers: from 1 on no row is kept in them, from 2
// on a thread takes one element at once.
CudaDecision cuda_schedule(const Kernel& kernel, std::span<const int64_t> sizes, const CudaDevice& device,
                           int64_t alignment, int64_t longest_buffer, int relax_level, bool joined);
inline constexpr int kMostRelaxed = 2;

// That a thread has on their way, of columns and of the chunks of a row: registers for as many.
inline constexpr int64_t kBytesAhead = 128;

// That are left to it beside addresses, which take more where they have 64 bits.
int64_t registers_of_thread(const CudaSchedule& schedule, const CudaDevice& device = {});

// Of one tile in shared memory.
int64_t cuda_tile_bytes(const CudaSchedule& schedule, DType type);

struct CudaLaunch {
  int64_t blocks = 0;  // 0: nothing to do
  int cluster = 1;     // blocks that run together, as the kernel itself says; divides `blocks`
  int threads = 0;
  int64_t shared_bytes = 0;    // dynamic
  int64_t scratch_bytes = 0;   // of locals in global memory
  int64_t scratch_stride = 0;  // per team
};
CudaLaunch cuda_launch(const Kernel& kernel, const CudaSchedule& schedule, std::span<const int64_t> sizes,
                       const CudaDevice& device);

}  // namespace tenon::jit

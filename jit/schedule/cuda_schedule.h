// cuda_schedule: how a kernel runs on a GPU: which threads share an iteration of the par nest, how many
// elements a thread takes at once, where locals are. Pure functions of the kernel, its sizes and a
// description of the device, so tests need no device. Tested by tests/unit/jit/schedule/cuda_schedule_test.cc.
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
  int64_t shared_bytes = 232448;       // most dynamic shared memory of a block
  int64_t bytes_in_flight = 46 << 10;  // per multiprocessor; saturates the memory
};

struct CudaSchedule {
  enum class Form : uint8_t {
    flat,   // a thread per par iteration; if the par nest is simd, per `vector` elements of its last axis
    row,    // a team of threads per par iteration shares the simd loops within
    tiled,  // a block per tile of two axes of a transposing map (jit/analysis/transposing.h)
  };
  enum class Locals : uint8_t {
    none,
    registers,  // each thread keeps the elements that it computes or loads in several loops
    shared,     // shared memory, per team
    global,     // scratch memory, per team
  };
  Form form = Form::flat;
  Locals locals = Locals::none;
  int block = 256;  // threads
  int team = 1;     // threads per par iteration: a power of two up to 32, or the whole block
  int vector = 1;   // elements of a simd axis per thread and step
  int chunks = 0;   // row, registers: unrolled steps of a simd loop; 0: a loop
  // Blocks that a multiprocessor can hold at once: the compiler gives a thread no more registers than this
  // allows. While one block folds its row, another loads the next.
  int resident = 1;
  // row: blocks per par iteration, from sm_90 on. Each block keeps the elements of its own threads.
  int cluster = 1;
  // tiled: elements of a tile along the axis of lanes and along the other axis; powers of two.
  int along = 0, across = 0;
  // flat: steps of a sequential reduction, or vectors of a map, whose loads a thread issues before it folds
  // or computes the first one.
  int ahead = 1;
  // flat, of a map: a thread takes several vectors along these axes of the par nest (one bit each) and reads
  // once what is the same for all of them; 0: no axes. The launch decides how many vectors.
  unsigned outer = 0;
  int rows = 1;              // flat: threads that share each column of a sequential reduction; a power of two
  bool whole = false;        // extents of simd axes are multiples of `vector`
  bool wide = false;         // 64-bit indices
  bool approximate = false;  // functions accurate enough for 16-bit results
  friend bool operator==(const CudaSchedule&, const CudaSchedule&) = default;
};

// Text for logs and golden files: "row 32x8 vector 4 registers 2".
std::string describe(const CudaSchedule& schedule);

// Whether the kernel is one map: lanes run along its par nest, and its body is scalars only.
bool is_map(const Kernel& kernel);

// A rewrite that a kernel needs before it is scheduled.
enum class CudaRewrite : uint8_t {
  merge_map,               // the inner loop of a map becomes part of the par nest
  join_online_reductions,  // rows that do not fit on chip are read fewer times
};
using CudaDecision = std::variant<CudaSchedule, CudaRewrite>;

// Returns the schedule of the kernel as it stands, or the rewrite that must come first. sizes: the size
// arguments of the kernel. alignment: bytes to which all pointers are aligned. longest_buffer: elements;
// bounds addresses that depend on values (-1: unknown). relax_level: how often the compiler ran out of
// registers. From level 1 on, a block may have all registers of a multiprocessor and a thread takes one vector
// at a time; from level 2 on, no row is kept in registers; from level 3 on, a thread takes one element at a
// time. joined: join_online_reductions has run already.
CudaDecision cuda_schedule(const Kernel& kernel, std::span<const int64_t> sizes, const CudaDevice& device,
                           int64_t alignment, int64_t longest_buffer, int relax_level, bool joined);
inline constexpr int kMostRelaxed = 3;

// Bytes that a thread keeps in flight when it reads columns or the chunks of a row; it needs as many bytes of
// registers.
inline constexpr int64_t kBytesAhead = 128;

// Registers of a thread without those for 64-bit addresses.
int64_t registers_of_thread(const CudaSchedule& schedule, const CudaDevice& device = {});

// Bytes of one tile in shared memory.
int64_t cuda_tile_bytes(const CudaSchedule& schedule, DType type);

struct CudaLaunch {
  int64_t blocks = 0;  // 0: nothing to launch
  int cluster = 1;     // blocks per cluster, as compiled into the kernel; divides `blocks`
  int threads = 0;
  int64_t shared_bytes = 0;    // dynamic
  int64_t scratch_bytes = 0;   // locals in global memory
  int64_t scratch_stride = 0;  // per team
};
CudaLaunch cuda_launch(const Kernel& kernel, const CudaSchedule& schedule, std::span<const int64_t> sizes,
                       const CudaDevice& device);

}  // namespace tenon::jit

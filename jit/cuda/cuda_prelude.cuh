// The functions that kernels of emit_cuda call, and nothing else: no header is included. tn_ROW computes the
// map row ROW (src/ops/rows/map.def) on scalars: float, double, signed integers of 8 to 64 bits, unsigned char,
// bool. Functions that only a device has, or that differ on a host, are primitives: cuda_primitives.cuh on a
// device, tests/support/nvidia/cuda_host.h on a host. TN_WIDE: indices of 64 bits. TN_APPROXIMATE: exp and related
// functions use the special function units.

typedef long long tn_i64;
typedef int tn_i32;
typedef short tn_i16;
typedef signed char tn_i8;
typedef unsigned char tn_u8;
typedef unsigned long long tn_u64;
typedef unsigned int tn_u32;
#if TN_WIDE
typedef tn_i64 tn_ix;
#else
typedef tn_u32 tn_ix;
#endif

// ---- memory ----

struct tn_b8 { tn_u8 bits; };
struct tn_bf16 { unsigned short bits; };
struct tn_f16 { unsigned short bits; };
struct tn_f8e4m3fn { tn_u8 bits; };
struct tn_f8e5m2 { tn_u8 bits; };

TN_FN tn_u32 tn_bits(float x) {
  union { float value; tn_u32 bits; } u;
  u.value = x;
  return u.bits;
}
// To nearest, ties to even. A subnormal result is rounded by the addition of a number whose last place equals
// that of the subnormals.
template <int Mantissa, int Bias>
TN_FN tn_u8 tn_float_to_f8(float x, tn_u32 most) {
  const tn_u32 bits = tn_bits(x), a = bits & 0x7fffffffu;
  tn_u32 r = (a + (1u << (22 - Mantissa)) - 1u + ((a >> (23 - Mantissa)) & 1u) - ((127u - Bias) << 23)) >> (23 - Mantissa);
  if (a < (128u - Bias) << 23) r = tn_bits(tn_as_float(a) + (float)(1 << (24 - Bias - Mantissa))) - ((151u - Bias - Mantissa) << 23);
  r = a > 0x7f800000u ? 0x7fu : r < most ? r : most;
  return (tn_u8)(r | (bits >> 24 & 0x80u));
}
TN_FN tn_u8 tn_float_to_f8e4m3fn(float x) { return tn_float_to_f8<3, 7>(x, 0x7e); }
TN_FN tn_u8 tn_float_to_f8e5m2(float x) { return tn_float_to_f8<2, 15>(x, 0x7c); }
TN_FN float tn_f8e4m3fn_to_float(tn_u32 x) {
  const tn_u32 a = x & 0x7fu, sign = (x & 0x80u) << 24;
  const tn_u32 small = tn_bits(tn_as_float((a << 20) + (121u << 23)) - 0.015625f);
  return tn_as_float(sign | (a < 8u ? small : a == 0x7fu ? 0x7fc00000u : (a << 20) + (120u << 23)));
}
TN_FN float tn_f8e5m2_to_float(tn_u32 x) { return tn_half_to_float((unsigned short)(x << 8)); }

TN_FN float tn_get(float x) { return x; }
TN_FN double tn_get(double x) { return x; }
TN_FN tn_i64 tn_get(tn_i64 x) { return x; }
TN_FN tn_i32 tn_get(tn_i32 x) { return x; }
TN_FN tn_i16 tn_get(tn_i16 x) { return x; }
TN_FN tn_i8 tn_get(tn_i8 x) { return x; }
TN_FN tn_u8 tn_get(tn_u8 x) { return x; }
TN_FN bool tn_get(tn_b8 x) { return x.bits != 0; }
TN_FN float tn_get(tn_bf16 x) { return tn_as_float((tn_u32)x.bits << 16); }
TN_FN float tn_get(tn_f16 x) { return tn_half_to_float(x.bits); }
TN_FN float tn_get(tn_f8e4m3fn x) { return tn_f8e4m3fn_to_float(x.bits); }
TN_FN float tn_get(tn_f8e5m2 x) { return tn_f8e5m2_to_float(x.bits); }

TN_FN void tn_put(float& to, float x) { to = x; }
TN_FN void tn_put(double& to, double x) { to = x; }
TN_FN void tn_put(tn_i64& to, tn_i64 x) { to = x; }
TN_FN void tn_put(tn_i32& to, tn_i32 x) { to = x; }
TN_FN void tn_put(tn_i16& to, tn_i16 x) { to = x; }
TN_FN void tn_put(tn_i8& to, tn_i8 x) { to = x; }
TN_FN void tn_put(tn_u8& to, tn_u8 x) { to = x; }
TN_FN void tn_put(tn_b8& to, bool x) { to.bits = x; }
TN_FN void tn_put(tn_bf16& to, float x) { to.bits = tn_float_to_bf16(x); }
TN_FN void tn_put(tn_f16& to, float x) { to.bits = tn_float_to_half(x); }
TN_FN void tn_put(tn_f8e4m3fn& to, float x) { to.bits = tn_float_to_f8e4m3fn(x); }
TN_FN void tn_put(tn_f8e5m2& to, float x) { to.bits = tn_float_to_f8e5m2(x); }

// N adjacent elements.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) tn_vec { T at[N]; };

// Loads N adjacent elements, aligned to the size of all of them.
template <int N, class T>
TN_FN tn_vec<T, N> tn_load(const T* p) {
  tn_vec<T, N> r;
  tn_read<sizeof(T) * N>(&r, p);
  return r;
}
// Loads the first `count` elements; the others are zeros.
template <int N, class T>
TN_FN tn_vec<T, N> tn_load(const T* p, int count) {
  if (count >= N) return tn_load<N>(p);
  tn_vec<T, N> r = {};
#pragma unroll
  for (int v = 0; v < N; ++v)
    if (v < count) r.at[v] = p[v];
  return r;
}
template <int N, class T>
TN_FN void tn_store(T* p, const tn_vec<T, N>& x) {
  tn_write<sizeof(T) * N>(p, &x);
}
template <int N, class T>
TN_FN void tn_store(T* p, const tn_vec<T, N>& x, int count) {
  if (count >= N) return tn_store<N>(p, x);
#pragma unroll
  for (int v = 0; v < N; ++v)
    if (v < count) p[v] = x.at[v];
}

// Number of elements of a vector that lie before `end`.
TN_FN int tn_count(tn_ix at, tn_ix end, int most) {
  return end - at < (tn_ix)most ? (int)(end - at) : most;
}

// ---- teams ----

// The fold of the values of the T threads of a team, returned to all of them. slots: 2 * 32 per block, for
// teams of more than a warp; all threads of such a team must call this function. `turn` alternates from fold
// to fold.
template <int T, class V, class F>
TN_FN V tn_team_fold(V x, F fold, tn_u64 (*slots)[32], int& turn) {
  constexpr int within = T < 32 ? T : 32;
#pragma unroll
  for (int d = within / 2; d > 0; d /= 2) x = fold(x, tn_shuffle_xor<within>(x, d));
  if (T > 32) {
    constexpr int warps = T / 32 > 0 ? T / 32 : 1;
    V* mine = (V*)slots[turn];
    turn ^= 1;
    const int lane = threadIdx.x % 32;
    if (lane == 0) mine[threadIdx.x / 32] = x;
    __syncthreads();
    x = mine[lane % warps];
#pragma unroll
    for (int d = warps / 2; d > 0; d /= 2) x = fold(x, tn_shuffle_xor<warps>(x, d));
  }
  return x;
}

// The same over the C blocks of a cluster of T threads each, all of which must call this function. parts: 2
// per block. No block may end before all blocks have left their last fold: tn_cluster_barrier.
template <int T, int C, class V, class F>
TN_FN V tn_cluster_fold(V x, F fold, tn_u64 (*slots)[32], tn_u64* parts, int& turn) {
  static_assert(T > 32, "its fold alternates turns");
  x = tn_team_fold<T>(x, fold, slots, turn);
  if (threadIdx.x == 0) *(V*)&parts[turn] = x;
  tn_cluster_barrier();
  union { tn_u64 all; V value; } part;
  part.all = tn_cluster_read(&parts[turn], threadIdx.x % C);
  x = part.value;
#pragma unroll
  for (int d = C / 2; d > 0; d /= 2) x = fold(x, tn_shuffle_xor<C>(x, d));
  return x;
}

// The base of sums of exp(x - base) while the maximum `most` grows. The sums stay 0 as long as the maximum is
// -inf.
template <class T> TN_FN T tn_base(T most) { return most == -(T)tn_inf() ? T(0) : most; }
// The final sum of numbers whose maximum is `most`.
template <class T> TN_FN T tn_sum_below(T most, T sum) { return most == -(T)tn_inf() ? most - most : sum; }
// A thread has read `seen` numbers. Their distances from `from` add up to `sum`, and the squared distances to
// `squares`. Moves `from` to their mean (at first to x) each time `seen` doubles, so that the squared numbers
// stay small.
template <class T>
TN_FN void tn_center(T x, T seen, T& next, T& from, T& sum, T& squares) {
  next = 2 * seen + 1;
  const T to = from + (seen == T(0) ? x : sum / seen), by = to - from;
  squares -= by * (2 * sum - seen * by);
  sum -= seen * by;
  from = to;
}
// The sum of their squared distances from another mean.
template <class T>
TN_FN T tn_squares_about(T mean, T seen, T from, T sum, T squares) {
  if (seen == T(0)) return T(0);
  const T rest = sum / seen, far = (from - mean) + rest, spread = squares - sum * rest;
  const T all = (spread < T(0) ? T(0) : spread) + seen * (far * far);
  // Squares that overflow are infinite, although the corrections above may have made them NaN.
  return all == all || mean - mean != T(0) ? all : (T)tn_inf();
}

// Folds N columns of a thread over the R threads of a block of T threads that share these columns, by halves.
// The first of the R threads gets the results, or with All each of them. parts: T * N values per block. All
// threads of the block must call this function.
template <int T, int R, bool All, class V, int N, class F>
TN_FN void tn_rows_fold(V (&x)[N], F fold, tn_u64* parts) {
  V* all = (V*)parts;
  const int row = threadIdx.x / (T / R);
  __syncthreads();
#pragma unroll
  for (int d = R / 2; d > 0; d /= 2) {
    if (row >= d && row < 2 * d) {
#pragma unroll
      for (int v = 0; v < N; ++v) all[v * T + threadIdx.x] = x[v];
    }
    __syncthreads();
    if (row < d) {
#pragma unroll
      for (int v = 0; v < N; ++v) x[v] = fold(x[v], all[v * T + threadIdx.x + d * (T / R)]);
    }
  }
  if (!All) return;
  if (row == 0) {
#pragma unroll
    for (int v = 0; v < N; ++v) all[v * T + threadIdx.x] = x[v];
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < N; ++v) x[v] = all[v * T + threadIdx.x % (T / R)];
}

// ---- map rows ----

template <class T> struct tn_unsigned_of;
template <> struct tn_unsigned_of<tn_i64> { typedef tn_u64 type; };
template <> struct tn_unsigned_of<tn_i32> { typedef tn_u32 type; };
template <> struct tn_unsigned_of<tn_i16> { typedef unsigned short type; };
template <> struct tn_unsigned_of<tn_i8> { typedef tn_u8 type; };
template <> struct tn_unsigned_of<tn_u8> { typedef tn_u8 type; };
#define TN_U(T) typename tn_unsigned_of<T>::type

TN_FN float tn_add(float a, float b) { return a + b; }
TN_FN double tn_add(double a, double b) { return a + b; }
template <class T> TN_FN T tn_add(T a, T b) { return (T)((TN_U(T))a + (TN_U(T))b); }
TN_FN float tn_sub(float a, float b) { return a - b; }
TN_FN double tn_sub(double a, double b) { return a - b; }
template <class T> TN_FN T tn_sub(T a, T b) { return (T)((TN_U(T))a - (TN_U(T))b); }
TN_FN float tn_mul(float a, float b) { return a * b; }
TN_FN double tn_mul(double a, double b) { return a * b; }
template <class T> TN_FN T tn_mul(T a, T b) { return (T)((TN_U(T))((tn_u64)a * (tn_u64)b)); }
TN_FN double tn_div(double a, double b) { return a / b; }
TN_FN double tn_reciprocal(double a) { return 1.0 / a; }
TN_FN float tn_fma(float a, float b, float c) { return fmaf(a, b, c); }
TN_FN double tn_fma(double a, double b, double c) { return fma(a, b, c); }
template <class T> TN_FN T tn_fma(T a, T b, T c) { return tn_add(tn_mul(a, b), c); }
TN_FN float tn_trunc_div(float a, float b) { return truncf(a / b); }
TN_FN double tn_trunc_div(double a, double b) { return trunc(a / b); }
template <class T> TN_FN T tn_trunc_div(T a, T b) { return b == 0 ? T(0) : b == (T)-1 && (T)-1 < 0 ? tn_sub(T(0), a) : (T)(a / b); }
TN_FN float tn_fmod(float a, float b) { return fmodf(a, b); }
TN_FN double tn_fmod(double a, double b) { return fmod(a, b); }
template <class T> TN_FN T tn_fmod(T a, T b) { return b == 0 || (b == (T)-1 && (T)-1 < 0) ? T(0) : (T)(a % b); }
TN_FN float tn_remainder(float a, float b) { const float r = fmodf(a, b); return r != 0 && (b < 0) != (r < 0) ? r + b : r; }
TN_FN double tn_remainder(double a, double b) { const double r = fmod(a, b); return r != 0 && (b < 0) != (r < 0) ? r + b : r; }
template <class T> TN_FN T tn_remainder(T a, T b) { const T r = tn_fmod(a, b); return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r; }
template <class T> TN_FN T tn_floor_div(T a, T b) {
  const T r = tn_fmod(a, b);
  return (T)(tn_trunc_div(a, b) - (T)(r != 0 && (r < 0) != (b < 0)));
}
TN_FN float tn_maximum(float a, float b) { return a != a || a > b ? a : b; }
TN_FN double tn_maximum(double a, double b) { return a != a || a > b ? a : b; }
template <class T> TN_FN T tn_maximum(T a, T b) { return a > b ? a : b; }
TN_FN float tn_minimum(float a, float b) { return a != a || a < b ? a : b; }
TN_FN double tn_minimum(double a, double b) { return a != a || a < b ? a : b; }
template <class T> TN_FN T tn_minimum(T a, T b) { return a < b ? a : b; }
TN_FN float tn_clamp(float x, float low, float high) { const float r = low != low || x < low ? low : x; return high != high || r > high ? high : r; }
TN_FN double tn_clamp(double x, double low, double high) { const double r = low != low || x < low ? low : x; return high != high || r > high ? high : r; }
template <class T> TN_FN T tn_index_in(T i, T size) { return (unsigned long long)i < (unsigned long long)size ? i : T(0); }
template <class T> TN_FN T tn_clamp(T x, T low, T high) { const T r = x < low ? low : x; return r > high ? high : r; }
TN_FN float tn_neg(float a) { return -a; }
TN_FN double tn_neg(double a) { return -a; }
template <class T> TN_FN T tn_neg(T a) { return tn_sub(T(0), a); }
TN_FN float tn_abs(float a) { return fabsf(a); }
TN_FN double tn_abs(double a) { return fabs(a); }
template <class T> TN_FN T tn_abs(T a) { return a < 0 ? tn_sub(T(0), a) : a; }
template <class T> TN_FN T tn_sign(T a) { return (T)((a > 0) - (a < 0)); }
TN_FN bool tn_sign(bool a) { return a; }
template <class T> TN_FN T tn_square(T a) { return tn_mul(a, a); }
TN_FN double tn_sqrt(double a) { return sqrt(a); }
TN_FN float tn_floor(float a) { return floorf(a); }
TN_FN double tn_floor(double a) { return floor(a); }
template <class T> TN_FN T tn_floor(T a) { return a; }
TN_FN float tn_ceil(float a) { return ceilf(a); }
TN_FN double tn_ceil(double a) { return ceil(a); }
template <class T> TN_FN T tn_ceil(T a) { return a; }
TN_FN float tn_round(float a) { return rintf(a); }
TN_FN double tn_round(double a) { return rint(a); }
template <class T> TN_FN T tn_round(T a) { return a; }
TN_FN float tn_trunc(float a) { return truncf(a); }
TN_FN double tn_trunc(double a) { return trunc(a); }
template <class T> TN_FN T tn_trunc(T a) { return a; }

template <class T> TN_FN bool tn_isnan(T a) { return a != a; }
TN_FN bool tn_isinf(float a) { return fabsf(a) == tn_inf(); }
TN_FN bool tn_isinf(double a) { return fabs(a) == (double)tn_inf(); }
template <class T> TN_FN bool tn_isinf(T) { return false; }
TN_FN bool tn_isfinite(float a) { return fabsf(a) < tn_inf(); }
TN_FN bool tn_isfinite(double a) { return fabs(a) < (double)tn_inf(); }
template <class T> TN_FN bool tn_isfinite(T) { return true; }
template <class T> TN_FN bool tn_eq(T a, T b) { return a == b; }
template <class T> TN_FN bool tn_ne(T a, T b) { return a != b; }
template <class T> TN_FN bool tn_lt(T a, T b) { return a < b; }
template <class T> TN_FN bool tn_le(T a, T b) { return a <= b; }
template <class T> TN_FN bool tn_gt(T a, T b) { return a > b; }
template <class T> TN_FN bool tn_ge(T a, T b) { return a >= b; }
template <class T> TN_FN bool tn_logical_and(T a, T b) { return a != T(0) && b != T(0); }
template <class T> TN_FN bool tn_logical_or(T a, T b) { return a != T(0) || b != T(0); }
template <class T> TN_FN bool tn_logical_xor(T a, T b) { return (a != T(0)) != (b != T(0)); }
template <class T> TN_FN bool tn_logical_not(T a) { return a == T(0); }
template <class T> TN_FN T tn_bit_and(T a, T b) { return (T)(a & b); }
template <class T> TN_FN T tn_bit_or(T a, T b) { return (T)(a | b); }
template <class T> TN_FN T tn_bit_xor(T a, T b) { return (T)(a ^ b); }
template <class T> TN_FN T tn_bit_not(T a) { return (T)~a; }
TN_FN bool tn_bit_not(bool a) { return !a; }
template <class T> TN_FN T tn_shift_left(T a, T b) {
  return b < 0 || b >= (T)(8 * sizeof(T)) ? T(0) : (T)((tn_u64)a << b);
}
template <class T> TN_FN T tn_shift_right(T a, T b) {
  const bool out = b < 0 || b >= (T)(8 * sizeof(T));
  if ((T)-1 > 0) return out ? T(0) : (T)(a >> b);
  return (T)(a >> (out ? (T)(8 * sizeof(T) - 1) : b));
}
template <class T> TN_FN T tn_where(bool c, T a, T b) { return c ? a : b; }
template <class C, class T> TN_FN T tn_where(C c, T a, T b) { return c != C(0) ? a : b; }

// Philox2x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
// Returns the two words of a block.
struct tn_block { tn_u32 word[2]; };
TN_FN tn_block tn_philox_block(tn_u64 counter, tn_u32 key) {
  tn_u32 x = (tn_u32)counter, y = (tn_u32)(counter >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    tn_u32 high;
    const tn_u32 low = tn_multiply(x, 0xd256d193u, high);
    x = high ^ key ^ y;
    y = low;
    key += 0x9e3779b9u;
  }
  return {{x, y}};
}
TN_FN tn_i64 tn_philox(tn_i64 counter, tn_i64 key) {
  const tn_block b = tn_philox_block((tn_u64)counter, (tn_u32)key);
  return (tn_i64)((tn_u64)b.word[1] << 32 | b.word[0]);
}
// Block `number` of the random numbers of a seed. A block has the words of two places.
TN_FN tn_block tn_random_block(tn_u64 number, tn_i64 seed) { return tn_philox_block(number ^ ((tn_u64)seed & 0xffffffff00000000ull), (tn_u32)seed); }
TN_FN tn_i32 tn_random_bits(tn_i64 place, tn_i64 seed) {
  const tn_block b = tn_random_block((tn_u64)place >> 1, seed);
  return (tn_i32)(place & 1 ? b.word[1] : b.word[0]);
}
// The words of N consecutive places; N is even. If the first place is the second word of its block, all words
// shift by one place.
template <int N> struct tn_words { tn_i32 at[N]; };
template <int N>
TN_FN tn_words<N> tn_random_words(tn_i64 first, tn_i64 seed) {
  tn_words<N> words;
  const tn_u64 begin = ((tn_u64)first + 1) >> 1;
#pragma unroll
  for (int b = 0; b < N / 2; ++b) {
    const tn_block two = tn_random_block(begin + b, seed);
    words.at[2 * b] = (tn_i32)two.word[0];
    words.at[2 * b + 1] = (tn_i32)two.word[1];
  }
  if (first & 1) {
#pragma unroll
    for (int v = N - 1; v > 0; --v) words.at[v] = words.at[v - 1];
    words.at[0] = tn_random_bits(first, seed);
  }
  return words;
}

// Functions of one float (in the requested accuracy) and of one double (as accurate as possible).
#define TN_FLOAT(name, f, d)                       \
  TN_FN float tn_##name(float a) { return f; }     \
  TN_FN double tn_##name(double a) { return d; }
#define TN_FLOAT_ONLY(name, f) TN_FN float tn_##name(float a) { return f; }
#if TN_APPROXIMATE
TN_FN float tn_div(float a, float b) { return tn_fast_div(a, b); }
TN_FLOAT_ONLY(reciprocal, tn_fast_div(1.0f, a))
TN_FLOAT_ONLY(sqrt, tn_fast_sqrt(a))
TN_FLOAT(rsqrt, tn_fast_rsqrt(a), 1 / sqrt(a))
TN_FLOAT(exp, tn_fast_exp2(a * 1.4426950408889634f), exp(a))
TN_FLOAT(exp2, tn_fast_exp2(a), exp2(a))
TN_FLOAT(sigmoid, tn_fast_reciprocal(1.0f + tn_fast_exp2_flushed(a * -1.4426950408889634f)), 1 / (1 + exp(-a)))
// tanh.approx has a relative error of 2^-11: a step of f16, and more than all of 1 - tanh where that
// difference is small.
TN_FN float tn_tanh_large(float a) { return fmaf(-2.0f, tn_fast_reciprocal(1.0f + tn_fast_exp2_flushed(a * 2.8853900817779268f)), 1.0f); }
TN_FLOAT(tanh, fabsf(a) < 0.01f ? a : tn_tanh_large(a), tanh(a))
// lg2.approx has an absolute error of 2^-22.6 between 1/2 and 2, however small the logarithm is. Near 1, the
// functions below use the series in d = a - 1, whose relative error is d^3 / 4.
TN_FN bool tn_near_1(float a) { return fabsf(a - 1.0f) < 0.02f; }
TN_FN float tn_log_near_1(float a) { const float d = a - 1.0f; return fmaf(d * d, fmaf(d, 0.333333333f, -0.5f), d); }
TN_FLOAT(log, tn_near_1(a) ? tn_log_near_1(a) : tn_fast_log2(a) * 0.6931471805599453f, log(a))
TN_FLOAT(log2, tn_near_1(a) ? tn_log_near_1(a) * 1.4426950408889634f : tn_fast_log2(a), log2(a))
// erfc of |a| as a power of two. The polynomial was fitted to log2(erfc(z)) / z for the least relative error
// of erfc and of erf on z in [0, 4.4]: 1.4e-5. Beyond this range the result falls to 0.
TN_FN float tn_erfc_abs(float a) {
  const float z = fabsf(a);
  float p = fmaf(z, -1.70706656e-5f, 4.37672626e-4f);
  p = fmaf(z, p, -4.94280045e-3f);
  p = fmaf(z, p, 3.31155029e-2f);
  p = fmaf(z, p, -1.51308658e-1f);
  p = fmaf(z, p, -9.17786707e-1f);
  p = fmaf(z, p, -1.62792854f);
  return tn_fast_exp2_flushed(z * p);
}
TN_FN float tn_erf_small(float a) { return a * fmaf(a * a, -0.376126389f, 1.12837917f); }
TN_FN float tn_erf_large(float a) { const float r = 1.0f - tn_erfc_abs(a); return a < 0.0f ? -r : r; }
TN_FLOAT(erf, fabsf(a) < 0.1f ? tn_erf_small(a) : tn_erf_large(a), erf(a))
TN_FLOAT(erfc, a < 0.0f ? 2.0f - tn_erfc_abs(a) : tn_erfc_abs(a), erfc(a))
#else
TN_FLOAT(erf, erff(a), erf(a))
TN_FLOAT(erfc, erfcf(a), erfc(a))
TN_FN float tn_div(float a, float b) { return a / b; }
TN_FLOAT_ONLY(reciprocal, 1.0f / a)
TN_FLOAT_ONLY(sqrt, sqrtf(a))
TN_FLOAT(rsqrt, 1.0f / sqrtf(a), 1 / sqrt(a))
TN_FLOAT(exp, expf(a), exp(a))
TN_FLOAT(exp2, exp2f(a), exp2(a))
TN_FLOAT(sigmoid, 1.0f / (1.0f + expf(-a)), 1 / (1 + exp(-a)))
TN_FLOAT(tanh, tanhf(a), tanh(a))
TN_FLOAT(log, logf(a), log(a))
TN_FLOAT(log2, log2f(a), log2(a))
#endif
TN_FLOAT(expm1, expm1f(a), expm1(a))
TN_FLOAT(log10, log10f(a), log10(a))
TN_FLOAT(log1p, log1pf(a), log1p(a))
TN_FLOAT(lgamma, lgammaf(a), lgamma(a))
TN_FLOAT(sin, sinf(a), sin(a))
TN_FLOAT(cos, cosf(a), cos(a))
TN_FLOAT(tan, tanf(a), tan(a))
TN_FLOAT(asin, asinf(a), asin(a))
TN_FLOAT(acos, acosf(a), acos(a))
TN_FLOAT(atan, atanf(a), atan(a))
TN_FLOAT(sinh, sinhf(a), sinh(a))
TN_FLOAT(cosh, coshf(a), cosh(a))
TN_FLOAT(asinh, asinhf(a), asinh(a))
TN_FLOAT(acosh, acoshf(a), acosh(a))
TN_FLOAT(atanh, atanhf(a), atanh(a))
TN_FN float tn_atan2(float a, float b) { return atan2f(a, b); }
TN_FN double tn_atan2(double a, double b) { return atan2(a, b); }
TN_FN float tn_sin_far(float a, float b) { return a == a ? a : sinf(b); }
TN_FN double tn_sin_far(double a, double b) { return a == a ? a : sin(b); }
TN_FN float tn_cos_far(float a, float b) { return a == a ? a : cosf(b); }
TN_FN double tn_cos_far(double a, double b) { return a == a ? a : cos(b); }
TN_FN float tn_tan_far(float a, float b) { return a == a ? a : tanf(b); }
TN_FN double tn_tan_far(double a, double b) { return a == a ? a : tan(b); }

// ---- conversions, as src/base/convert.h has them ----

template <class To, class From> struct tn_cast_of { static TN_FN To of(From x) { return (To)x; } };
template <class From> struct tn_cast_of<bool, From> { static TN_FN bool of(From x) { return x != From(0); } };
TN_FN tn_i64 tn_to_i64(double x) { return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (tn_i64)x : (tn_i64)0x8000000000000000ull; }
TN_FN tn_i32 tn_to_i32(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (tn_i32)x : (tn_i32)0x80000000u; }
#define TN_FROM_FLOAT(From)                                                                                   \
  template <> struct tn_cast_of<tn_i64, From> { static TN_FN tn_i64 of(From x) { return tn_to_i64(x); } };    \
  template <> struct tn_cast_of<tn_i32, From> { static TN_FN tn_i32 of(From x) { return tn_to_i32(x); } };    \
  template <> struct tn_cast_of<tn_i16, From> { static TN_FN tn_i16 of(From x) { return (tn_i16)tn_to_i32(x); } }; \
  template <> struct tn_cast_of<tn_i8, From> { static TN_FN tn_i8 of(From x) { return (tn_i8)tn_to_i32(x); } };    \
  template <> struct tn_cast_of<tn_u8, From> { static TN_FN tn_u8 of(From x) { return (tn_u8)tn_to_i32(x); } };
TN_FROM_FLOAT(float)
TN_FROM_FLOAT(double)
template <class To, class From> TN_FN To tn_cast(From x) { return tn_cast_of<To, From>::of(x); }
// The value rounded to the type, as a float.
template <class From> TN_FN float tn_round_bf16(From x) { return tn_as_float((tn_u32)tn_float_to_bf16(tn_cast<float>(x)) << 16); }
template <class From> TN_FN float tn_round_f16(From x) { return tn_half_to_float(tn_float_to_half(tn_cast<float>(x))); }
template <class From> TN_FN float tn_round_f8e4m3fn(From x) { return tn_f8e4m3fn_to_float(tn_float_to_f8e4m3fn(tn_cast<float>(x))); }
template <class From> TN_FN float tn_round_f8e5m2(From x) { return tn_f8e5m2_to_float(tn_float_to_f8e5m2(tn_cast<float>(x))); }
template <class To, class From> TN_FN To tn_bitcast(From x) {
  union { From from; To to; } bits;
  bits.from = x;
  return bits.to;
}

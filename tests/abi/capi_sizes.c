/* Sizes that contradict each other or the graph, negative, huge and overflowing sizes, and symbols that nothing
 * determines. Refusals name the symbol, the tensors and the values, make no plan and leave outputs unchanged. */
#include "capi.h"

#define MAX INT64_MAX
#define MIN INT64_MIN

static float bytes_in[4][64];
static int64_t scalar;
static float bytes_out[64], before[64];

/* A call with f32 inputs of these shapes (-9 ends a shape; NULL: the i64 `scalar`) and one output. */
typedef struct call {
  const int64_t* in[3];
  const int64_t* out;
} call;
#define END (-9)

static int32_t rank_of(const int64_t* shape) {
  int32_t n = 0;
  while (shape[n] != END) ++n;
  return n;
}

static tenon_status run(tenon_program* program, const call* c, size_t n) {
  tenon_tensor in[3], out = tensor(bytes_out, f32, rank_of(c->out), (int64_t*)c->out);
  const tenon_tensor *pi[3], *po[1];
  size_t i;
  for (i = 0; i < n; ++i) {
    in[i] = c->in[i] ? tensor(bytes_in[i], f32, rank_of(c->in[i]), (int64_t*)c->in[i])
                     : tensor(&scalar, i64, 0, NULL);
    pi[i] = &in[i];
  }
  po[0] = &out;
  return tenon_program_run(program, pi, n, po, 1);
}

static int64_t misses(tenon_program* program) {
  tenon_program_stats s;
  s.struct_size = sizeof s;
  OK(tenon_program_get_stats(program, &s));
  return s.plan_misses;
}

#define S1(a) ((const int64_t[]){a, END})
#define S2(a, b) ((const int64_t[]){a, b, END})
#define S3(a, b, c) ((const int64_t[]){a, b, c, END})
#define RUN(n, ...) run(program, &(const call){__VA_ARGS__}, n)
#define WRONG(words, n, ...) \
  (INVALID(RUN(n, __VA_ARGS__), words), CHECK(!memcmp(bytes_out, before, sizeof before)))

static tenon_program* program;
static void start(const char* text) {
  tenon_program_release(program);
  program = compile(text);
  memset(bytes_out, 0x77, sizeof bytes_out);
  memcpy(before, bytes_out, sizeof before);
}

static void contradictions(void) {
  int64_t made;
  start(
      "graph @c(%x: f32[N,M], %b: f32[M], %c: f32[2*N+1]) {\n  %s = slice(%c){axis=0, start=0, end=1}\n"
      "  %y = add(%x, %b)\n  %z = add(%y, %s)\n  return %z\n}\n");
  OK(RUN(3, {S2(2, 4), S1(4), S1(5)}, S2(2, 4)));
  memcpy(bytes_out, before, sizeof before);
  made = misses(program);
  WRONG("input %b|f32[M] = [4]|got shape [5]|M is 4, axis 1 of %x", 3, {S2(2, 4), S1(5), S1(5)}, S2(2, 4));
  WRONG("input %c|f32[2*N+1] = [5]|got shape [6]|N is 2, axis 0 of %x", 3, {S2(2, 4), S1(4), S1(6)},
        S2(2, 4));
  CHECK(misses(program) == made);
  /* New sizes, for which there is no plan: the sentence is the same, and no plan is made. */
  WRONG("input %b|f32[M] = [7]|got shape [5]|M is 7, axis 1 of %x", 3, {S2(2, 7), S1(5), S1(5)}, S2(2, 7));
  WRONG("input %c|f32[2*N+1] = [19]|got shape [5]|N is 9, axis 0 of %x", 3, {S2(9, 7), S1(7), S1(5)},
        S2(9, 7));
  CHECK(misses(program) == made);
  WRONG("output %z|f32[N,M] = [2,4]|got shape [2,5]|M is 4, axis 1 of %x", 3, {S2(2, 4), S1(4), S1(5)},
        S2(2, 5));
  WRONG("output %z|f32[N,M] = [2,4]|got shape [3,4]|N is 2, axis 0 of %x", 3, {S2(2, 4), S1(4), S1(5)},
        S2(3, 4));
  OK(RUN(3, {S2(2, 4), S1(4), S1(5)}, S2(2, 4)));

  /* A symbol that is the value of an input. */
  start(
      "graph @v(%x: f32[N], %n: i64[] = K, %w: f32[K]) {\n  %e = reshape(%x){shape=[K,2]}\n"
      "  %s = sum(%e){axes=[1]}\n  %y = add(%s, %w)\n  return %y\n}\n");
  scalar = 3;
  OK(RUN(3, {S1(6), NULL, S1(3)}, S1(3)));
  memcpy(bytes_out, before, sizeof before);
  WRONG("input %w|f32[K] = [3]|got shape [4]|K is 3, the value of %n", 3, {S1(6), NULL, S1(4)}, S1(3));
  WRONG("reshape|[8]|[3,2]", 3, {S1(8), NULL, S1(3)}, S1(3));
  scalar = -1;
  WRONG("K, the value of %n, is negative: -1", 3, {S1(6), NULL, S1(3)}, S1(3));
  scalar = MIN;
  WRONG("K, the value of %n, is negative: -9223372036854775808", 3, {S1(6), NULL, S1(3)}, S1(3));
  scalar = MAX;
  WRONG("%w|[9223372036854775807]|[3]|K is 9223372036854775807, the value of %n", 3, {S1(6), NULL, S1(3)},
        S1(3));
  scalar = MAX;
  WRONG("9223372036854775807", 3, {S1(6), NULL, S1(MAX)}, S1(3));
}

static void linear(void) {
  start("graph @l(%x: f32[2*N+3]) {\n  %y = neg(%x)\n  return %y\n}\n");
  OK(RUN(1, {S1(7)}, S1(7)));
  memcpy(bytes_out, before, sizeof before);
  WRONG("%x|f32[2*N+3]|[6]", 1, {S1(6)}, S1(6));
  WRONG("N, axis 0 of %x, is negative: -1", 1, {S1(1)}, S1(1));
  WRONG("%x|f32[2*N+3]|negative|-9223372036854775808", 1, {S1(MIN)}, S1(MIN));
  WRONG("%x|-1", 1, {S1(-1)}, S1(-1));
  WRONG("%x|9223372036854775807|bytes", 1, {S1(MAX)}, S1(MAX));
  start("graph @l(%x: f32[N-5]) {\n  %y = neg(%x)\n  return %y\n}\n");
  OK(RUN(1, {S1(7)}, S1(7)));
  memcpy(bytes_out, before, sizeof before);
  WRONG("%x|f32[N-5]|9223372036854775807|64 bits", 1, {S1(MAX)}, S1(MAX));
  WRONG("%x|negative|-9223372036854775808", 1, {S1(MIN)}, S1(MIN));
  start("graph @l(%x: f32[5-N]) {\n  %y = neg(%x)\n  return %y\n}\n");
  OK(RUN(1, {S1(3)}, S1(3)));
  memcpy(bytes_out, before, sizeof before);
  WRONG("N, axis 0 of %x, is negative: -1", 1, {S1(6)}, S1(6));
  WRONG("N, axis 0 of %x, is negative: -9223372036854775802", 1, {S1(MAX)}, S1(MAX));
  WRONG("%x|negative|-9223372036854775808", 1, {S1(MIN)}, S1(MIN));
}

static void huge(void) {
  const int64_t big = INT64_C(1) << 40, most = INT64_C(1) << 62;
  start("graph @h(%x: f32[N,M,K]) {\n  %y = exp(%x)\n  return %y\n}\n");
  WRONG("%x|f32[N,M,K] = [1099511627776,1099511627776,1]|bytes", 1, {S3(big, big, 1)}, S3(big, big, 1));
  WRONG("%x|[9223372036854775807,9223372036854775807,9223372036854775807]|bytes", 1, {S3(MAX, MAX, MAX)},
        S3(MAX, MAX, MAX));
  WRONG("%x|bytes", 1, {S3(most, 1, 1)}, S3(most, 1, 1));
  WRONG("%x|70368744177668 bytes", 1, {S3((INT64_C(1) << 44) + 1, 1, 1)}, S3((INT64_C(1) << 44) + 1, 1, 1));
  WRONG("N, axis 0 of %x, is negative", 1, {S3(-1, 0, 0)}, S3(-1, 0, 0));
  /* Empty tensors, however long their other axes are. */
  OK(RUN(1, {S3(big, big, 0)}, S3(big, big, 0)));
  OK(RUN(1, {S3(MAX, MAX, 0)}, S3(MAX, MAX, 0)));
  OK(RUN(1, {S3(0, MAX, MAX)}, S3(0, MAX, MAX)));
  CHECK(!memcmp(bytes_out, before, sizeof before));

  /* An intermediate overflows. */
  start(
      "graph @p(%x: f32[N], %y: f32[M]) {\n  %a = expand(%x){shape=[M,N]}\n  %e = exp(%a)\n"
      "  %s = sum(%e){axes=[0,1]}\n  return %s\n}\n");
  OK(RUN(2, {S1(3), S1(4)}, (const int64_t[]){END}));
  memcpy(bytes_out, before, sizeof before);
  start(
      "graph @q(%x: f32[N]) {\n  %a = concat(%x, %x, %x, %x){axis=0}\n  %s = sum(%a){axes=[0]}\n"
      "  return %s\n}\n");
  WRONG("%x|bytes", 1, {S1(most)}, (const int64_t[]){END});
  start("graph @r(%x: f32[0,N]) {\n  %a = reshape(%x){shape=[0,4*N]}\n  %e = exp(%a)\n  return %e\n}\n");
  OK(RUN(1, {S2(0, 5)}, S2(0, 20)));
  WRONG("4*N|64 bits", 1, {S2(0, most)}, S2(0, most));
}

static void strides(void) {
  static float x[16], y[16];
  int64_t shape[2] = {2, 3}, k = 2, st[2];
  tenon_tensor tx = tensor(x, f32, 2, shape), tk = tensor(&k, i64, 0, NULL), ty = tensor(y, f32, 2, shape);
  const tenon_tensor *in[2], *out[1];
  tenon_program* p =
      compile("graph @st(%x: f32[N,3] strides=[4*K,1], %k: i64[] = K) {\n  %y = neg(%x)\n  return %y\n}\n");
  static const int64_t bad[][2] = {{3, 1},   {-8, 1},  {8, -1}, {MAX, 1}, {MIN, 1},
                                   {8, MAX}, {8, MIN}, {0, 0},  {1, 8},   {MIN, MIN}};
  size_t i;
  in[0] = &tx, in[1] = &tk, out[0] = &ty;
  tx.strides = st;
  st[0] = 8, st[1] = 1;
  for (i = 0; i < 16; ++i) x[i] = (float)i;
  OK(tenon_program_run(p, in, 2, out, 1));
  CHECK(y[1] == -1 && y[3] == -8 && y[5] == -10);
  memset(y, 0, sizeof y);
  for (i = 0; i < sizeof bad / sizeof *bad; ++i) {
    st[0] = bad[i][0], st[1] = bad[i][1];
    INVALID(tenon_program_run(p, in, 2, out, 1), "%x|strides [8,1]|got [");
  }
  tx.strides = NULL;
  INVALID(tenon_program_run(p, in, 2, out, 1), "%x|strides [8,1]|dense row-major");
  /* Strides, and offsets from strides, beyond any memory. */
  k = INT64_C(1) << 62;
  INVALID(tenon_program_run(p, in, 2, out, 1), "4*K|64 bits");
  k = INT64_C(1) << 58;
  INVALID(tenon_program_run(p, in, 2, out, 1), "farther than any memory");
  k = 2;
  tx.byte_offset = UINT64_MAX - 3; /* minus one element: the offset wraps like a pointer */
  tx.data = x + 1, tx.strides = st, st[0] = 8, st[1] = 1;
  OK(tenon_program_run(p, in, 2, out, 1));
  CHECK(y[1] == -1 && y[3] == -8 && y[5] == -10);
  tenon_program_release(p);
}

/* A graph of one input of shape [4] or [2,3] whose strides, or those of its output, are unusual. */
static tenon_status strided_run(const char* text, int64_t k, float* x, float* y, int32_t ndim) {
  int64_t four[1] = {4}, shape[2] = {2, 3}, in_strides[2], out_strides[2];
  tenon_tensor tx = tensor(x, f32, ndim, ndim == 1 ? four : shape), tk = tensor(&k, i64, 0, NULL), ty = tx;
  const tenon_tensor *in[2], *out[1];
  tenon_program* p = NULL;
  tenon_status status;
  const char* at = strstr(text, "strides=[");
  int64_t a = strtoll(at + 9, NULL, 10);
  const char* comma = strchr(at, ',');
  in_strides[0] = out_strides[0] = at[9] == 'K' ? k : a;
  in_strides[1] = out_strides[1] = ndim == 2 ? strtoll(comma + 1, NULL, 10) : 1;
  in[0] = &tx, in[1] = &tk, out[0] = &ty;
  ty.data = y;
  *(at < strchr(text, '{') ? &tx.strides : &ty.strides) = in_strides;
  status = make(text, &p);
  if (status == TENON_OK) status = tenon_program_run(p, in, 2, out, 1);
  tenon_program_release(p);
  return status;
}
#define INPUT(strides)                                \
  "graph @f(%x: f32[4] strides=[" strides             \
  "], %k: i64[] = K) {\n  %e = cast(%k){dtype=f32}\n" \
  "  %z = sub(%e, %e)\n  %n = neg(%x)\n  %y = add(%n, %z)\n  return %y\n}\n"
#define OUTPUT(dims, strides) \
  "graph @f(%x: f32[" dims "], %k: i64[] = K) {\n  %y = neg(%x)\n  return %y strides=[" strides "]\n}\n"

static void unusual_strides(void) {
  float x[16], y[16];
  int64_t i;
  for (i = 0; i < 16; ++i) x[i] = (float)i, y[i] = 77;
  OK(strided_run(INPUT("-1"), 0, x + 7, y, 1));
  CHECK(y[0] == -7 && y[1] == -6 && y[3] == -4 && y[4] == 77);
  OK(strided_run(INPUT("0"), 0, x + 7, y, 1));
  CHECK(y[0] == -7 && y[1] == -7 && y[3] == -7 && y[4] == 77);
  OK(strided_run(INPUT("K"), 3, x, y, 1));
  CHECK(y[0] == 0 && y[1] == -3 && y[3] == -9 && y[4] == 77);
  INVALID(strided_run(INPUT("4611686018427387904"), 0, x, y, 1), "%x|farther than any memory");
  INVALID(strided_run(INPUT("K"), MAX, x, y, 1), "%x|farther than any memory");
  OK(strided_run(OUTPUT("4", "-1"), 0, x, y + 9, 1));
  CHECK(y[9] == 0 && y[8] == -1 && y[6] == -3 && y[5] == 77 && y[10] == 77);
  OK(strided_run(OUTPUT("2,3", "K,1"), 4, x, y, 2));
  CHECK(y[2] == -2 && y[3] == -9 && y[4] == -3);
  memset(bytes_out, 0x77, sizeof bytes_out);
  /* Strides that would write an element twice. */
  INVALID(strided_run(OUTPUT("4", "0"), 0, x, bytes_out, 1), "%y|strides [0]|one place");
  INVALID(strided_run(OUTPUT("2,3", "1,1"), 0, x, bytes_out, 2), "%y|strides [1,1]|one place");
  INVALID(strided_run(OUTPUT("2,3", "2,1"), 0, x, bytes_out, 2), "%y|strides [2,1]|one place");
  INVALID(strided_run(OUTPUT("2,3", "K,1"), 2, x, bytes_out, 2), "%y|strides [2,1]|one place");
  INVALID(strided_run(OUTPUT("2,3", "K,1"), 0, x, bytes_out, 2), "%y|strides [0,1]|one place");
  INVALID(strided_run(OUTPUT("2,3", "-1,1"), 0, x, bytes_out + 9, 2), "%y|strides [-1,1]|one place");
  CHECK(!memcmp(bytes_out, before, sizeof before));
}

static void params(void) {
  int64_t shape[2] = {MAX, MAX}, st[2] = {MAX, MIN};
  float x[4] = {1, 2, 3, 4};
  tenon_tensor tw = tensor(x, f32, 2, shape);
  const tenon_tensor* given[2];
  tenon_program_options options;
  tenon_program* p = NULL;
  tenon_graph* graph = parse(
      "graph @p(%x: f32[4], %w: f32[A,B] param) {\n  %s = sum(%w){axes=[0,1]}\n  %y = add(%x, %s)\n"
      "  return %y\n}\n");
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.freeze = 1;
  given[0] = NULL, given[1] = &tw;
  INVALID(tenon_program_create(graph, &options, given, 2, &p), "%w|f32[A,B]|[9223372036854775807,");
  tw.strides = st;
  INVALID(tenon_program_create(graph, &options, given, 2, &p), "%w|f32[A,B]|[9223372036854775807,");
  shape[0] = MIN;
  INVALID(tenon_program_create(graph, &options, given, 2, &p), "%w|f32[A,B]|[-9223372036854775808,");
  CHECK(p == NULL);
  tenon_graph_release(graph);
}

static void unsound(void) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"graph @u(%x: f32[4]) {\n  %y = expand(%x){shape=[K,4]}\n  return %y\n}\n",
       "%y|no input determines|K"},
      {"graph @u(%x: f32[N*M]) {\n  %y = neg(%x)\n  return %y\n}\n", "no input determines|@u"},
      {"graph @u(%x: f32[N*N]) {\n  %y = neg(%x)\n  return %y\n}\n", "no input determines|N|@u"},
      {"graph @u(%x: f32[N], %y: f32[N*M]) {\n  %z = neg(%y)\n  return %z\n}\n", "no input determines|M|@u"},
      {"graph @u(%x: f32[4] strides=[S]) {\n  %y = neg(%x)\n  return %y\n}\n", "no input determines|S|@u"},
      {"graph @u(%x: f32[4,2]) {\n  %y = neg(%x)\n  return %y strides=[S,1]\n}\n",
       "%y|no input determines|S"},
      {"graph @u(%x: f32[N,M]) {\n  %y = neg(%x)\n  return %y strides=[0,0]\n}\n", "%y|all 0|one place"},
      {"graph @u(%x: f32[N] param) {\n  %y = neg(%x)\n  return %y updates %x\n}\n", "output 0|a param"},
  };
  size_t i;
  for (i = 0; i < sizeof cases / sizeof *cases; ++i) {
    tenon_program* p = (tenon_program*)&i;
    INVALID(make(cases[i].text, &p), cases[i].words);
    CHECK(p == NULL);
  }
}

void sizes(void) {
  contradictions(), linear(), huge(), strides(), unusual_strides(), params(), unsound();
  tenon_program_release(program);
}

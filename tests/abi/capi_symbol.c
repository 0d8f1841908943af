/* MXNet's symbols and params: reading, printing, querying, partitioning, translating; what is refused. */
#include "capi.h"

static const char kSymbol[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, {\"op\": \"null\", \"name\": \"w\", "
    "\"inputs\": []},"
    " {\"op\": \"FullyConnected\", \"name\": \"fc\", \"attrs\": {\"num_hidden\": \"2\", \"no_bias\": "
    "\"True\"},"
    "  \"inputs\": [[0, 0, 0], [1, 0, 0]]},"
    " {\"op\": \"mystery\", \"name\": \"m\", \"inputs\": [[2, 0, 0]]},"
    " {\"op\": \"relu\", \"name\": \"r\", \"inputs\": [[2, 0]]}], \"arg_nodes\": [0, 1], \"heads\": [[4, 0, "
    "0]]}";

static tenon_symbol* parse_symbol(const char* json) {
  tenon_symbol* symbol = NULL;
  OK(tenon_symbol_parse(json, TENON_NTS, &symbol));
  return symbol;
}

static void count_node(void* user, size_t node, const char* name, const char* op, int32_t translated,
                       const char* why) {
  int* counts = user;
  CHECK(node >= 2 && *name && *op);
  CHECK(translated ? *why == 0 : strstr(why, "does not translate") != NULL);
  ++counts[translated ? 1 : 0];
}

/* The symbol without the node that Tenon does not translate. */
static void without_mystery(char* json) {
  char* at;
  strcpy(json, kSymbol);
  at = strstr(json, "mystery");
  memcpy(at, "sigmoid", 7);
}

static void translate_and_run(void) {
  char json[sizeof kSymbol];
  float x[4] = {1, 2, 3, 4}, w[4] = {1, 0, 0, -1}, y[4] = {9, 9, 9, 9};
  int64_t shape[2] = {2, 2};
  tenon_symbol_input inputs[2];
  tenon_symbol* symbol;
  tenon_graph* graph = NULL;
  tenon_program* program = NULL;
  tenon_tensor tensors[3];
  const tenon_tensor *in[2], *out[1];
  without_mystery(json);
  symbol = parse_symbol(json);
  memset(inputs, 0, sizeof inputs);
  inputs[0].struct_size = inputs[1].struct_size = sizeof inputs[0];
  inputs[0].name = "x";
  inputs[0].dtype = f32;
  inputs[0].dims = "N,2";
  inputs[1].name = "w";
  inputs[1].param = 1;
  OK(tenon_symbol_graph(symbol, NULL, inputs, 2, &graph));
  OK(tenon_program_create(graph, NULL, NULL, 0, &program));
  tensors[0] = tensor(x, f32, 2, shape);
  tensors[1] = tensor(w, f32, 2, shape);
  tensors[2] = tensor(y, f32, 2, shape);
  in[0] = &tensors[0], in[1] = &tensors[1], out[0] = &tensors[2];
  OK(tenon_program_run(program, in, 2, out, 1));
  CHECK(y[0] == 1 && y[1] == 0 && y[2] == 3 && y[3] == 0);
  tenon_program_release(program);
  tenon_graph_release(graph);
  graph = NULL;
  inputs[0].dims = "N,";
  INVALID(tenon_symbol_graph(symbol, NULL, inputs, 2, &graph), "variable 'x'");
  inputs[0].dims = NULL;
  INVALID(tenon_symbol_graph(symbol, NULL, inputs, 2, &graph), "do not determine|variable 'x'|variable 'w'");
  inputs[1].name = NULL;
  INVALID(tenon_symbol_graph(symbol, NULL, inputs, 2, &graph), "input 1|name is NULL");
  inputs[1].name = "v";
  INVALID(tenon_symbol_graph(symbol, NULL, inputs, 2, &graph), "no variable 'v'");
  inputs[1].struct_size = 9;
  INVALID(tenon_symbol_graph(symbol, NULL, inputs, 2, &graph), "input 1");
  inputs[0].struct_size = 3;
  INVALID(tenon_symbol_graph(symbol, NULL, inputs, 2, &graph), "input 0|struct_size 3");
  INVALID(tenon_symbol_graph(symbol, NULL, NULL, 2, &graph), "inputs is NULL");
  INVALID(tenon_symbol_graph(symbol, NULL, inputs, 2, NULL), "out is NULL");
  INVALID(tenon_symbol_graph(NULL, NULL, inputs, 2, &graph), "symbol is NULL");
  CHECK(graph == NULL);
  tenon_symbol_release(symbol);
}

void symbols(void) {
  tenon_symbol* symbol = parse_symbol(kSymbol);
  tenon_symbol* again = NULL;
  tenon_symbol_options options;
  tenon_graph* graph = NULL;
  int counts[2] = {0, 0};
  int32_t parts[5];
  size_t length = 0, i;
  char text[4096];
  const char *op = NULL, *name = NULL;
  tenon_symbol_entry entries[2];
  CHECK(tenon_symbol_node_count(symbol) == 5 && tenon_symbol_node_count(NULL) == 0);
  OK(tenon_symbol_node(symbol, 4, &op, &name));
  CHECK(strcmp(op, "relu") == 0 && strcmp(name, "r") == 0);
  OK(tenon_symbol_node(symbol, 4, NULL, NULL));
  INVALID(tenon_symbol_node(symbol, 5, &op, &name), "node 5 of 5");
  INVALID(tenon_symbol_node(NULL, 0, &op, &name), "NULL");

  OK(tenon_symbol_attribute(symbol, 2, "num_hidden", &op));
  CHECK(strcmp(op, "2") == 0);
  OK(tenon_symbol_attribute(symbol, 4, "num_hidden", &op));
  CHECK(op == NULL);
  INVALID(tenon_symbol_attribute(symbol, 5, "num_hidden", &op), "node 5 of 5");
  INVALID(tenon_symbol_attribute(symbol, 2, NULL, &op), "NULL");
  INVALID(tenon_symbol_attribute(symbol, 2, "num_hidden", NULL), "NULL");
  OK(tenon_symbol_entries(symbol, 2, NULL, 0, &length));
  CHECK(length == 2);
  OK(tenon_symbol_entries(symbol, 2, entries, 1, &length));
  CHECK(length == 2 && entries[0].node == 0 && entries[0].output == 0);
  OK(tenon_symbol_entries(symbol, TENON_SYMBOL_HEADS, entries, 2, &length));
  CHECK(length == 1 && entries[0].node == 4);
  INVALID(tenon_symbol_entries(symbol, 5, entries, 2, &length), "node 5 of 5");
  INVALID(tenon_symbol_entries(symbol, 2, NULL, 1, &length), "NULL");
  INVALID(tenon_symbol_entries(symbol, 2, entries, 2, NULL), "NULL");

  OK(tenon_symbol_print(symbol, NULL, 0, &length));
  INVALID(tenon_symbol_print(symbol, text, length, &length), "bytes");
  OK(tenon_symbol_print(symbol, text, sizeof text, &length));
  CHECK(strlen(text) == length);
  again = parse_symbol(text);
  CHECK(tenon_symbol_node_count(again) == 5);
  tenon_symbol_retain(again);
  tenon_symbol_release(again);
  tenon_symbol_release(again);
  INVALID(tenon_symbol_print(NULL, NULL, 0, &length), "NULL");
  INVALID(tenon_symbol_print(symbol, NULL, 0, NULL), "length is NULL");
  tenon_symbol_retain(NULL);
  tenon_symbol_release(NULL);

  OK(tenon_symbol_query(symbol, NULL, count_node, counts));
  CHECK(counts[0] == 1 && counts[1] == 2);
  INVALID(tenon_symbol_query(symbol, NULL, NULL, NULL), "fn is NULL");
  OK(tenon_symbol_partition(symbol, NULL, parts, 5));
  CHECK(parts[0] == -1 && parts[1] == -1 && parts[2] == 0 && parts[3] == -1 && parts[4] == 0);
  INVALID(tenon_symbol_partition(symbol, NULL, parts, 4), "needs 5");
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.op_names = "relu,exp";
  OK(tenon_symbol_partition(symbol, &options, parts, 5));
  CHECK(parts[2] == -1 && parts[4] == 0);
  options.min_nodes = 2;
  OK(tenon_symbol_partition(symbol, &options, parts, 5));
  CHECK(parts[4] == -1);
  options.min_nodes = -1;
  INVALID(tenon_symbol_partition(symbol, &options, parts, 5), "min_nodes");
  UNSUPPORTED(tenon_symbol_graph(symbol, NULL, NULL, 0, &graph), "node 3|mystery 'm'");

  INVALID(tenon_symbol_parse(NULL, 0, &again), "NULL");
  INVALID(tenon_symbol_parse(kSymbol, TENON_NTS, NULL), "NULL");
  for (i = 0; i < sizeof kSymbol - 1; ++i) INVALID(tenon_symbol_parse(kSymbol, i, &again), "byte");
  CHECK(again == NULL);
  tenon_symbol_release(symbol);
  translate_and_run();
}

/* Appends the bytes of an object. */
#define PUT(object) (memcpy(bytes + size, &(object), sizeof(object)), size += sizeof(object))

void param_files(void) {
  const uint64_t list = 0x112, none = 0, one = 1, name_length = 5;
  const uint32_t version = 0xF993FAC9;
  const int32_t head[2] = {0, 1}, device_dtype[3] = {1, 0, 1};
  const int64_t shape = 2;
  const double values[2] = {1.5, -2.5};
  unsigned char bytes[256];
  size_t size = 0, i;
  tenon_params* read = NULL;
  tenon_tensor t;
  const char* name = NULL;
  PUT(list), PUT(none), PUT(one), PUT(version), PUT(head), PUT(shape), PUT(device_dtype), PUT(values),
      PUT(one), PUT(name_length);
  memcpy(bytes + size, "arg:w", 5), size += 5;
  OK(tenon_params_parse(bytes, size, &read));
  memset(bytes, 0, 200); /* the tensors are copies */
  CHECK(tenon_params_count(read) == 1 && tenon_params_count(NULL) == 0);
  OK(tenon_params_get(read, 0, &name, &t));
  CHECK(strcmp(name, "w") == 0 && t.ndim == 1 && t.shape[0] == 2 && t.dtype.bits == 64 && t.dtype.code == 2);
  CHECK(t.device.type == 1 && t.strides == NULL && memcmp(t.data, values, sizeof values) == 0);
  OK(tenon_params_get(read, 0, NULL, NULL));
  INVALID(tenon_params_get(read, 1, &name, &t), "tensor 1 of 1");
  INVALID(tenon_params_get(NULL, 0, &name, &t), "NULL");
  tenon_params_retain(read);
  tenon_params_release(read);
  tenon_params_release(read);
  tenon_params_release(NULL);
  read = NULL;
  size = 0;
  PUT(list), PUT(none), PUT(one);
  for (i = 0; i < size; ++i) INVALID(tenon_params_parse(bytes, i, &read), "byte");
  INVALID(tenon_params_parse(NULL, 0, &read), "NULL");
  INVALID(tenon_params_parse(bytes, size, NULL), "NULL");
  CHECK(read == NULL);
}

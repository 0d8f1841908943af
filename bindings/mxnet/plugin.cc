// The functions that MXNet calls: each translates its arguments, and lets no exception out. The library registers one backend,
// "tenon", and the operator that stands for a subgraph. Tested by tests/unit/bindings/mxnet_host_test.cc and tests/mxnet/.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bindings/mxnet/abi.h"
#include "bindings/mxnet/host.h"
#include "bindings/mxnet/messages.h"
#include "bindings/mxnet/options.h"
#include "bindings/mxnet/run/state.h"

namespace tenon::plugin {
namespace {

constexpr const char* kBackend = "tenon";
constexpr const char* kOperator = "_tenon_subgraph";
constexpr const char* kTextAttribute = "subgraph_sym_json";

// The tokens that MXNet passes back to the functions below.
void create_state_token() {}
void supported_token() {}
void review_token() {}

Token creators[] = {create_state_token};
const char* devices[] = {"cpu"};

[[noreturn]] void not_registered() {
  throw Failure("Tenon registers a subgraph operator and a partitioner, and MXNet calls something else");
}

// MXNet does not tell whether gradients are to be written or added, so a subgraph has none unless copies stand before it.
void check_backward(const State& state) {
  if (!state.subgraph->trains())
    throw Failure(
        "the graph was partitioned for inference, so a part that Tenon runs has no gradient; partition it "
        "with "
        "mode=\"training\"");
  if (!state.guarded)
    throw Failure(
        "a part that Tenon runs has no gradient in a graph that was partitioned without tenon.mxnet.load(), "
        "which puts "
        "copies before the part; call it in this process before optimize_for or hybridize");
}

struct Freed {
  void operator()(void* block) const { std::free(block); }
};

// A copy that MXNet frees with _opCallFree.
char* given(const std::string& text) {
  char* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}
char** given(const std::vector<std::string>& texts) {
  std::unique_ptr<char*, Freed> out(static_cast<char**>(std::calloc(texts.size(), sizeof(char*))));
  if (!out) throw std::bad_alloc();
  for (size_t i = 0; i < texts.size(); ++i) out.get()[i] = given(texts[i]);
  return out.release();
}

}  // namespace

extern "C" {

int _opVersion() noexcept { return kLibraryVersion; }

int _msgSize() noexcept { return message_count(); }

void _msgGet(int index, const char** out) noexcept { *out = message(index); }

int initialize(int version) noexcept {
  find_host(__builtin_return_address(0));
  return guarded([&] {
    if (version < 10900 || version >= 20000)
      throw Failure("this plugin is for MXNet 1.9, not for version number " + std::to_string(version));
  });
}

void _opCallFree(void* block) noexcept { std::free(block); }

int _opRegSize() noexcept { return 1; }

void _opRegGet(int, const char** name, int* is_subgraph, const char*** forward_devices, Token** forward,
               int* forward_count, const char*** backward_devices, Token** backward, int* backward_count,
               const char*** create_devices, Token** create, int* create_count, Token* parse, Token* type,
               Token* storage_type, Token* shape, Token* mutate) noexcept {
  *name = kOperator;
  *is_subgraph = 1;
  *forward_devices = *backward_devices = nullptr;
  *forward = *backward = nullptr;
  *forward_count = *backward_count = 0;
  *create_devices = devices;
  *create = creators;
  *create_count = 1;
  *parse = *type = *storage_type = *shape = *mutate = nullptr;
}

int _opCallParseAttrs(Token, TENON_MXNET_STRINGS, int*, int*) noexcept { return guarded(not_registered); }

int _opCallInferShape(Token, TENON_MXNET_STRINGS, unsigned**, int*, int, unsigned***, int**, unsigned***,
                      int**, int) noexcept {
  return guarded(not_registered);
}

int _opCallInferType(Token, TENON_MXNET_STRINGS, int*, int, int*, int) noexcept {
  return guarded(not_registered);
}

int _opCallInferSType(Token, TENON_MXNET_STRINGS, int*, int, int*, int) noexcept {
  return guarded(not_registered);
}

int _opCallFCompute(Token, TENON_MXNET_STRINGS, TENON_MXNET_TENSORS, TENON_MXNET_TENSORS,
                    TENON_MXNET_RESOURCES) noexcept {
  return guarded(not_registered);
}

int _opCallMutateInputs(Token, TENON_MXNET_STRINGS, int**, int*) noexcept { return guarded(not_registered); }

int _opCallCreateOpState(Token, const char* const* keys, const char* const* values, int count,
                         const char* device, int, unsigned** shapes, int* ranks, int inputs,
                         const int* dtypes, void** out) noexcept {
  return guarded([&] {
    if (std::strcmp(device, "cpu") != 0)
      throw Failure(std::string("Tenon runs MXNet's graphs on the CPU, not on ") + device);
    const char* text = nullptr;
    for (int i = 0; i < count; ++i)
      if (std::strcmp(keys[i], kTextAttribute) == 0) text = values[i];
    if (!text)
      throw Failure(
          "a subgraph of Tenon without its text: export the symbol again with this version of MXNet");
    const Options options = node_options(keys, values, count);
    const auto subgraph = subgraph_of(text, options);
    if (!subgraph->training_refusal().empty() && host_is_training())
      throw Failure("the graph was partitioned for inference and is called for training: " +
                    subgraph->training_refusal() +
                    "; partition it with mode=\"training\", or call it outside of autograd.record()");
    State* state = make_state(subgraph, shapes, ranks, dtypes, inputs);
    state->guarded = options.guarded;
    *out = state;
  });
}

void _opCallDestroyOpState(void* state) noexcept { delete static_cast<State*>(state); }

int _opCallFStatefulCompute(int is_forward, void* state, const int64_t** in_shapes, int* in_ranks,
                            void** in_data, int* in_dtypes, size_t* versions, const char**, int*, int inputs,
                            const int64_t** out_shapes, int* out_ranks, void** out_data, int* out_dtypes,
                            size_t*, const char**, int*, int outputs, HostAlloc, void*, HostAlloc, void*,
                            void*, SparseAlloc, void*, int* in_storage, int* out_storage, void**, void**,
                            void**, void**, int64_t*, int64_t*, int64_t*, int64_t*, void*, void*) noexcept {
  return guarded([&] {
    State& called = *static_cast<State*>(state);
    if (!is_forward) check_backward(called);
    (is_forward ? forward : backward)(
        called, {in_shapes, in_ranks, in_data, in_dtypes, versions, in_storage, inputs},
        {out_shapes, out_ranks, out_data, out_dtypes, nullptr, out_storage, outputs});
  });
}

int _partRegSize() noexcept { return 1; }

int _partRegGetCount(int, const char** name) noexcept {
  *name = kBackend;
  return 1;
}

void _partRegGet(int, int, const char** strategy, Token* supported, Token* selector, Token* review,
                 const char** op) noexcept {
  *strategy = kBackend;
  *supported = supported_token;
  *selector = nullptr;
  *review = review_token;
  *op = kOperator;
}

int _partCallSupportedOps(Token, const char* json, int count, int* ids, const char* const* keys,
                          const char* const* values, int options) noexcept {
  const int done = guarded([&] {
    const std::vector<int32_t> parts = cut(json, user_options(keys, values, options));
    if (parts.size() != static_cast<size_t>(count))
      throw Failure("MXNet and Tenon count the nodes of a graph differently");
    constexpr int kStays = -2;
    for (int i = 0; i < count; ++i)
      ids[i] = parts[static_cast<size_t>(i)] < 0 ? kStays : parts[static_cast<size_t>(i)];
  });
  if (!done) std::fprintf(stderr, "tenon: %s\n", message(0));  // MXNet shows no message of this function
  return done;
}

int _partCallCreateSelector(Token, const char*, void**, TENON_MXNET_STRINGS) noexcept {
  return guarded(not_registered);
}

void _partCallSelect(void*, int, int* selected) noexcept { *selected = 0; }

void _partCallSelectInput(void*, int, int, int* selected) noexcept { *selected = 0; }

void _partCallSelectOutput(void*, int, int, int* selected) noexcept { *selected = 0; }

void _partCallFilter(void*, int*, int, int** kept, int* count) noexcept {
  *kept = nullptr;
  *count = 0;
}

void _partCallReset(void*) noexcept {}

int _partCallReviewSubgraph(Token, const char* json, int, int* accept, const char* const* keys,
                            const char* const* values, int options, char*** attribute_keys,
                            char*** attribute_values, int* attributes, TENON_MXNET_NAMED,
                            TENON_MXNET_NAMED) noexcept {
  return guarded([&] {
    *accept = 0;
    *attributes = 0;
    Options chosen = user_options(keys, values, options);
    chosen.op_names.clear();  // the nodes are chosen
    chosen.min_nodes = 1;
    Strings kept = node_attributes(chosen);
    try {
      const Strings more = review(subgraph_of(json, chosen)->symbol());
      kept.keys.insert(kept.keys.end(), more.keys.begin(), more.keys.end());
      kept.values.insert(kept.values.end(), more.values.begin(), more.values.end());
    } catch (const std::exception& e) {
      return add_message(e.what());  // the nodes stay with MXNet
    }
    *attribute_keys = given(kept.keys);
    *attribute_values = given(kept.values);
    *attributes = static_cast<int>(kept.keys.size());
    *accept = 1;
  });
}

int _passRegSize() noexcept { return 0; }

void _passRegGet(int, Token* pass, const char** name) noexcept {
  *pass = nullptr;
  *name = "";
}

int _passCallGraphPass(Token, const char*, char**, TENON_MXNET_STRINGS, const char*, TENON_MXNET_NAMED,
                       TENON_MXNET_NAMED, ArrayAlloc, const void*) noexcept {
  return guarded(not_registered);
}

}  // extern "C"

}  // namespace tenon::plugin

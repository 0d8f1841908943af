// The row of fused recurrent layers. A layer and direction is a product for the inputs of the gates of all steps, then the op recurrent.
// In training, and in other dtypes than f32, its body takes its place: the steps, which have gradients.
//
// data [T, N, C]; state [layers * directions, N, P], state_cell [layers * directions, N, H]; parameters: for each layer and
// direction the weights of the input [G * H, C], of the state [G * H, P] and of the projection [P, H], then for each the
// two biases [G * H]. Without a projection P is H, and its weight is missing. G gates: LSTM i f g o, GRU r z n, plain one.
// Layers behind the first read the outputs of all directions.
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace recurrent_ops {
namespace {

struct Layout {
  explicit Layout(const Attrs& a)
      : mode(a.text("mode")),
        size(a.integer("state_size")),
        projected(!a.is_none("projection_size")),
        output(projected ? a.integer("projection_size") : size),
        layers(a.integer("num_layers")),
        directions(a.flag("bidirectional") ? 2 : 1),
        gates(mode == "lstm"  ? 4
              : mode == "gru" ? 3
                              : 1) {}
  // The parameters of all layers but for the biases, by the number of input features.
  int64_t weights(int64_t features) const {
    int64_t total = 0;
    for (int64_t layer = 0; layer < layers; ++layer) {
      total += directions * gates * size * ((layer == 0 ? features : output * directions) + output);
      if (projected) total += directions * output * size;
    }
    return total;
  }
  int64_t biases() const { return layers * directions * gates * size * 2; }

  std::string_view mode;
  int64_t size;  // H
  bool projected;
  int64_t output;  // P
  int64_t layers, directions, gates;
};

class Recurrent {
 public:
  explicit Recurrent(Call& call) : c(call), l(call.a), x_(call.in[0]) {
    const Sizes shape = shape_of_rank(c, x_, 3);
    steps_ = shape[0];
    batch_ = shape[1];
    if (!shape[2].is_const() || shape[2].value() > 1 << 30)
      throw StatusError(unsupported("the number of input features is symbolic or huge"));
    bias_at_ = l.weights(shape[2].value());
  }

  Values run() {
    std::vector<ValueId> last_h, last_c;
    for (int64_t layer = 0; layer < l.layers; ++layer) {
      std::vector<ValueId> outputs;
      for (int64_t direction = 0; direction < l.directions; ++direction) {
        const One one = run_layer(layer * l.directions + direction, direction == 1);
        outputs.push_back(one.states);
        last_h.push_back(one.last);
        last_c.push_back(one.cell);
      }
      x_ = outputs.size() == 1 ? outputs[0] : c(ops::concat, outputs, {{"axis", Dim(2)}});
    }
    Values out = {x_};
    if (gives_states()) {
      out.push_back(c(ops::concat, last_h, {{"axis", Dim(0)}}));
      if (is_lstm()) out.push_back(c(ops::concat, last_c, {{"axis", Dim(0)}}));
    }
    return out;
  }

 private:
  // A layer in one direction: the hidden states [T,N,P], the last one [1,N,P], an LSTM's last cell [1,N,H] if the node gives it.
  struct One {
    ValueId states, last, cell = kNoValue;
  };

  bool is_lstm() const { return l.mode == "lstm"; }
  bool gives_states() const { return c.a.flag("state_outputs"); }

  // The next parameters from `at` on, of the given shape.
  ValueId parameters(int64_t* at, Dims shape) {
    int64_t count = 1;
    for (const Dim d : shape) count *= d.value();
    const ValueId flat = c.slice(c.in[1], 0, Dim(*at), Dim(*at + count));
    *at += count;
    return c.reshape(flat, std::move(shape));
  }

  ValueId initial(ValueId states, int64_t which, int64_t size) {
    const ValueId one = c.slice(states, 0, Dim(which), Dim(which + 1));
    return c(ops::expand, {c.reshape(one, {c.shape(states)[1], Dim(size)})},
             {{"shape", Dims{batch_, Dim(size)}}});
  }

  One run_layer(int64_t which, bool reverse) {
    const Dim rows(l.gates * l.size);
    const ValueId input_weight = parameters(&weight_at_, {rows, c.shape(x_)[2]});
    const ValueId weight = parameters(&weight_at_, {rows, Dim(l.output)});
    const ValueId projection = l.projected ? parameters(&weight_at_, {Dim(l.output), Dim(l.size)}) : kNoValue;
    const ValueId input_bias = parameters(&bias_at_, {rows}), bias = parameters(&bias_at_, {rows});
    std::vector<ValueId> operands = {c(ops::linear, {x_, input_weight, input_bias}),
                                     initial(c.in[2], which, l.output), weight, bias};
    if (is_lstm()) operands.push_back(initial(c.in[3], which, l.size));
    if (l.projected) operands.push_back(projection);
    const bool cell = is_lstm() && gives_states();
    const ValueId y = recurrent(std::move(operands), reverse, cell);
    const Dims shape = {steps_, batch_, Dim(l.output)};
    if (!cell) return {y, last_of(y, reverse)};
    const Dim end = c.product(shape, 0, 3);
    const Dim all = c.b.dims().add(end, c.b.dims().mul(batch_, Dim(l.size)));
    const ValueId states = c.reshape(c.slice(y, 0, Dim(0), end), shape);
    return {states, last_of(states, reverse),
            c.reshape(c.slice(y, 0, end, all), {Dim(1), batch_, Dim(l.size)})};
  }

  ValueId recurrent(std::vector<ValueId> operands, bool reverse, bool cell) {
    const std::string mode(l.mode.starts_with("rnn_") ? l.mode.substr(4) : l.mode);
    std::vector<NamedAttr> attrs = {{"mode", mode}, {"reverse", reverse}, {"cell", cell}};
    if (!c.training && c.dtype(operands[0]) == DType::f32)
      return c(ops::recurrent, std::move(operands), std::move(attrs));
    const Op& row = op(ops::recurrent);
    Node node;
    node.op = ops::recurrent;
    node.inputs = std::move(operands);
    if (const Status filled = fill_attrs(row, std::move(attrs), node.attrs); !filled.ok())
      throw StatusError(filled);
    auto type = infer(c.b.graph(), node);
    if (!type.ok()) throw StatusError(type.status());
    node.type = std::move(*type);
    if (!row.has_body(c.b.graph(), node))
      throw StatusError(unsupported(
          "the number of time steps is symbolic or above 1024, in training or another dtype than f32"));
    return row.body(c.b, node);
  }

  ValueId last_of(ValueId states, bool reverse) {
    if (reverse) return c.slice(states, 0, Dim(0), Dim(1));
    return c.slice(states, 0, c.b.dims().add(steps_, Dim(-1)), steps_);
  }

  Call& c;
  const Layout l;
  ValueId x_;
  int64_t weight_at_ = 0, bias_at_ = 0;
  Dim steps_, batch_;
};

Values rnn(Call& c) { return Recurrent(c).run(); }

int rnn_outputs(const Attrs& a) { return !a.flag("state_outputs") ? 1 : a.text("mode") == "lstm" ? 3 : 2; }

void complete_rnn(Completion& c) {
  const Layout l(c.a);
  const auto* data = c.sizes(0);
  if (!data || data->size() != 3) return;
  std::vector<Size> state = {Size(Dim(l.layers * l.directions)), (*data)[1], Size(Dim(l.output))};
  c.set(c.in[2], state);
  state.back() = Dim(l.size);
  if (c.has(3)) c.set(c.in[3], state);
  if (!(*data)[2] || !(*data)[2]->is_const() || (*data)[2]->value() > 1 << 30) return;
  c.set(c.in[1], {Size(Dim(l.weights((*data)[2]->value()) + l.biases()))});
}

Status check_rnn(const Ask& ask) {
  const Attrs& a = ask.a;
  const Layout l(a);
  if (l.size < 1 || l.size > 1 << 20 || l.layers < 1 || l.layers > 1024)
    return invalid("state_size or num_layers is out of range");
  if (l.projected && (l.mode != "lstm" || l.output < 1 || l.output > 1 << 20))
    return invalid("projection_size is out of range, or not of an LSTM");
  if (!a.is_none("lstm_state_clip_min") || !a.is_none("lstm_state_clip_max"))
    return unsupported(
        "MXNet clips states on GPUs only, and ignores lstm_state_clip_min and _max on the CPU");
  if (a.flag("use_sequence_length"))
    return unsupported("MXNet reads sequence lengths on GPUs only, and ignores them on the CPU");
  if (ask.training && l.projected) return unsupported("MXNet trains no LSTM with a projection on the CPU");
  if (ask.training && a.number("p") != 0) return unsupported("dropout draws random numbers in training");
  const size_t n = l.mode == "lstm" ? 4 : 3;
  if (ask.node.inputs.size() != n)
    return invalid("takes " + std::to_string(n) + " operands, given " +
                   std::to_string(ask.node.inputs.size()));
  return {};
}

const Row kRows[] = {
    {.names = "RNN _npx_rnn",
     .operands = "data parameters state state_cell? sequence_length?",
     .attrs = "state_size:int num_layers:int bidirectional:bool=False mode:text{gru,lstm,rnn_relu,rnn_tanh} "
              "p:float=0 "
              "state_outputs:bool=False projection_size:int?=None lstm_state_clip_min:double?=None "
              "lstm_state_clip_max:double?=None lstm_state_clip_nan:any=False use_sequence_length:bool=False",
     .body = rnn,
     .complete = complete_rnn,
     .check = check_rnn,
     .outputs = rnn_outputs,
     .hidden = 1},
};

}  // namespace
}  // namespace recurrent_ops

std::span<const Row> recurrent_rows() { return recurrent_ops::kRows; }

}  // namespace tenon::mxnet

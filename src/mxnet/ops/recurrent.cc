// The row of fused recurrent layers. Time steps are unrolled, so their number must be constant and moderate; the
// projections of all inputs of a layer are one product.
//
// data [T, N, C]; state [layers * directions, N, P], state_cell [layers * directions, N, H]; parameters: for each layer and
// direction the weights of the input [G * H, C], of the state [G * H, P] and of the projection [P, H], then for each the
// two biases [G * H]. Without a projection P is H, and its weight is missing. G gates: LSTM i f g o, GRU r z n, plain one.
// Layers behind the first read the outputs of all directions.
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace recurrent_ops {
namespace {

constexpr int64_t kMostSteps = 1024;  // cells in one graph

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
    if (!shape[0].is_const()) throw StatusError(unsupported("the number of time steps is symbolic"));
    steps_ = shape[0].value();
    batch_ = shape[1];
    if (steps_ > kMostSteps || steps_ * l.layers * l.directions > kMostSteps)
      throw StatusError(
          unsupported(std::to_string(steps_) + " time steps of " + std::to_string(l.layers * l.directions) +
                      " layers and directions; Tenon unrolls at most " + std::to_string(kMostSteps)));
    if (!shape[2].is_const() || shape[2].value() > 1 << 30)
      throw StatusError(unsupported("the number of input features is symbolic or huge"));
    bias_at_ = l.weights(shape[2].value());
  }

  Values run() {
    std::vector<ValueId> last_h, last_c;
    for (int64_t layer = 0; layer < l.layers; ++layer) {
      std::vector<ValueId> outputs;
      for (int64_t direction = 0; direction < l.directions; ++direction) {
        run_layer(layer * l.directions + direction, direction == 1);
        outputs.push_back(c(ops::concat, sequence_, {{"axis", Dim(0)}}));
        last_h.push_back(row(h_, l.output));
        if (l.mode == "lstm") last_c.push_back(row(cell_, l.size));
      }
      x_ = outputs.size() == 1 ? outputs[0] : c(ops::concat, outputs, {{"axis", Dim(2)}});
    }
    Values out = {x_};
    if (c.a.flag("state_outputs")) {
      out.push_back(c(ops::concat, last_h, {{"axis", Dim(0)}}));
      if (l.mode == "lstm") out.push_back(c(ops::concat, last_c, {{"axis", Dim(0)}}));
    }
    return out;
  }

 private:
  // [N, size] as [1, N, size].
  ValueId row(ValueId v, int64_t size) { return c.reshape(v, {Dim(1), batch_, Dim(size)}); }

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

  void run_layer(int64_t which, bool backwards) {
    const Dim rows(l.gates * l.size);
    const ValueId input_weight = parameters(&weight_at_, {rows, c.shape(x_)[2]});
    const ValueId state_weight = parameters(&weight_at_, {rows, Dim(l.output)});
    if (l.projected) projection_ = parameters(&weight_at_, {Dim(l.output), Dim(l.size)});
    const ValueId input_bias = parameters(&bias_at_, {rows});
    const ValueId state_bias = parameters(&bias_at_, {rows});
    const ValueId projected = c(ops::linear, {x_, input_weight, input_bias});
    h_ = initial(c.in[2], which, l.output);
    if (l.mode == "lstm") cell_ = initial(c.in[3], which, l.size);
    sequence_.assign(static_cast<size_t>(steps_), kNoValue);
    for (int64_t i = 0; i < steps_; ++i) {
      const int64_t t = backwards ? steps_ - 1 - i : i;
      const ValueId from_input = c.reshape(c.slice(projected, 0, Dim(t), Dim(t + 1)), {batch_, rows});
      step(from_input, c(ops::linear, {h_, state_weight, state_bias}));
      sequence_[static_cast<size_t>(t)] = row(h_, l.output);
    }
  }

  ValueId gate(ValueId v, int64_t which) {
    return c.slice(v, 1, Dim(which * l.size), Dim((which + 1) * l.size));
  }

  void step(ValueId from_input, ValueId from_state) {
    if (l.mode == "gru") {
      auto both = [&](int64_t which) {
        return c(ops::add, {gate(from_input, which), gate(from_state, which)});
      };
      const ValueId reset = c(ops::sigmoid, {both(0)}), update = c(ops::sigmoid, {both(1)});
      const ValueId kept = c(ops::mul, {reset, gate(from_state, 2)});
      const ValueId fresh = c(ops::tanh, {c(ops::add, {gate(from_input, 2), kept})});
      const ValueId share = c(ops::sub, {c.like(update, 1), update});
      h_ = c(ops::add, {c(ops::mul, {share, fresh}), c(ops::mul, {update, h_})});
      return;
    }
    const ValueId gates = c(ops::add, {from_input, from_state});
    if (l.mode != "lstm") {
      h_ = c(l.mode == "rnn_relu" ? ops::relu : ops::tanh, {gates});
      return;
    }
    const ValueId in = c(ops::sigmoid, {gate(gates, 0)}), forget = c(ops::sigmoid, {gate(gates, 1)});
    const ValueId fresh = c(ops::tanh, {gate(gates, 2)}), out = c(ops::sigmoid, {gate(gates, 3)});
    cell_ = c(ops::add, {c(ops::mul, {forget, cell_}), c(ops::mul, {in, fresh})});
    h_ = c(ops::mul, {out, c(ops::tanh, {cell_})});
    if (l.projected) h_ = c(ops::linear, {h_, projection_});
  }

  Call& c;
  const Layout l;
  ValueId x_;
  int64_t steps_ = 0, weight_at_ = 0, bias_at_ = 0;
  Dim batch_;
  ValueId h_ = kNoValue, cell_ = kNoValue, projection_ = kNoValue;
  std::vector<ValueId> sequence_;
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

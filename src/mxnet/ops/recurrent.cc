// The row of fused recurrent layers. Time steps are unrolled, so their number must be constant and moderate; the
// projections of all inputs of a layer are one product.
//
// data [T, N, C]; state and state_cell [layers * directions, N, H]; parameters: for each layer and direction the weights
// of the input [G * H, C] and of the state [G * H, H], then for each the two biases [G * H]. G gates: LSTM i f g o, GRU r
// z n, plain one. Layers behind the first read the outputs of all directions.
#include "src/mxnet/ops/help.h"

namespace tenon::mxnet {
namespace recurrent_ops {
namespace {

constexpr int64_t kMostSteps = 1024;  // cells in one graph

struct Layout {
  explicit Layout(const Attrs& a)
      : mode(a.text("mode")),
        size(a.integer("state_size")),
        layers(a.integer("num_layers")),
        directions(a.flag("bidirectional") ? 2 : 1),
        gates(mode == "lstm"  ? 4
              : mode == "gru" ? 3
                              : 1) {}
  std::string_view mode;
  int64_t size, layers, directions, gates;
};

class Recurrent {
 public:
  explicit Recurrent(Call& call) : c(call), l(call.a), x_(call.in[0]) {
    const Sizes shape = c.shape(x_);
    if (shape.size() != 3) throw StatusError(invalid("needs data of rank 3"));
    if (!shape[0].is_const()) throw StatusError(unsupported("the number of time steps is symbolic"));
    steps_ = shape[0].value();
    batch_ = shape[1];
    if (steps_ > kMostSteps || steps_ * l.layers * l.directions > kMostSteps)
      throw StatusError(
          unsupported(std::to_string(steps_) + " time steps of " + std::to_string(l.layers * l.directions) +
                      " layers and directions; Tenon unrolls at most " + std::to_string(kMostSteps)));
    if (!shape[2].is_const() || shape[2].value() > 1 << 30)
      throw StatusError(unsupported("the number of input features is symbolic or huge"));
    bias_at_ = weights_of_all(shape[2].value());
  }

  Values run() {
    std::vector<ValueId> last_h, last_c;
    for (int64_t layer = 0; layer < l.layers; ++layer) {
      std::vector<ValueId> outputs;
      for (int64_t direction = 0; direction < l.directions; ++direction) {
        run_layer(layer * l.directions + direction, direction == 1);
        outputs.push_back(c(ops::concat, sequence_, {{"axis", Dim(0)}}));
        last_h.push_back(row(h_));
        if (l.mode == "lstm") last_c.push_back(row(cell_));
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
  // [N, H] as [1, N, H].
  ValueId row(ValueId v) { return c.reshape(v, {Dim(1), batch_, Dim(l.size)}); }

  int64_t weights_of_all(int64_t features) const {
    int64_t total = 0;
    for (int64_t layer = 0; layer < l.layers; ++layer)
      total += l.directions * l.gates * l.size * ((layer == 0 ? features : l.size * l.directions) + l.size);
    return total;
  }

  // The next parameters from `at` on, of the given shape.
  ValueId parameters(int64_t* at, Dims shape) {
    int64_t count = 1;
    for (const Dim d : shape) count *= d.value();
    const ValueId flat = c.slice(c.in[1], 0, Dim(*at), Dim(*at + count));
    *at += count;
    return c.reshape(flat, std::move(shape));
  }

  ValueId initial(ValueId states, int64_t which) {
    const ValueId one = c.slice(states, 0, Dim(which), Dim(which + 1));
    return c(ops::expand, {c.reshape(one, {c.shape(states)[1], Dim(l.size)})},
             {{"shape", Dims{batch_, Dim(l.size)}}});
  }

  void run_layer(int64_t which, bool backwards) {
    const Dim rows(l.gates * l.size);
    const ValueId input_weight = parameters(&weight_at_, {rows, c.shape(x_)[2]});
    const ValueId state_weight = parameters(&weight_at_, {rows, Dim(l.size)});
    const ValueId input_bias = parameters(&bias_at_, {rows});
    const ValueId state_bias = parameters(&bias_at_, {rows});
    const ValueId projected = c(ops::linear, {x_, input_weight, input_bias});
    h_ = initial(c.in[2], which);
    if (l.mode == "lstm") cell_ = initial(c.in[3], which);
    sequence_.assign(static_cast<size_t>(steps_), kNoValue);
    for (int64_t i = 0; i < steps_; ++i) {
      const int64_t t = backwards ? steps_ - 1 - i : i;
      const ValueId from_input = c.reshape(c.slice(projected, 0, Dim(t), Dim(t + 1)), {batch_, rows});
      step(from_input, c(ops::linear, {h_, state_weight, state_bias}));
      sequence_[static_cast<size_t>(t)] = row(h_);
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
  }

  Call& c;
  const Layout l;
  ValueId x_;
  int64_t steps_ = 0, weight_at_ = 0, bias_at_ = 0;
  Dim batch_;
  ValueId h_ = kNoValue, cell_ = kNoValue;
  std::vector<ValueId> sequence_;
};

Values rnn(Call& c) { return Recurrent(c).run(); }

int rnn_outputs(const Attrs& a) { return !a.flag("state_outputs") ? 1 : a.text("mode") == "lstm" ? 3 : 2; }

void complete_rnn(Completion& c) {
  const Layout l(c.a);
  const auto* data = c.sizes(0);
  if (!data || data->size() != 3) return;
  const std::vector<Size> state = {Size(Dim(l.layers * l.directions)), (*data)[1], Size(Dim(l.size))};
  c.set(c.in[2], state);
  if (c.has(3)) c.set(c.in[3], state);
  if (!(*data)[2] || !(*data)[2]->is_const() || (*data)[2]->value() > 1 << 30) return;
  int64_t total = 0;
  for (int64_t layer = 0; layer < l.layers; ++layer) {
    const int64_t features = layer == 0 ? (*data)[2]->value() : l.size * l.directions;
    total += l.directions * l.gates * l.size * (features + l.size + 2);
  }
  c.set(c.in[1], {Size(Dim(total))});
}

Status check_rnn(const Ask& ask) {
  const Attrs& a = ask.a;
  const Layout l(a);
  if (l.size < 1 || l.size > 1 << 20 || l.layers < 1 || l.layers > 1024)
    return invalid("state_size or num_layers is out of range");
  if (!a.is_none("projection_size")) return unsupported("projection_size is not translated");
  if (!a.is_none("lstm_state_clip_min") || !a.is_none("lstm_state_clip_max"))
    return unsupported("clipped states are not translated");
  if (a.flag("use_sequence_length")) return unsupported("use_sequence_length is not translated");
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

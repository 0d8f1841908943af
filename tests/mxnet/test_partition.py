"""Which operators the plugin takes, and that partitioned graphs compute what MXNet computes."""

import mxnet as mx
import pytest
from check import SUBGRAPH, arrays, close, forward, ops, parts

import tenon.mxnet


def structures():
    """The structures that a partitioner gets wrong: name -> symbol. sin stays with MXNet where the operators' names say so."""
    a, b, c = mx.sym.var("a"), mx.sym.var("b"), mx.sym.var("c")
    twice = mx.sym.exp(a + b)
    norm = mx.sym.BatchNorm(a, name="norm", fix_gamma=False, use_global_stats=True)
    inner = mx.sym.exp(a)
    image = mx.sym.var("image", shape=(2, 3, 10, 10))
    far = start = mx.sym.sin(a)
    for _ in range(5):
        far = mx.sym.cos(far)
    conv = {"no_bias": True, "num_filter": 1}
    hub = mx.sym.cos(mx.sym.exp(a))
    return {
        "chain": mx.sym.sin(mx.sym.exp(mx.sym.sin(a) + 1) * 2),
        "cycle": mx.sym.exp(inner + mx.sym.sin(inner)),
        "aux": mx.sym.exp(norm + b),
        "outputs_twice": mx.sym.Group([twice, twice, mx.sym.sin(twice)]),
        "same_operand": mx.sym.exp(a + a),
        "outer_cycle": mx.sym.exp(mx.sym.sin(hub) + mx.sym.exp(hub)),
        "shared_input": mx.sym.Group([mx.sym.exp(a) + b, mx.sym.sin(a) + mx.sym.exp(b)]),
        "input_is_output": mx.sym.Group([mx.sym.exp(a) + b, b, mx.sym.sin(c)]),
        # The weight of one convolution is the data of another: shapes flow from one to the other.
        "weight_is_data": mx.sym.Group([mx.sym.Convolution(image, b, kernel=(2, 2), name="one", **conv),
                                        mx.sym.Convolution(b, kernel=(1, 1), name="two", **conv)]),
        # The shape of a variable follows through an operator in front of it.
        "computed_weight": mx.sym.Convolution(image, mx.sym.sin(b), kernel=(2, 2), name="conv", **conv),
        "long_outer_cycle": start + far,
        "two_readers": mx.sym.Group([mx.sym.sin(a) + mx.sym.sin(a), mx.sym.exp(mx.sym.sin(a))]),
    }


NAMES = [None, "exp", "exp,elemwise_add", "exp,_plus_scalar,_mul_scalar,elemwise_add,BatchNorm,cos", "sin,elemwise_add",
         "Convolution", "sin,Convolution"]
IMAGE = {"image": (2, 3, 10, 10)}
SHAPES = {"weight_is_data": IMAGE, "computed_weight": IMAGE}  # of the others, all are (4, 5)


def executors(symbol, args, aux):
    """The outputs, by each way to make an executor."""
    names = symbol.list_arguments()
    yield forward(symbol, args, aux)
    yield symbol.bind(mx.cpu(), [args[n] for n in names], aux_states=[aux[n] for n in symbol.list_auxiliary_states()],
                      grad_req="null").forward()
    simple = symbol.simple_bind(mx.cpu(), grad_req="null", **{n: args[n].shape for n in names})
    simple.copy_params_from(args, aux)
    yield simple.forward()


@pytest.mark.parametrize("names", NAMES, ids=str)
@pytest.mark.parametrize("name", structures())
def test_structures(name, names):
    symbol = structures()[name]
    args, aux = arrays(symbol, **SHAPES.get(name, {}))
    want = forward(symbol, args, aux)
    options = {"op_names": names} if names else {}
    for given in ({}, {"args": dict(args), "aux": dict(aux)}):
        cut = symbol.optimize_for("tenon", **given, **options)
        assert cut.list_arguments() == symbol.list_arguments() and len(cut.list_outputs()) == len(want)
        if names:
            assert not set(names.split(",")) & set(ops(cut))
        for got in executors(cut, args, aux):
            close(got, want, 1e-5)


def test_only_named_operators_are_taken():
    symbol = structures()["chain"]
    assert ops(symbol.optimize_for("tenon", op_names="sin")) == [SUBGRAPH, "_plus_scalar", "exp", "_mul_scalar", SUBGRAPH]
    assert ops(symbol.optimize_for("tenon", op_names=["cos", "_mul_scalar"])) == ["sin", "_plus_scalar", "exp", SUBGRAPH, "sin"]
    assert ops(symbol.optimize_for("tenon")) == [SUBGRAPH]
    assert ops(symbol.optimize_for("tenon", min_nodes=6)) == ops(symbol)


def test_shapes_may_be_given_without_arrays():
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    cut = symbol.optimize_for("tenon", shape_dict={"data": (2, 5)}, type_dict={"data": "float32"})
    args, _ = arrays(symbol, data=(2, 5))
    close(forward(cut, args), forward(symbol, args))


@pytest.mark.parametrize("option, sentence", [({"mode": "fast"}, "mode is"), ({"min_nodes": 0}, "min_nodes is")])
def test_a_wrong_option_is_an_error(option, sentence, capfd):
    with pytest.raises(mx.base.MXNetError, match="supported_ops"):
        structures()["chain"].optimize_for("tenon", **option)
    assert sentence in capfd.readouterr().err  # MXNet leaves out the message


@pytest.mark.parametrize("option, sentence", [({"Mode": "training"}, "unknown option 'Mode'; did you mean 'mode'"),
                                              ({"op_names": "sin,cosh_"}, "no operator 'cosh_'; did you mean 'cosh'"),
                                              ({"op_names": 7}, "op_names is a list of names")])
def test_a_misspelt_option_is_an_error(option, sentence):
    with pytest.raises(ValueError, match=sentence):
        structures()["chain"].optimize_for("tenon", **option)


def test_explain_knows_the_options_of_a_block():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, in_units=5), mx.gluon.nn.BatchNorm(in_channels=4))
    net.hybridize(backend="tenon", mode="training")
    assert [op for _, op, _ in tenon.mxnet.explain(net).stays] == ["BatchNorm"]
    assert not tenon.mxnet.explain(net, mode="inference").stays
    net.hybridize(backend="tenon", min_nodes=3)
    assert len(tenon.mxnet.explain(net).stays) == 2
    net.hybridize(backend="tenon", op_names="BatchNorm")
    assert tenon.mxnet.explain(net).runs == {"BatchNorm": 1}


@pytest.mark.parametrize("name", structures())
def test_dedup_subgraph(name, capfd):
    """MXNet connects several readers of an output wrongly, and may crash; else the option is right."""
    symbol = structures()[name]
    args, aux = arrays(symbol, **SHAPES.get(name, {}))
    for names in NAMES:
        options = {"op_names": names} if names else {}
        try:
            cut = symbol.optimize_for("tenon", dict(args), dict(aux), dedup_subgraph=True, **options)
        except mx.base.MXNetError:
            assert "connects the readers" in capfd.readouterr().err
            continue
        close(forward(cut, args, aux), forward(symbol, args, aux), 1e-5)


def test_an_unknown_operator_stays_and_is_named():
    a = mx.sym.var("a")
    symbol = mx.sym.exp(mx.sym.khatri_rao(mx.sym.exp(a), a))
    args, _ = arrays(symbol)
    cut = symbol.optimize_for("tenon", args)
    assert "khatri_rao" in ops(cut) and parts(cut) == 2
    close(forward(cut, args), forward(symbol, args))
    report = tenon.mxnet.explain(symbol)
    assert [op for _, op, _ in report.stays] == ["khatri_rao"] and report.runs == {"exp": 2}
    assert "khatri_rao" in str(report) and report.stays[0][2]
    assert tenon.mxnet.explain(cut).runs == {"exp": 2}


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64"])
def test_dtypes(dtype):
    a, b = mx.sym.var("a"), mx.sym.var("b")
    symbol = (a + b) * 2 - b
    args = {name: mx.nd.array([[1, 2, 3], [4, 5, 6]], dtype=dtype) for name in "ab"}
    cut = symbol.optimize_for("tenon", dict(args))
    assert ops(cut) == [SUBGRAPH]
    close(forward(cut, args), forward(symbol, args), 1e-3)


def test_bool_stays_with_mxnet():
    a = mx.sym.var("a")
    symbol = mx.sym.Cast(mx.sym.exp(a) + 1, dtype="bool")
    args = {"a": mx.nd.ones((2, 3))}
    cut = symbol.optimize_for("tenon", dict(args))
    assert ops(cut)[-1] == "Cast"
    assert forward(cut, args)[0].asnumpy().all()


def test_bfloat16_stays_with_mxnet():
    a = mx.sym.var("a")
    half = mx.sym.exp(mx.sym.Cast(mx.sym.Cast(mx.sym.exp(a), dtype="float16"), dtype="float32"))
    symbol = mx.sym.load_json(half.tojson().replace("float16", "bfloat16"))  # Python's Cast knows no bfloat16
    args = {"a": mx.nd.ones((2, 3))}
    cut = symbol.optimize_for("tenon", dict(args))
    assert ops(cut) == [SUBGRAPH, "Cast", "Cast", SUBGRAPH]


def test_a_bool_argument_stays_with_mxnet():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    symbol = mx.sym.exp(mx.sym.Cast(a, dtype="float32")) + mx.sym.exp(b)
    args = {"a": mx.nd.array([0, 1, 1]).astype("bool"), "b": mx.nd.ones(3)}
    cut = symbol.optimize_for("tenon", dict(args))
    assert "Cast" in ops(cut)
    close(forward(cut, args), forward(symbol, args))


WHOLE = mx.nd.array([[1, 2, 3], [4, 5, 6]], dtype="int32")
TYPED = {
    "mean": lambda a, b: mx.sym.mean(a, axis=0),  # of integers, MXNet's is an integer
    "norm": lambda a, b: mx.sym.norm(a),
    "softsign": lambda a, b: mx.sym.softsign(a),
    "rcbrt": lambda a, b: mx.sym.rcbrt(a),
    "erf": lambda a, b: mx.sym.erf(a),
    "smooth_l1": lambda a, b: mx.sym.smooth_l1(a, scalar=2),
    "np_tanh": lambda a, b: mx.sym.np.tanh(a.as_np_ndarray()) * b.as_np_ndarray(),
    "np_sum": lambda a, b: mx.sym.np.sum(a.as_np_ndarray()),
    "np_std": lambda a, b: mx.sym.np.std(a.as_np_ndarray()),
    "np_mixed": lambda a, b: a.as_np_ndarray() * b.as_np_ndarray(),
    "np_mixed_floats": lambda a, b: mx.sym.np.exp(b.as_np_ndarray()) * mx.sym.np.exp(b.as_np_ndarray().astype("float64")),
}


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", TYPED)
def test_operators_whose_dtype_tenon_would_change_stay_with_mxnet(name, mode):
    with mx.util.np_shape(), mx.util.np_array():
        symbol = TYPED[name](mx.sym.var("a"), mx.sym.var("b"))
        args = {"a": WHOLE, "b": WHOLE.astype("float32") / 8}
        args = {each: args[each].as_np_ndarray() for each in symbol.list_arguments()}
        cut = symbol.optimize_for("tenon", dict(args), mode=mode)
        (result,), (expected,) = forward(cut, args), forward(symbol, args)
        assert result.dtype == expected.dtype
        close([result], [expected], 1e-6)

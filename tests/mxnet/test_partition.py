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

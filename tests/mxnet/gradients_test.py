"""The gradient of every operator that may train against MXNet's own, for the operands of op_cases.py, and for operands with many equal
elements, zeros and bounds, where a gradient is a convention."""

import mxnet as mx
import numpy as np
import pytest

import tenon_symbol
from mxnet_help import assert_close, node_symbol, semantics, to_mxnet
from op_cases import CASES
from ops_test import made, random_of

# Refused with a sentence (src/mxnet/translate/training.cc and the rows), whatever the operands.
REFUSED = """BlockGrad make_loss MakeLoss _maximum _minimum broadcast_maximum broadcast_minimum _npi_maximum _npi_minimum _maximum_scalar
_minimum_scalar max min _np_max _np_min _mod broadcast_mod _npi_mod _mod_scalar _rmod_scalar _npi_mod_scalar _npi_rmod_scalar cbrt rcbrt
_npi_var _npi_std BatchNorm_v1 _contrib_SyncBatchNorm _contrib_BatchNormWithReLU SoftmaxOutput LinearRegressionOutput
MAERegressionOutput LogisticRegressionOutput SVMOutput
gamma _npi_cbrt _npi_copysign _npi_copysign_scalar _npi_rcopysign_scalar _npi_ldexp _npi_rldexp_scalar _npi_rarctan2_scalar
_npi_where_lscalar _npi_where_rscalar _npi_pad _npi_rot90 _npi_average _np_atleast_1d _np_atleast_2d _np_atleast_3d
_random_pdf_dirichlet _random_pdf_gamma _random_pdf_generalized_negative_binomial _random_pdf_negative_binomial
_random_pdf_poisson _slice_assign _slice_assign_scalar all_finite multi_all_finite multi_sum_sq softmax_cross_entropy
_contrib_SparseEmbedding _contrib_allclose _contrib_box_decode _contrib_box_iou _contrib_BilinearResize2D
_contrib_index_array _image_crop _image_flip_left_right _image_flip_top_bottom _image_to_tensor _npi_isposinf _npi_isneginf""".split()
# Refused with these attributes only.
REFUSED_WITH = [("BatchNorm", {}), ("Dropout", {}), ("Pooling", {"pool_type": "max", "global_pool": True}),
                ("Pooling_v1", {"pool_type": "max"}), ("LeakyReLU", {"act_type": "selu"}), ("LeakyReLU", {"act_type": "rrelu"}), ("RNN", {"projection_size": 2})]
MXNET_HAS_NONE = [("_grad_add", {}), ("argmax_channel", {}), ("batch_take", {}), ("sort", {})]  # with these attributes
MXNET_IS_NAN_AT_ZERO = ("prod", "nanprod", "_np_prod")
MXNET_HAS_F32_CONSTANTS = ("erf", "erfinv", "gammaln")


def trains(case):
    return tenon_symbol.Symbol(node_symbol(case.op, [f"x{i}" for i in range(len(case.operands))], case.attrs)).query(training=True)[0][2]


def cases():
    for number, case in enumerate(CASES):
        for dtype in case.dtypes:
            for equal in (False, True):
                strange = equal and case.op in MXNET_IS_NAN_AT_ZERO or dtype == "float64" and case.op in MXNET_HAS_F32_CONSTANTS
                if case.op not in REFUSED and not strange and trains(case) and any_float(case):
                    yield pytest.param(case, dtype, equal, id=f"{number}-{case.op}-{dtype}{'-equal' if equal else ''}")


def any_float(case):
    return any(not isinstance(spec[0], str) or spec[0] not in ("i32", "bool") for spec in case.operands if spec)


def has_integers(case):
    """Whether an operand is of integers, or the result may be."""
    return any(spec and spec[0] in ("i32", "bool") for spec in case.operands) or "int" in str(case.attrs.get("dtype"))


def with_equals(case, arrays, rng):
    """Multiples of 1/2 in place of normal numbers."""
    return {name: a if spec and isinstance(spec[0], str) else (rng.integers(-4, 5, a.shape) / 2).astype(a.dtype)
            for (name, a), spec in zip(arrays.items(), case.operands)}


def gradients_of_mxnet(text, arrays, wanted, rng):
    """(the derivatives by the outputs, {name: gradient})"""
    symbol = mx.sym.load_json(text)
    args = {n: to_mxnet(arrays[n]) for n in symbol.list_arguments()}
    aux = {n: to_mxnet(arrays[n]) for n in symbol.list_auxiliary_states()}
    grads = {n: mx.nd.zeros(arrays[n].shape, dtype=arrays[n].dtype) for n in args}
    bound = symbol.bind(mx.cpu(), args, args_grad=grads, aux_states=aux,
                        grad_req={n: "write" if n in wanted else "null" for n in args})
    outputs = bound.forward(is_train=True)
    heads = [np.asarray(rng.standard_normal(o.shape)).astype(o.dtype) for o in outputs]
    bound.backward([to_mxnet(h) for h in heads])
    return heads, {n: grads[n].asnumpy() for n in args if n in wanted}


@pytest.mark.parametrize("case, dtype, equal", cases())
def test_gradient(case, dtype, equal):
    rng = random_of(case)
    text, arrays = made(case, dtype, rng)
    if equal:
        arrays = with_equals(case, arrays, rng)
    types = {n: (a.shape, a.dtype) for n, a in arrays.items()}
    try:
        graph = tenon_symbol.Symbol(text).graph(types, training=True)
    except tenon_symbol.Error as error:
        assert "integers" in str(error) and has_integers(case)
        return
    floats = [n for n in arrays if arrays[n].dtype.kind == "f"]
    wanted = set(floats) - ({"x0"} if case.op == "Embedding" else set())  # of which MXNet refuses the gradient
    with semantics(case.op):
        if (case.op, case.attrs) in MXNET_HAS_NONE:
            with pytest.raises(mx.base.MXNetError):
                gradients_of_mxnet(text, arrays, wanted, rng)
            return
        heads, want = gradients_of_mxnet(text, arrays, wanted, rng)
    given = [*arrays.values(), *(h for h in heads if h.dtype.kind == "f")]
    got = dict(zip(floats, graph.gradient().run(given, [types[n] for n in floats])))
    for name in wanted & set(want):
        assert_close(got[name], want[name], name, arrays.values())


def test_the_others_are_refused():
    refused = {(case.op, tuple(case.attrs.items())) for case in CASES if not trains(case)}
    for op, attrs in refused:
        assert op in REFUSED or any(op == name and {**some, **dict(attrs)} == dict(attrs) for name, some in REFUSED_WITH), (op, attrs)
    assert set(REFUSED) <= {op for op, _ in refused}
    sparse = node_symbol("Embedding", ["x", "w"], {"input_dim": 3, "output_dim": 2, "sparse_grad": True})
    assert tenon_symbol.Symbol(sparse).query(training=True)[0][3] == "its gradient is sparse"


@pytest.mark.parametrize("dtype, runs", [("float32", True), ("int32", False), ("uint8", False)])
def test_integers_whose_dtype_is_known_stay_with_mxnet(dtype, runs):
    x = mx.sym.Cast(mx.sym.exp(mx.sym.Cast(mx.sym.var("x"), dtype="float32", name="first")), dtype=dtype, name="last") + 1
    cut = x.optimize_for("tenon", {"x": mx.nd.ones((2, 3), dtype=dtype)}, mode="training")
    stays = {"first_output", "last_output"} & set(cut.get_internals().list_outputs())
    assert len(stays) == (0 if runs else 2)


def test_integers_that_a_call_brings_are_refused():
    cut = (mx.sym.var("x") * 2).optimize_for("tenon", mode="training")
    with pytest.raises(mx.base.MXNetError, match="it computes with integers"):
        cut.bind(mx.cpu(), {"x": mx.nd.ones((2, 3), dtype="int32")}, grad_req="null").forward()[0].wait_to_read()

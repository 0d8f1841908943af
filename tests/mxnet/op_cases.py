"""One or more cases per row of Tenon's table of MXNet's operators: the operands' shapes and the attributes as MXNet's JSON
spells them. An operand is a shape, or a tuple that begins with a word:

    ("unit", shape)        in [-0.9, 0.9]          ("positive", shape)   in [0.5, 2]
    ("above", shape)       in [1.1, 3]             ("int", shape, n)     integers below n, in the dtype of floats
    ("i32", shape, n)      int32                   ("bool", shape)
    ("halves", shape)      multiples of 1/2           ("share", shape)      in [0.1, 0.9]
    ("u8", shape)          uint8
    ("specials", shape)    infinities and NaN too     ("ones", shape)       1 everywhere
    ("rows", shape)        0, 1, 2 ... in all rows    ("boxes", shape)      left, top, right, bottom

F32: MXNet computes the operator in float32 or has no other dtype on the CPU.
"""

from collections import namedtuple

Case = namedtuple("Case", "op operands attrs outputs auxiliary dtypes")
CASES = []
F32 = ("float32",)


def case(op, *operands, outputs=1, auxiliary=0, dtypes=("float32", "float64"), **attrs):
    CASES.append(Case(op, operands, attrs, outputs, auxiliary, dtypes))


S = (2, 3, 4)
for op in ("_copy", "BlockGrad", "make_loss", "MakeLoss", "relu", "sigmoid", "softsign", "erf", "exp", "expm1", "square", "abs",
           "sign", "negative", "floor", "ceil", "trunc", "fix", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh",
           "degrees", "radians", "logical_not", "zeros_like", "ones_like", "hard_sigmoid", "smooth_l1", "cbrt", "reciprocal"):
    case(op, S)
for op in ("round", "rint"):
    case(op, ("halves", S))
for op in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "rcbrt", "gammaln"):
    case(op, ("positive", S))
for op in ("arcsin", "arccos", "arctanh", "erfinv"):
    case(op, ("unit", S))
case("arccosh", ("above", S))
for op in ("_np_copy", "_npi_absolute", "_npi_sign", "_npi_negative", "_npi_floor", "_npi_ceil", "_npi_trunc", "_npi_fix",
           "_npi_square", "_npi_exp", "_npi_expm1", "_npi_sin", "_npi_cos", "_npi_tan", "_npi_arctan", "_npi_sinh", "_npi_cosh",
           "_npi_tanh", "_npi_arcsinh", "_npi_isnan", "_npi_isinf", "_npi_isfinite", "_npi_logical_not", "_npi_reciprocal",
           "_npx_relu", "_npx_sigmoid"):
    case(op, S)
case("_npi_rint", ("halves", S))
for op in ("_npi_log", "_npi_log2", "_npi_log10", "_npi_log1p", "_npi_sqrt"):
    case(op, ("positive", S))
for op in ("_npi_arcsin", "_npi_arccos", "_npi_arctanh"):
    case(op, ("unit", S))
case("_npi_arccosh", ("above", S))
for op in ("clip", "_npi_clip"):
    case(op, S, a_min=-0.5, a_max="0.25")
for dtype in ("float32", "float64", "int32", "uint8", "int64", "float16"):
    case("Cast", ("positive", S), dtype=dtype)
case("amp_cast", S, dtype="float32", dtypes=F32)
case("amp_multicast", ("i32", S, 5), ("i32", (3,), 9), num_outputs=2, outputs=2)
case("amp_multicast", S, ("i32", S, 5), (3,), num_outputs=3, outputs=3, dtypes=F32)  # MXNet fails on the CPU for other floats
case("gamma", ("positive", S))
case("gamma", S)
case("gamma", ("halves", S))
case("_contrib_quadratic", S, a=2, b="-0.5", c=3)
case("cast_storage", S, stype="default")

for op in ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_maximum", "_minimum", "_hypot", "_grad_add",
           "_scatter_elemwise_div", "_identity_with_attr_like_rhs"):
    case(op, S, S)
for op in ("_equal", "_not_equal", "_greater", "_greater_equal", "_lesser", "_lesser_equal", "_logical_and", "_logical_or",
           "_logical_xor"):
    case(op, ("int", S, 3), ("int", S, 3))
case("_mod", S, ("int", S, 3))
case("_power", ("positive", S), S)
case("add_n", S, S, S, num_args=3)
for op in ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_maximum", "broadcast_minimum",
           "broadcast_hypot"):
    case(op, S, (1, 3, 1))
case("broadcast_mod", S, ("int", (2, 1, 4), 3))
case("broadcast_power", ("positive", S), (1, 3, 1))
for op in ("broadcast_equal", "broadcast_not_equal", "broadcast_greater", "broadcast_greater_equal", "broadcast_lesser",
           "broadcast_lesser_equal", "broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor"):
    case(op, ("int", S, 3), ("int", (1, 3, 1), 3))
for op in ("_npi_add", "_npi_subtract", "_npi_multiply", "_npi_true_divide", "_npi_maximum", "_npi_minimum", "_npi_hypot",
           "_npi_arctan2"):
    case(op, S, (3, 1))
case("_npi_mod", S, ("int", (3, 1), 3))
case("_npi_power", ("positive", S), (3, 1))
for op in ("_npi_equal", "_npi_not_equal", "_npi_greater", "_npi_greater_equal", "_npi_less", "_npi_less_equal"):
    case(op, ("int", S, 3), ("int", (3, 1), 3))
for op in ("_npi_bitwise_and", "_npi_bitwise_or", "_npi_bitwise_xor"):
    case(op, ("i32", S, 9), ("i32", S, 9))
case("_npi_bitwise_not", ("i32", S, 9))
for op in ("elemwise_add", "broadcast_mul", "elemwise_sub", "_maximum", "_equal"):
    case(op, ("i32", S, 9), ("i32", S, 9))
case("where", ("int", S, 2), S, S)
case("where", ("int", (2,), 2), S, S)
case("_npi_where", ("bool", (3, 1)), S, (4,))

for op in ("_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_rdiv_scalar", "_mod_scalar",
           "_maximum_scalar", "_minimum_scalar", "_hypot_scalar", "_npi_add_scalar", "_npi_subtract_scalar",
           "_npi_rsubtract_scalar", "_npi_multiply_scalar", "_npi_true_divide_scalar", "_npi_rtrue_divide_scalar",
           "_npi_mod_scalar"):
    case(op, S, scalar="1.5", is_int=False)
    case(op, ("i32", S, 9), scalar="2")
for op in ("_rmod_scalar", "_npi_rmod_scalar"):
    case(op, ("int", S, 3), scalar=2)
for op in ("_power_scalar", "_npi_power_scalar", "_rpower_scalar", "_npi_rpower_scalar"):
    case(op, ("positive", S), scalar=3)
for op in ("_equal_scalar", "_not_equal_scalar", "_greater_scalar", "_greater_equal_scalar", "_lesser_scalar",
           "_lesser_equal_scalar", "_logical_and_scalar", "_logical_or_scalar", "_logical_xor_scalar", "_npi_equal_scalar",
           "_npi_not_equal_scalar", "_npi_greater_scalar", "_npi_greater_equal_scalar", "_npi_less_scalar",
           "_npi_less_equal_scalar"):
    case(op, ("int", S, 3), scalar=1)

for op in ("_scatter_plus_scalar", "_scatter_minus_scalar"):
    case(op, S, scalar="1.5", is_int=False)

# NumPy's elementwise operators that MXNet's older ones lack.
for op in ("_npi_cbrt", "_npi_degrees", "_npi_radians", "_npi_isposinf", "_npi_isneginf", "_npi_nan_to_num"):
    case(op, S)
    case(op, ("specials", S))
case("_npi_nan_to_num", ("specials", S), nan="1.5", posinf=7, neginf="-7.0")
for decimals in (0, 1, -1):
    case("_npi_around", S, decimals=decimals)
    case("_npi_around", ("halves", S), decimals=decimals)
case("_npi_copysign", S, (3, 1))
case("_npi_ldexp", S, ("halves", (3, 1)))
case("_npi_lcm", ("i32", S, 30), ("i32", (3, 1), 30))
for op in ("_npi_copysign_scalar", "_npi_rcopysign_scalar", "_npi_ldexp_scalar", "_npi_rldexp_scalar", "_npi_arctan2_scalar",
           "_npi_rarctan2_scalar"):
    case(op, S, scalar="-1.5", is_int=False)
    case(op, ("i32", S, 9), scalar="2")
for op in ("_npi_lcm_scalar", "_npi_bitwise_and_scalar", "_npi_bitwise_or_scalar", "_npi_bitwise_xor_scalar"):
    case(op, ("i32", S, 30), scalar=6)
for op in ("_npi_where_lscalar", "_npi_where_rscalar"):
    case(op, ("bool", S), S, scalar="1.5")
    case(op, ("int", S, 2), S, scalar=2)
case("_npi_where_scalar2", ("int", S, 2), x="1.5", y=-2)
case("_npi_polyval", (4,), (2, 3))

# Layers.
case("FullyConnected", (4, 3, 2), (5, 6), (5,), num_hidden=5)
case("FullyConnected", (4, 6), (5, 6), num_hidden=5, no_bias=True)
case("FullyConnected", (4, 3, 2), (5, 2), (5,), num_hidden=5, flatten=False)
for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
    case("Activation", S, act_type=kind)
case("LeakyReLU", S, dtypes=F32)
for kind in ("leaky", "elu", "selu", "gelu"):
    case("LeakyReLU", S, act_type=kind, slope=0.3, dtypes=F32)
case("LeakyReLU", S, act_type="rrelu", dtypes=F32)
case("LeakyReLU", S, (3,), act_type="prelu", dtypes=F32)
case("LeakyReLU", S, (1,), act_type="prelu", dtypes=F32)
for op in ("softmax", "log_softmax", "softmin"):
    case(op, S)
    case(op, S, axis=1, temperature="2.5")
case("softmax", (2, 3, 4), ("i32", (2, 3), 5), use_length=True)
case("softmax", (2, 3, 4), ("i32", (2, 4), 4), use_length=True, axis=1)
case("softmax", S, dtype="float64", dtypes=F32)
case("SoftmaxActivation", (2, 3), dtypes=F32)
case("SoftmaxActivation", (2, 3, 4, 5), mode="channel", dtypes=F32)
case("SoftmaxOutput", (4, 6), (4,))
case("SoftmaxOutput", (2, 3, 4), (2, 4), multi_output=True)
case("SoftmaxOutput", (2, 3, 4), (2, 3), preserve_shape=True)
for op in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"):
    case(op, (4, 3), (4, 3))
case("SVMOutput", (4, 3), (4,))
case("Dropout", S)
case("Dropout", S, p=0.0, mode="always")

# Normalizations.
B = (2, 3, 4, 5)
C = (3,)
case("BatchNorm", B, C, C, C, ("positive", C), auxiliary=2)
case("BatchNorm", B, C, C, C, ("positive", C), auxiliary=2, fix_gamma=False, eps="1e-05", axis=1, use_global_stats="True")
case("BatchNorm", (2, 4, 5, 3), C, C, C, ("positive", C), auxiliary=2, fix_gamma=False, axis=-1)
case("BatchNorm_v1", B, C, C, C, ("positive", C), auxiliary=2, fix_gamma=False, dtypes=F32)
case("_contrib_SyncBatchNorm", B, C, C, C, ("positive", C), auxiliary=2, fix_gamma=False, key="k", dtypes=F32)
case("_contrib_BatchNormWithReLU", B, C, C, C, ("positive", C), auxiliary=2, fix_gamma=False, dtypes=F32)
case("LayerNorm", (2, 5, 3), C, C)
case("LayerNorm", B, C, C, axis=1, eps=0.01)
case("GroupNorm", (2, 6, 5), (3,), (3,), num_groups=3)
case("InstanceNorm", B, C, C, dtypes=F32)
for mode in ("instance", "channel", "spatial"):
    case("L2Normalization", B, mode=mode)
case("LRN", (2, 7, 4, 5), nsize=5, alpha=0.1, dtypes=F32)

# Densities.
for log in (False, True):
    case("_random_pdf_uniform", ("unit", (2, 3)), ("unit", (2,)), ("above", (2,)), is_log=log)
    case("_random_pdf_normal", (2, 3), (2,), ("positive", (2,)), is_log=log, dtypes=F32)  # MXNet's pi is one of f32
    case("_random_pdf_gamma", ("positive", (2, 3)), ("positive", (2,)), ("positive", (2,)), is_log=log)
    case("_random_pdf_exponential", ("positive", (2, 3)), ("positive", (2,)), is_log=log)
    case("_random_pdf_poisson", ("int", (2, 3), 5), ("positive", (2,)), is_log=log)
    case("_random_pdf_negative_binomial", ("int", (2, 3), 5), ("positive", (2,)), ("share", (2,)), is_log=log)
    case("_random_pdf_generalized_negative_binomial", ("int", (2, 3), 5), ("positive", (2,)), ("positive", (2,)), is_log=log)
    case("_random_pdf_dirichlet", ("share", (2, 3, 4)), ("positive", (2, 4)), is_log=log)

# Windows.
for bias in (True, False):
    operands = [(2, 4, 9, 8), (6, 4, 3, 2)] + ([(6,)] if bias else [])
    case("Convolution", *operands, kernel="(3, 2)", num_filter=6, no_bias=not bias)
case("Convolution", (2, 4, 9, 8), (6, 2, 3, 3), kernel="(3, 3)", stride="(2, 1)", pad="(1, 2)", dilate="(1, 2)", num_filter=6,
     num_group=2, no_bias=True, layout="NCHW", workspace=256)
case("Convolution", (2, 4, 9), (6, 4, 3), (6,), kernel="(3,)", num_filter=6)
case("Convolution", (1, 2, 5, 6, 7), (3, 2, 2, 2, 2), (3,), kernel="(2, 2, 2)", num_filter=3)
case("Deconvolution", (2, 4, 5, 6), (4, 3, 4, 4), kernel="(4, 4)", num_filter=3, stride="(2, 2)", pad="(1, 1)")
case("Deconvolution", (2, 4, 5, 6), (4, 3, 3, 3), (3,), kernel="(3, 3)", num_filter=3, no_bias=False, dilate="(1, 2)",
     dtypes=("float64",))  # MXNet's oneDNN refuses f32 on some CPUs
case("Deconvolution", (2, 4, 5, 6), (4, 2, 2, 2), kernel="(2, 2)", num_filter=4, num_group=2)
# With these two attributes, MXNet's call of oneDNN fails for f32.
case("Deconvolution", (2, 4, 5, 6), (4, 3, 3, 3), kernel="(3, 3)", num_filter=3, stride="(2, 2)", pad="(1, 1)", adj="(1, 1)",
     dtypes=("float64",))
case("Deconvolution", (2, 4, 5, 6), (4, 3, 4, 4), (3,), kernel="(4, 4)", num_filter=3, stride="(2, 2)", target_shape="(9, 10)",
     no_bias=False, dtypes=("float64",))
P = (2, 3, 9, 10)
for kind in ("max", "avg", "sum"):
    case("Pooling", P, kernel="(3, 2)", pool_type=kind)
    case("Pooling", P, kernel="(3, 3)", pool_type=kind, stride="(2, 2)", pad="(1, 1)")
    case("Pooling", P, kernel="(3, 3)", pool_type=kind, stride="(2, 2)", pad="(1, 1)", pooling_convention="full")
    case("Pooling", P, kernel="(2, 2)", pool_type=kind, stride="(2, 2)", pooling_convention="full")
    case("Pooling", P, global_pool=True, pool_type=kind, kernel="(7, 7)")
case("Pooling", P, kernel="(3, 3)", pool_type="avg", stride="(2, 2)", pad="(1, 1)", count_include_pad=False)
case("Pooling", P, kernel="(3, 3)", pool_type="avg", stride="(2, 2)", pad="(1, 1)", count_include_pad=False,
     pooling_convention="full")
case("Pooling", P, kernel="(3, 3)", pool_type="lp", p_value=2)
case("Pooling", (2, 3, 9), kernel="(3,)", pool_type="max", stride="(2,)")
case("Pooling", (2, 3, 5, 6, 7), kernel="(2, 2, 2)", pool_type="avg", stride="(2, 2, 2)")
case("Pooling_v1", P, kernel="(3, 3)", pool_type="max", stride="(2, 2)", dtypes=F32)
for kind in ("max", "avg", "sum", "lp"):
    power = {"p_value": 2} if kind == "lp" else {}
    case("Pooling", (2, 9, 10, 3), kernel="(3, 2)", pool_type=kind, layout="NHWC", stride="(2, 2)", pad="(1, 0)", **power)
    case("Pooling", (2, 9, 10, 3), global_pool=True, pool_type=kind, layout="NHWC", kernel="(1, 1)", **power)
    case("Pooling", (2, 9, 3), kernel="(3,)", pool_type=kind, layout="NWC", **power)
    case("Pooling", (2, 5, 6, 7, 3), kernel="(2, 2, 2)", pool_type=kind, layout="NDHWC", **power)
case("Pooling", (2, 9, 10, 3), kernel="(3, 3)", pool_type="avg", layout="NHWC", stride="(2, 2)", pad="(1, 1)",
     pooling_convention="full")
case("_contrib_AdaptiveAvgPooling2D", P, output_size="(3, 5)")
case("_contrib_AdaptiveAvgPooling2D", P)
case("UpSampling", P, scale=2, sample_type="nearest", num_args=1)

# Shapes.
R = (2, 3, 4, 5)
for shape in ("(6, 20)", "(0, -1)", "(-1,)", "(-2,)", "(0, 0, -3)", "(-4, 1, 2, -2)", "(0, -4, -1, 3, 20)", "(-3, -3)"):
    case("Reshape", R, shape=shape)
case("Reshape", R, shape="(-1, 0)", reverse=True)
case("Reshape", R, shape="(0, -1, 0)", reverse="True")
case("Reshape", R, target_shape="(0, 6, 10)")
case("_np_reshape", R, newshape="(6, -1)")
for shape in ("(-2, -1)", "(-4,)", "(-5, -2, -2)", "(-6, 1, 2, -4)"):
    case("_npx_reshape", R, newshape=shape)
case("_npx_reshape", (2, 1, 3), newshape="(-2, -3, -1)")
case("reshape_like", (6, 4), (2, 3, 4))
case("reshape_like", (6, 4), (2, 3, 5), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
case("Flatten", R)
case("transpose", R)
case("transpose", R, axes="(0, 2, 1, 3)")
case("_np_transpose", R)
case("_np_transpose", R, axes="(3, 0, 2, 1)")
case("SwapAxis", R, dim1=1, dim2=-1)
case("_np_moveaxis", R, source="(0, 1)", destination="(-1, 0)")
case("expand_dims", R, axis=1)
case("expand_dims", R, axis=-1)
case("squeeze", (2, 1, 3, 1))
case("squeeze", (2, 1, 3, 1), axis="(1,)")
case("squeeze", (1, 1))
case("_np_squeeze", (2, 1, 3, 1), axis=-1)
case("broadcast_axis", (2, 1, 3, 1), axis="(1, 3)", size="(4, 2)")
case("broadcast_to", (2, 1, 3), shape="(0, 4, 0)")
case("_npi_broadcast_to", (2, 1, 3), shape="(5, 2, 4, 3)")
case("broadcast_like", (2, 1, 3), (2, 4, 3))
case("broadcast_like", (2, 1, 3), (4, 7), lhs_axes="(1,)", rhs_axes="(0,)")
case("repeat", S, repeats=3)
case("repeat", S, repeats=2, axis=1)
case("tile", S, reps="(2, 1, 3)")
case("tile", S, reps="(2,)")
case("_npi_tile", S, reps="(2, 1, 1, 3)")
case("reverse", S, axis="(1,)")
case("_npi_flip", S, axis="(0, 2)")
case("Pad", R, mode="constant", pad_width="(0, 0, 0, 0, 1, 2, 3, 0)", constant_value="1.5")
case("Pad", R, mode="edge", pad_width="(0, 0, 0, 0, 1, 2, 3, 0)")
case("Pad", R, mode="reflect", pad_width="(0, 0, 0, 0, 1, 2, 3, 0)")
case("_npi_pad", R, mode="constant", pad_width="((0, 1), (2, 0), (0, 0), (1, 1))", constant_value="1.5")
case("_npi_pad", S, mode="edge", pad_width="((0, 1), (2, 0), (1, 1))")
case("_npi_pad", S, mode="reflect", pad_width="((0, 1), (2, 0), (1, 1))")
case("_np_roll", S, shift=2)
case("_np_roll", S, shift="(1, -2)", axis="(0, 2)")
case("_np_roll", S, shift=1, axis="(0, 1)")
for k in (-1, 0, 1, 2, 7):
    case("_npi_rot90", S, k=k, axes="(0, 1)")
    case("_npi_rot90", S, k=k, axes="(2, 0)")
case("depth_to_space", (2, 8, 3, 4), block_size=2)
case("space_to_depth", (2, 3, 4, 6), block_size=2)
case("Concat", (2, 3), (2, 5), num_args=2)
case("Concat", (2, 3), (4, 3), num_args=2, dim=0)
case("_rnn_param_concat", (3,), (5,), num_args=2, dim=0)
case("_npi_concatenate", (2, 3), (4, 3), num_args=2, axis=0)
case("stack", S, S, num_args=2, axis=1)
case("_npi_stack", S, S, num_args=2)
case("SliceChannel", (2, 6, 4), num_outputs=3, outputs=3)
case("SliceChannel", (2, 3, 4), num_outputs=3, outputs=3, squeeze_axis=True)
case("_split_v2", (2, 6, 4), indices="(0, 2, 3)", axis=1, outputs=3)
case("_split_v2", (2, 6, 4), indices="()", sections=2, axis=1, outputs=2)
case("_npi_split", (2, 6, 4), indices="(0, 2, 3)", axis=1, outputs=3)
case("slice", R, begin="(0, 1)", end="(1, 3)")
case("slice", R, begin="(None, -2, None)", end="(None, None, -1)", step="(None, 1, 2)")
case("slice", R, begin="(None, None, None, None)", end="(None, None, None, None)", step="(1, 1, 1, -2)")
case("slice", R, begin="(0, 0, 3)", end="(2, 3, 0)", step="(1, 1, -1)")
case("slice_axis", R, axis=2, begin=1, end="None")
case("slice_axis", R, axis=-1, begin=-3, end=-1)
for op in ("_npi_vstack", "_npi_hstack", "_npi_dstack", "_npi_column_stack"):
    case(op, (3,), (3,), num_args=2)
    case(op, (2, 3), (2, 3), num_args=2)
for op in ("_npi_vstack", "_npi_hstack", "_npi_dstack"):
    case(op, S, S, num_args=2)
case("_npi_vstack", (), (), num_args=2)
for op in ("_np_atleast_1d", "_np_atleast_2d", "_np_atleast_3d"):
    case(op, (), (3,), (2, 3), S, num_args=4, outputs=4)
case("_npi_hsplit", (4, 6), indices="()", sections=2, axis=1, outputs=2)
case("_npi_hsplit", (6,), indices="(0, 2)", axis=1, outputs=2)
case("_npi_dsplit", (2, 3, 6), indices="(0, 2, 5)", axis=2, outputs=3)
case("_npi_diff", S)
case("_npi_diff", S, n=2, axis=1)
case("_npi_ediff1d", S)
case("_npi_ediff1d", S, to_begin_scalar="-1.5", to_end_scalar=2)
case("_npi_ediff1d", S, (2,), (3,), to_begin_arr_given=True, to_end_arr_given=True)
case("_slice_assign", R, (1, 2, 4, 5), begin="(0, 1)", end="(1, 3)")
case("_slice_assign", R, (2, 2, 4, 3), begin="(None, -2, None, 4)", end="(None, None, None, None)", step="(1, 1, 1, -2)")
case("_slice_assign_scalar", R, scalar="2.5", begin="(0, 1)", end="(2, 3)", step="(1, 2)")
case("slice_like", R, (1, 2, 3, 4))
case("slice_like", R, (1, 2, 3, 9), axes="(1, 2)")
case("Crop", R, num_args=1, h_w="(2, 3)", offset="(1, 1)", dtypes=F32)
case("Crop", R, (1, 1, 3, 2), num_args=2, center_crop=True, dtypes=F32)

# Reductions.
for op in ("sum", "mean", "prod", "max", "min"):
    case(op, S)
    case(op, S, axis=1)
    case(op, S, axis="(0, 2)", keepdims=True)
    case(op, S, axis="(1,)", exclude=True)
for op in ("nansum", "nanprod"):
    case(op, S, axis="(1,)")
for operand in (S, ("specials", S)):
    case("all_finite", operand, dtypes=F32)
    case("multi_all_finite", S, operand, num_arrays=2, dtypes=F32)
case("multi_sum_sq", S, (5,), num_arrays=2)
case("_contrib_allclose", S, S)
case("_contrib_allclose", ("ones", S), ("ones", S))
case("softmax_cross_entropy", (4, 6), ("int", (4,), 6))
case("_npi_average", S, weighted=False)
case("_npi_average", S, weighted=False, axis="(1,)")
case("_npi_average", S, ("positive", S), axis="(1,)", returned=True, outputs=2)
case("_npi_average", S, ("positive", (3,)), axis="(1,)")
case("norm", S)
case("norm", S, axis="(1,)", keepdims=True)
case("norm", S, axis="(1,)", ord=1)
for op in ("argmax", "argmin"):
    case(op, S, axis=1)
    case(op, S, axis=-1, keepdims=True)
    case(op, S)
case("_npi_argmax", S, axis=1)
case("_npi_argmin", S)
case("argmax_channel", (4, 6))
case("cumsum", S, axis=1)
case("cumsum", S)
case("moments", S, axes="(0, 2)", outputs=2)
for op in ("_np_sum", "_np_prod", "_npi_mean", "_npi_var", "_npi_std", "_np_max", "_np_min"):
    case(op, S, axis="(1,)")
    case(op, S, keepdims=True)
    case(op, S)
for op in ("_np_any", "_np_all"):
    case(op, ("int", S, 2), axis="(1,)")
case("sort", S)
case("sort", S, axis=1, is_ascend=False)
case("argsort", S, axis=1)
case("topk", S, k=2)
case("topk", S, k=2, ret_typ="both", outputs=2, axis=1)
case("topk", S, k=1, ret_typ="value", is_ascend=True, dtype="int32")

# Indices and sequences.
case("Convolution_v1", (2, 4, 9, 8), (6, 4, 3, 2), (6,), kernel="(3, 2)", num_filter=6, dtypes=F32)
case("_npi_eye", N=3, M=4, k=-1, dtypes=F32)
case("Embedding", ("int", (2, 3), 7), (7, 4), input_dim=7, output_dim=4)
case("take", (5, 4), ("int", (2, 3), 9))
case("take", (2, 5, 4), ("int", (3,), 9), axis=1, mode="wrap")
case("pick", (4, 5), ("int", (4,), 5))
case("pick", (2, 5, 3), ("int", (2, 3), 9), axis=1, keepdims=True, mode="wrap")
case("batch_take", (4, 5), ("i32", (4,), 5))
case("one_hot", ("int", (2, 3), 5), depth=5)
case("one_hot", ("int", (2, 3), 5), depth=4, on_value=2.0, off_value="-1", dtype="int32")
case("gather_nd", (3, 4, 5), ("int", (2, 6), 3))
case("scatter_nd", (3, 5), ("rows", (2, 3)), shape="(3, 4, 5)")
case("_contrib_index_copy", (5, 4), ("rows", (3,)), (3, 4))
case("_contrib_SparseEmbedding", ("int", (2, 3), 7), (7, 4), input_dim=7, output_dim=4, dtypes=F32)
case("_ravel_multi_index", ("int", (3, 6), 4), shape="(4, 5, 6)")
case("_unravel_index", ("i32", (6,), 100), shape="(4, 5, 6)", dtypes=F32)
case("_contrib_index_array", S)
case("_contrib_index_array", S, axes="(2, 0)")
for op in ("SequenceMask", "SequenceLast", "SequenceReverse"):
    case(op, (4, 2, 3))
    case(op, (4, 2, 3), ("lengths", (2,), 4), use_sequence_length=True)
case("SequenceMask", (2, 4, 3), ("lengths", (2,), 4), use_sequence_length=True, axis=1, value="-1.5")
case("SequenceLast", (2, 4, 3), ("lengths", (2,), 4), use_sequence_length=True, axis=1)

# Products.
case("dot", (3, 4), (4, 5))
case("dot", (4, 3), (5, 4), transpose_a=True, transpose_b=True)
case("dot", (2, 3, 4), (4, 5, 2))
case("dot", (4,), (4,))
case("dot", (3, 4), (4,))
case("batch_dot", (2, 3, 4), (2, 4, 5))
case("batch_dot", (2, 4, 3), (2, 5, 4), transpose_a=True, transpose_b=True)
case("_linalg_gemm2", (2, 3, 4), (2, 4, 5), alpha=2)
case("_linalg_gemm", (2, 3, 4), (2, 5, 4), (2, 3, 5), transpose_b=True, beta=0.5)
case("_np_dot", (3, 4), (4, 5))
case("_np_dot", (4,), (4,))
case("_npi_matmul", (2, 3, 4), (4, 5))
case("_contrib_div_sqrt_dim", S)
case("_contrib_interleaved_matmul_selfatt_qk", (5, 2, 3 * 4 * 3), heads=4, dtypes=F32)
case("_contrib_interleaved_matmul_selfatt_valatt", (5, 2, 3 * 4 * 3), (8, 5, 5), heads=4, dtypes=F32)
case("_contrib_interleaved_matmul_encdec_qk", (5, 2, 4 * 3), (6, 2, 2 * 4 * 3), heads=4, dtypes=F32)
case("_contrib_interleaved_matmul_encdec_valatt", (6, 2, 2 * 4 * 3), (8, 5, 6), heads=4, dtypes=F32)

case("diag", (4,), k=1)
case("diag", (4,), k=-2)
case("diag", (4, 5), k=1)
case("diag", R, k=-1, axis1=1, axis2=3)
case("_np_diag", (4,), k=-1)
case("_np_diag", (4, 5), k=2)
case("_np_diagflat", (2, 3), k=1)
case("_np_diagonal", R, offset=1, axis1=2, axis2=0)
case("_np_trace", R, offset=1, axis1=2, axis2=3)
case("_np_trace", (3, 3))
case("_npi_tril", S, k=1)
case("_npi_tril", (4, 4), k=-1)
case("_linalg_extractdiag", (2, 4, 4), offset=-1)
case("_linalg_makediag", (2, 4), offset=1)
case("_linalg_sumlogdiag", ("positive", (2, 4, 4)))
case("_linalg_sumlogdiag", ("positive", (4, 4)))
for transpose in (False, True):
    case("_linalg_syrk", (2, 3, 4), transpose=transpose, alpha="0.5")
    for lower in (False, True):
        case("_linalg_trmm", (2, 4, 4), (2, 4, 3), transpose=transpose, lower=lower)
        case("_linalg_trmm", (2, 4, 4), (2, 3, 4), transpose=transpose, lower=lower, rightside=True, alpha="-2.0")
case("_npi_tensordot", (2, 3, 4), (4, 5, 3), a_axes_summed="(1, 2)", b_axes_summed="(2, 0)")
case("_npi_tensordot_int_axes", (2, 3, 4), (3, 4, 5), axes=2)
case("_npi_tensordot_int_axes", (2, 3), (4, 5), axes=0)

for subscripts, operands in (("ij,jk->ik", ((2, 3), (3, 4))), ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))), ("ij->ji", ((2, 3),)),
                             ("ijk->j", ((2, 3, 4),)), ("ij,kl", ((2, 3), (4, 5))), ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
                             ("i,i->", ((4,), (4,))), ("bhid, bhjd -> bhij", ((2, 3, 4, 5), (2, 3, 6, 5))), ("ij,ij->i", ((2, 3), (2, 3)))):
    case("_npi_einsum", *operands, num_args=len(operands), subscripts=subscripts)

# Images and boxes.
for op in ("_image_flip_left_right", "_image_flip_top_bottom"):
    case(op, ("u8", (4, 6, 3)), dtypes=F32)  # of odd sizes, MXNet leaves the middle undefined
case("_image_crop", ("u8", (6, 7, 3)), x=1, y=2, width=4, height=3, dtypes=F32)
case("_image_crop", ("u8", (2, 6, 7, 3)), x=1, y=2, width=4, height=3, dtypes=F32)
case("_image_to_tensor", ("u8", (6, 7, 3)), dtypes=F32)
case("_image_to_tensor", ("u8", (2, 6, 7, 3)), dtypes=F32)
case("_image_normalize", (3, 4, 5), mean="(0.1, 0.2, 0.3)", std="(2.0, 3.0, 0.5)", dtypes=F32)
case("_image_normalize", (2, 3, 4, 5), mean="0.5", std="(2.0, 3.0, 0.5)", dtypes=F32)
case("im2col", (2, 3, 7, 8), kernel="(3, 2)", stride="(2, 1)", pad="(1, 0)", dilate="(1, 2)")
case("GridGenerator", (2, 6), transform_type="affine", target_shape="(4, 5)", dtypes=F32)
case("GridGenerator", (2, 2, 4, 5), transform_type="warp", dtypes=F32)
case("BilinearSampler", (2, 3, 4, 5), ("unit", (2, 2, 3, 6)))
case("BilinearSampler", (2, 3, 4, 5), (2, 2, 3, 6))
case("SpatialTransformer", (2, 3, 4, 5), ("share", (2, 6)), target_shape="(3, 6)", transform_type="affine", sampler_type="bilinear")
for corners in (False, True):
    case("_contrib_BilinearResize2D", (2, 3, 5, 6), height=9, width=4, align_corners=corners, dtypes=F32)
    case("_contrib_BilinearResize2D", (2, 3, 5, 6), height=1, width=1, align_corners=corners, dtypes=F32)
    case("_contrib_BilinearResize2D", (2, 3, 5, 6), scale_height=2, scale_width="1.5", align_corners=corners, dtypes=F32)
    case("_contrib_BilinearResize2D", (2, 3, 5, 6), (1, 1, 7, 8), mode="like", align_corners=corners, dtypes=F32)
for kind in ("corner", "center"):
    case("_contrib_box_iou", ("boxes", (2, 3, 4)), ("boxes", (5, 4)), format=kind, dtypes=F32)
    case("_contrib_box_decode", (2, 5, 4), ("boxes", (1, 5, 4)), format=kind, std0="0.1", std2="0.2", dtypes=F32)
    case("_contrib_box_decode", (2, 5, 4), ("boxes", (1, 5, 4)), format=kind, clip="0.5", dtypes=F32)

# Recurrent layers: C=3, H=4, T=5, N=2.
for mode, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
    for layers, both in ((1, False), (2, False), (2, True)):
        directions = 2 if both else 1
        size = sum(directions * gates * 4 * ((3 if i == 0 else 4 * directions) + 4 + 2) for i in range(layers))
        states = [(layers * directions, 2, 4)] * (2 if mode == "lstm" else 1)
        case("RNN", (5, 2, 3), (size,), *states, state_size=4, num_layers=layers, mode=mode, bidirectional=both,
             state_outputs=True, outputs=1 + len(states), dtypes=F32)
    size = gates * 4 * 9
    states = [(1, 2, 4)] * (2 if mode == "lstm" else 1)
    dtypes = F32 if mode == "rnn_relu" else ("float32", "float64")  # MXNet rounds relu to f32
    case("RNN", (5, 2, 3), (size,), *states, state_size=4, num_layers=1, mode=mode, dtypes=dtypes)
for layers, both in ((1, False), (2, True)):
    directions = 2 if both else 1
    size = sum(directions * (16 * ((3 if i == 0 else 2 * directions) + 2 + 2) + 2 * 4) for i in range(layers))
    case("RNN", (5, 2, 3), (size,), (layers * directions, 2, 2), (layers * directions, 2, 4), state_size=4, num_layers=layers,
         mode="lstm", bidirectional=both, projection_size=2, state_outputs=True, outputs=3, dtypes=F32)

# No operands, or only their shape.
for op in ("_zeros", "_ones", "_npi_zeros", "_npi_ones"):
    case(op, shape="(2, 3)", dtypes=F32)
    case(op, shape="(3,)", dtype="int32", dtypes=F32)
case("_full", shape="(2, 3)", value="2.5", dtype="float64", dtypes=F32)
case("_npi_full", shape="(2, 3)", value="2.5", dtype="float32", dtypes=F32)
case("_npi_full_like", S, fill_value=2)
case("_arange", start=1, stop=7, step=2, repeat=2, dtypes=F32)
case("_arange", start="5.0", dtype="int32", dtypes=F32)
case("_npi_arange", start=0, stop="2.0", step=0.25, dtypes=F32)
case("_contrib_arange_like", S)
case("_contrib_arange_like", S, axis=1, start=2, step=0.5)
case("_eye", N=3, M=4, k=1, dtypes=F32)
case("_npi_identity", shape="(3, 3)", dtypes=F32)
case("_npi_indices", dimensions="(2, 3)", dtype="int32", dtypes=F32)
case("_npi_logspace", start=0, stop="2.0", num=7, dtypes=F32)
case("_npi_logspace", start=0, stop=3, num=6, endpoint=False, base=2, dtype="float64", dtypes=F32)
for op in ("_npi_hanning", "_npi_hamming", "_npi_blackman"):
    case(op, M=7, dtypes=F32)
    case(op, M=1, dtypes=F32)
case("shape_array", S)
case("size_array", S)

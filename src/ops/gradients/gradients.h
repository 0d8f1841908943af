// Gradients: the rules of reverse mode, for the gradient column of the rows. A rule gets a node, its result y and
// dy, the derivative of some scalar by y. It adds nodes that compute the derivative by each wanted operand
// (GradientContext in src/ir/op.h). Sizes may be symbolic. 16-bit floats are computed in f32 and rounded once,
// at the end. Where an operation has no derivative, the rule has PyTorch's convention: docs/gradients.md lists
// them. Tested by tests/unit/passes/gradient_test.cc, against PyTorch by tests/torch/test_gradient.py.
#pragma once

#include "src/ir/builder.h"

namespace tenon::gradients {

// The derivative is zero or does not exist: comparisons, roundings, integer results.
Status zero(GradientContext& c);

// Elementwise arithmetic and functions (src/ops/gradients/map.cc).
Status add(GradientContext& c);
Status sub(GradientContext& c);
Status mul(GradientContext& c);
Status div(GradientContext& c);
Status fma(GradientContext& c);
Status remainder(GradientContext& c);
Status fmod(GradientContext& c);
Status pow(GradientContext& c);
Status maximum(GradientContext& c);
Status minimum(GradientContext& c);
Status clamp(GradientContext& c);
Status neg(GradientContext& c);
Status abs(GradientContext& c);
Status square(GradientContext& c);
Status reciprocal(GradientContext& c);
Status sqrt(GradientContext& c);
Status rsqrt(GradientContext& c);
Status exp(GradientContext& c);
Status exp2(GradientContext& c);
Status expm1(GradientContext& c);
Status log(GradientContext& c);
Status log2(GradientContext& c);
Status log10(GradientContext& c);
Status log1p(GradientContext& c);
Status sigmoid(GradientContext& c);
Status tanh(GradientContext& c);
Status erf(GradientContext& c);
Status erfc(GradientContext& c);
Status sin(GradientContext& c);
Status cos(GradientContext& c);
Status tan(GradientContext& c);
Status asin(GradientContext& c);
Status acos(GradientContext& c);
Status atan(GradientContext& c);
Status atan2(GradientContext& c);
Status sinh(GradientContext& c);
Status cosh(GradientContext& c);
Status asinh(GradientContext& c);
Status acosh(GradientContext& c);
Status atanh(GradientContext& c);
Status where(GradientContext& c);
Status cast(GradientContext& c);

// Special functions (src/ops/gradients/special.cc).
Status lgamma(GradientContext& c);
Status digamma(GradientContext& c);
Status polygamma(GradientContext& c);
Status zeta(GradientContext& c);
Status igamma(GradientContext& c);
Status igammac(GradientContext& c);
Status erfinv(GradientContext& c);
Status ndtri(GradientContext& c);
Status erfcx(GradientContext& c);
Status i0(GradientContext& c);
Status i0e(GradientContext& c);
Status i1(GradientContext& c);
Status i1e(GradientContext& c);
Status k0(GradientContext& c);
Status k0e(GradientContext& c);
Status k1(GradientContext& c);
Status k1e(GradientContext& c);
Status j0(GradientContext& c);
Status j1(GradientContext& c);
Status y0(GradientContext& c);
Status y1(GradientContext& c);
Status chebyshev_t(GradientContext& c);
Status chebyshev_u(GradientContext& c);
Status chebyshev_v(GradientContext& c);
Status chebyshev_w(GradientContext& c);
Status laguerre_l(GradientContext& c);
Status legendre_p(GradientContext& c);
Status hermite_h(GradientContext& c);
Status hermite_he(GradientContext& c);

// Activations (src/ops/gradients/activation.cc).
Status relu(GradientContext& c);
Status leaky_relu(GradientContext& c);
Status elu(GradientContext& c);
Status gelu(GradientContext& c);
Status silu(GradientContext& c);
Status mish(GradientContext& c);
Status softplus(GradientContext& c);
Status hardswish(GradientContext& c);
Status hardsigmoid(GradientContext& c);
Status hardtanh(GradientContext& c);

// Reductions, scans and softmax (src/ops/gradients/reduce.cc, src/ops/gradients/scan.cc).
Status sum(GradientContext& c);
Status prod(GradientContext& c);
Status max(GradientContext& c);
Status min(GradientContext& c);
Status mean(GradientContext& c);
Status var(GradientContext& c);
Status cumsum(GradientContext& c);
Status cumprod(GradientContext& c);
Status cummax(GradientContext& c);
Status cummin(GradientContext& c);
Status softmax(GradientContext& c);
Status log_softmax(GradientContext& c);
Status logsumexp(GradientContext& c);

// Moves (src/ops/gradients/move.cc, src/ops/gradients/index.cc).
Status reshape(GradientContext& c);
Status transpose(GradientContext& c);
Status expand(GradientContext& c);
Status slice(GradientContext& c);
Status windows(GradientContext& c);
Status flip(GradientContext& c);
Status concat(GradientContext& c);
Status pad(GradientContext& c);
Status gather(GradientContext& c);
Status take_along(GradientContext& c);
Status scatter(GradientContext& c);
Status index_put(GradientContext& c);

// Norms (src/ops/gradients/norm.cc).
Status layer_norm(GradientContext& c);
Status rms_norm(GradientContext& c);
Status group_norm(GradientContext& c);
Status instance_norm(GradientContext& c);

// Products, convolution, pooling and attention (src/ops/gradients/product.cc, convolution.cc, pool.cc and
// attention.cc).
Status matmul(GradientContext& c);
Status grouped_matmul(GradientContext& c);
Status grouped_outer(GradientContext& c);
Status linear(GradientContext& c);
Status convolution(GradientContext& c);
Status convolution_weight_gradient(GradientContext& c);
Status max_pool(GradientContext& c);
Status adaptive_avg_pool(GradientContext& c);
Status attention(GradientContext& c);

}  // namespace tenon::gradients

"""Activations, losses and layers of jax.nn, and operations of jax.lax."""

from __future__ import annotations

import math
from typing import Any

import pullback as pb
from benchmarks.functions.cases import between, case, whole

ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805


@case("jax.nn.relu", between(-2.0, 2.0))
def relu(x: Any) -> Any:
    return pb.relu(x)


@case("jax.nn.relu6", between(-2.0, 9.0), lacking=True)
def relu6(x: Any) -> Any:
    return pb.clip(x, 0.0, 6.0)


@case("jax.nn.softplus", between(-9.0, 9.0), lacking=True)
def softplus(x: Any) -> Any:
    return pb.logaddexp(x, 0.0)


@case("jax.nn.soft_sign", between(-3.0, 3.0), lacking=True)
def soft_sign(x: Any) -> Any:
    return x / (1 + pb.abs(x))


@case("jax.nn.silu", between(-6.0, 6.0), lacking=True)
def silu(x: Any) -> Any:
    return x * pb.logistic(x)


@case("jax.nn.leaky_relu", between(-3.0, 3.0), lacking=True)
def leaky_relu(x: Any) -> Any:
    return pb.where(x >= 0, x, 0.01 * x)


@case("jax.nn.hard_sigmoid", between(-6.0, 6.0), lacking=True)
def hard_sigmoid(x: Any) -> Any:
    return pb.clip(x + 3.0, 0.0, 6.0) / 6


@case("jax.nn.hard_silu", between(-6.0, 6.0), lacking=True)
def hard_silu(x: Any) -> Any:
    return x * pb.minimum(pb.maximum(x + 3.0, 0.0), 6.0) / 6


@case("jax.nn.hard_tanh", between(-3.0, 3.0), lacking=True)
def hard_tanh(x: Any) -> Any:
    return pb.where(x > 1, 1.0, pb.where(x < -1, -1.0, x))


@case("jax.nn.elu", between(-3.0, 3.0), lacking=True)
def elu(x: Any) -> Any:
    return pb.where(x > 0, x, pb.expm1(x))


@case("jax.nn.celu", between(-3.0, 3.0), between(0.5, 2.0, ""), lacking=True)
def celu(x: Any, alpha: Any) -> Any:
    return pb.maximum(x, 0.0) + alpha * pb.expm1(pb.minimum(x, 0.0) / alpha)


@case("jax.nn.selu", between(-3.0, 3.0), lacking=True)
def selu(x: Any) -> Any:
    return SCALE * pb.where(x > 0, x, ALPHA * (pb.exp(x) - 1))


@case("jax.nn.gelu", between(-4.0, 4.0), lacking=True, note="approximate, the default")
def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + pb.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@case("jax.nn.gelu", between(-3.0, 3.0), lacking=True, note="exact")
def gelu_exact(x: Any) -> Any:
    return x * 0.5 * (1 + pb.erf(x / math.sqrt(2)))


@case("jax.nn.glu", between(-3.0, 3.0, "3 2*n"), lacking=True)
def glu(x: Any) -> Any:
    half = x.shape[1] // 2
    return pb.build((x.shape[0], half), lambda i, j: x[i, j] * pb.logistic(x[i, j + half]))


@case("jax.nn.squareplus", between(-3.0, 3.0), between(0.5, 4.0, ""), lacking=True)
def squareplus(x: Any, b: Any) -> Any:
    return (x + pb.sqrt(x * x + b)) / 2


@case("jax.nn.mish", between(-5.0, 5.0), lacking=True)
def mish(x: Any) -> Any:
    return x * pb.tanh(pb.log1p(pb.exp(x)))


@case("jax.nn.sparse_plus", between(-2.0, 2.0), lacking=True)
def sparse_plus(x: Any) -> Any:
    return pb.where(x <= -1, 0.0, pb.where(x < 1, (x + 1) ** 2 / 4, x))


@case("jax.nn.log_softmax", between(-3.0, 3.0, "3 n"), lacking=True)
def log_softmax(x: Any) -> Any:
    return x - pb.logsumexp(x, axis=-1, keepdims=True)


@case("jax.nn.softmax", between(-3.0, 3.0, "3 n"))
def softmax(x: Any) -> Any:
    return pb.softmax(x, axis=-1)


@case("jax.nn.logmeanexp", between(-3.0, 3.0, "n 3"), lacking=True)
def logmeanexp(x: Any) -> Any:
    return pb.logsumexp(x) - pb.log(x.shape[0] * x.shape[1] * pb.ones(()))


@case("jax.nn.log1mexp", between(0.1, 5.0), lacking=True)
def log1mexp(x: Any) -> Any:
    return pb.where(x < math.log(2), pb.log(-pb.expm1(-x)), pb.log1p(-pb.exp(-x)))


@case("jax.nn.standardize", between(-3.0, 3.0, "3 n"), lacking=True, tolerance=1e-9)
def standardize(x: Any) -> Any:
    mean = pb.mean(x, axis=-1, keepdims=True)
    return (x - mean) / pb.sqrt(pb.var(x, axis=-1, keepdims=True) + 1e-5)


@case("jax.nn.one_hot", whole(0, 4), between(-1.0, 1.0, "4 3"), lacking=True, note="weights picked by it")
def one_hot(labels: Any, w: Any) -> Any:
    hot = pb.build((labels.shape[0], 4), lambda i, k: pb.where(labels[i] == k, 1.0, 0.0))
    return hot @ w


@case(
    "jax.nn.dot_product_attention",
    between(-1.0, 1.0, "2 n 3 4"),
    between(-1.0, 1.0, "2 n+1 3 4"),
    between(-1.0, 1.0, "2 n+1 3 4"),
    sizes=(3, 34),
    tolerance=1e-4,
    note="JAX takes the softmax in float32",
    lacking=True,
)
def dot_product_attention(q: Any, k: Any, v: Any) -> Any:
    batch, length, heads, width = q.shape
    keys = k.shape[1]
    scores = pb.build(
        (batch, heads, length, keys),
        lambda b, h, t, s: pb.sum_over(width, lambda d: q[b, t, h, d] * k[b, s, h, d]) / math.sqrt(4),
    )
    weights = pb.softmax(scores, axis=-1)
    return pb.build(
        (batch, length, heads, width),
        lambda b, t, h, d: pb.sum_over(keys, lambda s: weights[b, h, t, s] * v[b, s, h, d]),
    )


@case(
    "jax.lax.conv_general_dilated",
    between(-1.0, 1.0, "2 3 n+4 n+2"),
    between(-1.0, 1.0, "4 3 3 2"),
    sizes=(3, 20),
    note="stride 2, padding 1, dilation 2 by the rows",
)
def conv_general_dilated(x: Any, w: Any) -> Any:
    batch, channels, rows, columns = x.shape
    out = ((rows + 2 - 5) // 2 + 1, (columns + 2 - 2) // 2 + 1)
    return pb.build(
        (batch, 4, *out),
        lambda b, o, i, j: pb.sum_over(
            (channels, 3, 2), lambda c, k, l: x.at(b, c, 2 * i + 2 * k - 1, 2 * j + l - 1) * w[o, c, k, l]
        ),
    )


@case(
    "jax.lax.conv_transpose",
    between(-1.0, 1.0, "2 n 3"),
    between(-1.0, 1.0, "3 3 4"),
    sizes=(4, 34),
    note="stride 2, VALID",
)
def conv_transpose(x: Any, w: Any) -> Any:
    batch, length, channels = x.shape

    # every input element spreads over 3 outputs that lie 2 apart from the next one's
    def out(b: Any, t: Any, o: Any) -> Any:
        return pb.sum_over(
            (length, channels),
            lambda i, c: pb.where((t - 2 * i >= 0) & (t - 2 * i < 3), x[b, i, c] * w.at(2 - t + 2 * i, c, o), 0.0),
        )

    return pb.build((batch, 2 * length + 1, 4), out)


@case("jax.lax.reduce_window", between(-1.0, 1.0, "n+3 n"), lacking=True, note="max over 3 by 2, stride 2 by 1")
def max_pool(x: Any) -> Any:
    rows, columns = (x.shape[0] - 3) // 2 + 1, x.shape[1] - 1
    return pb.build((rows, columns), lambda i, j: pb.max_over((3, 2), lambda k, l: x[2 * i + k, j + l]))


@case("jax.lax.reduce_window_sum", between(-1.0, 1.0, "n+3"), lacking=True, note="4 wide, SAME")
def window_sum(x: Any) -> Any:
    return pb.build(x.shape[0], lambda i: pb.sum_over(4, lambda k: x.at(i + k - 1)))


@case("jax.lax.cumlogsumexp", between(-2.0, 2.0), lacking=True)
def cumlogsumexp(x: Any) -> Any:
    def step(total: Any, i: Any) -> Any:
        total = pb.logaddexp(total, x[i])
        return total, total

    first = x[0]
    rest = pb.scan(x.shape[0] - 1, first, lambda total, i: step(total, i + 1))[1]
    return pb.concat([pb.expand_dims(first), rest])


@case("jax.lax.cummax", between(-2.0, 2.0), lacking=True)
def cummax(x: Any) -> Any:
    def step(largest: Any, i: Any) -> Any:
        largest = pb.maximum(largest, x[i])
        return largest, largest

    return pb.scan(x.shape[0], pb.asarray(-pb.inf), step)[1]


@case("jax.lax.cumprod", between(0.5, 1.5, "n 2"))
def cumprod(x: Any) -> Any:
    return pb.cumulative_prod(x, axis=0)


@case("jax.lax.integer_pow", between(-2.0, 2.0), note="exponents 5, 0 and -2")
def integer_pow(x: Any) -> Any:
    return pb.stack([x**5, x**0, x**-2])


@case("jax.lax.rsqrt", between(0.2, 4.0), lacking=True)
def rsqrt(x: Any) -> Any:
    return 1 / pb.sqrt(x)


@case("jax.lax.rem", between(-5.0, 5.0), between(0.7, 2.0), lacking=True, note="the sign is the dividend's")
def rem(x: Any, y: Any) -> Any:
    return x - y * pb.trunc(x / y)


@case("jax.lax.pad", between(-1.0, 1.0), lacking=True, note="1 before, -2 after, 1 between")
def pad(x: Any) -> Any:
    n = 2 * x.shape[0] - 1 + 1 - 2
    return pb.build(n, lambda i: pb.where((i - 1) % 2 == 0, x.at((i - 1) // 2), 0.0))


@case("jax.lax.associative_scan", between(0.2, 0.9), between(-1.0, 1.0), lacking=True, note="a linear recurrence")
def associative_scan(a: Any, b: Any) -> Any:
    def step(h: Any, i: Any) -> Any:
        h = a[i] * h + b[i]
        return h, h

    return pb.scan(a.shape[0], pb.asarray(0.0), step)[1]


@case("jax.lax.dynamic_slice", between(-1.0, 1.0, "n+4"), whole(0, 4, ""), lacking=True)
def dynamic_slice(x: Any, start: Any) -> Any:
    return pb.build(4, lambda i: x[start + i] * (1.0 + i))


@case("jax.lax.dynamic_update_slice", between(-1.0, 1.0, "n+4"), between(-1.0, 1.0, "3"), whole(0, 4, ""), lacking=True)
def dynamic_update_slice(x: Any, update: Any, start: Any) -> Any:
    return pb.build(x.shape[0], lambda i: pb.where((i - start >= 0) & (i - start < 3), update.at(i - start), x[i]))


@case("jax.ops.segment_sum", between(-1.0, 1.0), whole(0, 4), lacking=True)
def segment_sum(data: Any, segments: Any) -> Any:
    return pb.build(4, lambda s: pb.sum_over(data.shape[0], lambda i: pb.where(segments[i] == s, data[i], 0.0)))


@case("jax.lax.top_k", between(-1.0, 1.0), lacking=True, note="k = 3")
def top_k(x: Any) -> Any:
    n = x.shape[0]

    def step(left: Any, i: Any) -> Any:
        place = pb.argmax_over(n, lambda j: left[j])
        return pb.build(n, lambda j: pb.where(j == place, -pb.inf, left[j])), x[place]

    return pb.scan(3, x, step)[1]


@case("jax.lax.cond", between(-1.0, 1.0), lacking=True)
def cond(x: Any) -> Any:
    return pb.cond(pb.sum(x) > 0, lambda y: pb.sin(y), lambda y: y * pb.exp(y), x)


@case("jax.lax.while_loop", between(0.5, 1.5), lacking=True, note="halving until the norm is below 0.1; JAX unrolled")
def while_loop(x: Any) -> Any:
    return pb.while_loop(lambda y: pb.sum(y * y) > 0.01, lambda y: pb.sin(y) / 2, x, max_trips=20)


@case(
    "jax.lax.tridiagonal_solve",
    between(0.1, 0.5),
    between(1.5, 2.5),
    between(0.1, 0.5),
    between(-1.0, 1.0),
    lacking=True,
)
def tridiagonal_solve(lower: Any, main: Any, upper: Any, b: Any) -> Any:
    # Thomas: eliminate downward, substitute upward
    n = b.shape[0]

    def down(state: Any, i: Any) -> Any:
        c, d = state
        below = pb.where(i > 0, lower[i], 0.0)
        pivot = main[i] - below * c
        state = (upper[i] / pivot, (b[i] - below * d) / pivot)
        return state, state

    _, (c, d) = pb.scan(n, (pb.asarray(0.0), pb.asarray(0.0)), down)

    def up(x: Any, i: Any) -> Any:
        k = n - 1 - i
        x = d[k] - pb.where(i > 0, c[k], 0.0) * x
        return x, x

    return pb.flip(pb.scan(n, pb.asarray(0.0), up)[1])

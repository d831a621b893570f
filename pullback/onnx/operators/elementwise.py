"""Operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.onnx.operators.common import NARROW, dtype_named, floating, is_floating
from pullback.onnx.operators.narrow import limits, narrowed
from pullback.onnx.operators.table import Known, WrongNode, operator

Unary = Callable[[Any], Any]

UNARY: Final[dict[str, Unary]] = {
    "Abs": pb.abs, "Acos": pb.acos, "Acosh": pb.acosh, "Asin": pb.asin, "Asinh": pb.asinh, "Atan": pb.atan,
    "Atanh": pb.atanh, "BitwiseNot": pb.bitwise_invert, "Ceil": pb.ceil, "Cos": pb.cos, "Cosh": pb.cosh, "Erf": pb.erf,
    "Exp": pb.exp, "Floor": pb.floor, "Identity": lambda x: x, "IsNaN": pb.isnan, "Log": pb.log, "Neg": pb.negative,
    "Not": pb.logical_not, "Reciprocal": lambda x: 1 / x, "Relu": lambda x: pb.maximum(x, pb.zeros_like(x)),
    "Round": pb.round, "Sigmoid": pb.logistic, "Sign": pb.sign, "Sin": pb.sin, "Sinh": pb.sinh,
    "Softplus": lambda x: pb.logaddexp(x, pb.zeros_like(x)), "Softsign": lambda x: x / (1 + pb.abs(x)),
    "Sqrt": pb.sqrt, "Tan": pb.tan, "Tanh": pb.tanh, "HardSwish": lambda x: x * pb.clip(x / 6 + 0.5, 0.0, 1.0),
    "Mish": lambda x: x * pb.tanh(pb.logaddexp(x, pb.zeros_like(x))),
}  # fmt: skip

COMPARISONS: Final = {"Equal": pb.equal, "Greater": pb.greater, "Less": pb.less, "GreaterOrEqual": pb.greater_equal,
                      "LessOrEqual": pb.less_equal, "And": pb.logical_and, "Or": pb.logical_or,
                      "Xor": pb.logical_xor, "BitwiseAnd": pb.bitwise_and, "BitwiseOr": pb.bitwise_or,
                      "BitwiseXor": pb.bitwise_xor}  # fmt: skip


def _unary(name: str, f: Unary) -> None:
    @operator(name)
    def row(x: Any) -> Any:
        return f(x)


def _aligned(b: Any, rank: int, broadcast: int, axis: int | None) -> Any:
    """Align the second operand as early versions broadcast it: its axes start at `axis`."""
    if not broadcast or axis is None:
        return b
    behind = rank - (axis % rank) - b.ndim
    return pb.reshape(b, (*b.shape, *(1,) * behind))


def _binary(name: str, f: Callable[[Any, Any], Any]) -> None:
    @operator(name)
    def row(a: Any, b: Any, *, broadcast: int = 0, axis: int | None = None) -> Any:
        return f(a, _aligned(b, a.ndim, broadcast, axis))


def _divided(a: Any, b: Any) -> Any:
    """Divide; integer quotients are rounded toward zero."""
    if is_floating(a):
        return a / b
    down = a // b
    return pb.where((a - down * b != 0) & ((a < 0) != (b < 0)), down + 1, down)


def _power(a: Any, b: Any) -> Any:
    """Raise to a power; the element type is that of the base."""
    if a.dtype == b.dtype:
        return pb.pow(a, b)
    if is_floating(a):
        return pb.pow(a, pb.astype(b, a.dtype))
    return pb.astype(pb.pow(pb.astype(a, pb.float64), pb.astype(b, pb.float64)), a.dtype)


for _name, _f in UNARY.items():
    _unary(_name, _f)
for _name, _g in {**COMPARISONS, "Add": pb.add, "Sub": pb.subtract, "Mul": pb.multiply, "Div": _divided,
                  "Pow": _power}.items():  # fmt: skip
    _binary(_name, _g)


@operator("Mod")
def mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The remainder: with `fmod` it has the sign of `a` as in C, else the sign of `b`."""
    if not fmod:
        return pb.remainder(a, b)
    if is_floating(a):
        return a - pb.trunc(a / b) * b
    return a - _divided(a, b) * b


@operator("BitShift")
def bit_shift(a: Any, b: Any, *, direction: str) -> Any:
    """Shift bits to the left or right; a shift by the width or more gives 0."""
    shift = {"LEFT": pb.bitwise_left_shift, "RIGHT": pb.bitwise_right_shift}.get(direction)
    if shift is None:
        raise WrongNode(f"direction={direction!r}: LEFT or RIGHT")
    return shift(a, b)


@operator("Max")
def largest(*xs: Any) -> Any:
    """Elementwise maximum."""
    return reduce(pb.maximum, xs)


@operator("Min")
def least(*xs: Any) -> Any:
    """Elementwise minimum."""
    return reduce(pb.minimum, xs)


@operator("Sum")
def total(*xs: Any) -> Any:
    """Elementwise sum."""
    return reduce(pb.add, xs)


@operator("Mean")
def mean(*xs: Any) -> Any:
    """Elementwise mean."""
    return reduce(pb.add, xs) / len(xs)


@operator("Where")
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`."""
    return pb.where(condition, x, y)


@operator("IsInf")
def is_infinite(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """Whether each element is an infinity of a requested sign."""
    return pb.isinf(x) & (((x > 0) & bool(detect_positive)) | ((x < 0) & bool(detect_negative)))


@operator("Clip")
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Clip to the bounds; if they are reversed, every result is the upper one."""
    least, most = (pb.astype(pb.asarray(b), x.dtype) if b is not None else None for b in (min, max))
    x = x if least is None else pb.maximum(x, least)
    return x if most is None else pb.minimum(x, most)


# Element types ----------------------------------------------------------------------------------------------------


def converted(x: Any, dtype: Any) -> Any:
    """Convert to another element type; nonzero values are true."""
    if dtype == x.dtype:
        return x
    return x != 0 if dtype == pb.bool else pb.astype(x, dtype)


@operator("Cast")
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """Convert to the element type with this code."""
    return narrowed(x, to, saturate) if to in NARROW else converted(x, dtype_named(to))


@operator("CastLike")
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up", narrow: tuple[int, ...]) -> Any:
    """Convert to the element type of another array."""
    return narrowed(x, narrow[1], saturate) if narrow[1] else converted(x, like.dtype)


@operator("BitCast")
def bit_cast(x: Known, *, to: int) -> Any:
    """The bits of constants as another element type of the same size."""
    dtype = np.dtype(dtype_named(to).numpy)
    if dtype.itemsize != x.dtype.itemsize:
        raise WrongNode(f"elements of {x.dtype.itemsize} bytes as {dtype}")
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape)


# Optional values ----------------------------------------------------------------------------------------------------


@operator("OptionalGetElement")
def optional_element(x: Any) -> Any:
    """The value itself."""
    return x


@operator("OptionalHasElement")
def has_element(x: Any = None) -> Any:
    """Whether there is a value."""
    return np.array(x is not None)


# Activations ------------------------------------------------------------------------------------------------------


@operator("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    """Return `α x` below 0, else `x`."""
    return pb.where(x < 0, alpha * x, x)


@operator("PRelu")
def parametric_relu(x: Any, slope: Any) -> Any:
    """Return `slope x` below 0, else `x`."""
    return pb.where(x < 0, slope * x, x)


@operator("Elu")
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    """Return `α (eˣ - 1)` below 0, else `x`."""
    return pb.where(x < 0, alpha * pb.expm1(x), x)


@operator("Selu")
def selu(x: Any, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    """Return `γ` times `elu`."""
    return gamma * pb.where(x <= 0, alpha * pb.expm1(x), x)


@operator("Celu")
def celu(x: Any, *, alpha: float = 1.0) -> Any:
    """Return `α (e^(x / α) - 1)` below 0, else `x`."""
    return pb.where(x < 0, alpha * pb.expm1(x / alpha), x)


@operator("Gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    """Return `x` times the normal cdf at `x`, or its tanh approximation."""
    if approximate == "tanh":
        return 0.5 * x * (1 + pb.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + pb.erf(x * math.sqrt(0.5)))


@operator("Swish")
def swish(x: Any, *, alpha: float = 1.0) -> Any:
    """Return `x / (1 + e^(-α x))`."""
    return x * pb.logistic(alpha * x)


@operator("HardSigmoid")
def hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """Return `α x + β`, clipped to [0, 1]."""
    return pb.clip(alpha * x + beta, 0.0, 1.0)


@operator("ThresholdedRelu")
def thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    """Return `x` above `α`, else 0."""
    return pb.where(x > alpha, x, 0.0)


@operator("Shrink")
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """Shrink toward 0 by `bias`; zero where |x| <= `lambd`."""
    middle = floating(x)
    return pb.astype(pb.where(middle < -lambd, middle + bias, pb.where(middle > lambd, middle - bias, 0.0)), x.dtype)


@operator("Dropout")
def dropout(x: Any, ratio: Known | None = None, training_mode: Known | None = None, *, seed: int | None = None,
            is_test: int = 0, outputs: int = 1) -> Any:  # fmt: skip
    """Return the input, as outside of training."""
    if training_mode is not None and training_mode.any() and (ratio is None or np.asarray(ratio).any()):
        raise WrongNode("it drops at random, as in training")
    return (x, pb.ones(x.shape, dtype=pb.bool)) if outputs > 1 else x


# Quantization -----------------------------------------------------------------------------------------------------


def per_axis(scale: Any, x: Any, axis: int, block: int) -> Any:
    """Broadcast a scale against `x`: one for all elements, per index of an axis, or per block of it."""
    if scale.ndim == 0 or (scale.ndim == 1 and scale.shape[0] == 1 and x.ndim != 1):
        return pb.reshape(scale, ())
    if scale.ndim == 1:
        axis %= x.ndim
        return pb.reshape(scale, tuple(-1 if k == axis else 1 for k in range(x.ndim)))
    return pb.repeat(scale, block, axis=axis) if block else scale


@operator("QuantizeLinear")
def quantize(x: Any, y_scale: Any, y_zero_point: Any = None, *, axis: int = 1, block_size: int = 0,
             output_dtype: int = 0, precision: int = 0, saturate: int = 1,
             narrow: tuple[int, ...] = (0, 0, 0)) -> Any:  # fmt: skip
    """Return `round(x / scale) + zero`, saturated to the element type of `zero`."""
    code = (narrow[2] if y_zero_point is not None else 0) or (output_dtype if output_dtype in NARROW else 0)
    if code and limits(code) is None:
        return narrowed(floating(x) / per_axis(floating(y_scale), x, axis, block_size), code, saturate)
    dtype = y_zero_point.dtype if y_zero_point is not None else dtype_named(output_dtype or 2)
    if not pb.isdtype(dtype, "integral"):
        raise WrongNode("elements that are no integers")
    scaled = pb.round(floating(x) / per_axis(floating(y_scale), x, axis, block_size))
    if y_zero_point is not None:
        scaled = scaled + pb.astype(per_axis(y_zero_point, x, axis, block_size), scaled.dtype)
    whole = np.iinfo(str(dtype.numpy))
    low, high = (limits(code) if code else None) or (whole.min, whole.max)
    return pb.astype(pb.clip(scaled, float(low), float(high)), dtype)


@operator("DequantizeLinear")
def dequantize(x: Any, x_scale: Any, x_zero_point: Any = None, *, axis: int = 1, block_size: int = 0,
               output_dtype: int = 0) -> Any:  # fmt: skip
    """Return `(x - zero) * scale`."""
    value = pb.astype(x, pb.float32)
    if x_zero_point is not None:
        value = value - pb.astype(per_axis(x_zero_point, x, axis, block_size), pb.float32)
    dtype = dtype_named(output_dtype) if output_dtype else x_scale.dtype
    return pb.astype(value * pb.astype(per_axis(x_scale, x, axis, block_size), pb.float32), dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Any) -> Any:
    """Quantize to 8 bits over the range of the elements and 0; return the result, scale and zero point."""
    low, high = pb.minimum(pb.min(x), 0.0), pb.maximum(pb.max(x), 0.0)
    scale = (high - low) / 255.0
    zero = pb.clip(pb.round(-low / scale), 0.0, 255.0)
    y = pb.clip(pb.round(x / scale) + zero, 0.0, 255.0)
    return pb.astype(y, pb.uint8), scale, pb.astype(zero, pb.uint8)

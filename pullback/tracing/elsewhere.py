"""Names of NumPy, JAX and PyTorch, with their names here or replacements.

Messages read these tables, and calls of NumPy's functions on traced values find the function of pullback there.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType, ModuleType
from typing import Any, NoReturn

from pullback.errors import UnknownNameError
from pullback.source import user_position

EQUAL = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "around": "round",
    "array": "asarray",
    "bitwise_left": "bitwise_left_shift",
    "bitwise_not": "bitwise_invert",
    "cat": "concat",
    "concatenate": "concat",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "detach": "stop_gradient",
    "div": "divide",
    "dot": "matmul",
    "double": "float64",
    "expit": "logistic",
    "expand": "broadcast_to",
    "fabs": "abs",
    "fix": "trunc",
    "float_power": "power",
    "fmod": "remainder",
    "fori_loop": "fold",
    "ge": "greater_equal",
    "gt": "greater",
    "half": "float16",
    "inner": "vecdot",
    "invert": "bitwise_invert",
    "jit": "function",
    "le": "less_equal",
    "left_shift": "bitwise_left_shift",
    "linearize": "jvp",
    "long": "int64",
    "lt": "less",
    "mm": "matmul",
    "bmm": "matmul",
    "mod": "remainder",
    "mul": "multiply",
    "ndarray": "Array",
    "ne": "not_equal",
    "neg": "negative",
    "no_grad": "stop_gradient",
    "permute": "permute_dims",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "rot": "roll",
    "sigmoid": "logistic",
    "sub": "subtract",
    "Tensor": "Array",
    "tensor": "asarray",
    "transpose": "permute_dims",
    "true_divide": "divide",
    "unsqueeze": "expand_dims",
    "view": "reshape",
}

_RANDOM = "draw with NumPy outside of the function and pass the array as an argument"
_VALUES = "return it: the call of the function gives NumPy arrays"
_GRADIENT = "`pb.grad(f)` is the function that gives the gradient of f"
_GROWS = "arrays have a fixed size: `pb.concat([x, y])` makes another"

INSTEAD = {
    "append": _GROWS,
    "average": "`pb.mean(x)`, or `pb.sum(w * x) / pb.sum(w)`",
    "backward": _GRADIENT,
    "requires_grad": _GRADIENT,
    "requires_grad_": _GRADIENT,
    "checkpointing": "`pb.checkpoint(f)`",
    "clone": "values never change, so no copy is needed",
    "copy": "values never change, so no copy is needed",
    "cpu": _VALUES,
    "cuda": "there is no GPU: functions run on the processor",
    "delete": _GROWS,
    "dstack": "`pb.stack([x, y], axis=2)`",
    "extend": _GROWS,
    "flatten": "`x.reshape(-1)`",
    "from_numpy": "NumPy arrays are arguments as they are",
    "gather": "`pb.take_along_axis(x, indices, axis)`",
    "gelu": "`pullback.nn.gelu`",
    "hstack": "`pb.concat([x, y], axis=1)`",
    "index_select": "`pb.take(x, indices, axis)`",
    "insert": _GROWS,
    "item": _VALUES,
    "lax": "`pb.fold`, `pb.scan`, `pb.while_loop` and `pb.cond`",
    "leaky_relu": "`pullback.nn.leaky_relu`",
    "log_softmax": "`pullback.nn.log_softmax`",
    "map": "`pb.build(n, lambda i: ...)`, or `pb.vmap`",
    "multi_dot": "`a @ b @ c`",
    "norm": "`pb.linalg.vector_norm(x)`, `pb.linalg.matrix_norm(x)`",
    "normal": _RANDOM,
    "numel": "`x.size`",
    "numpy": _VALUES,
    "pmap": "`pb.vmap`; `pb.threads(n)` around the call shares the work out",
    "rand": _RANDOM,
    "randn": _RANDOM,
    "randint": _RANDOM,
    "relu6": "`pb.clip(x, 0.0, 6.0)`",
    "resize": "`x.reshape(...)`, or `pb.build` with `x.at(i, fill=0)`",
    "silu": "`pullback.nn.silu`",
    "softplus": "`pullback.nn.softplus`",
    "switch": "`pb.cond`, one inside another",
    "to": "`x.astype(dtype)`",
    "tolist": _VALUES,
    "type": "`x.astype(dtype)`, `x.dtype`",
    "vectorize": "`pb.vmap`",
    "vstack": "`pb.concat([x, y])`, or `pb.stack([x, y])` for vectors",
    "zero_grad": _GRADIENT,
}

# Layers, losses and optimizers, in small letters and without "1d", "loss" and the like.
NETWORKS = {
    "averagepooling": "avg_pool",
    "avgpool": "avg_pool",
    "adaptiveavgpool": "global_avg_pool",
    "adaptivemaxpool": "global_max_pool",
    "batchnorm": "batch_norm",
    "batchnormalization": "batch_norm",
    "bce": "bce_with_logits",
    "bcewithlogits": "bce_with_logits",
    "binarycrossentropy": "bce_with_logits",
    "categoricalcrossentropy": "cross_entropy",
    "convtranspose": "conv_transpose",
    "convolution": "conv",
    "cosineannealinglr": "cosine_decay_schedule",
    "crossentropy": "cross_entropy",
    "exponentiallr": "exponential_decay",
    "globalaveragepooling": "global_avg_pool",
    "groupnorm": "group_norm",
    "instancenorm": "instance_norm",
    "kldiv": "kl_div",
    "l1": "l1_loss",
    "l2": "mse_loss",
    "layernorm": "layer_norm",
    "layernormalization": "layer_norm",
    "leakyrelu": "leaky_relu",
    "linear": "dense",
    "logsoftmax": "log_softmax",
    "mae": "l1_loss",
    "maxpool": "max_pool",
    "maxpooling": "max_pool",
    "meanabsoluteerror": "l1_loss",
    "meansquarederror": "mse_loss",
    "module": "layer",
    "mse": "mse_loss",
    "multiheadattention": "attention",
    "multiheaddotproductattention": "attention",
    "nll": "cross_entropy",
    "relu6": "clipped_relu",
    "rmsnorm": "rms_norm",
    "smoothl1": "huber_loss",
    "softmaxcrossentropy": "cross_entropy",
    "sparsecategoricalcrossentropy": "cross_entropy",
    "squared": "mse_loss",
    "steplr": "step_decay",
    "swish": "silu",
    "train": "fit",
    "transformerencoderlayer": "transformer_block",
}


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names most similar to this one, nearest first."""
    import difflib

    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.7)


def one_of(name: str, known: Iterable[str]) -> str:
    """For messages: the nearest of the known names, or all of them where none is near."""
    names = list(known)
    close = nearest(name, names)
    if close:
        return f"did you mean `{close[0]}`?" + (f" There are {', '.join(names)}" if 1 < len(names) <= 8 else "")
    return "one of " + ", ".join(names) if names else "there are none"


def public_names() -> ModuleType:
    """The package as users see it, whose names are complete on first use."""
    return sys.modules[__name__.partition(".")[0]]


def running(frames: Sequence[FrameType]) -> str | None:
    """The name of the outermost public function that frames run, possibly a wrapper's.

    Functions of one maker share their code, and are told apart by their `name`.
    """
    package = public_names()
    for frame in frames:
        for name in (frame.f_code.co_name, frame.f_locals.get("name")):
            found = getattr(package, name) if isinstance(name, str) and name in package.__all__ else None
            codes = [getattr(f, "__code__", None) for f in (found, inspect.unwrap(found))] if callable(found) else []
            if frame.f_code in codes and frames[0].f_code in codes:
                return name
    return None


def counterpart(name: str, module: str = "") -> Callable[..., Any] | None:
    """The public function of this or the equivalent name, first in a module of the package."""
    package = public_names()
    inner = getattr(package, module, None)
    if inner is not None and name in inner.__all__:
        return getattr(inner, name)  # type: ignore[no-any-return]
    for candidate in (name, EQUAL.get(name, "")):
        found: Callable[..., Any] | None = getattr(package, candidate) if candidate in package.__all__ else None
        if found is not None:
            return found
    return None


def remedy(name: str, misspelled: bool = True) -> str:
    """The replacement for a name that the package lacks; for a misspelling, the nearest name."""
    known = public_names().__all__
    if name in known or EQUAL.get(name) in known:
        return f"`pb.{name if name in known else EQUAL[name]}`"
    if name in INSTEAD:
        return INSTEAD[name]
    for module in ("linalg", "special", "fft"):
        if name in getattr(public_names(), module).__all__:
            return f"`pb.{module}.{name}`"
    close = nearest(name, known) if misspelled else []
    return "did you mean " + " or ".join(f"`pb.{n}`" for n in close) + "?" if close else "`dir(pb)` lists what there is"


def form(name: str, function: Callable[..., Any]) -> str:
    """`sum(x, axis=None)`: how a function is called, without annotations."""
    parts: list[str] = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        parts.append(f"{star}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}"))
    return f"{name}({', '.join(p for p in parts if p != 'self')})"


def unknown(name: str, module: str = "pullback") -> UnknownNameError:
    """The error for a name that the package, or a module of it, does not have."""
    from importlib.util import find_spec

    known = sys.modules[module].__all__
    short = "pb" + module.removeprefix("pullback")
    text = remedy(name)
    plain, *ours = (re.sub("[123]d|loss|_", "", n.lower()) for n in (name, *known))
    same = [n for n, own in zip(known, ours, strict=True) if own == plain]
    if module == "pullback.nn" and (same or plain in NETWORKS):
        text = f"`nn.{NETWORKS[plain] if plain in NETWORKS else same[0]}`"
    elif module != "pullback" and (close := nearest(name, known)):
        text = f"did you mean `{short}.{close[0]}`?"
    elif module != "pullback" and text.startswith("`dir"):
        text = f"`dir({short})` lists what there is"
    elif find_spec(f"pullback.{name}") is not None:
        text = f"`import pullback.{name}`"
    return UnknownNameError("E146", f"{module} has no {name!r}", position=user_position(), remedy=text)


def lookup(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module of the package: its error names replacements."""

    def missing(name: str) -> NoReturn:
        raise AttributeError(name) if name.startswith("_") else unknown(name, module)

    return missing

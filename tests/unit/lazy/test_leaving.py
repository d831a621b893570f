"""Ways in which a lazy array becomes a value of Python or NumPy: under a gradient each keeps the derivative or refuses.

The table has a row for every attribute of the classes, so that a new one is classified. Functions of other libraries
are taken from their namespaces.
"""

from __future__ import annotations

import asyncio
import cmath
import copy
import inspect
import math
import operator
import pickle
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

import pullback as pb
from pullback import DerivativeError, lazy
from pullback.lazy.remote import Expert, Remote, Worker

X = np.array([1.3, 2.4])
NODES = (lazy.Array, lazy.Weight)

LAZY = "a lazy array, through which the derivative passes"
RAISES = "the value could feed the gradient"
CONSTANT = "a value that is constant around almost every x: its derivative is 0"
KNOWN = "says nothing of the elements"
INSIDE = "the package's own"


def written(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


# name: why, and a call where it gives something
ROWS: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "numpy": (RAISES, lambda x: x.numpy()),
    "item": (RAISES, lambda x: x[0].item()),
    "tolist": (RAISES, lambda x: x.tolist()),
    "predict": (RAISES, lambda x: lazy.run(x.predict())),
    "__await__": (RAISES, lambda x: lazy.run(waited(x))),
    "__array__": (RAISES, lambda x: x.__array__()),
    "__float__": (RAISES, lambda x: float(x[0])),
    "__complex__": (RAISES, lambda x: complex(x[0])),
    "__dlpack__": (RAISES, lambda x: x.__dlpack__()),
    "__device_array__": (RAISES, lambda x: x.__device_array__()),
    "__reduce__": (RAISES, pickle.dumps),
    "__bool__": (CONSTANT, lambda x: bool(x[0])),
    "__int__": (CONSTANT, lambda x: int(x[0])),
    "__trunc__": (CONSTANT, lambda x: math.trunc(x[0])),
    "__floor__": (CONSTANT, lambda x: math.floor(x[0])),
    "__ceil__": (CONSTANT, lambda x: math.ceil(x[0])),
    "__index__": (CONSTANT, lambda x: operator.index(x[0].astype("int64"))),
    "__contains__": (CONSTANT, lambda x: 1.3 in x),
    "__format__": (CONSTANT, lambda x: f"{x[0]:.3f} {x}"),
    "__repr__": (CONSTANT, repr),
    "__str__": (CONSTANT, str),
    "__len__": (KNOWN, len),
    "__hash__": (KNOWN, hash),
    "__dlpack_device__": (KNOWN, lambda x: x.__dlpack_device__()),
    "shape": (KNOWN, lambda x: x.shape),
    "dtype": (KNOWN, lambda x: str(x.dtype)),
    "ndim": (KNOWN, lambda x: x.ndim),
    "size": (KNOWN, lambda x: x.size),
    "device": (KNOWN, lambda x: x.device),
    "name": (KNOWN, None),
    "version": (KNOWN, None),
    "set_value": ("takes a value; that it leaves for it is refused", None),
    "__setitem__": (LAZY, lambda x: written(+x, 0, x[1])),
    "__delitem__": ("is refused (E147)", None),
    **{f"__i{n}__": (LAZY, lambda x, n=n: getattr(+x, f"__i{n}__")(2.0))
       for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")},
    "__imatmul__": (LAZY, lambda x: (x[None] + x[:, None]).__imatmul__(x[None] + x[:, None])),
    **{f"__i{n}__": (LAZY, lambda x, n=n: getattr(x > 1.0, f"__i{n}__")(x > 2.0)) for n in ("and", "or", "xor")},
    **{f"__i{n}__": (LAZY, lambda x, n=n: getattr(x.astype("int64"), f"__i{n}__")(1)) for n in ("lshift", "rshift")},
    "__array_function__": ("all functions of NumPy, below", None),
    "__array_ufunc__": ("all functions of NumPy, below", None),
    "__array_namespace__": (KNOWN, None),
    "__iter__": (LAZY, list),
    "__copy__": (LAZY, copy.copy),
    "__deepcopy__": (LAZY, copy.deepcopy),
    "__getitem__": (LAZY, lambda x: (x[0], x[:1], x[x > 2.0], x[..., None])),
    "to_device": (LAZY, lambda x: x.to_device("cpu")),
    "T": (LAZY, lambda x: x[None].T),
    "mT": (LAZY, lambda x: x[None].mT),
    "real": (LAZY, lambda x: (x * 1j).real),
    "imag": (LAZY, lambda x: (x * 1j).imag),
    "conj": (LAZY, lambda x: (x * 1j).conj()),
    "astype": (LAZY, lambda x: (x.astype("float32"), x.astype("int64"))),
    "reshape": (LAZY, lambda x: x.reshape(1, 2)),
    "ravel": (LAZY, lambda x: x.ravel()),
    "transpose": (LAZY, lambda x: x.transpose()),
    "set": (LAZY, lambda x: x.set(0, x[1])),
    "add": (LAZY, lambda x: x.add(0, x[1])),
    "at": (LAZY, lambda x: x.at(0)),
    **{n: (LAZY, lambda x, n=n: getattr(x, n)()) for n in ("sum", "mean", "prod", "max", "min", "argmax", "argmin")},
    **{n: (LAZY, lambda x, n=n: getattr(x > 1, n)()) for n in ("any", "all")},
    **{f"__{n}__": (LAZY, lambda x, n=n: getattr(operator, n)(x)) for n in ("neg", "pos", "abs")},
    "__invert__": (LAZY, lambda x: ~(x > 2)),
    "__round__": (LAZY, round),
    **{f"__{side}{n}__": (LAZY, lambda x, n=n, side=side: getattr(x, f"__{side}{n}__")(2.0))
       for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod") for side in ("", "r")},
    **{f"__{side}matmul__": (LAZY, lambda x, side=side: getattr(x, f"__{side}matmul__")(x)) for side in ("", "r")},
    **{f"__{side}{n}__": (LAZY, lambda x, n=n, side=side: getattr(x.astype("int64"), f"__{side}{n}__")(2))
       for n in ("and", "or", "xor", "lshift", "rshift") for side in ("", "r")},
    **{f"__{n}__": (LAZY, lambda x, n=n: getattr(operator, n)(x, 2.0)) for n in ("lt", "le", "gt", "ge", "eq", "ne")},
    **dict.fromkeys(
        ("__annotations__", "__class_getitem__", "__doc__", "__firstlineno__", "__getattr__", "__init__", "__module__",
         "__orig_bases__", "__slots__", "__static_attributes__", "__weakref__", "application", "awaited", "check",
         "element", "forced", "grad", "_copy", "_share", "hold", "leaf", "moved", "namespace", "operands",
         "origin", "serial", "tracked", "trained", "type", "value", "watched", "written"),
        (INSIDE, None)),
}  # fmt: skip


def test_every_attribute_has_a_row() -> None:
    own = {n for kind in NODES for n in dir(kind) if getattr(kind, n) is not getattr(object, n, None)}
    own -= {n for n in own if isinstance(getattr(object, n, None), type(object.__init_subclass__))}
    assert own - set(ROWS) == set()
    assert {n for n in set(ROWS) - own if not n.startswith("__")} == set()


async def waited(x: Any) -> Any:
    return await x


def outcome(f: Callable[[Any], Any], x: Any = X) -> Any:
    """Return the result of f inside a gradient, or the error that it raises."""
    found: list[Any] = []

    def inner(x: Any) -> Any:
        try:
            found.append(f(x))
        except Exception as error:
            found.append(error)
        return lazy.sum(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lazy.grad(inner)(x)
    return found[0]


def is_refused(error: Any) -> bool:
    """Whether E715 was raised; NumPy raises errors of its own where an element cannot be stored."""
    while isinstance(error, BaseException):
        if isinstance(error, DerivativeError) and error.code == "E715":
            return True
        error = error.__cause__ or error.__context__
    return False


def parts(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple | list):
        for y in x:
            yield from parts(y)
    elif isinstance(x, dict):
        yield from parts(list(x.values()))
    else:
        yield x


def is_free(x: Any) -> bool:
    """Whether a result is lazy, or holds no floating number."""
    discrete = bool, int, str, bytes, type, type(NotImplemented), type(pb.float64), np.dtype
    return all(isinstance(y, (lazy.Array, *discrete)) or getattr(getattr(y, "dtype", None), "kind", "f") in "biu"
               for y in parts(x))  # fmt: skip


@pytest.mark.parametrize("name", [n for n, (_, call) in ROWS.items() if call is not None])
def test_rows(name: str) -> None:
    why, call = ROWS[name]
    assert call is not None
    found = outcome(call)
    if why is RAISES:
        assert is_refused(found), found
        assert not isinstance(call(lazy.asarray(X)), Exception)  # outside of a gradient it is free
        assert not isinstance(call(lazy.Weight(X)), Exception)
        assert not isinstance(outcome(lambda x: call(lazy.stop_gradient(x))), Exception)
        assert not isinstance(outcome(lambda x: call(lazy.asarray(X) * 2.0)), Exception)  # nothing of x in it
    else:
        assert not isinstance(found, Exception), found
        assert is_free(found), found
    if why is LAZY:
        assert all(isinstance(y, lazy.Array) for y in parts(found))


# What takes numbers and arrays, besides methods -------------------------------------------------------------------


def assigned(x: Any) -> Any:
    a = np.zeros(2)
    a[0] = x[0]
    return a


def copied(x: Any) -> Any:
    a = np.zeros(2)
    np.copyto(a, x)
    return a


def in_a_thread(x: Any) -> Any:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(float(x[0]))
        except DerivativeError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


OWN_ERROR = {"memoryview", "a NumPy array in place", "struct"}  # Python and NumPy drop ours
traced = pb.function(lambda x: x * 2.0)
LEAVING: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: float(x[0]),
    "complex": lambda x: complex(x[0]),
    "np.asarray": np.asarray,
    "np.array of parts": lambda x: np.array([x[0], x[1]]),
    "np.float64": lambda x: np.float64(x[0]),
    "np.from_dlpack": np.from_dlpack,
    "an element of a NumPy array": assigned,
    "np.copyto": copied,
    "several results": lambda x: np.histogram2d(x, x),
    "a NumPy array in place": lambda x: operator.iadd(np.zeros(2), x),
    "memoryview": memoryview,
    "struct": lambda x: struct.pack("d", x[0]),
    "%": lambda x: "%f".__mod__(x[0]),
    "pickle": pickle.dumps,
    "a thread": in_a_thread,
    "asyncio": lambda x: asyncio.run(waited(x)),
    "gather": lambda x: lazy.run(lazy.gather(x, x + 1.0)),
    "a traced function": traced,
    "a weight": lazy.Weight,
    "the value of a weight": lambda x: lazy.Weight(X).set_value(x),
    "backward": lambda x: lazy.backward(lazy.sum(lazy.Weight(X) * x)),
    "a gradient": lambda x: lazy.backward(lazy.Weight(X) * 2.0, x),
    "a trainer": lambda x: lazy.Trainer([lazy.Weight(X)], pb.nn.sgd(0.1)).step(lazy.sum(lazy.Weight(X) * x)),
    "computed": lambda x: (bool(lazy.sum(x * x) > 0), float(lazy.sum(x * x))),
    "an inner gradient": lambda x: lazy.grad(lambda y: y * float(x[0]))(2.0),
    "of an inner gradient": lambda x: float(lazy.grad(lambda y: y**3)(x[0])),
    "beside an inner gradient": lambda x: (lazy.grad(lambda y: y**3)(2.0), float(x[0])),
}


@pytest.mark.parametrize("name", LEAVING)
def test_what_takes_values(name: str) -> None:
    found = outcome(LEAVING[name])
    assert is_refused(found) or (name in OWN_ERROR and isinstance(found, Exception)), found


def test_what_is_free_under_a_gradient() -> None:
    w = lazy.Weight(X)
    kept = lazy.value_and_grad(lambda x: lazy.sum(x * x))(X)[0]
    free: list[Callable[[Any], Any]] = [
        lambda x: float(w[0] * 2.0),
        lambda x: float(kept),
        lambda x: float(lazy.floor(x[0])),
        lambda x: float((x[0] // 0.5) + lazy.sign(x[1])),
        lambda x: float(lazy.stop_gradient({"a": x[0] * x[1]})["a"]),
        lambda x: float(lazy.grad(lambda y: y**3)(2.0)),
        lambda x: np.allclose(x, x + 1e-20),
        lambda x: np.array_repr(x),
        lambda x: sorted([x[1], x[0]])[0],
        lambda x: max(x[0], x[1]),
        lambda x: sum(x),
        lambda x: list(range(int(x[1]))),
        lambda x: math.floor(x[0]) + round(2.5),
    ]
    for f in free:
        assert not isinstance(outcome(f), Exception)


def test_derivatives_pass_through_lists_copies_and_discrete_parts() -> None:
    def f(x: Any) -> Any:
        again = lazy.asarray([[x[0], 2.0], [1.0, x[1] * x[0]]])
        return lazy.sum(again * again) * int(x[1]) + lazy.sum(lazy.asarray(x, copy=True) ** 3) * len(x)

    a, b = X
    np.testing.assert_allclose(lazy.grad(f)(X), [4 * a + 4 * a * b * b + 6 * a * a, 4 * a * a * b + 6 * b * b])
    assert lazy.asarray([[1, 2], [3, lazy.asarray(4)]]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("module", [math, cmath, operator], ids=lambda m: m.__name__)
def test_functions_of_the_standard_library(module: Any) -> None:
    for name, f in inspect.getmembers(module, callable):
        if not name.startswith("_") and not inspect.isclass(f):
            for arguments in (lambda x: (x[0],), lambda x: (x[0], x[1]), lambda x: (x,)):
                found = outcome(lambda x, f=f, arguments=arguments: f(*arguments(x)))
                assert isinstance(found, Exception) or is_free(found), (name, found)


@pytest.mark.parametrize("module", [np, np.linalg, np.fft, scipy.special], ids=lambda m: m.__name__)
def test_functions_of_numpy_and_scipy(module: Any) -> None:
    kinds = np.ufunc, type(np.concatenate), type(np.array)  # others of NumPy set things
    number = lambda f: inspect.isclass(f) and issubclass(f, np.generic)
    names = {n for n, f in vars(module).items() if isinstance(f, kinds) or number(f)}
    assert len(names) > 10
    for name in sorted(names - {"show_config", "set_numeric_ops"}):
        found = outcome(getattr(module, name))
        assert isinstance(found, Exception) or found is None or is_free(found), (name, found)


class Here(Worker):
    """An expert in this process."""

    def __init__(self, expert: Expert) -> None:
        self.name, self.restart, self.expert = "here", False, expert

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        return getattr(self.expert, method)(*arguments)

    def wait(self, name: str, promised: Any) -> Any:
        return promised


def test_complex_operands_of_experts_have_deltas() -> None:
    network = lambda p, z: pb.sum(p["a"] * (pb.real(z) ** 2 + pb.imag(z) ** 2))
    expert = Remote("e", Here(Expert("e", network, {"a": np.array(3.0)})))
    found = lazy.grad(lambda x: expert(x * (1 + 2j)))(X)
    np.testing.assert_allclose(found, 2 * 3 * 5 * X)


def test_values_that_were_computed_together_depend_on_what_each_is_made_of() -> None:
    """Two results of one piece, of which the gradient under way reaches one."""
    w = lazy.Weight(X)

    def f(x: Any) -> Any:
        a, b = w * 2.0, lazy.exp(x)
        assert bool(lazy.sum(a) < lazy.sum(b * 100.0))
        assert a.tolist() == [2.6, 4.8]
        return b.tolist() if lazy.sum(a) > 0 else x

    assert is_refused(outcome(f))

"""Layers check annotated arrays: a table of annotations and arguments, results, and whole messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np
import pytest
from jaxtyping import Bool, Complex128, Float, Float32, Float64, Int64, Shaped

import pullback as pb
from pullback import lazy
from pullback.errors import DTypeError, PullbackError, ShapeError, TraceError, UndefinedNameError
from pullback.lazy.annotated import borders_of

A = lazy.Array
N = TypeVar("N", bound=int)
M = TypeVar("M", bound=int)


def taking(**annotations: Any) -> Callable[..., Any]:
    """A layer of x and y with these annotations, which returns x."""

    def f(x: Any, y: Any = None) -> Any:
        return x

    f.__annotations__ = {"return" if k == "result" else k: a for k, a in annotations.items()}
    return lazy.layer(f)


F64 = lazy.zeros((10, 20))
F32 = F64.astype(np.float32)
I64 = lazy.asarray(np.arange(3))

ACCEPTED: list[tuple[Any, list[Any]]] = [
    (Float64[A, "10 20"], [F64, F64.numpy(), lazy.Weight(F64.numpy()), F64 * 2.0, F64.T.T]),
    (Float64[A, "N M"], [F64, lazy.zeros((0, 1))]),
    (Float[A, "... 20"], [F64, F32, lazy.zeros((20,)), lazy.zeros((2, 3, 20))]),
    (Float32[A, "_ _"], [F32]),
    (Float64[A, "N 2*N"], [F64]),
    (Float64[A, ""], [lazy.asarray(1.0), 1.0, 1]),
    (Int64[A, "N"], [I64]),
    (Bool[A, "N"], [I64 > 1]),
    (Complex128[A, "N"], [I64.astype(np.complex128)]),
    (Shaped[A, "N"], [I64, lazy.zeros((2,))]),
    (Float64[A, "10 20"] | None, [F64, None]),
    (A[tuple[Literal[10], Literal[20]], np.float64], [F64]),
    (A[tuple[N, M], np.float64], [F64]),
    (A[tuple[int, Any], np.floating[Any]], [F64, F32]),
    (A[tuple[int, ...], np.float64], [F64, lazy.zeros(())]),
    (A[tuple[()], np.float64], [lazy.asarray(1.0), 2.0]),
    (A[Any, np.number[Any]], [F64, I64]),
    (A[Any, Any], [F64, I64 > 0]),
    (A[tuple[int, int]], [F64, F32]),
    (lazy.Weight[tuple[Literal[10], M], np.float64], [lazy.Weight(F64.numpy())]),
    (Float64[A[tuple[int, int], np.float64], "N M"], [F64]),
    (A, [F64, 3]),
    (dict[str, Any], [{"w": F64}, F64]),
]

REFUSED: list[tuple[Any, Any, type[PullbackError], str, str]] = [
    (Float64[A, "10 20"], lazy.zeros((10, 21)), ShapeError, "E111", "x is float64[10, 21], its annotation says "),
    (Float64[A, "10 20"], F32, DTypeError, "E122", 'x is float32[10, 20], its annotation says Float64["10 20"]'),
    (Float64[A, "10 20"], lazy.zeros((10,)), ShapeError, "E110", "x is float64[10], its"),
    (Float64[A, "10 20"], np.zeros((10, 21)), ShapeError, "E111", "x is float64[10, 21]"),
    (Float64[A, "10 20"], None, TraceError, "E139", "x is None"),
    (Float64[A, "10 20"], [1.0], TraceError, "E139", "x is a list"),
    (Float64[A, "10 20"], 1.0, TraceError, "E139", "x is a float"),
    (Float64[A, "10 20"] | None, F32, DTypeError, "E122", "x is float32[10, 20]"),
    (Float64[A, "N N"], F64, ShapeError, "E111", "x is float64[10, 20]"),
    (Float64[A, "N 2*N+1"], F64, ShapeError, "E111", "x is float64[10, 20]"),
    (Float64[A, "N+1 N"], F64, ShapeError, "E111", "x is float64[10, 20]"),
    (Float64[A, "... 21"], F64, ShapeError, "E111", "x is float64[10, 20]"),
    (Float64[A, "a ... b c"], F64, ShapeError, "E110", "x is float64[10, 20]"),
    (Int64[A, ""], 1.5, DTypeError, "E122", "x is float64, its annotation says"),
    (Bool[A, "N"], I64, DTypeError, "E122", "x is int64[3]"),
    (A[tuple[Literal[10], Literal[21]], np.float64], F64, ShapeError, "E111", "Array[tuple[10, 21], float64]"),
    (A[tuple[N, N], np.float64], F64, ShapeError, "E111", "Array[tuple[N, N], float64]"),
    (A[tuple[N], np.float64], F64, ShapeError, "E110", "x is float64[10, 20]"),
    (A[tuple[()], np.float64], F64, ShapeError, "E110", "Array[tuple[()], float64]"),
    (A[Any, np.integer[Any]], F64, DTypeError, "E122", "Array[Any, integer]"),
    (A[Any, np.bool_], I64, DTypeError, "E122", "x is int64[3]"),
]


@pytest.mark.parametrize(("annotation", "arguments"), ACCEPTED, ids=lambda x: str(x)[:60])
def test_accepted(annotation: Any, arguments: list[Any]) -> None:
    both = taking(x=annotation, result=annotation)
    for x in arguments:
        for _ in range(3):
            assert both(x) is x and both(x=x) is x


@pytest.mark.parametrize(("annotation", "x", "kind", "code", "text"), REFUSED, ids=lambda x: str(x)[:60])
def test_refused(annotation: Any, x: Any, kind: type[PullbackError], code: str, text: str) -> None:
    for call in (lambda f: f(x), lambda f: f(x=x)):
        with pytest.raises(kind) as caught:
            call(taking(x=annotation))
        assert caught.value.code == code and text in str(caught.value) and "f: x is" in str(caught.value)
        assert caught.value.__notes__ == ["in layer f"]
    with pytest.raises(PullbackError) as caught:
        taking(result=annotation)(x)
    assert caught.value.code == "E150" and text.replace("x is", "the result is") in str(caught.value)


def test_a_name_is_one_size_in_all_arguments_and_the_result() -> None:
    product = lazy.layer(_product)
    x, w = lazy.zeros((3, 4)), lazy.zeros((4, 5))
    assert product(x, w).shape == (3, 5) and product(w=w, x=x).shape == (3, 5)
    with pytest.raises(ShapeError, match=r"E111\] _product: w is float64\[5, 5\]") as caught:
        product(x, lazy.zeros((5, 5)))
    assert caught.value.facts == ("K = 4 by x",)
    with pytest.raises(ShapeError, match=r"E150\] _product: the result is float64\[3, 6\]") as caught:
        product(x, w, wrong=True)
    assert caught.value.facts == ("M = 5 by w",)


def _product(x: Float64[A, "N K"], w: Float64[A, "K M"], *, wrong: bool = False) -> Float64[A, "N M"]:
    return lazy.zeros((3, 6)) if wrong else x @ w


def test_tuples_and_rows_and_keywords() -> None:
    @lazy.layer
    def cell(h: Float64[A, "N"], *rows: Float64[A, "M"]) -> tuple[Float64[A, "N"], Any, Float64[A, "M"]]:
        return (h, None, rows[-1]) if len(rows) < 3 else (h, rows[0])  # type: ignore[return-value]

    @lazy.layer
    def scaled(x: Float64[A, "N"], *, by: Float64[A, "N"]) -> A:
        return x * by

    a, b = lazy.zeros((2,)), lazy.zeros((3,))
    assert cell(a, b, b)[0] is a and cell(a, b)[2] is b
    with pytest.raises(ShapeError, match=r"rows\[1\] is float64\[2\]"):
        cell(a, b, a)
    with pytest.raises(TraceError, match="the result is a tuple of 2, its annotation says 3"):
        cell(a, b, b, b)
    assert scaled(a, by=a).shape == (2,)
    with pytest.raises(ShapeError, match=r"by is float64\[3\]"):
        scaled(a, by=b)


def test_each_combination_is_checked_once() -> None:
    f = taking(x=Float64[A, "N M"], y=Float64[A, "M"], result=Float64[A, "N M"])
    held = next(c.cell_contents for c in f.__closure__ if isinstance(c.cell_contents, dict))
    for _ in range(5):
        f(F64, lazy.zeros((20,)))
    assert len(held) == 2  # by position, and by name
    f(lazy.zeros((3, 20)), lazy.zeros((20,)))
    assert len(held) == 4


def test_traced_arrays_and_coroutines_pass() -> None:
    f = taking(x=Float64[A, "10 20"], result=Float64[A, "10 20"])
    assert lazy.lift(lambda x: f(x))(lazy.zeros((10, 21))).shape == (10, 21)
    assert pb.function(lambda x: f(x) * 2)(np.ones((3, 2))).shape == (3, 2)

    @lazy.layer
    async def g(x: Float64[A, "N"]) -> Float64[A, "N"]:
        return x

    assert lazy.run(g(lazy.zeros((2,)))).shape == (2,)
    with pytest.raises(ShapeError):
        g(F64)


def test_annotations_that_are_not_of_arrays_cost_nothing() -> None:
    def f(x: int, y: list[int], z: A) -> str:
        return ""

    assert borders_of(f) is None and borders_of(lambda x: x) is None


def test_names_of_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    @lazy.layer
    def early(x: Float64[Later, "N"]) -> Any:  # type: ignore[name-defined]
        return x

    with pytest.raises(UndefinedNameError, match="E148"):
        early(lazy.zeros((2,)))
    monkeypatch.setitem(globals(), "Later", A)
    assert early(lazy.zeros((2,))).shape == (2,)
    with pytest.raises(ShapeError):
        early(F64)
    with pytest.raises(TraceError, match=r"E107\] x: <class 'str'> is not a size"):
        taking(x=A[tuple[str], np.float64])


def test_derivatives_pass_through_checked_layers() -> None:
    square = taking(x=Float64[A, "N"], result=Float64[A, "N"])
    found = lazy.grad(lambda x: lazy.sum(square(x) ** 2))(np.array([1.0, 2.0]))
    assert found.tolist() == [2.0, 4.0]

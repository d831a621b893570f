"""Every function of the array API standard, for all element types, ranks 0 to 4, sizes of 0 and keywords."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from tests.table.rows import Row, run_as
from tests.table.standard import CONSTANTS, DTYPES, INSPECTED, REFUSED, SHAPES, STANDARD, numbers

pytestmark = pytest.mark.slow

MANY = {"b": "bool", "i": "int32", "f": "float64", "c": "complex128"}  # one of each kind has all shapes
FUNCTIONS = [n for n in STANDARD if "." not in n]
EXTENSIONS = [n for n in STANDARD if "." in n]
STEP = 1e-5
TOGETHER = 40  # calls in one compiled function
FLOATING = ("real floating", "complex floating")


def rows(name: str) -> Iterator[Row]:
    """The calls of a function: every type for the first shape it takes, every shape for one type of each kind."""
    entry = STANDARD[name]
    for dtype in (d for kind in entry.kinds for d in DTYPES[kind]):
        found = 0
        for shape in SHAPES:
            if dtype not in MANY.values() and found:
                break
            for label, call, args in entry.calls(numbers(shape, dtype)):
                found += 1
                wanted = Row(label, call, args).wanted
                values = [np.asarray(v) for v in (wanted if isinstance(wanted, tuple) else (wanted,))]
                finite = [np.abs(v[np.isfinite(v)]) for v in values if v.dtype.kind in "fc"]
                size = max([1.0, *(float(v.max()) for v in finite if v.size)])
                yield Row(label, call, args, 300, size, wanted)


@pytest.mark.parametrize("names", [FUNCTIONS, EXTENSIONS], ids=["functions", "extensions"])
def test_values(names: list[str]) -> None:
    made = {name: list(rows(name)) for name in names}
    assert all(made.values())
    for group in made.values():
        run_as(group, c=False)
    last = [next(r for r in reversed(group) if r.full) for group in made.values()]
    for k in range(0, len(last), TOGETHER):
        run_as(last[k : k + TOGETHER], c=True)


def test_the_list_is_whole() -> None:
    """Every name of the standard is in the table, or in the lists of what is no function of arrays, or is refused."""
    for name in CONSTANTS:
        assert hasattr(pb, name)
    for name in (*STANDARD, *INSPECTED, *REFUSED):
        found: Any = pb
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)
        assert inspect.getdoc(found)
    for name in REFUSED:
        with pytest.raises(pb.ShapeError):
            pb.function(getattr(pb, name)).interpret(np.ones(3))


# Derivatives --------------------------------------------------------------------------------------------------------


def smooth_rows(name: str) -> list[tuple[str, Row]]:
    """Calls of a function that has a derivative, of every kind of number."""
    entry = STANDARD[name]
    found = []
    for dtype in (MANY[k] for k in entry.kinds if entry.smooth and k in "fc"):
        calls = [c for shape in ((3, 3), (3,)) for c in entry.calls(numbers(shape, dtype))]
        found += [(f"{name} {label}", Row(label, call, args)) for label, call, args in calls[:2]]
    return found


@pytest.mark.parametrize("names", [FUNCTIONS, EXTENSIONS], ids=["functions", "extensions"])
def test_derivatives(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward mode, once and twice, against differences along a direction; reverse mode against forward mode."""
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    for name in names:
        found = smooth_rows(name)
        if found:
            check_derivatives(found)


def check_derivatives(found: list[tuple[str, Row]]) -> None:
    """The derivatives of some calls as one function."""
    distinct = list({id(a): a for _, r in found for a in r.args if a.dtype.kind in "fc"}.values())
    place = {id(a): k for k, a in enumerate(distinct)}
    random = np.random.default_rng(5)
    point = [a + 0.1 * random.uniform(-1, 1, a.shape) for a in distinct]
    along = [random.normal(size=a.shape).astype(a.dtype) for a in distinct]

    def results(row: Row, arrays: list[Any]) -> list[Any]:
        out = row.call(pb, *(arrays[place[id(a)]] if id(a) in place else a for a in row.args))
        return [v for v in (out if isinstance(out, tuple) else (out,)) if pb.isdtype(v.dtype, FLOATING)]

    @pb.function
    def calls(arrays):
        return {what: results(row, arrays) for what, row in found}

    @pb.function
    def slopes(arrays):
        return pb.jvp(calls)((arrays,), (along,))

    sides = [[a + step * v for a, v in zip(point, along)] for step in (STEP, -STEP)]
    (up, up_slope), (down, down_slope) = (slopes(side) for side in sides)
    (out, tangents), (_, twice) = pb.jvp(slopes)((point,), (along,))
    weights = {what: [random.normal(size=np.shape(v)).astype(v.dtype) for v in out[what]] for what in out}
    (cotangent,) = pb.vjp(calls)(point, cotangent=weights)[1]
    forward = 0.0
    for what in out:
        for k, (a, b, t, w) in enumerate(zip(up[what], down[what], tangents[what], weights[what], strict=True)):
            wanted = (a - b) / (2 * STEP)
            np.testing.assert_allclose(t, wanted, rtol=1e-5, atol=1e-6 * max(1, np.abs(wanted).max()), err_msg=what)
            wanted = (up_slope[what][k] - down_slope[what][k]) / (2 * STEP)
            np.testing.assert_allclose(
                twice[what][k], wanted, rtol=1e-5, atol=1e-5 * max(1, np.abs(wanted).max()), err_msg=f"{what}, twice"
            )
            forward += np.sum(np.real(np.conj(w) * t))
    reverse = sum(np.sum(np.real(np.conj(c) * v)) for c, v in zip(cotangent, along, strict=True))
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, err_msg=", ".join(what for what, _ in found))

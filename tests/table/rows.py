"""Rows of tables: calls compared with NumPy's, many in one traced function, in the interpreter and in C."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import pullback as pb


@dataclass(frozen=True)
class Row:
    """One call.

    Attributes:
        label: what a failure is called.
        call: the call, given the namespace: pullback or NumPy.
        args: its arrays.
        ulps: how far off a floating-point result may be; 0 asks for the same number.
        scale: the error is counted in units of the last place of this, where it is larger than the result. For 0 the
            signs of zeros are compared too.
        expected: the result; what NumPy gives unless given.
    """

    label: str
    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    ulps: float = 0
    scale: float = 0
    expected: Any = None

    @property
    def full(self) -> bool:
        """Whether no array and no result is without elements."""
        results = self.wanted if isinstance(self.wanted, tuple) else (self.wanted,)
        return not any(0 in np.shape(a) for a in (*self.args, *results))

    @cached_property
    def wanted(self) -> Any:
        """The result that is right."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.call(np, *self.args) if self.expected is None else self.expected


def same(name: str, *args: Any, ulps: float = 0, scale: float = 0, expected: Any = None, **keywords: Any) -> Row:
    """A row of two functions of one name."""
    label = f"{name}({', '.join([*map(repr, args), *(f'{k}={v!r}' for k, v in keywords.items())])})"
    return Row(label, lambda xp, *a: getattr(xp, name)(*a, **keywords), args, ulps, scale, expected)


def run(rows: Sequence[Row], in_c: int = 100) -> None:
    """Compare all rows in the interpreter, and so many of those that have elements in C."""
    run_as(rows, c=False)
    full = [r for r in rows if r.full]
    run_as([full[k] for k in np.random.default_rng(0).permutation(len(full))[:in_c]], c=True)


def run_as(rows: Sequence[Row], c: bool) -> None:
    """Trace the rows as one function, run it and compare."""
    args = list({id(a): a for r in rows for a in r.args}.values())
    place = {id(a): k for k, a in enumerate(args)}
    names = ", ".join(f"a{k}" for k in range(len(args)))
    space: dict[str, Any] = {"apply": lambda *a: [r.call(pb, *(a[place[id(b)]] for b in r.args)) for r in rows]}
    exec(f"def table({names}):\n    return apply({names})", space)
    f = pb.function(space["table"])
    for r, ours in zip(rows, (f if c else f.interpret)(*args), strict=True):
        theirs = r.wanted
        where = f"{r.label}, {'in C' if c else 'interpreted'}"
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        for a, b in pairs:
            compare(np.asarray(a), np.asarray(b), r, where)


def compare(found: Any, wanted: Any, row: Row, where: str) -> None:
    """Type, shape and elements."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), where
    if row.ulps and wanted.dtype.kind in "fc":
        finite = np.isfinite(wanted)
        size = np.spacing(np.maximum(np.abs(wanted[finite]), np.asarray(row.scale, wanted.real.dtype)))
        off = np.abs(found[finite].astype(np.result_type(wanted, np.longdouble)) - wanted[finite]) / size
        assert not off.size or off.max() <= row.ulps, f"{where}: {found} is {off.max()} units off {wanted}"
        found, wanted = (np.where(finite & ((wanted != 0) | (row.scale > 0)), 1, a) for a in (found, wanted))
    np.testing.assert_array_equal(found, wanted, err_msg=where)
    if wanted.dtype.kind == "f" and not row.scale:
        zero = wanted == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]), err_msg=where)

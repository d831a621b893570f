"""Jagged arrays: rows of different lengths, as one array of values and the offsets of the rows.

This is the layout of compressed sparse rows. All methods are functions of the two arrays in the language itself, so
derivatives, C and devices need nothing new. Bisection of the offsets gives the row of each value. A sum over rows adds
each value to its row, and its derivative reads the row of each value: both take time in proportion to the values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from pullback.arrays.creation import arange, full, zeros
from pullback.arrays.elementwise import choose, convert, elementwise, exp
from pullback.arrays.manipulation import concat, take
from pullback.arrays.reduction import any as any_of
from pullback.arrays.sorting import searchsorted
from pullback.errors import ShapeError, counted
from pullback.records import dataclass
from pullback.source import user_position
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array
from pullback.tracing.control import scan
from pullback.tracing.making import as_array

__all__ = ["Jagged", "jagged", "padded_rows"]

V = TypeVar("V")
O = TypeVar("O")
Operator = Callable[[Any, Any], Any]


def _operators(function: Operator) -> tuple[Operator, Operator]:
    """The method of an operator, and that for a left operand which is no Jagged."""

    def of(x: Jagged[Any, Any], other: Any) -> Jagged[Any, Any]:
        return x.with_values(function(x.values, x._beside(other)))

    def reflected(x: Jagged[Any, Any], other: Any) -> Jagged[Any, Any]:
        return x.with_values(function(x._beside(other), x.values))

    return of, reflected


@dataclass(frozen=True, eq=False, repr=False)
class Jagged(Generic[V, O]):
    """Rows of different lengths: row r is `values[offsets[r] : offsets[r + 1]]`.

    `pb.jagged` makes one of a list of rows. It is a tree of its two arrays, so functions take and return it, and C has
    two arguments for it. Methods but `tolist`, `row`, `padded` and `mask` are for traced functions. Operators combine
    it with numbers and with jagged arrays of the same offsets. Derivatives are by values: of
    `lambda values: f(x.with_values(values))`. In the data of a network it is a set of sequences (`nn.masked`).

    Attributes:
        values: the elements of all rows (V, ...).
        offsets: where each row begins, and the end of the last (R + 1): integers from 0 to V that do not decrease.
    Raises:
        ShapeError: [E153] the offsets are not such. IndexRangeError: [E401] when a function runs, likewise.

    As an annotation, `Jagged[Float64[Array, "V"], Int64[Array, "R+1"]]` gives the types of the two arrays.
    """

    values: V
    offsets: O

    __array_ufunc__ = None  # NumPy leaves `array * jagged` to the jagged array
    __add__, __radd__ = _operators(operator.add)
    __sub__, __rsub__ = _operators(operator.sub)
    __mul__, __rmul__ = _operators(operator.mul)
    __truediv__, __rtruediv__ = _operators(operator.truediv)
    __pow__, __rpow__ = _operators(operator.pow)

    def __post_init__(self) -> None:
        if isinstance(self.values, np.ndarray) and isinstance(self.offsets, np.ndarray):
            _check(self.values, self.offsets)

    @property
    def lengths(self) -> Any:
        """The length of each row (R,).

        >>> pb.jagged([[1.0, 2.0], [], [3.0]]).lengths.tolist()
        [2, 0, 1]
        """
        offsets: Any = self.offsets
        return offsets[1:] - offsets[:-1]

    def with_values(self, values: Any) -> Jagged[Any, Any]:
        """The jagged array of the same rows with other values (V, ...)."""
        return Jagged(values, self.offsets)

    def map(self, f: Callable[[Any], Any]) -> Jagged[Any, Any]:
        """The jagged array of f of all values; f keeps the first axis.

        >>> pb.function(lambda x: x.map(pb.exp))(pb.jagged([[0.0], []])).tolist()
        [[1.0], []]
        """
        return self.with_values(f(self.values))

    # In traced functions ------------------------------------------------------------------------------------------

    def rows(self) -> Array:
        """The row of each value (V,).

        >>> pb.function(lambda x: x.rows())(pb.jagged([[1.0, 2.0], [], [3.0]])).tolist()
        [0, 0, 2]
        """
        offsets, count = as_array(self.offsets, "jagged"), as_array(self.values, "jagged").shape[0]
        wrong = any_of(elementwise("less", offsets[1:], offsets[:-1]))
        wrong = wrong | elementwise("not_equal", offsets[0], 0) | elementwise("not_equal", offsets[-1], count)
        found = elementwise("subtract", searchsorted(offsets, arange(count), side="right"), 1)
        return choose(wrong, offsets.shape[0], found)  # no row: reading and adding there fail

    def repeat(self, of_rows: Any) -> Any:
        """One element of each row (R, ...), repeated for each of its values (V, ...).

        >>> x = pb.jagged([[1.0, 3.0], [5.0]])
        >>> pb.function(lambda x: x - x.with_values(x.repeat(x.mean())))(x).tolist()
        [[-1.0, 1.0], [0.0]]
        """
        return take(of_rows, self.rows(), axis=0)

    def sum(self) -> Array:
        """The sum of each row (R, ...); 0 for an empty one.

        >>> pb.function(lambda x: x.sum())(pb.jagged([[1.0, 2.0], [], [3.0]])).tolist()
        [3.0, 0.0, 3.0]
        """
        return self._added(as_array(self.values, "jagged"), self.rows())

    def mean(self) -> Array:
        """The mean of each row (R, ...); NaN for an empty one."""
        total: Any = self.sum()
        found: Array = total / _beside(convert(self.lengths, total.dtype), total.ndim)
        return found

    def max(self) -> Array:
        """The largest value of each row (R, ...); -inf for an empty one. Values are floating-point numbers."""
        return self._largest(as_array(self.values, "jagged"))

    def min(self) -> Array:
        """The smallest value of each row (R, ...); inf for an empty one. Values are floating-point numbers."""
        return -self._largest(-as_array(self.values, "jagged"))

    def softmax(self) -> Jagged[Any, Any]:
        """exp(x) divided by its sum over the row.

        >>> pb.function(lambda x: x.softmax())(pb.jagged([[0.0, 0.0], [5.0]])).tolist()
        [[0.5, 0.5], [1.0]]
        """
        x, rows = as_array(self.values, "jagged"), self.rows()
        large = elementwise("stop_gradient", self._largest(x))
        raised = self.with_values(exp(x - take(large, rows, axis=0)))
        return self.with_values(raised.values / take(raised.sum(), rows, axis=0))

    def padded(self, length: Any, fill: Any = 0) -> Any:
        """The rows as one array (R, length, ...), with `fill` after their ends; longer rows are cut off.

        >>> pb.function(lambda x: x.padded(2, fill=-1))(pb.jagged([[1.0, 2.0, 3.0], [], [4.0]])).tolist()
        [[1.0, 2.0], [-1.0, -1.0], [4.0, -1.0]]
        >>> pb.jagged([[1.0, 2.0, 3.0], [], [4.0]]).padded(2).tolist()
        [[1.0, 2.0], [0.0, 0.0], [4.0, 0.0]]
        """
        if self._is_known:
            return padded_rows(self.values, self.offsets, np.arange(len(self)), length, fill)[0]
        x = as_array(self.values, "jagged")
        offsets: Any = self.offsets
        place = _beside(offsets[:-1], 2) + arange(length)
        inside = self.mask(length)
        whole = concat([x, zeros((1, *x.shape[1:]), dtype=x.dtype)])  # what is read of an array without values
        return choose(_beside(inside, x.ndim + 1), take(whole, choose(inside, place, 0), axis=0), fill)

    def mask(self, length: Any) -> Any:
        """Whether each place of `padded(length)` holds a value (R, length)."""
        if self._is_known:
            return padded_rows(self.values, self.offsets, np.arange(len(self)), length)[1]
        rows = self.rows()
        # The lengths, of checked offsets.
        found = self._added(elementwise("add", elementwise("multiply", rows, 0), 1), rows)
        return elementwise("less", arange(length), _beside(found, 2))

    # With numbers -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(np.asarray(self.offsets)) - 1

    def row(self, r: int) -> Any:
        """Row r, a view of the values; r may be negative."""
        begin, end = np.asarray(self.offsets)[range(len(self))[r] :][:2].tolist()
        return np.asarray(self.values)[begin:end]

    def tolist(self) -> list[Any]:
        """The rows as lists."""
        return [self.row(r).tolist() for r in range(len(self))]

    def __repr__(self) -> str:
        if isinstance(self.values, np.ndarray):
            return f"<Jagged: {counted(len(self), 'row')}, values {self.values.dtype}{list(self.values.shape)}>"
        return f"<Jagged: values {self.values}, offsets {self.offsets}>"

    # Helpers ------------------------------------------------------------------------------------------------------

    @property
    def _is_known(self) -> bool:
        """Whether both arrays are NumPy's, and no function is traced."""
        return isinstance(self.values, np.ndarray) and isinstance(self.offsets, np.ndarray) and not is_tracing()

    def _added(self, x: Array, rows: Array) -> Array:
        """The sum of the elements of each row."""
        count = as_array(self.offsets, "jagged").shape[0] - 1
        nothing: Any = zeros((count, *x.shape[1:]), dtype=x.dtype)
        found: Array = nothing.at[rows].add(x)
        return found

    def _largest(self, x: Array) -> Array:
        """The largest of each row: a running maximum that begins anew with each row, read at its end."""
        rows, count = self.rows(), x.shape[0]
        before = take(rows, elementwise("maximum", arange(count) - 1, 0))
        begins = elementwise("not_equal", rows, before) | elementwise("equal", arange(count), 0)
        least = full(x.shape[1:], -np.inf, dtype=x.dtype)

        def step(state: Any, k: Any) -> tuple[Any, Any]:
            state = elementwise("maximum", choose(begins[k], least, state), x[k])
            return state, state

        running = scan(count, least, step)[1]
        after = take(rows, elementwise("minimum", arange(count) + 1, count - 1))
        ends = elementwise("not_equal", rows, after) | elementwise("equal", arange(count), count - 1)
        largest = self._added(choose(_beside(ends, x.ndim), running, 0.0), rows)
        return choose(_beside(elementwise("equal", self.lengths, 0), x.ndim), -np.inf, largest)

    def _beside(self, other: Any) -> Any:
        """The other operand of an operator: values of the same rows, or a number."""
        if isinstance(other, Jagged):
            same = other.offsets is self.offsets or (
                isinstance(self.offsets, np.ndarray)
                and isinstance(other.offsets, np.ndarray)
                and np.array_equal(self.offsets, other.offsets)
            )
            if not same:
                raise ShapeError(
                    "E153", "an operator combines jagged arrays of different offsets", position=user_position(),
                    remedy="`x.with_values(y.values)` says that the rows of y are as long as those of x",
                )  # fmt: skip
            return other.values
        if getattr(other, "ndim", 0):
            raise ShapeError(
                "E153", "an operator combines a jagged array with an array", position=user_position(),
                remedy="`x.with_values(x.repeat(y))` has one element of y for each row; `x.map(f)` takes all values",
            )  # fmt: skip
        return other


def jagged(rows: Sequence[Any], dtype: Any = None) -> Jagged[Any, Any]:
    """Return the jagged array of these rows.

    Args:
        rows: lists of numbers, or arrays (n, ...) that agree but for n.
        dtype: the element type; by default that of the rows, float64 without any.
    Raises:
        ShapeError: [E153] the rows differ in more than their length.

    >>> x = pb.jagged([[1.0, 2.0], [], [3.0]])
    >>> x, x.values.tolist(), x.offsets.tolist()
    (<Jagged: 3 rows, values float64[3]>, [1.0, 2.0, 3.0], [0, 2, 2, 3])
    """
    arrays = [np.asarray(row, dtype) for row in rows]
    offsets = np.cumsum([0, *(len(a) if a.ndim else -1 for a in arrays)])
    shapes = {a.shape[1:] for a in arrays if a.size or a.ndim > 1}
    if any(not a.ndim for a in arrays) or len(shapes) > 1:
        texts = [f"row {k} : {a.dtype}{list(a.shape)}" for k, a in enumerate(arrays[:4])]
        raise ShapeError("E153", "jagged: the rows differ in more than their length", position=user_position(),
                         facts=texts, remedy="a list of rows, which are lists or arrays with a first axis")  # fmt: skip
    shape = next(iter(shapes), ())
    filled = [a.reshape(-1, *shape) for a in arrays if a.size]
    return Jagged(np.concatenate(filled) if filled else np.zeros((0, *shape), dtype or np.float64), offsets)


def padded_rows(values: Any, offsets: Any, rows: Any, length: int, fill: Any = 0) -> tuple[Any, Any]:
    """Some rows of NumPy arrays as one array (R, length, ...), and whether each place holds a value.

    Args:
        values, offsets: as of `Jagged`.   rows: the numbers of the rows.   length: the places of each row.
        fill: what is behind the ends.
    """
    begins = offsets[:-1][rows]
    place = np.arange(length)
    inside = place < (offsets[1:][rows] - begins)[..., None]
    found = np.full((*inside.shape, *values.shape[1:]), fill, np.result_type(values.dtype, fill))
    found[inside] = values[(begins[..., None] + place)[inside]]
    return found, inside


def _check(values: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> None:
    """Refuse offsets that are not those of rows.

    Raises:
        ShapeError: [E153].
    """
    good = offsets.ndim == 1 and len(offsets) and offsets.dtype.kind in "iu" and values.ndim
    if good and offsets[0] == 0 and offsets[-1] == len(values) and (offsets[1:] >= offsets[:-1]).all():
        return
    raise ShapeError(
        "E153", "Jagged: the offsets are not those of rows", position=user_position(),
        facts=(f"offsets : {offsets.dtype}{list(offsets.shape)}, {np.array2string(offsets, threshold=8)}",
               f"values : {values.dtype}{list(values.shape)}"),
        remedy="integers from 0 to the number of values that do not decrease; `pb.jagged(rows)` finds them",
    )  # fmt: skip


def _beside(x: Any, rank: int) -> Any:
    """The array with axes of size 1 at its end, up to a number of axes."""
    return x[(..., *[None] * (rank - x.ndim))] if rank > x.ndim else x

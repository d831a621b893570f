"""Sums of products in Einstein's notation: `einsum`.

    "ij,jk->ik"    y[i, k] = Σ j: a[i, j] b[j, k]

A subscript that occurs in an operand and not in the result is summed. Each step is one statement of index notation over
one or two operands. The contraction order minimizes the cost of the steps, for all sizes by their degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Any

from pullback.arrays.complex_parts import as_complex, pair
from pullback.errors import ShapeError, TraceError, counted
from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ZERO_INDEX, Index, Var, as_index
from pullback.ir.types import DType
from pullback.records import dataclass
from pullback.source import user_position
from pullback.state import temporary
from pullback.tracing.arithmetic import common_dtype
from pullback.tracing.array import Array, Indices, shape_text
from pullback.tracing.complex_array import is_complex
from pullback.tracing.index import reduced
from pullback.tracing.making import as_array, describe, emit, scalar, view
from pullback.tracing.tracer import current

Labels = tuple[str, ...]  # a letter per axis; axes of an ellipsis are ".1", ".2", counted from the last
Cost = tuple[int, ...]  # number of multiplications by degree in the dims, highest first
EXHAUSTIVE = 8  # up to this many operands, all orders are tried


def einsum(subscripts: str, /, *operands: Any) -> Array:
    """Sum products of operands, by the letters that name their axes.

    Args:
        subscripts: the letters of each operand, separated by commas, then `->` and those of the result. A letter twice
            in one operand is its diagonal; `...` stands for leading, trailing or middle axes, which broadcast. Without
            `->` the result has the ellipsis and then, in alphabetical order, the letters that occur once.
        operands: an array for each group of letters.
    Returns:
        The sum over all letters that are not in the result.
    Raises:
        ShapeError: [E104] the subscripts are not well formed, or an operand has another number of axes. [E102] a letter
            has two sizes.
        DTypeError: [E120] the element types have no common type.
    Cost:
        Operands are multiplied in pairs, in the order with the fewest multiplications: the best order for up to eight
        operands, otherwise the cheapest next pair. For symbolic sizes, terms of the highest degree are compared.

    >>> @pb.function
    ... def bilinear(x, m, y):
    ...     return pb.einsum("i,ij,j", x, m, y)
    >>> bilinear(np.array([1.0, 2.0]), np.eye(2), np.array([3.0, 4.0])).item()
    11.0
    """
    letters: object = subscripts
    if not isinstance(letters, str):
        what = f"einsum: the subscripts are one string, and {type(letters).__name__} was given"
        raise TraceError("E135", what, position=user_position(), remedy='`pb.einsum("ij,jk->ik", x, y)`')
    arrays: list[Any] = [as_complex(x) if is_complex(x) else as_array(x, "einsum") for x in operands]
    reals: list[Array] = [as_array(h.real) if is_complex(h) else h for h in arrays]
    terms, result = _Reader(subscripts, reals).read()
    fixed = common_dtype("einsum", reals, user_position()) or reals[0].settled
    parts = [_Part(labels, h) for labels, h in zip(terms, arrays)]
    for left, right in _order(parts, result):
        pair = (parts[left], parts[right])
        rest = [p for k, p in enumerate(parts) if k not in (left, right)]
        kept = _kept(pair, rest, result)
        parts = [*rest, _Part(kept, _contracted(pair, kept, fixed))]
    return _contracted(parts, result, fixed)


@dataclass(frozen=True)
class _Part:
    """An operand or a partial product. `labels` name its axes."""

    labels: Labels
    array: Any

    def extent(self, label: str) -> Index:
        h: Array = as_array(self.array.real) if is_complex(self.array) else self.array
        return h.extents[self.labels.index(label)]

    def element(self, at: dict[str, Index], dtype: DType) -> ir.Scalar:
        own = (ZERO_INDEX if e.constant == 1 else at[c] for c, e in zip(self.labels, self.array.extents))
        return expr.cast(self.array.element(tuple(own), dtype), dtype)


def _extent(label: str, parts: Sequence[_Part]) -> Index:
    """The size of a label; ellipsis axes may be 1 in some operands."""
    found = [p.extent(label) for p in parts if label in p.labels]
    return next((e for e in found if e.constant != 1), found[0])


def _contracted(parts: Sequence[_Part], result: Labels, dtype: DType) -> Array:
    """Contract one or two operands in one statement; unshared sums come first."""
    for k, p in enumerate(parts):
        if is_complex(p.array):  # a sum of products is linear in each operand
            others = (parts[:k], parts[k + 1 :])
            real, imag = (
                _contracted([*others[0], _Part(p.labels, as_array(h)), *others[1]], result, dtype)
                for h in (p.array.real, p.array.imag)
            )
            if is_complex(real):
                return pair(real.real - imag.imag, real.imag + imag.real)  # type: ignore[return-value]
            return pair(real, imag)  # type: ignore[return-value]
    if len(parts) == 2:
        parts = [_alone(p, {*result, *other.labels}, dtype) for p, other in (parts, parts[::-1])]
    summed = [c for c in dict.fromkeys(c for p in parts for c in p.labels) if c not in result]
    variables = tuple(Var(c if c.isidentifier() else "b", _extent(c, parts)) for c in summed)
    extents = [_extent(c, parts) for c in result]
    position = user_position()

    def rule(indices: Indices) -> ir.Scalar:
        at = dict(zip((*result, *summed), (*indices, *map(as_index, variables))))
        product = expr.mul(*(p.element(at, dtype) for p in parts))
        return expr.reduce("sum", variables, product) if variables else product

    if not extents:
        value = scalar(rule(()))
        return value if current().inside or not variables else reduced("sum", value, position)
    if len(parts) == 1 and not variables:
        return view(extents, dtype, rule, position, parts[0].array.name)
    return emit(extents, rule, "einsum", position)


def _alone(part: _Part, wanted: set[str], dtype: DType) -> _Part:
    kept = tuple(c for c in dict.fromkeys(part.labels) if c in wanted)
    return part if set(kept) == set(part.labels) else _Part(kept, _contracted([part], kept, dtype))


def _kept(pair: Sequence[_Part], rest: Sequence[_Part], result: Labels) -> Labels:
    later = {*result, *(c for p in rest for c in p.labels)}
    return tuple(c for c in dict.fromkeys(c for p in pair for c in p.labels) if c in later)


# Contraction order
# -----------------------------------------------------------------------------------------------------


def _order(parts: Sequence[_Part], result: Labels) -> list[tuple[int, int]]:
    """The contraction order: pairs of list positions, each product appended at the end."""
    count = len(parts)
    if count < 3:
        return []
    sizes = {c: _degree(_extent(c, parts)) for p in parts for c in p.labels}
    top = sum(d for d, _ in sizes.values())

    def labels(group: frozenset[int]) -> frozenset[str]:
        """The labels that remain after contracting a group of operands."""
        mine = {c for k in group for c in parts[k].labels}
        later = {*result, *(c for k in range(count) if k not in group for c in parts[k].labels)}
        return frozenset(mine & later)

    def step(a: frozenset[int], b: frozenset[int]) -> Cost:
        over = labels(a) | labels(b)
        degree = sum(sizes[c][0] for c in over)
        return tuple(prod(sizes[c][1] for c in over) if top - k == degree else 0 for k in range(top + 1))

    @temporary
    def best(group: frozenset[int]) -> tuple[Cost, tuple[Any, ...]]:
        if len(group) == 1:
            return (0,) * (top + 1), ()
        first, *others = sorted(group)
        found = []
        for size in range(len(others)):
            for more in combinations(others, size):
                a = frozenset((first, *more))
                b = group - a
                (cost_a, steps_a), (cost_b, steps_b) = best(a), best(b)
                total = tuple(map(sum, zip(cost_a, cost_b, step(a, b))))
                found.append((total, (*steps_a, *steps_b, (a, b))))
        return min(found, key=lambda f: f[0])

    def greedy() -> tuple[Any, ...]:
        groups = [frozenset((k,)) for k in range(count)]
        steps = []
        while len(groups) > 2:
            a, b = min(combinations(groups, 2), key=lambda pair: step(*pair))
            groups = [g for g in groups if g not in (a, b)] + [a | b]
            steps.append((a, b))
        return tuple(steps)

    steps = best(frozenset(range(count)))[1][:-1] if count <= EXHAUSTIVE else greedy()
    left = [frozenset((k,)) for k in range(count)]
    out = []
    for a, b in steps:
        i, j = sorted((left.index(a), left.index(b)))
        out.append((i, j))
        left = [g for g in left if g not in (a, b)] + [a | b]
    return out


def _degree(extent: Index) -> tuple[int, int]:
    """The degree of a size in the dims, and its leading coefficient."""
    degree = max((len(monomial) for monomial, _ in extent.terms), default=0)
    return degree, sum(c for monomial, c in extent.terms if len(monomial) == degree)


# Parsing ---------------------------------------------------------------------------------------------


class _Reader:
    """The labels of operands and result, checked against the arrays."""

    def __init__(self, text: str, arrays: Sequence[Array]) -> None:
        self.text, self.arrays = text, arrays

    def read(self) -> tuple[list[Labels], Labels]:
        if not isinstance(self.text, str):
            raise ShapeError(
                "E104",
                f"einsum: the subscripts are {type(self.text).__name__}, not a string",
                position=user_position(),
                remedy='`pb.einsum("ij,jk->ik", a, b)`',
            )
        given, arrow, wanted = self.text.partition("->")
        groups, start = [], 0
        for group in given.split(","):
            groups.append((start, group))
            start += len(group) + 1
        if len(groups) != len(self.arrays):
            raise self._wrong(
                f"subscripts for {counted(len(groups), 'operand')}, and {len(self.arrays)} were given",
                len(given) if len(groups) < len(self.arrays) else groups[len(self.arrays)][0],
                "one group of letters for each operand, separated by commas",
            )
        terms = [self._labels(at, group, h) for (at, group), h in zip(groups, self.arrays)]
        self._extents(groups, terms)
        if arrow:
            return terms, self._result(len(given) + 2, wanted, terms)
        every = [c for t in terms for c in t]
        dots = sorted({c for c in every if c[0] == "."}, key=lambda c: -int(c[1:]))
        return terms, (*dots, *sorted(c for c in set(every) if c[0] != "." and every.count(c) == 1))

    def _letters(self, at: int, group: str) -> list[tuple[int, str]]:
        """The letters and the ellipsis of a group, with their positions."""
        out: list[tuple[int, str]] = []
        k = 0
        while k < len(group):
            if group.startswith("...", k) and all(c != "..." for _, c in out):
                out.append((at + k, "..."))
                k += 3
                continue
            if group[k].isalpha():
                out.append((at + k, group[k]))
            elif not group[k].isspace():
                raise self._wrong(f"{group[k]!r} is no letter", at + k, "letters, `,`, `->` and one `...` in a group")
            k += 1
        return out

    def _labels(self, at: int, group: str, h: Array) -> Labels:
        letters = self._letters(at, group)
        named = sum(c != "..." for _, c in letters)
        dotted = named < len(letters)
        if named > h.rank or (named < h.rank and not dotted):
            raise self._wrong(
                f"{counted(named, 'letter')} for an array of {counted(h.rank, 'axis', 'axes')}",
                letters[0][0] if letters else at,
                "a letter for each axis; `...` stands for any others",
                h,
            )
        out: list[str] = []
        for _, c in letters:
            out += [c] if c != "..." else [f".{k}" for k in range(h.rank - named, 0, -1)]
        return tuple(out)

    def _extents(self, groups: Sequence[tuple[int, str]], terms: Sequence[Labels]) -> None:
        seen: dict[str, tuple[Index, Array]] = {}
        for (at, group), labels, h in zip(groups, terms, self.arrays):
            for c, e in zip(labels, h.extents):
                first, holder = seen.setdefault(c, (e, h))
                if c[0] == "." and 1 in (e.constant, first.constant):
                    seen[c] = (first, holder) if e.constant == 1 else (e, h)
                elif first is not e:
                    place = next((p for p, letter in self._letters(at, group) if letter == c), None)
                    if place is None:
                        place = next(p for p, letter in self._letters(at, group) if letter == "...")
                    what = f"{c} is" if c[0] != "." else f"axis -{c[1:]} of the ellipsis is"
                    text = f"{what} {first} in {holder.name or shape_text(holder.extents)}"
                    raise self._wrong(
                        f"{text} and {e} in {h.name or shape_text(h.extents)}",
                        place,
                        "give equal dims one name in the annotations",
                        holder,
                        h,
                        code="E102",
                    )

    def _result(self, at: int, wanted: str, terms: Sequence[Labels]) -> Labels:
        known = {c for t in terms for c in t}
        dots = sorted((c for c in known if c[0] == "."), key=lambda c: -int(c[1:]))
        letters = self._letters(at, wanted)
        out: list[str] = []
        for place, c in letters:
            if c == "...":
                out += dots
                continue
            if c not in known:
                raise self._wrong(f"{c} of the result is in no operand", place, "take it away, or give it an operand")
            if c in out:
                raise self._wrong(f"{c} is twice in the result", place, "`pb.diag` makes diagonal matrices")
            out.append(c)
        if dots and not set(dots) & set(out):
            raise self._wrong("the result lacks the axes of the ellipsis", at, "add `...` to the result")
        return tuple(out)

    def _wrong(self, what: str, place: int, remedy: str, *about: Array, code: str = "E104") -> ShapeError:
        lines = [self.text, " " * place + "^"]
        lines += ["      ".join(describe(h, "operand") for h in about)] if about else []
        return ShapeError(
            code, f"einsum: {what}", position=user_position(), facts=["\n   | ".join(lines)], remedy=remedy
        )

"""Export with CasADi's C interface for generated code, for any program that loads such code.

    NAME(arg, res, iw, w, mem)      the function on column-major double matrices, as in CasADi
    jac_NAME(...)                   its Jacobian: one block per result and argument, structurally sparse

`casadi.external("NAME", "./NAME.so")` finds both, and uses the second for derivatives.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.calls.specs import ArraySpec
from pullback.errors import DerivativeError, TraceError
from pullback.ir.types import f64
from pullback.runtime.buffer import extents
from pullback.runtime.export import Exported, library, put_files
from pullback.source import user_position
from pullback.tracing import tree

__all__ = ["export"]

Ints = NDArray[np.int64]
Shape = tuple[int, ...]


def export(f: pb.Function, directory: str | os.PathLike[str], *, jacobian: bool = True, **dims: int) -> list[str]:
    """Write a function as C with CasADi's interface; return the paths of the files.

    Args:
        f: a function on f64 arrays with at most two axes.
        directory: created if missing; files of the same names are replaced.
        jacobian: whether to write the Jacobian too.
        dims: sizes for all dims.
    Raises:
        TraceError: [E531] an argument or result is another kind of array, or dims are open.

    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> @pb.function
    ... def circle(x: Float64[Array, "2"]):
    ...     return pb.sum(x * x)
    >>> export(circle, "circle")
    ['circle/circle.c', 'circle/circle_dense.h', 'circle/circle_dense.c', 'circle/jac_circle_dense.h', \
'circle/jac_circle_dense.c']
    """
    core = _core(f, f"{f.name}_dense", dims)
    function = core.lowered.function
    inputs = [(b.name, extents(b)) for b in function.inputs if b not in function.constants]
    outputs = [(b.name, extents(b)) for b in function.outputs]
    odd = [b.name for b in (*function.inputs, *function.outputs) if b.dtype is not f64 and b not in function.constants]
    if odd or core.source.dims or any(len(shape) > 2 for _, shape in (*inputs, *outputs)):
        raise TraceError("E531", f"{f.name}: CasADi's functions are of arrays of f64 with two axes at most",
                         position=user_position(), facts=[str(f.type)],
                         remedy="a number for each dim, and f64 throughout")  # fmt: skip
    plain = _Entry(f.name, core, inputs, (), outputs, [_dense(shape) for _, shape in outputs])
    entries, cores = [plain], [core]
    if jacobian:
        entries.append(_jacobian(f, dims, inputs, outputs))
        cores += [entries[1].core] if entries[1].core else []
    text = "\n".join([_HEAD, *(f'#include "{c.name}.h"' for c in cores), "", _HELPERS, *map(_text, entries)])
    files = {f"{f.name}.c": text}
    for c in cores:
        files |= c.files
    return put_files(directory, files)


def _core(f: pb.Function, name: str, dims: dict[str, int]) -> Exported:
    program, found = f.for_dims(dims)
    return library(replace(program, name=name), found)


@dataclass(frozen=True)
class _Entry:
    """A function of the interface: its code, arguments, unread arguments, results and sparsity patterns."""

    name: str
    core: Exported | None
    inputs: Sequence[tuple[str, Shape]]
    unread: Sequence[tuple[str, Shape]]
    outputs: Sequence[tuple[str, Shape]]
    patterns: Sequence[list[int]]


def _matrix(shape: Shape) -> tuple[int, int]:
    """Return the rows and columns of an array; a vector is a column."""
    rows, columns = (*shape, 1, 1)[:2]
    return rows, columns


def _dense(shape: Shape) -> list[int]:
    return [*_matrix(shape), 1]


def _jacobian(
    f: pb.Function, dims: dict[str, int], inputs: Sequence[tuple[str, Shape]], outputs: Sequence[tuple[str, Shape]]
) -> _Entry:
    """The Jacobian function: the entries of all blocks, in CasADi's order."""
    arguments = [np.zeros(shape) for _, shape in inputs]
    given = {name: ArraySpec(f"f64{list(s)}", (f64,), tuple(map(str, s))) for name, s in inputs}
    blocks = [_block(f, given, k, (o, i), arguments) for k, (_, o) in enumerate(outputs) for i in inputs]

    def values(*arrays: Any) -> Any:
        return tuple(b.values(arrays) for b in blocks if len(b.rows))

    values.__name__ = f"jac_{f.name}"
    some = any(len(b.rows) for b in blocks)
    core = _core(pb.function(_with_parameters(values, given)), f"jac_{f.name}_dense", {}) if some else None
    names = [f"jac_{o}_{i}" for o, _ in outputs for i, _ in inputs]
    made = [(name, (len(b.rows),)) for name, b in zip(names, blocks, strict=True)]
    return _Entry(
        f"jac_{f.name}", core, inputs, [(f"out_{n}", s) for n, s in outputs], made, [b.pattern for b in blocks]
    )


@dataclass(frozen=True)
class _Block:
    """The derivative of one result with respect to one argument.

    Attributes:
        numbers: a traced function of all arguments; it returns a vector of terms of the entries.
        rows, columns: the positions of the entries, column by column.
        slots: the entry to which each term is added; -1 for none.
    """

    numbers: Any
    shape: tuple[int, int]
    rows: Ints
    columns: Ints
    slots: Ints

    @property
    def pattern(self) -> list[int]:
        """The sparsity pattern in CasADi's format."""
        starts = np.searchsorted(self.columns, np.arange(self.shape[1] + 1))
        return [*self.shape, *starts.tolist(), *self.rows.tolist()]

    def values(self, arrays: Any) -> Any:
        """Trace the computation of the entries."""
        order = np.argsort(self.slots, kind="stable")[np.count_nonzero(self.slots < 0) :]
        found = pb.take(self.numbers(*arrays), _table(order))
        if len(order) == len(self.rows):  # each entry has one term
            return found
        return pb.zeros((len(self.rows),), dtype=pb.float64).add(_table(self.slots[order]), found)


def _block(
    f: pb.Function, given: dict[str, ArraySpec], k: int, own: tuple[Shape, tuple[str, Shape]], arguments: Sequence[Any]
) -> _Block:
    """The block of a result and an argument: sparse if the function's indices show it, else dense."""
    out, (name, shape) = own

    def result(*arrays: Any) -> Any:
        return tree.flatten(f(*arrays))[0][k]

    result.__name__ = f.name
    one = pb.function(_with_parameters(result, given))
    height, width = prod(out), prod(shape)
    try:
        slopes = pb.jacobian(one, wrt=name, sparse=True)
        terms = slopes.entries(*arguments).terms
        rows, columns, inside = (
            np.concatenate([np.asarray(t[part]).reshape(-1) for t in terms] or [np.zeros(0, np.int64)])
            for part in (1, 2, 3)
        )

        def numbers(*arrays: Any) -> Any:
            return pb.concat([pb.reshape(t[0], (-1,)) for t in slopes.entries(*arrays).terms])

    except DerivativeError:
        dense = pb.jacobian(one, wrt=name)
        rows, columns = np.repeat(np.arange(height), width), np.tile(np.arange(width), height)
        inside = np.ones(height * width)

        def numbers(*arrays: Any) -> Any:
            return pb.reshape(dense(*arrays), (-1,))

    kept = inside.astype(bool)
    keys = _turned(columns[kept], shape) * height + _turned(rows[kept], out)
    unique, slots = np.unique(keys, return_inverse=True)
    whole = np.full(len(kept), -1)
    whole[kept] = slots
    return _Block(numbers, (height, width), unique % max(1, height), unique // max(1, height), whole)


def _with_parameters(f: Any, specs: dict[str, ArraySpec]) -> Any:
    """Turn a function of `*args` into one with these parameters."""
    import inspect

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    f.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in specs])
    f.__annotations__ = dict(specs)
    return f


def _turned(at: Ints, shape: Shape) -> Ints:
    """Convert row-major positions to column-major ones."""
    rows, columns = _matrix(shape)
    return at % columns * rows + at // columns


def _table(numbers: Ints) -> Any:
    table = np.array(numbers, np.int64)
    table.setflags(write=False)
    return pb.asarray(table)


# C text -------------------------------------------------------------------------------------------------------------

_HEAD = """\
/* CasADi's interface of generated code.   cc -shared -fPIC -O2 *.c -o NAME.so -lm */
#include <stdint.h>

#ifndef casadi_real
#define casadi_real double
#endif
#ifndef casadi_int
#define casadi_int long long int
#endif
"""

_HELPERS = """\
/* Rows first, from columns first; nothing given is 0. */
static double *rows_of(const casadi_real *from, casadi_real *to, int rows, int columns) {
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) to[i * columns + j] = from ? from[j * rows + i] : 0;
    return to;
}

static void to_columns(const casadi_real *from, casadi_real *to, int rows, int columns) {
    if (!to) return;
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}
"""


def _text(e: _Entry) -> str:
    made = [(n, s) for n, s in e.outputs if prod(s)] if e.core else []
    arena = e.core.source.arena_bytes if e.core else 0
    size = sum(prod(s) for _, s in (*e.inputs, *made)) + arena // 8 + 8
    lines = [f"int {e.name}(const casadi_real **arg, casadi_real **res, casadi_int *iw, casadi_real *w, int mem) {{",
             "    (void)iw;", "    (void)mem;"]  # fmt: skip
    for k, (name, shape) in enumerate(e.inputs):
        rows, columns = _matrix(shape)
        lines.append(f"    const double *{name} = rows_of(arg[{k}], w, {rows}, {columns}); w += {prod(shape)};")
    lines += [f"    double *{name}_ = w; w += {prod(shape)};" for name, shape in made]
    if e.core:
        last = ", 0" if e.core.source.sites else ""
        given = ", ".join([*(n for n, _ in e.inputs), *(f"{n}_" for n, _ in made)])
        macro = e.core.name.upper()
        lines.append(f"    if ({e.core.name}({given}, {macro}_ALIGNED((unsigned char *)w){last})) return 1;")
    for k, (name, shape) in enumerate(e.outputs):
        if (name, shape) in made:
            rows, columns = _matrix(shape)
            lines.append(f"    to_columns({name}_, res[{k}], {rows}, {columns});")
    lines += ["    return 0;", "}", ""]
    inputs = [(n, _dense(s)) for n, s in e.inputs]
    inputs += [(n, [*_matrix(s), *[0] * (_matrix(s)[1] + 1)]) for n, s in e.unread]
    outputs = [(n, p) for (n, _), p in zip(e.outputs, e.patterns, strict=True)]
    lines += _about(e.name, "in", inputs) + _about(e.name, "out", outputs)
    lines += [f"int {e.name}_work(casadi_int *sz_arg, casadi_int *sz_res, casadi_int *sz_iw, casadi_int *sz_w) {{",
              f"    if (sz_arg) *sz_arg = {len(inputs)};", f"    if (sz_res) *sz_res = {len(outputs)};",
              "    if (sz_iw) *sz_iw = 0;", f"    if (sz_w) *sz_w = {size};", "    return 0;", "}", ""]  # fmt: skip
    return "\n".join(lines)


def _about(name: str, side: str, arrays: Sequence[tuple[str, list[int]]]) -> list[str]:
    """C functions for the number of inputs or outputs, their names and their sparsity patterns."""
    lines = [f"casadi_int {name}_n_{side}(void) {{ return {len(arrays)}; }}", ""]
    lines.append(f"const char *{name}_name_{side}(casadi_int i) {{")
    quoted = ", ".join(f'"{n}"' for n, _ in arrays)
    lines += [
        f"    static const char *const names[] = {{{quoted}}};",
        f"    return i < {len(arrays)} ? names[i] : 0;",
        "}",
        "",
    ]
    lines.append(f"const casadi_int *{name}_sparsity_{side}(casadi_int i) {{")
    lines += [f"    static const casadi_int s{k}[] = {{{', '.join(map(str, p))}}};" for k, (_, p) in enumerate(arrays)]
    listed = ", ".join(f"s{k}" for k in range(len(arrays)))
    lines += [
        f"    static const casadi_int *const all[] = {{{listed}}};",
        f"    return i < {len(arrays)} ? all[i] : 0;",
        "}",
        "",
    ]
    return lines

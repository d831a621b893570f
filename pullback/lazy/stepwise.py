"""Pieces in NumPy, operation by operation, until they have code.

Each operation has one function, made when it first runs so. A piece then costs a few microseconds for each operation:
its own program is traced by the thread that compiles it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from pullback.ir import nodes as ir
from pullback.ir.index.polynomial import as_index
from pullback.ir.interpret import interpret
from pullback.ir.semantics import convert
from pullback.ir.traverse import children, walk
from pullback.lazy.kernel import joined, parts
from pullback.lazy.operation import Application, traced_program
from pullback.state import registered

__all__ = ["Step", "evaluated", "run_steps"]

Step = tuple[Application, tuple[int, ...]]  # operands: the position of a step, or -1 - k for leaf k
Function = Callable[[Sequence[Any]], Any]
MOST: Final = 4096
_FUNCTIONS: Final[dict[Application, Function]] = registered({}, MOST)


def run_steps(steps: Sequence[Step], wanted: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a piece for NumPy arrays as leaves. A step's result is dropped after its last reader."""
    last = {p: k for k, (_, operands) in enumerate(steps) for p in operands if p >= 0}
    for p in wanted:
        last[p] = len(steps)
    made: list[Any] = []
    with np.errstate(all="ignore"):
        for k, (application, operands) in enumerate(steps):
            made.append(evaluated(application, [made[p] if p >= 0 else values[-1 - p] for p in operands]))
            for p in operands:
                if p >= 0 and last[p] == k:
                    made[p] = None
    return tuple([made[p] for p in wanted])


def evaluated(application: Application, given: Sequence[Any]) -> Any:
    """The result of an operation for NumPy arrays; a list of several."""
    if application.item >= 0:
        return given[0][application.item]
    function = _FUNCTIONS.get(application)
    if function is None:
        while len(_FUNCTIONS) >= MOST:
            del _FUNCTIONS[next(iter(_FUNCTIONS))]
        function = _FUNCTIONS[application] = _function(application)
    return function(given)


def _function(application: Application) -> Function:
    operands = application.operands
    program = application.program or traced_program("step", operands, application.run)[0]
    captured = list(program.settings.captured)
    is_complex = any(t.form for t in operands)
    alone = application.type is not None
    direct = None if is_complex or captured or not alone else _direct(program)
    if direct is not None:
        return direct

    def call(given: Sequence[Any]) -> Any:
        own = [p for v, t in zip(given, operands) for p in parts(v, t)] if is_complex else given
        made = interpret(program, [*own, *captured], contracts=True)
        found = [np.asarray(x) for x in joined(made, application.results)]
        return found[0] if alone else found

    return call


# Elementwise operations ---------------------------------------------------------------------------------------------


def _direct(program: ir.Program) -> Function | None:
    """One call of NumPy for each node of an expression; None for other programs.

    The calls are those of the interpreter. All arrays are read where the result is written, or have no axes.
    """
    statements = program.body.statements
    if len(statements) != 1 or not isinstance(s := statements[0], ir.Build) or program.body.results != s.outs:
        return None
    value, shape = s.values[0], tuple([e.constant for e in s.outs[0].shape])
    halves = any(r.storage.is_half for r in (*program.inputs, *s.outs))
    if len(s.outs) != 1 or halves or not all(shape) or not isinstance(value, ir.Apply | ir.Add | ir.Mul | ir.Cast):
        return None
    here = tuple(map(as_index, s.vars))
    at: dict[ir.Scalar, int] = {}  # the position of a node's value among all, inputs and constants first
    calls: list[tuple[Callable[..., Any], list[int]]] = []
    constants: list[Any] = []
    nodes = list(walk(value))
    count = len(program.inputs)
    for e in nodes:
        if isinstance(e, ir.Const):
            at[e] = count + len(constants)
            constants.append(np.asarray(e.value, e.dtype.numpy))
    first = count + len(constants)
    is_whole = False
    for e in nodes:
        if isinstance(e, ir.Get):
            whole = e.indices == here and tuple([d.constant for d in e.ref.shape]) == shape
            is_whole = is_whole or whole
            if e.ref not in program.inputs or not (whole or not e.indices):
                return None
            at[e] = program.inputs.index(e.ref)
        elif not isinstance(e, ir.Const):
            function = _node_function(e)
            if function is None:
                return None
            at[e] = first + len(calls)
            calls.append((function, [at[a] for a in children(e)]))
    return _calling(calls, constants, s.outs[0].dtype.numpy) if is_whole else None


def _calling(calls: Sequence[tuple[Callable[..., Any], list[int]]], constants: list[Any], dtype: Any) -> Function:
    """The function that makes these calls, of one or two operands each, in order."""
    if len(calls) == 1 and not constants:
        (function, places), *_ = calls
        if places == [0, 1]:
            return lambda given: np.asarray(function(given[0], given[1]), dtype)
        if places == [0]:
            return lambda given: np.asarray(function(given[0]), dtype)

    def call(given: Sequence[Any]) -> Any:
        made = [*given, *constants]
        for function, places in calls:
            made.append(function(*[made[p] for p in places]))
        return np.asarray(made[-1], dtype)

    return call


def _node_function(e: ir.Scalar) -> Callable[..., Any] | None:
    """The function of NumPy for a node, as in `ir.grid`."""
    match e:
        case ir.Apply() if not any(a.dtype.is_half for a in (e, *e.args)):
            return e.primitive.evaluate
        case ir.Add() if not e.dtype.is_half:
            return np.add if len(e.args) == 2 else lambda *args: reduce(operator.add, args)
        case ir.Mul() if not e.dtype.is_half:
            return np.multiply if len(e.args) == 2 else lambda *args: reduce(operator.mul, args)
        case ir.Cast() if not (e.dtype.is_half or e.arg.dtype.is_half):
            dtype = e.dtype
            return lambda x: convert(np.asarray(x), dtype)
    return None

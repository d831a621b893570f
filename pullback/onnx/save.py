"""Export of a traced function as an ONNX file: each statement becomes operators on whole arrays.

An expression over index variables becomes an array with one axis for each variable that it depends on. The axes are in
the order in which the variables were created. Values that depend on indices alone, such as positions to read and
conditions, become constant tables. Sums of products become `Einsum`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.errors import DataError, TraceError
from pullback.ir import nodes as ir
from pullback.ir.dims import determined_dims
from pullback.ir.expr import read_by
from pullback.ir.index import Cond, Data, Floor, Index, Mod, Var, as_index
from pullback.ir.traverse import specialize
from pullback.ir.types import DType
from pullback.nn.parameters import named
from pullback.onnx.graph import library
from pullback.rewrite.calls import inline_checkpoints
from pullback.source import user_position
from pullback.writing import write_file

__all__ = ["save"]

VERSION: Final = 18
LARGEST: Final = 2**24  # most elements of a table
PRIMITIVES: Final = {
    "divide": "Div", "power": "Pow", "abs": "Abs", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round",
    "maximum": "Max", "minimum": "Min", "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual",
    "greater": "Greater", "greater_equal": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or",
    "logical_xor": "Xor", "logical_not": "Not", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor", "bitwise_invert": "BitwiseNot", "isnan": "IsNaN", "isinf": "IsInf", "exp": "Exp",
    "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "sqrt": "Sqrt", "logistic": "Sigmoid", "erf": "Erf", "stop_gradient": "Identity",
}  # fmt: skip
REDUCED: Final = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}

Table = NDArray[Any]


def save(f: pb.Function, file: str | os.PathLike[str], parameters: Any = None, **dims: int) -> None:
    """Write a function as an ONNX file, for ONNX runtimes and tools.

    Args:
        f: the function; its annotations or its last call determine the types.
        file: the path to write; an existing file is replaced.
        parameters: the tree for the first argument of f; the file then stores it. Without it all arguments are inputs
            of the graph.
        dims: sizes for all dims.
    Raises:
        DataError: [E506] the package onnx is not installed. [E524] the function uses features without an ONNX
            counterpart: loops that carry state, sorting, data-dependent writes. All are listed.
        UsageError: [E607] the file cannot be written.

    >>> from jaxtyping import Float32
    >>> from pullback import Array
    >>> @pb.function
    ... def norms(x: Float32[Array, "N 2"]):
    ...     return pb.sqrt(pb.sum(x * x, axis=1))
    >>> save(norms, "norms.onnx", N=3)
    >>> from pullback import onnx
    >>> again, _ = onnx.load("norms.onnx")
    >>> again.interpret({}, np.array([[3, 4], [0, 0], [5, 12]], np.float32)).tolist()
    [5.0, 0.0, 13.0]
    """
    if not hasattr(f, "for_dims"):
        given, remedy = "what is no `pb.function`", "`pb.function(f)`"
        if hasattr(f, "function"):
            given, remedy = "a network", '`onnx.save(net.function(), "net.onnx", parameters, N=1)`'
        raise TraceError("E149", f"onnx.save was given {given}", position=user_position(), remedy=remedy)
    onnx = library()
    program, found = f.for_dims(dims)
    traced = f.determined()
    program = inline_checkpoints(specialize(program, found))
    if missing := list(determined_dims(program)):
        raise DataError("E524", f"{f.name}: the dim {missing[0]} is not given", facts=[str(f.type)],
                        remedy=", ".join(f"{n}=…" for n in missing))  # fmt: skip
    held = {} if parameters is None else named(parameters)
    writer = _Writer(onnx, program)
    model = writer.model(held, traced.captured)
    write_file(file, model.SerializeToString())


@dataclass(frozen=True)
class Tensor:
    """A value of the graph: its name, and the variable of each axis, in creation order."""

    name: str
    axes: tuple[Var, ...]
    dtype: DType


def _sorted(variables: Any) -> tuple[Var, ...]:
    return tuple(sorted(variables, key=lambda v: v.serial))


def _extent(v: Var) -> int:
    assert v.extent.constant is not None, v
    return v.extent.constant


def _shape(r: ir.Ref) -> list[int]:
    return [e.constant or 0 for e in r.shape]


@dataclass
class _Writer:
    """The graph being written."""

    onnx: Any
    program: ir.Program
    nodes: list[Any] = field(default_factory=list)
    arrays: dict[str, Table] = field(default_factory=dict)
    names: dict[ir.Ref, str] = field(default_factory=dict)
    known: dict[Any, Tensor] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)

    def model(self, held: dict[str, Any], captured: Sequence[Table]) -> Any:
        """The model with all its nodes, inputs and outputs."""
        inputs = list(self.program.inputs)
        for r, (name, array) in zip(inputs, held.items()):
            self.names[r] = name
            self.arrays[name] = np.asarray(array)
        first = len(inputs) - len(captured)
        for r, array in zip(inputs[first:], captured):
            self.names[r] = r.name
            self.arrays[r.name] = np.asarray(array)
        given = inputs[len(held) : first]
        self.names |= {r: r.name for r in given}
        for s in self.program.body.statements:
            if isinstance(s, ir.Build):
                self._build(s)
            else:
                self.missing[f"a {type(s).__name__.lower()} that gives {', '.join(r.name for r in s.outs)}"] = None
                self.names |= {r: r.name for r in s.outs}
        if self.missing:
            raise DataError("E524", f"{self.program.name} has what ONNX files here have not: {', '.join(self.missing)}",
                            remedy="`export` writes C of everything")  # fmt: skip
        names = self.program.output_names or tuple(r.name for r in self.program.outputs)
        outputs = []
        for k, r in enumerate(self.program.outputs):
            name = f"result_{k}_{names[k]}"
            self.nodes.append(self.onnx.helper.make_node("Identity", [self.names[r]], [name]))
            outputs.append(self._info(name, r))
        arrays = [self.onnx.numpy_helper.from_array(np.ascontiguousarray(a).reshape(a.shape), n)
                  for n, a in self.arrays.items()]  # fmt: skip
        info = [self._info(self.names[r], r) for r in given]
        graph = self.onnx.helper.make_graph(self.nodes, self.program.name, info, outputs, arrays, self.program.doc)
        versions = [self.onnx.helper.make_opsetid("", VERSION)]
        return self.onnx.helper.make_model(graph, opset_imports=versions, ir_version=8, producer_name="pullback")

    def _info(self, name: str, r: ir.Ref) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, self._code(r.dtype), _shape(r))

    def _code(self, dtype: DType) -> int:
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype.numpy)))

    # Writing ------------------------------------------------------------------------------------------------------

    def node(self, op: str, inputs: Sequence[str], axes: tuple[Var, ...], dtype: DType, **attributes: Any) -> Tensor:
        """Add a node with one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), [name], f"{op.lower()}_{name}", **attributes))
        return Tensor(name, axes, dtype)

    def table(self, value: Any, axes: tuple[Var, ...], dtype: DType) -> Tensor:
        """Add a constant array."""
        array = np.asarray(value, dtype.numpy)
        key = ("table", array.tobytes(), array.shape, dtype, axes)
        if key not in self.known:
            name = f"t{len(self.arrays)}"
            self.arrays[name] = array
            self.known[key] = Tensor(name, axes, dtype)
        return self.known[key]

    def ints(self, *values: int) -> str:
        """Add a constant int64 vector, such as a shape or axes; return its name."""
        return self.table(list(values), (), pb.int64).name

    def aligned(self, tensors: Sequence[Tensor]) -> tuple[list[str], tuple[Var, ...]]:
        """Reshape operands to broadcast: axes of size 1 for variables that an operand does not depend on."""
        axes = _sorted({v for t in tensors for v in t.axes})
        out = []
        for t in tensors:
            gone = [k for k, v in enumerate(axes) if v not in t.axes]
            scalar = not t.axes  # every operator broadcasts scalars
            whole = t if scalar or not gone else self.node("Unsqueeze", [t.name, self.ints(*gone)], axes, t.dtype)
            out.append(whole.name)
        return out, axes

    def apply(self, op: str, tensors: Sequence[Tensor], dtype: DType, **attributes: Any) -> Tensor:
        """Add an elementwise operator."""
        names, axes = self.aligned(tensors)
        return self.node(op, names, axes, dtype, **attributes)

    def _build(self, s: ir.Build) -> None:
        for r, value in zip(s.outs, s.values, strict=True):
            t = self.scalar(value)
            order = _sorted(s.vars)
            gone = [k for k, v in enumerate(order) if v not in t.axes]
            name = t.name
            if gone:
                name = self.node("Unsqueeze", [name, self.ints(*gone)], order, t.dtype).name
                name = self.node("Expand", [name, self.ints(*map(_extent, order))], order, t.dtype).name
            if order != s.vars:
                perm = [order.index(v) for v in s.vars]
                name = self.node("Transpose", [name], s.vars, t.dtype, perm=perm).name
            self.names[r] = name

    # Expressions --------------------------------------------------------------------------------------------------

    def scalar(self, e: ir.Scalar) -> Tensor:
        """The value of an expression; equal expressions are written once."""
        if e not in self.known:
            self.known[e] = self._scalar(e)  # type: ignore[arg-type]
        return self.known[e]

    def _scalar(self, e: ir.Node) -> Tensor:
        match e:
            case ir.Const():
                return self.table(e.value, (), e.dtype)
            case ir.Zero():
                return self.table(0, (), e.dtype)
            case ir.FromIndex():
                return self.cast(self.index(e.index), e.dtype)
            case ir.Get():
                return self._get(e)
            case ir.Apply():
                return self._apply(e)
            case ir.Cast():
                return self.cast(self.scalar(e.arg), e.dtype)
            case ir.Add() | ir.Mul():
                first, *others = (self.scalar(a) for a in e.args)
                for t in others:
                    first = self.apply("Add" if isinstance(e, ir.Add) else "Mul", [first, t], e.dtype)
                return first
            case ir.Bracket():
                value = self.scalar(e.arg)
                for c in e.conds:
                    value = self.apply("Where", [self.condition(c), value, self.table(0, (), e.dtype)], e.dtype)
                return value
            case ir.Select():
                return self.apply("Where", [self.scalar(a) for a in (e.test, e.then, e.otherwise)], e.dtype)
            case ir.Reduce():
                return self._reduce(e)
            case _:
                assert_never(e)

    def cast(self, t: Tensor, dtype: DType) -> Tensor:
        """Convert to another element type."""
        return t if t.dtype is dtype else self.node("Cast", [t.name], t.axes, dtype, to=self._code(dtype))

    def _apply(self, e: ir.Apply) -> Tensor:
        name, args = e.primitive.name, [self.scalar(a) for a in e.args]
        if name in PRIMITIVES and not (name == "divide" and e.dtype.is_integer):
            return self.apply(PRIMITIVES[name], args, e.dtype)
        one = self.table(1, (), args[0].dtype)
        match name:
            case "not_equal":
                return self.apply("Not", [self.apply("Equal", args, e.dtype)], e.dtype)
            case "expm1":
                return self.apply("Sub", [self.apply("Exp", args, e.dtype), one], e.dtype)
            case "log1p":
                return self.apply("Log", [self.apply("Add", [args[0], one], e.dtype)], e.dtype)
            case "log2" | "log10":
                base = self.table(np.log(float(name[3:])), (), e.dtype)
                return self.apply("Div", [self.apply("Log", args, e.dtype), base], e.dtype)
            case "hypot":
                squares = [self.apply("Mul", [a, a], e.dtype) for a in args]
                return self.apply("Sqrt", [self.apply("Add", squares, e.dtype)], e.dtype)
            case "remainder":
                if e.dtype.is_integer:
                    return self.apply("Mod", args, e.dtype)
                down = self.apply("Floor", [self.apply("Div", args, e.dtype)], e.dtype)
                return self.apply("Sub", [args[0], self.apply("Mul", [down, args[1]], e.dtype)], e.dtype)
            case "isfinite":
                odd = [self.apply(op, args, e.dtype) for op in ("IsNaN", "IsInf")]
                return self.apply("Not", [self.apply("Or", odd, e.dtype)], e.dtype)
            case _:
                self.missing[name] = None
                return args[0]

    def _reduce(self, e: ir.Reduce) -> Tensor:
        if e.op == "sum" and isinstance(e.arg, ir.Mul) and e.dtype.is_floating:
            factors = [self.scalar(a) for a in e.arg.args]
            if all(any(v in t.axes for t in factors) for v in e.vars):
                return self._einsum(factors, e)
        value = self.scalar(e.arg)
        if e.op in ("argmax", "argmin"):
            return self._position(e, value)
        if e.op in ("any", "all"):
            number = self.reduced("max" if e.op == "any" else "min", self.cast(value, pb.int32), e.vars)
            return self.cast(number, e.dtype)
        if e.op == "search":
            self.missing["search"] = None
            return value
        gone = [v for v in e.vars if v not in value.axes]
        if gone and e.op in ("sum", "prod"):  # the operand is the same for all values of these variables
            times = self.table(int(np.prod([_extent(v) for v in gone])), (), e.dtype)
            value = self.apply("Mul" if e.op == "sum" else "Pow", [value, times], e.dtype)
        return self.reduced(e.op, value, e.vars)

    def reduced(self, op: str, t: Tensor, variables: Sequence[Var]) -> Tensor:
        """Reduce over the axes of some variables."""
        places = [k for k, v in enumerate(t.axes) if v in variables]
        if not places:
            return t
        left = tuple(v for v in t.axes if v not in variables)
        return self.node(REDUCED[op], [t.name, self.ints(*places)], left, t.dtype, keepdims=0)

    def _einsum(self, factors: Sequence[Tensor], e: ir.Reduce) -> Tensor:
        letters = {v: chr(97 + k) for k, v in enumerate(_sorted({v for t in factors for v in t.axes}))}
        left = tuple(v for v in letters if v not in e.vars)
        given = ",".join("".join(letters[v] for v in t.axes) for t in factors)
        equation = f"{given}->{''.join(letters[v] for v in left)}"
        return self.node("Einsum", [t.name for t in factors], left, e.dtype, equation=equation)

    def _position(self, e: ir.Reduce, value: Tensor) -> Tensor:
        """The position of the largest or least element over all variables together."""
        left = tuple(v for v in value.axes if v not in e.vars)
        order = (*left, *e.vars)
        spread = value
        if gone := [k for k, v in enumerate(_sorted(order)) if v not in value.axes]:
            spread = self.node("Unsqueeze", [value.name, self.ints(*gone)], _sorted(order), value.dtype)
            spread = self.node("Expand", [spread.name, self.ints(*map(_extent, spread.axes))], spread.axes, value.dtype)
        perm = [spread.axes.index(v) for v in order]
        turned = self.node("Transpose", [spread.name], order, value.dtype, perm=perm)
        flat = self.node("Reshape", [turned.name, self.ints(*map(_extent, left), -1)], left, value.dtype)
        op = "ArgMax" if e.op == "argmax" else "ArgMin"
        found = self.node(op, [flat.name], left, pb.int64, axis=len(left), keepdims=0)
        return self.cast(found, e.dtype)

    # Indices --------------------------------------------------------------------------------------------------------

    def values(self, i: Index, axes: tuple[Var, ...]) -> Table:
        """Tabulate an index that reads no data over these variables."""
        shape = tuple(map(_extent, axes))
        if np.prod(shape, dtype=float) > LARGEST:
            self.missing[f"a table of {shape} places"] = None
            return np.zeros((1,) * len(axes), np.int64)
        grids = {v: np.arange(n).reshape(tuple(-1 if k == j else 1 for j in range(len(axes))))
                 for k, (v, n) in enumerate(zip(axes, shape))}  # fmt: skip

        def number(index: Index) -> Any:
            total: Any = 0
            for monomial, coefficient in index.terms:
                term: Any = coefficient
                for atom in monomial:
                    if isinstance(atom, Floor | Mod):
                        n, d = number(atom.numerator), number(atom.denominator)
                        term = term * (n // d if isinstance(atom, Floor) else n % d)
                    else:
                        term = term * grids[atom]  # type: ignore[index]
                total = total + term
            return total

        return np.broadcast_to(number(i), shape).astype(np.int64)

    def index(self, i: Index) -> Tensor:
        """The values of an index as an int64 array."""
        if not i.data:
            axes = _sorted(i.free)
            return self.table(self.values(i, axes), axes, pb.int64)
        total: Tensor | None = None
        for monomial, coefficient in i.terms:
            term = self.table(coefficient, (), pb.int64)
            for atom in monomial:
                if isinstance(atom, Floor | Mod) and atom.numerator.data:
                    self.missing["a quotient of data in an index"] = None
                    continue
                own = (
                    self.cast(self.scalar(read_by(atom)), pb.int64)
                    if isinstance(atom, Data)
                    else self.index(as_index(atom))
                )
                term = self.apply("Mul", [term, own], pb.int64)
            total = term if total is None else self.apply("Add", [total, term], pb.int64)
        assert total is not None
        return total

    def condition(self, c: Cond) -> Tensor:
        """The truth values of a condition: an index is 0, not 0, or not negative."""
        if not c.index.data:
            axes = _sorted(c.index.free)
            value = self.values(c.index, axes)
            return self.table({">=": value >= 0, "==": value == 0, "!=": value != 0}[c.op], axes, pb.bool)
        sides = [self.index(c.index), self.table(0, (), pb.int64)]
        found = self.apply("GreaterOrEqual" if c.op == ">=" else "Equal", sides, pb.bool)
        return self.apply("Not", [found], pb.bool) if c.op == "!=" else found

    def _get(self, e: ir.Get) -> Tensor:
        """Read an array's elements: whole axes, index tables along each, or one index table for all."""
        name, extents = self.names[e.ref], _shape(e.ref)
        free = [v for i in e.indices for v in i.free]
        if any(i.data for i in e.indices) or len(free) != len(set(free)):
            return self._read_flat(e, name, extents)
        axes: list[Var] = []
        at = 0
        for i, extent in zip(e.indices, extents):
            own = _sorted(i.free)
            if len(own) == 1 and i is as_index(own[0]) and _extent(own[0]) == extent:
                axes.append(own[0])
                at += 1
                continue
            places = np.clip(self.values(i, own), 0, extent - 1)  # a condition masks elements out of range
            table = self.table(places, own, pb.int64)
            name = self.node("Gather", [name, table.name], (), e.dtype, axis=at).name
            axes += own
            at += len(own)
        order = _sorted(axes)
        if tuple(axes) == order:
            return Tensor(name, order, e.dtype)
        return self.node("Transpose", [name], order, e.dtype, perm=[axes.index(v) for v in order])

    def _read_flat(self, e: ir.Get, name: str, extents: list[int]) -> Tensor:
        place = self.table(0, (), pb.int64)
        for i, extent in zip(e.indices, extents):
            own = self.index(i)
            ends = [self.table(n, (), pb.int64) for n in (0, extent - 1)]
            own = self.apply("Min", [self.apply("Max", [own, ends[0]], pb.int64), ends[1]], pb.int64)
            step = self.apply("Mul", [place, self.table(extent, (), pb.int64)], pb.int64)
            place = self.apply("Add", [step, own], pb.int64)
        flat = self.node("Reshape", [name, self.ints(-1)], (), e.dtype)
        return self.node("Gather", [flat.name, place.name], place.axes, e.dtype, axis=0)

"""The writer of ONNX graphs: statements become operators on whole arrays, layers their own nodes.

An expression over index variables becomes an array with one axis for each variable that it depends on. The axes are in
the order in which the variables were created. Indices and conditions that depend on numbers alone become constant
tables; those that depend on open sizes, on data or on the counter of a loop become nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import prod
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.errors import DataError
from pullback.ir import nodes as ir
from pullback.ir.expr import read_by
from pullback.ir.index import Cond, Data, DimSymbol, Floor, Index, Mod, Var, as_index, prove_nonnegative
from pullback.ir.types import DType
from pullback.onnx.layers import Value, nodes_of
from pullback.onnx.marks import Marked
from pullback.records import dataclass, field
from pullback.tracing import tree

__all__ = ["Tensor", "Writer", "model"]

VERSION: Final = 20
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


@dataclass(frozen=True)
class Tensor:
    """A value of the graph: its name, and the variable of each axis, in creation order."""

    name: str
    axes: tuple[Var, ...]
    dtype: DType


def _sorted(variables: Any) -> tuple[Var, ...]:
    return tuple(sorted(variables, key=lambda v: v.serial))


def _extents(variables: Sequence[Var]) -> tuple[Index, ...]:
    return tuple(v.extent for v in variables)


def _flat(indices: Sequence[Index], extents: Sequence[Index]) -> Index:
    """The position in the flattened array."""
    total = as_index(0)
    for i, extent in zip(indices, extents):
        total = total * extent + i
    return total


@dataclass(eq=False)
class _File:
    """The parts of a file that its graph and the graphs of loops share."""

    onnx: Any
    arrays: dict[str, Table] = field(default_factory=dict)
    constants: dict[str, Table] = field(default_factory=dict)  # tables of ours, which are no parameters
    tables: dict[Any, str] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)  # of a dim: the input and its axis
    numbers: Any = field(default_factory=count)


def model(onnx: Any, program: ir.Program, held: Mapping[str, Any], captured: Sequence[Table]) -> Any:
    """Write a program as a model.

    Args:
        onnx: the package.
        program: the program.
        held: arrays for its first inputs, by the names that they get in the file.
        captured: arrays for its last inputs.
    Raises:
        DataError: [E524] it has what ONNX has not.
    """
    inputs = list(program.inputs)
    first = len(inputs) - len(captured)
    given = inputs[len(held) : first]
    file = _File(onnx)
    names = {r: r.name for r in given}
    for r, name, array in zip((*inputs[: len(held)], *inputs[first:]), (*held, *(r.name for r in inputs[first:])),
                              (*held.values(), *captured)):  # fmt: skip
        names[r] = name
        file.arrays[name] = np.asarray(array)
    for r in given:
        for axis, e in enumerate(r.shape):
            if isinstance(e.single, DimSymbol):
                file.places.setdefault(e.single.name, (r.name, axis))
    writer = Writer(file, names)
    writer.statements(program.body)
    if file.missing:
        raise DataError("E524", f"{program.name} has what ONNX files here have not: {', '.join(file.missing)}",
                        remedy="`export` writes C of everything")  # fmt: skip
    own = program.output_names or tuple(r.name for r in program.outputs)
    outputs = writer.results(program.outputs, [f"result_{k}_{n}" for k, n in enumerate(own)])
    held_arrays, tables = (
        [onnx.numpy_helper.from_array(np.ascontiguousarray(a).reshape(a.shape), n) for n, a in arrays.items()]
        for arrays in (file.arrays, file.constants)
    )
    constants = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in tables]
    info = [writer.info(names[r], r) for r in given]
    nodes = [*constants, *writer.nodes]
    graph = onnx.helper.make_graph(nodes, program.name, info, outputs, held_arrays, program.doc)
    versions = [onnx.helper.make_opsetid("", VERSION)]
    return onnx.helper.make_model(graph, opset_imports=versions, ir_version=9, producer_name="pullback")


@dataclass(eq=False)
class Writer:
    """A graph being written: that of the file, or of a loop or branch in it."""

    file: _File
    names: dict[ir.Ref, str]
    known: dict[Any, Tensor] = field(default_factory=dict)
    counters: dict[Var, Tensor] = field(default_factory=dict)  # of the loops around
    nodes: list[Any] = field(default_factory=list)

    # Statements -----------------------------------------------------------------------------------------------------

    def statements(self, block: ir.Block) -> None:
        """Write the statements of a block."""
        for s in block.statements:
            match s:
                case ir.Build():
                    self._build(s)
                case ir.Fold():
                    self._fold(s)
                case ir.While():
                    self._while(s)
                case ir.Alternatives():
                    self.statements(s.then)
                    self.names |= {r: self.names[b] for r, b in zip(s.outs, s.then.results)}
                case ir.Choose():
                    self._choose(s)
                case ir.Call():
                    self._call(s)
                case ir.Sort():
                    self._sort(s)
                case _:
                    what = f"a {type(s).__name__.lower()} that gives {', '.join(r.name for r in s.outs)}"
                    self.file.missing[what] = None
                    self.names |= {r: r.name for r in s.outs}

    def _call(self, s: ir.Call) -> None:
        if isinstance(s, Marked) and (found := self._layer(s)) is not None:
            self.names |= dict(zip(s.outs, found, strict=True))
            return
        self.names |= {p: self.names[r] for p, r in zip(s.params, s.operands)}
        self.statements(s.body)
        self.names |= {r: self.names[b] for r, b in zip(s.outs, s.body.results)}

    def _layer(self, s: Marked) -> list[str] | None:
        """The names of a layer's results, where it has nodes of its own."""
        assert s.mark is not None
        values = [Value(self.names[r], r.shape, r.dtype) for r in s.operands]
        x, parameters, state = (tree.map_leaves(lambda k: values[k], t)
                                for t in (s.mark.x, s.mark.parameters, s.mark.state))  # fmt: skip
        before = len(self.nodes)
        found = nodes_of(self, s.mark.layer, x, parameters, state)
        if found is None:
            del self.nodes[before:]
            return None
        order = tree.flatten(s.mark.result)[0]
        by_place = dict(zip(order, tree.flatten(found)[0], strict=True))
        return [by_place[k] for k in range(len(s.outs))]

    def _build(self, s: ir.Build) -> None:
        for r, value in zip(s.outs, s.values, strict=True):
            if isinstance(value, ir.Get) and not any(i.data for i in value.indices) and self._same_order(s, value):
                name = self.names[value.ref]
                same = value.ref.shape == r.shape
                self.names[r] = name if same else self.op("Reshape", [name, self.flat_shape(r.shape)])
                continue
            t = self.scalar(value)
            order = _sorted(s.vars)
            t = self.spread(t, order)
            name = t.name
            if order != s.vars:
                name = self.op("Transpose", [name], perm=[order.index(v) for v in s.vars])
            self.names[r] = name

    def _same_order(self, s: ir.Build, value: ir.Get) -> bool:
        """Whether a build only gives an array another shape."""
        shape = value.ref.shape
        whole = prod(shape, start=as_index(1)) is prod(_extents(s.vars), start=as_index(1))
        return whole and _flat(value.indices, shape) is _flat([as_index(v) for v in s.vars], _extents(s.vars))

    def spread(self, t: Tensor, axes: tuple[Var, ...]) -> Tensor:
        """Repeat a value along the axes that it lacks."""
        gone = [k for k, v in enumerate(axes) if v not in t.axes]
        if not gone:
            return t
        t = self.node("Unsqueeze", [t.name, self.ints(*gone)], axes, t.dtype)
        return self.node("Expand", [t.name, self.shape(_extents(axes))], axes, t.dtype)

    def _sort(self, s: ir.Sort) -> None:
        t = self.scalar(s.value)
        order = _sorted(s.vars)
        name = self.spread(t, order).name
        if order != s.vars:
            name = self.op("Transpose", [name], perm=[order.index(v) for v in s.vars])
        length = self.shape([s.vars[-1].extent])
        values, places = self.ops("TopK", [name, length], 2, axis=len(s.vars) - 1, largest=0, sorted=1)
        found = values if s.what == "values" else places
        if s.what != "values" and s.out.dtype is not pb.int64:
            found = self.op("Cast", [found], to=self.code(s.out.dtype))
        self.names[s.out] = found

    # Loops and branches -----------------------------------------------------------------------------------------------

    def inside(self) -> Writer:
        """A writer for a graph in an attribute, which may read the values of this one."""
        return Writer(self.file, dict(self.names), dict(self.known), dict(self.counters))

    def results(self, refs: Sequence[ir.Ref], names: Sequence[str]) -> list[Any]:
        """Add the results of the graph under these names; return their descriptions."""
        for r, name in zip(refs, names, strict=True):
            self.nodes.append(self.file.onnx.helper.make_node("Identity", [self.names[r]], [name]))
        return [self.info(name, r) for r, name in zip(refs, names)]

    def _body(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        return self.file.onnx.helper.make_graph(self.nodes, f"body_{next(self.file.numbers)}", inputs, outputs)

    def _new(self, refs: Sequence[ir.Ref]) -> list[str]:
        return [f"{r.name}.{next(self.file.numbers)}" for r in refs]

    def _loop(self, op: str, s: ir.Fold | ir.While, inputs: Sequence[str], graph: Any, **attributes: Any) -> None:
        """Add the node of a loop."""
        outs = self._new(s.outs)
        self.nodes.append(self.file.onnx.helper.make_node(op, list(inputs), outs, body=graph, **attributes))
        self.names |= dict(zip(s.outs, outs))

    def _number(self, name: str, dtype: DType) -> tuple[str, Any]:
        """A new name for a number, and its description."""
        own = f"{name}.{next(self.file.numbers)}"
        return own, self.file.onnx.helper.make_tensor_value_info(own, self.code(dtype), [])

    def _fold(self, s: ir.Fold) -> None:
        """A loop as `Scan` over its counter."""
        inner = self.inside()
        counter, described = self._number("step", pb.int64)
        inner.counters[s.var] = Tensor(counter, (), pb.int64)
        inner.names |= dict(zip(s.states, self._new(s.states)))
        inner.statements(s.body)
        outputs = inner.results(s.body.results, self._new(s.body.results))
        graph = inner._body([*(inner.info(inner.names[r], r) for r in s.states), described], outputs)
        steps = self.index(as_index(Var("t", s.var.extent)))
        self._loop("Scan", s, [*(self.names[r] for r in s.inits), steps.name], graph, num_scan_inputs=1)

    def _while(self, s: ir.While) -> None:
        """A loop as `Loop`, whose test is computed before it and at the end of each step."""
        inner, first = self.inside(), self.inside()
        first.nodes = self.nodes
        first.names |= {r: self.names[i] for r, i in zip(s.states, s.inits)}
        first.statements(s.test)
        test = first.names[s.test.results[0]]
        (_, step), (_, goes_on) = self._number("step", pb.int64), self._number("goes_on", pb.bool)
        inner.names |= dict(zip(s.states, self._new(s.states)))
        inner.statements(s.body)
        after = self._new(s.body.results)
        outputs = inner.results(s.body.results, after)
        again = inner.inside()
        again.nodes, again.known = inner.nodes, dict(self.known)
        again.names |= dict(zip(s.states, after))
        again.statements(s.test)
        last = again.results(s.test.results, self._new(s.test.results))
        inputs = [step, goes_on, *(inner.info(inner.names[r], r) for r in s.states)]
        trips = "" if s.max_trips is None else self.size(s.max_trips)
        graph = inner._body(inputs, [*last, *outputs])
        self._loop("Loop", s, [trips, test, *(self.names[r] for r in s.inits)], graph)

    def _choose(self, s: ir.Choose) -> None:
        graphs = []
        for block in (s.then, s.otherwise):
            inner = self.inside()
            inner.statements(block)
            graphs.append(inner._body([], inner.results(block.results, self._new(block.results))))
        outs = self._new(s.outs)
        helper = self.file.onnx.helper
        self.nodes.append(helper.make_node("If", [self.names[s.test]], outs, then_branch=graphs[0],
                                           else_branch=graphs[1]))  # fmt: skip
        self.names |= dict(zip(s.outs, outs))

    # Writing ------------------------------------------------------------------------------------------------------

    def info(self, name: str, r: ir.Ref) -> Any:
        """The description of an array: its element type and sizes."""
        shape = [e.constant if e.constant is not None else e.single.name if isinstance(e.single, DimSymbol) else None
                 for e in r.shape]  # fmt: skip
        return self.file.onnx.helper.make_tensor_value_info(name, self.code(r.dtype), shape)

    def code(self, dtype: DType) -> int:
        """The number of an element type in a file."""
        return int(self.file.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype.numpy)))

    def ops(self, op: str, inputs: Sequence[str], results: int, **attributes: Any) -> list[str]:
        """Add a node; return the names of its results."""
        number = next(self.file.numbers)
        names = [f"v.{number}"] if results == 1 else [f"v.{number}.{k}" for k in range(results)]
        node = self.file.onnx.helper.make_node(op, list(inputs), names, f"{op.lower()}_{number}", **attributes)
        self.nodes.append(node)
        return names

    def op(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node with one result; return its name."""
        return self.ops(op, inputs, 1, **attributes)[0]

    def node(self, op: str, inputs: Sequence[str], axes: tuple[Var, ...], dtype: DType, **attributes: Any) -> Tensor:
        """Add a node with one result whose axes are those of variables."""
        return Tensor(self.op(op, inputs, **attributes), axes, dtype)

    def table(self, value: Any, axes: tuple[Var, ...], dtype: DType) -> Tensor:
        """Add a constant array."""
        array = np.asarray(value, dtype.numpy)
        key = (array.tobytes(), array.shape, dtype)
        if key not in self.file.tables:
            name = self.file.tables[key] = f"t.{next(self.file.numbers)}"
            self.file.constants[name] = array
        return Tensor(self.file.tables[key], axes, dtype)

    def ints(self, *values: int) -> str:
        """Add a constant int64 vector, such as a shape or axes; return its name."""
        return self.table(list(values), (), pb.int64).name

    def size(self, extent: Index) -> str:
        """The name of a size, as an int64 number."""
        return self.index(extent).name

    def shape(self, extents: Sequence[Index]) -> str:
        """The name of a shape, as an int64 vector."""
        numbers = [e.constant for e in extents]
        if None not in numbers:
            return self.ints(*(n for n in numbers if n is not None))
        parts = [self.ints(e.constant) if e.constant is not None else
                 self.op("Unsqueeze", [self.size(e), self.ints(0)]) for e in extents]  # fmt: skip
        return parts[0] if len(parts) == 1 else self.op("Concat", parts, axis=0)

    def flat_shape(self, extents: Sequence[Index]) -> str:
        """The name of a shape to give an array: -1 for its open size, if there is one."""
        numbers = [-1 if e.constant is None else e.constant for e in extents]
        return self.ints(*numbers) if numbers.count(-1) < 2 and 0 not in numbers else self.shape(extents)

    def aligned(self, tensors: Sequence[Tensor]) -> tuple[list[str], tuple[Var, ...]]:
        """Reshape operands to broadcast: axes of size 1 for variables that an operand does not depend on."""
        axes = _sorted({v for t in tensors for v in t.axes})
        out = []
        for t in tensors:
            first = axes.index(t.axes[0]) if t.axes else len(axes)  # leading axes of size 1 are implied
            gone = [k - first for k, v in enumerate(axes) if k >= first and v not in t.axes]
            whole = self.op("Unsqueeze", [t.name, self.ints(*gone)]) if gone else t.name
            out.append(whole)
        return out, axes

    def apply(self, op: str, tensors: Sequence[Tensor], dtype: DType, **attributes: Any) -> Tensor:
        """Add an elementwise operator."""
        names, axes = self.aligned(tensors)
        return self.node(op, names, axes, dtype, **attributes)

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
        return t if t.dtype is dtype else self.node("Cast", [t.name], t.axes, dtype, to=self.code(dtype))

    def _apply(self, e: ir.Apply) -> Tensor:
        name = e.primitive.name
        if name == "maximum" and e.dtype.is_floating and (others := [a for a in e.args if not _is_zero(a)])[1:] == []:
            return self.apply("Relu", [self.scalar(a) for a in others] or [self.scalar(e.args[0])], e.dtype)
        args = [self.scalar(a) for a in e.args]
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
                self.file.missing[name] = None
                return args[0]

    def _reduce(self, e: ir.Reduce) -> Tensor:
        if e.op == "sum" and isinstance(e.arg, ir.Mul) and e.dtype.is_floating:
            factors = [self.scalar(a) for a in e.arg.args]
            if all(any(v in t.axes for t in factors) for v in e.vars):
                return (self._matmul(factors, e) if len(factors) == 2 else None) or self._einsum(factors, e)
        value = self.scalar(e.arg)
        if e.op in ("argmax", "argmin"):
            return self._position(e, value)
        if e.op in ("any", "all"):
            number = self.reduced("max" if e.op == "any" else "min", self.cast(value, pb.int32), e.vars)
            return self.cast(number, e.dtype)
        if e.op == "search":
            self.file.missing["search"] = None
            return value
        gone = [v for v in e.vars if v not in value.axes]
        if gone and e.op in ("sum", "prod"):  # the operand is the same for all values of these variables
            times = self.cast(self.index(prod(_extents(gone), start=as_index(1))), e.dtype)
            value = self.apply("Mul" if e.op == "sum" else "Pow", [value, times], e.dtype)
        return self.reduced(e.op, value, e.vars)

    def reduced(self, op: str, t: Tensor, variables: Sequence[Var]) -> Tensor:
        """Reduce over the axes of some variables."""
        places = [k for k, v in enumerate(t.axes) if v in variables]
        if not places:
            return t
        left = tuple(v for v in t.axes if v not in variables)
        return self.node(REDUCED[op], [t.name, self.ints(*places)], left, t.dtype, keepdims=0)

    def _matmul(self, factors: Sequence[Tensor], e: ir.Reduce) -> Tensor | None:
        """A sum over one variable as a matrix product, with the axes that both operands keep in front."""
        (k, *more) = e.vars
        for a, b in (factors, factors[::-1]):
            both = tuple(v for v in a.axes if v in b.axes and v is not k)
            rows, columns = (tuple(v for v in t.axes if v is not k and v not in both) for t in (a, b))
            if more or k not in a.axes or k not in b.axes or len(columns) != 1 or (both and len(rows) != 1):
                continue
            axes = (*both, *rows, *columns)
            if axes != _sorted(axes) and (a, b) == tuple(factors):
                continue
            names = [self.turned(t, order) for t, order in ((a, (*both, *rows, k)), (b, (*both, k, *columns)))]
            found = self.node("MatMul", names, axes, e.dtype)
            return Tensor(self.turned(found, _sorted(axes)), _sorted(axes), e.dtype)
        return None

    def turned(self, t: Tensor, order: tuple[Var, ...]) -> str:
        """The name of a value with its axes in another order."""
        return t.name if t.axes == order else self.op("Transpose", [t.name], perm=[t.axes.index(v) for v in order])

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
        turned = self.turned(self.spread(value, _sorted(order)), order)
        whole = prod(_extents(e.vars), start=as_index(1))
        flat = turned if len(e.vars) == 1 else self.op("Reshape", [turned, self.shape([*_extents(left), whole])])
        op = "ArgMax" if e.op == "argmax" else "ArgMin"
        found = self.node(op, [flat], left, pb.int64, axis=len(left), keepdims=0)
        return self.cast(found, e.dtype)

    # Indices --------------------------------------------------------------------------------------------------------

    def is_table(self, i: Index) -> bool:
        """Whether the values of an index are known now, and few enough for a table."""
        variables = i.free
        if i.data or i.symbols or any(v.extent.constant is None or v in self.counters for v in variables):
            return False
        return prod(v.extent.constant or 0 for v in variables) <= LARGEST

    def values(self, i: Index, axes: tuple[Var, ...]) -> Table:
        """Tabulate an index over these variables."""
        shape = tuple(v.extent.constant or 0 for v in axes)
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
        if self.is_table(i):
            axes = _sorted(i.free)
            return self.table(self.values(i, axes), axes, pb.int64)
        if i not in self.known:
            terms = [self._product([self.table(c, (), pb.int64)] * (c != 1 or not m) + [self._atom(a) for a in m])
                     for m, c in i.terms]  # fmt: skip
            total = terms[0]
            for term in terms[1:]:
                total = self.apply("Add", [total, term], pb.int64)
            self.known[i] = total
        return self.known[i]

    def _product(self, factors: Sequence[Tensor]) -> Tensor:
        first, *others = factors
        for t in others:
            first = self.apply("Mul", [first, t], pb.int64)
        return first

    def _atom(self, atom: Any) -> Tensor:
        match atom:
            case Var() if atom in self.counters:
                return self.counters[atom]
            case Var() if atom.extent.constant is None:
                ends = [self.ints_of(0), self.size(atom.extent), self.ints_of(1)]
                return self.node("Range", ends, (atom,), pb.int64)
            case DimSymbol():
                return self._dim(atom)
            case Data():
                return self.cast(self.scalar(read_by(atom)), pb.int64)
            case Floor() | Mod():
                n, d = self.index(atom.numerator), self.index(atom.denominator)
                rest = self.apply("Mod", [n, d], pb.int64)
                if isinstance(atom, Mod):
                    return rest
                return self.apply("Div", [self.apply("Sub", [n, rest], pb.int64), d], pb.int64)
            case _:
                return self.index(as_index(atom))

    def ints_of(self, value: int) -> str:
        """Add a constant int64 number; return its name."""
        return self.table(value, (), pb.int64).name

    def _dim(self, dim: DimSymbol) -> Tensor:
        """An open size, read from the shape of an input."""
        if dim.name not in self.file.places:
            self.file.missing[f"the open size {dim.name}, which no input has as an axis"] = None
            return self.table(1, (), pb.int64)
        name, axis = self.file.places[dim.name]
        one = self.op("Shape", [name], start=axis, end=axis + 1)
        return self.node("Squeeze", [one, self.ints(0)], (), pb.int64)

    def condition(self, c: Cond) -> Tensor:
        """The truth values of a condition: an index is 0, not 0, or not negative."""
        if self.is_table(c.index):
            axes = _sorted(c.index.free)
            value = self.values(c.index, axes)
            return self.table({">=": value >= 0, "==": value == 0, "!=": value != 0}[c.op], axes, pb.bool)
        sides = [self.index(c.index), self.table(0, (), pb.int64)]
        found = self.apply("GreaterOrEqual" if c.op == ">=" else "Equal", sides, pb.bool)
        return self.apply("Not", [found], pb.bool) if c.op == "!=" else found

    def _get(self, e: ir.Get) -> Tensor:
        """Read elements along each axis: all, a part, or those of an index; else by one index for all."""
        name, extents = self.names[e.ref], e.ref.shape
        own = [_sorted(v for v in i.free if v not in self.counters) for i in e.indices]
        free = [v for variables in own for v in variables]
        if len(free) != len(set(free)):
            return self._read_flat(e, name)
        axes: list[Var] = []
        for k, (i, extent, mine) in enumerate(zip(e.indices, extents, own)):
            at = len(axes)
            if len(mine) == 1 and i is as_index(mine[0]) and mine[0].extent is extent:
                axes += mine
            elif self.is_table(i) and extent.constant is not None:
                places = np.clip(self.values(i, mine), 0, extent.constant - 1)  # a condition masks elements outside
                name = self._part(name, places, at, extents[k:])
                axes += mine
            else:
                place = self.inside_of(self.index(i), i, extent)
                name = self.op("Gather", [name, place.name], axis=at)
                axes += place.axes
        order = _sorted(axes)
        return Tensor(self.turned(Tensor(name, tuple(axes), e.dtype), order), order, e.dtype)

    def _part(self, name: str, places: Table, at: int, behind: Sequence[Index]) -> str:
        """Read at known places along an axis: as another shape, a slice, or by a table."""
        flat, rest = places.reshape(-1), behind[1:]
        count = flat.size
        ascending = count > 0 and np.array_equal(flat, flat[0] + np.arange(count))
        if ascending and count == behind[0].constant and sum(r.constant is None for r in rest) < 2:
            shape = [0] * at + list(places.shape) + [-1 if r.constant is None else r.constant for r in rest]
            if 0 not in shape[at:]:
                return self.op("Reshape", [name, self.ints(*shape)])
        if ascending and places.ndim == 1:
            ends = [self.ints(int(flat[0])), self.ints(int(flat[-1]) + 1), self.ints(at)]
            return self.op("Slice", [name, *ends])
        return self.op("Gather", [name, self.table(places, (), pb.int64).name], axis=at)

    def inside_of(self, place: Tensor, i: Index, extent: Index) -> Tensor:
        """An index brought into the range of an axis, where it is not proven to be inside."""
        if not i.data and prove_nonnegative(i) and prove_nonnegative(extent - 1 - i):
            return place
        last = self.index(extent - 1)
        least = self.apply("Max", [place, self.table(0, (), pb.int64)], pb.int64)
        return self.apply("Min", [least, last], pb.int64)

    def _read_flat(self, e: ir.Get, name: str) -> Tensor:
        """Read at positions of the flattened array, behind the leading axes that are read whole."""
        extents, lead = e.ref.shape, 0
        for k, (i, extent) in enumerate(zip(e.indices, extents)):
            v = i.single
            others = [j for m, j in enumerate(e.indices) if m != k]
            whole = isinstance(v, Var) and v not in self.counters and v.extent is extent
            if not whole or any(v in j.free for j in others):
                break
            lead += 1
        front = tuple(i.single for i in e.indices[:lead])
        indices, behind = e.indices[lead:], extents[lead:]
        if all(self.is_table(i) for i in indices) and all(n.constant is not None for n in behind):
            axes = _sorted({v for i in indices for v in i.free})
            inside = [np.clip(self.values(i, axes), 0, (n.constant or 1) - 1) for i, n in zip(indices, behind)]
            at: Any = 0
            for places, n in zip(inside, behind):
                at = at * n.constant + places
            place = self.table(at, axes, pb.int64)
        else:
            place = self.table(0, (), pb.int64)
            for i, n in zip(indices, behind):
                step = self.apply("Mul", [place, self.index(n)], pb.int64)
                place = self.apply("Add", [step, self.inside_of(self.index(i), i, n)], pb.int64)
        flat = self.op("Reshape", [name, self.ints(*[0] * lead, -1)])
        found = Tensor(self.op("Gather", [flat, place.name], axis=lead), (*front, *place.axes), e.dtype)  # type: ignore[arg-type]
        order = _sorted(found.axes)
        return Tensor(self.turned(found, order), order, e.dtype)


def _is_zero(e: ir.Scalar) -> bool:
    return isinstance(e, ir.Zero) or (isinstance(e, ir.Const) and e.value == 0)

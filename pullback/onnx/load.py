"""Import of ONNX files as traced functions: nodes are evaluated in order while the function is traced.

Values known during tracing (shapes, axes, tables) are computed then, by the same operator table. So the program
contains only computations that depend on arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

import pullback as pb
from pullback.calls.specs import spec_like
from pullback.errors import DataError, PullbackError, counted
from pullback.nn.types import Shaped
from pullback.onnx.graph import CONTROL, Graph, Node, names_for, read, refused
from pullback.onnx.operators import Operator, WrongNode, find
from pullback.onnx.operators.common import NARROW, integers, traced
from pullback.reading import check_bytes, check_size

__all__ = ["load"]

Parameters = dict[str, NDArray[Any]]
NEEDS_NUMBER: Final = "E117"
BOUNDS: Final = ("E527", "E528")
COMPUTED: Final = 1 << 27  # most bytes of constants computed while a file is read
COMPUTED_FOR_EACH: Final = 16  # additional bytes for each byte of the file's arrays
MOST_NODES: Final = 10_000  # most nodes of unrolled loops


def load(source: Any, *, batch_size: int | None = None, dims: Mapping[str, int] | None = None,
         known: Mapping[str, ArrayLike] | None = None, name: str | None = None,
         constants: bool = False) -> tuple[pb.Function, Parameters]:  # fmt: skip
    """Load an ONNX file as a traced function, with the parameters that the file holds.

    The function takes the parameters first, a dict of arrays by their names in the file. The graph's inputs follow, by
    position or name. So `pb.grad(lambda p, x: loss(f(p, x)), wrt="p")` is the gradient with respect to the
    parameters, and `f.export` writes C. Layers work as in inference, without dropout.

    Args:
        source: the path of a file, its bytes, or an `onnx.ModelProto`.
        batch_size: the size of the inputs' first axis, if it is open.
        dims: other open sizes, by their names in the file.
        known: fixed values for graph inputs that determine shapes; these are then no arguments.
        name: the name of the function; by default the graph's.
        constants: whether the constants of `Constant` nodes are parameters, too.
    Returns:
        The function, which returns one result or a tuple, and its parameters: the file's floating-point arrays that
        nodes compute with.
    Raises:
        DataError: [E501] there is no such file. [E506] the package onnx is not installed. [E520] it is no ONNX file.
            [E521] it has unsupported operators; all are listed. [E522] a node is invalid for its operator; the error
            names it. [E523] a shape depends on an argument. [E527] an array is above the size limit. [E528] its
            loops are too long.

    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    >>> w = helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [1, 0, 2, 0, 1, 3])
    >>> graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "linear", [x], [y], [w])
    >>> f, parameters = load(helper.make_model(graph))
    >>> f.type
    '(parameters: {w: f32[2, 3]}, x: f32[N, 2]) -> f32[N, 3]'
    >>> f(parameters, np.ones((1, 2), np.float32)).tolist()
    [[1.0, 1.0, 5.0]]
    """
    graph = read(source)
    given = {n: np.asarray(value) for n, value in (known or {}).items()}
    unknown = given.keys() - {i.name for i in graph.inputs}
    if unknown:
        there = ", ".join(i.name for i in graph.inputs) or "none"
        raise DataError("E523", f"{graph.name} has no input {sorted(unknown)[0]}", facts=[f"inputs: {there}"],
                        remedy="names as in the file")  # fmt: skip
    model = _Model(graph, given, constants)
    inputs = [i for i in graph.inputs if i.name not in given]
    names = names_for([i.name for i in inputs], ["parameters"])

    def run(*args: Any) -> Any:
        return model.results(args[0], args[1:])

    run.__name__ = names_for([name or graph.name or "model"])[0]
    run.__doc__ = graph.doc or None
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = inspect.Signature([inspect.Parameter(n, plain) for n in ("parameters", *names)])  # type: ignore[attr-defined]
    run.__annotations__ = {"parameters": spec_like(model.parameters)}
    for n, i in zip(names, inputs):
        if i.extents is not None:
            own = [_extent(k, e, batch_size, dims or {}) for k, e in enumerate(i.extents)]
            run.__annotations__[n] = Shaped(" ".join(own), i.dtype)
    return pb.function(run), model.parameters


def _extent(axis: int, extent: int | str, batch_size: int | None, dims: Mapping[str, int]) -> str:
    if isinstance(extent, str):
        if extent in dims:
            return str(dims[extent])
        if axis == 0 and batch_size is not None:
            return str(batch_size)
    return str(extent)


class _Model:
    """A graph with the properties known before tracing."""

    def __init__(self, graph: Graph, given: Mapping[str, NDArray[Any]], constants: bool) -> None:
        self.graph = graph
        self.narrow = dict(graph.narrow)
        self.arrays: dict[str, NDArray[Any]] = {**graph.arrays, **given}
        self.most = COMPUTED + COMPUTED_FOR_EACH * sum(a.nbytes for a in self.arrays.values())
        self.work = _Work(self.most)
        size, fixed = 0, set(given)
        for node in graph.nodes:  # weights that the file stores as one value and a shape
            if node.op in ("Constant", "ConstantOfShape") and all(n in self.arrays for n in node.inputs):
                found = _Run(self, {n: self.arrays[n] for n in node.inputs}).outputs(node)
                size += sum(v.nbytes for v in found if isinstance(v, np.ndarray))
                check_bytes(graph.name, size, "its constants have")
                fixed.update(node.outputs if node.op == "Constant" and not constants else ())
                self.arrays |= {n: v for n, v in zip(node.outputs, found) if isinstance(v, np.ndarray)}
        computed = set(_computed_with(graph.nodes))
        self.parameters: Parameters = {
            name: array
            for name, array in self.arrays.items()
            if name in computed and name not in fixed and array.dtype.kind == "f" and array.ndim and array.size
        }

    def results(self, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> Any:
        """Trace the graph; return its results."""
        self.work = _Work(self.most)
        names = [i.name for i in self.graph.inputs if i.name not in self.arrays]
        run = _Run(self, {**self.arrays, **parameters, **dict(zip(names, inputs, strict=True))})
        run.all(self.graph.nodes)
        found = []
        for out in self.graph.outputs:
            value = run.values.get(out.name)
            if not isinstance(value, np.ndarray | pb.Array):
                why = "is made by no node" if value is None else "is no array"
                raise DataError("E522", f"the result {out.name} {why}", remedy="another export of the model")
            value = traced(value)
            halved = out.dtype in ("float16", "bfloat16") and value.dtype == pb.float32  # the computation is in float32
            found.append(pb.astype(value, getattr(pb, out.dtype)) if halved else value)
        return found[0] if len(found) == 1 else tuple(found)


def _computed_with(nodes: Sequence[Node]) -> Iterator[str]:
    """The names that nodes compute with, rather than only take shapes from."""
    for node in nodes:
        row = find(node.domain, node.op, node.version)
        yield from (n for k, n in enumerate(node.inputs) if row is None or row.rest or not row.knows(k))
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _computed_with(value.nodes)


@dataclass
class _Run:
    """The values of a graph by name, for the nodes evaluated so far."""

    model: _Model
    values: dict[str, Any]

    def all(self, nodes: Sequence[Node]) -> None:
        """Evaluate nodes one after another."""
        for node in nodes:
            if all(name in self.values for name in node.outputs if name):
                continue
            found = self.outputs(node)
            if len(found) < len(node.outputs):
                raise refused(node, f"{len(found)} results, of {len(node.outputs)} that are named")
            self.values |= {name: value for name, value in zip(node.outputs, found) if name}

    def outputs(self, node: Node) -> tuple[Any, ...]:
        """Evaluate one node; return its results.

        Raises:
            DataError: [E522] the node is invalid for its operator. The error names the node, whatever the cause.
        """
        missing = [n for n in node.inputs if n and n not in self.values]
        if missing:
            raise refused(node, f"its input {missing[0]} is made by no node before it")
        try:
            found = self._control(node) if node.op in CONTROL else self._computed(node)
            found = tuple(found) if isinstance(found, tuple | list) else (found,)
            _check(found)
        except (WrongNode, PullbackError) as error:
            if isinstance(error, DataError) and error.code in BOUNDS and not error.what.startswith("node "):
                raise DataError(error.code, f"{node}: {error.what}", facts=error.facts, remedy=error.remedy) from error
            if isinstance(error, PullbackError) and (error.code == NEEDS_NUMBER or isinstance(error, DataError)):
                raise
            what, remedy = (error.what, "") if isinstance(error, PullbackError) else (str(error), error.remedy)
            raise refused(node, what, self._types(node), remedy) from error
        except MemoryError as error:
            raise DataError("E527", f"{node}: there is no memory for its result", facts=self._types(node),
                            remedy="a machine with more memory, or a smaller model") from error  # fmt: skip
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise refused(node, f"{type(error).__name__}: {error}", self._types(node)) from error
        return found

    def _types(self, node: Node) -> list[str]:
        """The types of a node's inputs, for errors."""
        out = []
        for name in node.inputs:
            value = self.values.get(name)
            if isinstance(value, np.ndarray | pb.Array):
                out.append(f"{name}: {value.dtype}[{', '.join(map(str, value.shape))}]")
        return out

    def _computed(self, node: Node) -> Any:
        row = find(node.domain, node.op, node.version)
        assert row is not None, node.op
        inputs = list(node.inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        values = [self.values[n] if n else None for n in inputs]
        narrow = tuple(self.model.narrow.get(n, 0) for n in (*inputs, "", ""))
        named = row.settings(node.attributes, len(values), node.version, len(node.outputs), narrow)
        if node.attributes.get("to") in NARROW:
            self.model.narrow[node.outputs[0]] = node.attributes["to"]
        given = [self._known(node, inputs[k], v) if row.knows(k) else v for k, v in enumerate(values)]
        parameters = self.model.parameters if hasattr(self.model, "parameters") else {}
        if any(isinstance(v, pb.Array) or n in parameters for n, v in zip(inputs, given)):
            return row.compute(*(v if row.knows(k) else traced(v) for k, v in enumerate(given)), **named)
        return _folded(row, given, named, self.model.work)

    def _known(self, node: Node, name: str, value: Any) -> Any:
        """A value that determines a shape, as a NumPy array."""
        if value is None or isinstance(value, np.ndarray):
            return value
        if name in self.model.arrays:
            return self.model.arrays[name]
        origins = ", ".join(sorted(self._origins(name)))
        raise DataError(
            "E523",
            f"{node}: a shape follows from its input {name}, which is computed of the argument {origins}",
            remedy=f'load(…, known={{"{origins.partition(",")[0]}": …}}), which makes it a constant',
        )

    def _origins(self, name: str) -> set[str]:
        """The inputs of the graph that a value is computed from."""
        makers: dict[str, Node] = {}
        for node in self.model.graph.all_nodes():
            inner = [i.name for g in node.attributes.values() if isinstance(g, Graph) for i in g.inputs]
            makers |= dict.fromkeys((*node.outputs, *inner), node)
        inputs = {i.name for i in self.model.graph.inputs}
        found, seen, left = set(), set(), [name]
        while left:
            name = left.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in inputs:
                found.add(name)
            if name in makers:
                left += makers[name].inputs
                left += [
                    out.name for g in makers[name].attributes.values() if isinstance(g, Graph) for out in g.outputs
                ]
        return found

    # Graphs in attributes -------------------------------------------------------------------------------------

    def _inside(self, graph: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Evaluate a graph in an attribute; it can read the values of the enclosing graph."""
        if not isinstance(graph, Graph) or len(arguments) != len(graph.inputs):
            raise WrongNode("a graph that does not take what it is given")
        inner = {**self.values, **graph.arrays, **dict(zip((i.name for i in graph.inputs), arguments))}
        for node in graph.nodes:
            for name in node.outputs:
                inner.pop(name, None)
        self.model.work.write_out(len(graph.nodes))
        run = _Run(self.model, inner)
        run.all(graph.nodes)
        return tuple(run.values[out.name] for out in graph.outputs)

    def _control(self, node: Node) -> Any:
        values = [self.values[n] if n else None for n in node.inputs]
        a = node.attributes
        if node.op == "If":
            test = values[0]
            if isinstance(test, np.ndarray):
                return self._inside(a["then_branch"] if test.any() else a["else_branch"], ())
            branches = (
                lambda g=g: tuple(map(traced, self._inside(g, ()))) for g in (a["then_branch"], a["else_branch"])
            )
            return pb.cond(pb.reshape(test, ()), *branches)
        return self._loop(node, values) if node.op == "Loop" else self._scan(node, values)

    def _loop(self, node: Node, values: list[Any]) -> Any:
        """Unroll a loop whose number of iterations is known; others become loops that test a value."""
        trips, test, *states = values
        body, count = node.attributes["body"], len(states)
        if isinstance(test, pb.Array) and len(body.outputs) - 1 == count:
            return self._while(body, trips, test, states)
        trips = None if trips is None else integers(self._known(node, node.inputs[0], trips))[0]
        rows: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - count)]
        k = 0
        while (trips is None or k < trips) and (test is None or self._known(node, body.outputs[0].name, test).any()):
            if k >= 10_000:
                raise WrongNode("more than 10,000 trips")
            test, *after = self._inside(
                body, (np.array(k, np.int64), np.array(True) if test is None else test, *states)
            )
            states = after[:count]
            for row, value in zip(rows, after[count:]):
                row.append(value)
            k += 1
        if not all(rows):
            raise WrongNode("a loop without trips, whose rows have no shape")
        return (*states, *(_stacked(row, 0) for row in rows))

    def _while(self, body: Graph, trips: Any, test: Any, states: Sequence[Any]) -> Any:
        """A loop whose test follows from values: states keep their shapes, and there are no rows."""
        most = None if trips is None else traced(trips)

        def goes_on(state: Any) -> Any:
            return state[0] if most is None else state[0] & (state[1] < pb.reshape(most, ()))

        def advance(state: Any) -> Any:
            own, step, *rest = state
            again, *after = self._inside(body, (step, own, *rest))
            return (pb.reshape(traced(again), ()), step + 1, *map(traced, after))

        first = (pb.reshape(test, ()), pb.asarray(0, dtype=pb.int64), *map(traced, states))
        return tuple(pb.while_loop(goes_on, advance, first)[2:])

    def _scan(self, node: Node, values: list[Any]) -> Any:
        """Unroll a loop over rows."""
        a = node.attributes
        body, count = a["body"], int(a["num_scan_inputs"])
        if node.version < 9 or not 0 < count <= len(values):
            raise WrongNode("a form of Scan that is not read")
        states, rows = values[: len(values) - count], values[len(values) - count :]
        axes = [k % r.ndim for k, r in zip(a.get("scan_input_axes", (0,) * count), rows)]
        backward = a.get("scan_input_directions", (0,) * count)
        steps = int(rows[0].shape[axes[0]])
        made = len(body.outputs) - len(states)
        out: list[list[Any]] = [[] for _ in range(made)]
        for t in range(steps):
            own = [r[(slice(None),) * k + (steps - 1 - t if b else t,)] for r, k, b in zip(rows, axes, backward)]
            after = self._inside(body, (*states, *own))
            states = list(after[: len(states)])
            for row, value in zip(out, after[len(states) :]):
                row.append(value)
        turned = a.get("scan_output_directions", (0,) * made)
        places = a.get("scan_output_axes", (0,) * made)
        return (*states, *(_stacked(r[::-1] if b else r, k) for r, b, k in zip(out, turned, places)))


def _stacked(rows: Sequence[Any], axis: int) -> Any:
    if all(isinstance(r, np.ndarray) for r in rows):
        return np.stack(rows, axis)
    return pb.stack([traced(r) for r in rows], axis=axis)


def _check(results: Sequence[Any]) -> None:
    """Check the results' known sizes against the limits.

    Raises:
        DataError: [E527] a result is above the limit.
    """
    for value in results:
        if isinstance(value, np.ndarray | pb.Array):
            dtype = value.dtype if isinstance(value, np.ndarray) else value.dtype.numpy
            check_size("its result", [e for e in value.shape if isinstance(e, int)], dtype.itemsize)


@dataclass
class _Work:
    """A budget for reading a graph: bytes of computed constants, and nodes of unrolled loops.

    Attributes:
        most: the most bytes that may be computed: a constant plus a multiple of the file's bytes.
    """

    most: int
    computed: int = 0
    nodes: int = 0

    def compute(self, size: int) -> None:
        """Count the input or output bytes of a computed constant.

        Raises:
            DataError: [E527] there are too many bytes.
        """
        self.computed += size
        if self.computed > self.most:
            raise DataError(
                "E527", f"computing its constants takes {counted(self.computed, 'byte')}",
                facts=(f"limit for a file with so few arrays: {counted(self.most, 'byte')}",),
                remedy="an export of the model with its constants computed",
            )  # fmt: skip

    def write_out(self, nodes: int) -> None:
        """Count the nodes of an unrolled graph.

        Raises:
            DataError: [E528] there are too many nodes.
        """
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            raise DataError("E528", f"its loops are more than {MOST_NODES:,} nodes when they are written out",
                            remedy="an export of the model for shorter sequences, or without its loops")  # fmt: skip


def _folded(row: Operator, values: Sequence[Any], named: Mapping[str, Any], work: _Work) -> Any:
    """Evaluate an operator now, on known arrays."""
    open_ = [k for k, v in enumerate(values) if isinstance(v, np.ndarray) and not row.knows(k)]
    if not open_:
        found = row.compute(*values, **named)
        if isinstance(found, np.ndarray):
            return found
        if isinstance(found, tuple) and all(isinstance(v, np.ndarray) for v in found):
            return found

    work.compute(sum(values[k].nbytes for k in open_))

    def compute(*arrays: Any) -> Any:
        given = list(values)
        for k, array in zip(open_, arrays):
            given[k] = array
        found = row.compute(*given, **named)
        made = tuple(map(traced, found)) if isinstance(found, tuple | list) else (traced(found),)
        work.compute(sum(prod(v.shape) * v.dtype.numpy.itemsize for v in made))
        return made if isinstance(found, tuple | list) else made[0]

    found = pb.function(compute).interpret(*(values[k] for k in open_))
    return tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)

"""`graph`: the weighted graph of a function at a point, its edges as operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pullback.calls.arguments import prepare
from pullback.calls.mistakes import public
from pullback.calls.signature import bind, signature_of
from pullback.derivatives.derived import as_function
from pullback.explanation.drawing import drawn, local_derivatives, one_vertex_each, total
from pullback.notebook import Displayed
from pullback.operators.blocks import BlockMatrix, identity
from pullback.operators.derivatives import Linearized
from pullback.operators.graph import strictly_lower
from pullback.operators.operator import ZERO, I
from pullback.operators.triangular import solve
from pullback.pictures import Picture
from pullback.records import dataclass, replace

NDArray = np.ndarray[Any, Any]


class Weights(dict[tuple[str, str], Any]):
    """Derivatives of arrays by other arrays as operators, by the names of both: (of, by)."""

    def __init__(self, weights: Mapping[tuple[str, str], Any], symbol: str) -> None:
        super().__init__(weights)
        self._symbol = symbol

    def __str__(self) -> str:
        return "\n".join(f"{self._symbol}{of}/{self._symbol}{by} = {op}" for (of, by), op in self.items())


@dataclass(frozen=True)
class ComputationGraph(Displayed):
    """The arrays of a function at a point, with the derivative of each by earlier ones: dx = L dx.

    `computation`, `edge_weights` and `path_weights` are algorithms 1, 2 and 3 of the paper.

    Attributes:
        nodes: names of the arrays, the arguments first; every edge leads to a later one.
        values: the values of the nodes.
        sources: the number of arguments.
        outputs: the positions of the function's results.
        L: strictly lower triangular; element (i, j) is the derivative of node i by node j as an operator.
        name: the name of the function.
        computation: the lines that compute the arrays, in order.
    """

    nodes: tuple[str, ...]
    values: tuple[NDArray, ...]
    sources: int
    outputs: tuple[int, ...]
    L: BlockMatrix
    name: str = "the function"
    computation: tuple[str, ...] = ()

    @property
    def edge_weights(self) -> Weights:
        """The derivatives of each line by the arrays that it reads, as (line, array read): operators.

        >>> import pullback as pb
        >>> found = pb.graph(lambda x: pb.sum(pb.exp(x)), np.zeros(3))
        >>> print(found.edge_weights)
        ∂exp/∂x = H[exp]
        ∂sum/∂exp = 1ᵀ·
        """
        rows = enumerate(self.L.rows)
        return Weights({(self.nodes[i], self.nodes[j]): op for i, row in rows for j, op in row}, "∂")

    @property
    def path_weights(self) -> Weights:
        """The derivatives of each line by the arguments, as (line, argument): sums over paths.

        >>> import pullback as pb
        >>> found = pb.graph(lambda x: pb.sum(pb.exp(x)), np.zeros(3))
        >>> print(found.path_weights)
        ∇exp/∇x = H[exp]
        ∇sum/∇x = 1ᵀ· H[exp]
        >>> found.path_weights["sum", "x"].T(np.float64(1.0)).tolist()
        [1.0, 1.0, 1.0]
        """
        everything, arguments = range(len(self.nodes)), range(self.sources)
        found = solve(I - self.L, identity(len(self.nodes)).take(everything, arguments))
        rows = ((i, found.rows[i]) for i in everything if i >= self.sources)
        return Weights({(self.nodes[i], self.nodes[j]): op for i, row in rows for j, op in row}, "∇")

    @property
    def M(self) -> BlockMatrix:
        """The edges from arguments to computed arrays: dx = M dp + inner dx."""
        return self.L.take(range(self.sources, len(self.nodes)), range(self.sources))

    @property
    def inner(self) -> BlockMatrix:
        """The edges among computed arrays."""
        computed = range(self.sources, len(self.nodes))
        return self.L.take(computed, computed)

    @property
    def linearized(self) -> Linearized:
        """The system of M and L, whose solutions are sensitivities, gradients and the Jacobian."""
        return Linearized(self.M, self.inner)

    def seed(self, *cotangents: Any) -> list[Any]:
        """The right-hand side g: a cotangent for each output, 1 by default, ZERO elsewhere."""
        given = cotangents or tuple(np.ones(self.values[k].shape) for k in self.outputs)
        g: list[Any] = [ZERO] * len(self.nodes)
        for k, c in zip(self.outputs, given, strict=True):
            g[k] = g[k] + np.asarray(c, dtype=np.float64)
        return g

    def gradient(self, *cotangents: Any) -> list[Any]:
        """The cotangent of each argument, by back substitution, for cotangents of the outputs (1 by default)."""
        found = solve((I - self.L).T, self.seed(*cotangents))[: self.sources]
        return [np.zeros(v.shape) if x is ZERO else x for x, v in zip(found, self.values, strict=False)]

    def __str__(self) -> str:
        lines = []
        for i, (name, value) in enumerate(zip(self.nodes, self.values, strict=True)):
            shape = str(list(value.shape)) if value.ndim else ""
            terms = [f"{op} d{self.nodes[j]}" for j, op in self.L.rows[i]]
            what = "argument" if i < self.sources else "constant" if not terms else f"d{name} = " + " + ".join(terms)
            lines.append(f"{i:>3}  {name}{shape}{' (result)' if i in self.outputs else ''}: {what}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<graph of {len(self.nodes)} nodes and {len(self.L.entries)} edges>"

    def plot(self) -> Picture:
        """The graph with the operators on its edges, as a picture that notebooks show and `save` writes.

        >>> import pullback as pb
        >>> pb.graph(lambda x: pb.sum(x * x), np.ones(3)).plot().svg.startswith("<svg")
        True
        """
        shapes = [str(list(value.shape)) if value.ndim else "number" for value in self.values]
        edges = [(j, i, str(op)) for i in range(len(self.nodes)) for j, op in self.L.rows[i]]
        return drawn(self.name, self.nodes, shapes, edges, self.sources, self.outputs)

    def _repr_html_(self) -> str:
        return self.plot().svg


@public
def graph(f: Callable[..., Any], *args: Any, **keywords: Any) -> ComputationGraph:
    """The edge-weighted graph of f at a point: arrays as nodes, local Jacobians as operators on the edges.

    The graph transformations of `pullback.operators` apply to its matrix `L`: path weights, elimination of nodes and
    edges, substitution. Edges of products, elementwise functions and sums are operators of the same names. Other edges
    gather at indices, and a loop or a cond is one node with dense edges.

    Args:
        f: the function; args, keywords: as in a call.
    Returns:
        The graph; `print` shows an equation for each node.
    Raises:
        PullbackError: the call of f fails.
    Cost:
        One run in the interpreter, and the memory of all local Jacobians.
    Source:
        Edelman, Akyürek, Wang, Backpropagation through Back Substitution with a Backslash (2023), eq. 1 and 9.

    >>> import numpy as np, pullback as pb
    >>> from jaxtyping import Float64
    >>> from pullback import Array
    >>> from pullback.operators import I, ZERO, solve
    >>> @pb.function
    ... def loss(w: Float64[Array, "K M"], x: Float64[Array, "M"]):
    ...     return pb.sum(pb.exp(w @ x))
    >>> found = pb.graph(loss, np.zeros((2, 3)), np.ones(3))
    >>> print(found)
      0  w[2, 3]: argument
      1  x[3]: argument
      2  matmul[2]: dmatmul = G[x] dw + L[w] dx
      3  exp[2]: dexp = H[exp] dmatmul
      4  sum (result): dsum = 1ᵀ· dexp
    >>> solve((I - found.L).T, [ZERO, ZERO, ZERO, ZERO, 1.0])[1].tolist()
    [0.0, 0.0, 0.0]
    """
    from pullback.ir import nodes as ir
    from pullback.ir.dims import solve_dims
    from pullback.ir.interpret import interpret
    from pullback.ir.printer import Texts
    from pullback.ir.traverse import specialize

    base = as_function(f)
    signature, flat = signature_of(base.parameters, bind(base.name, base.parameters, args, keywords))
    traced = base.traced(signature)
    arrays, sizes = prepare(signature.flat, flat)
    arrays += traced.captured
    dims = solve_dims(traced.program, [a.shape for a in arrays], sizes)
    program = one_vertex_each(specialize(traced.program, dims))
    local = local_derivatives(program)
    body = ir.Block((*local.statements, *local.wanted.statements), (*local.nodes, *local.wanted.refs))
    values = interpret(replace(program, body=body, output_names=()), arrays)
    numbers = values[len(local.nodes) :]
    weights = [(j, i, total([make(numbers) for make in terms])) for j, i, terms in local.edges]
    texts = Texts(program)
    return ComputationGraph(
        tuple(texts.ref(r) for r in local.nodes),
        tuple(values[: len(local.nodes)]),
        local.sources,
        local.outputs,
        strictly_lower(len(local.nodes), weights),
        base.name,
        tuple(texts.statements[s] for s in program.body.statements),
    )

"""Edelman, Akyürek and Wang, Backpropagation through Back Substitution with a Backslash (2023): the paper's claims."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.errors import DerivativeError
from pullback.operators import (
    ZERO,
    BlockMatrix,
    Hadamard,
    I,
    InnerProduct,
    Kronecker,
    LeftMultiply,
    Linearized,
    Operator,
    RightMultiply,
    add_sink,
    adjoint_method,
    blocks,
    bracketings,
    catalan,
    cheapest_bracketing,
    cheapest_order,
    column,
    diagonal,
    elementary_factors,
    eliminate,
    eliminate_edge,
    eliminate_vertex,
    elimination_cost,
    identity,
    newton,
    path_weights,
    solve,
    strictly_lower,
)

# ---------------------------------------------------------------- networks


@dataclass(frozen=True)
class Network:
    """Paper, algorithm 5: X_i = h(W_i X_{i-1} + b_i 1ᵀ), h(x) = exp(-x), loss ½ |X_N|²."""

    start: np.ndarray
    weights: list[np.ndarray]
    biases: list[np.ndarray]

    @classmethod
    def random(cls, sizes: list[int], batch: int, scale: float = 0.5, seed: int = 0) -> Network:
        rng = np.random.default_rng(seed)
        weights = [scale * rng.standard_normal((m, n)) for n, m in pairwise(sizes)]
        biases = [scale * rng.standard_normal((m, 1)) for m in sizes[1:]]
        return cls(rng.standard_normal((sizes[0], batch)), weights, biases)

    @property
    def parameters(self) -> list[np.ndarray]:
        return [array for pair in zip(self.weights, self.biases, strict=True) for array in pair]

    def with_parameters(self, parameters: list[np.ndarray]) -> Network:
        return Network(self.start, parameters[::2], parameters[1::2])

    def layers(self) -> list[np.ndarray]:
        values = [self.start]
        for w, b in zip(self.weights, self.biases, strict=True):
            values.append(np.exp(-(w @ values[-1] + b)))
        return values

    def loss(self) -> float:
        return float(0.5 * np.sum(self.layers()[-1] ** 2))

    def linearized(self) -> Linearized:
        """Line by line from dX_i = H_δ (L_W dX_{i-1} + R_X dW + R_1 db), with δ = h' = -X_i."""
        values, n = self.layers(), len(self.weights)
        slopes = [Hadamard(-x, f"δ{i}") for i, x in enumerate(values[1:], 1)]
        edges = {(i - 1, i): slopes[i] @ LeftMultiply(self.weights[i], f"W{i + 1}") for i in range(1, n)}
        ones = RightMultiply(np.ones((1, self.start.shape[1])), "1ᵀ")
        feeds = [
            blocks([[slope @ RightMultiply(x, f"X{i}"), slope @ ones]])
            for i, (slope, x) in enumerate(zip(slopes, values, strict=False))
        ]
        return Linearized(diagonal(feeds), strictly_lower(n, edges))

    def gradient(self) -> list[np.ndarray]:
        system, last = self.linearized(), self.layers()[-1]
        M, L = system.M, system.L
        g = [ZERO] * (len(self.weights) - 1) + [last]
        nabla = M.T @ solve((I - L).T, g)  # the challenge: one line of mathematics
        return [element for pair in nabla for element in pair.elements()]


def differences(f: Callable[[list[np.ndarray]], float], parameters: list[np.ndarray], eps: float) -> list[np.ndarray]:
    slopes = [np.zeros_like(p) for p in parameters]
    for k, p in enumerate(parameters):
        for at in np.ndindex(p.shape):
            step = np.zeros_like(p)
            step[at] = eps
            up = f([*parameters[:k], p + step, *parameters[k + 1 :]])
            down = f([*parameters[:k], p - step, *parameters[k + 1 :]])
            slopes[k][at] = (up - down) / (2 * eps)
    return slopes


def distance(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.sum((x - y) ** 2) for x, y in zip(a, b, strict=True))))


@pb.function
def challenge_loss(
    w1: Float64[Array, "A B"],
    b1: Float64[Array, "A"],
    w2: Float64[Array, "C A"],
    b2: Float64[Array, "C"],
    w3: Float64[Array, "D C"],
    b3: Float64[Array, "D"],
    x: Float64[Array, "B N"],
):
    x1 = pb.exp(-(w1 @ x + b1[:, None]))
    x2 = pb.exp(-(w2 @ x1 + b2[:, None]))
    x3 = pb.exp(-(w3 @ x2 + b3[:, None]))
    return 0.5 * pb.sum(x3 * x3)


@pb.function
def challenge_of_columns(
    w1: Float64[Array, "A B"],
    b1: Float64[Array, "A 1"],
    w2: Float64[Array, "C A"],
    b2: Float64[Array, "C 1"],
    w3: Float64[Array, "D C"],
    b3: Float64[Array, "D 1"],
    x: Float64[Array, "B N"],
):
    """The same with biases as the paper has them, b 1ᵀ with columns b."""
    for w, b in ((w1, b1), (w2, b2), (w3, b3)):
        x = pb.exp(-(w @ x + b))
    return 0.5 * pb.sum(x * x)


@pb.function
def challenge_by_operators(
    w1: Float64[Array, "A B"],
    b1: Float64[Array, "A 1"],
    w2: Float64[Array, "C A"],
    b2: Float64[Array, "C 1"],
    w3: Float64[Array, "D C"],
    b3: Float64[Array, "D 1"],
    x: Float64[Array, "B N"],
):
    """The gradient of `challenge_of_columns` by the paper's one line, its operators over traced arrays."""
    values = [x]
    for w, b in ((w1, b1), (w2, b2), (w3, b3)):
        values.append(pb.exp(-(w @ values[-1] + b)))
    slopes = [Hadamard(-v) for v in values[1:]]
    L = strictly_lower(3, {(0, 1): slopes[1] @ LeftMultiply(w2), (1, 2): slopes[2] @ LeftMultiply(w3)})
    ones = RightMultiply(pb.ones((1, x.shape[1])))
    M = diagonal([blocks([[slope @ RightMultiply(v), slope @ ones]]) for slope, v in zip(slopes, values, strict=False)])
    nabla = M.T @ solve((I - L).T, [ZERO, ZERO, values[-1]])
    return tuple(e for pair in nabla for e in pair.elements())


def random_graph(n: int, seed: int, fill: float = 0.6) -> BlockMatrix:
    rng = np.random.default_rng(seed)
    edges = {(j, i): int(rng.integers(1, 9)) for i in range(n) for j in range(i) if rng.random() < fill}
    return strictly_lower(n, edges)


# The five nodes of figure 1: 0 and 1 are sources, 4 is the sink.
FIVE = strictly_lower(5, {(0, 2): 2, (1, 2): 3, (1, 3): 5, (2, 3): 7, (2, 4): 11, (3, 4): 13})


def paths(graph: BlockMatrix, source: int, target: int) -> int:
    """The path weight by its definition: the sum over all paths."""
    if source == target:
        return 1
    return sum(w * paths(graph, source, j) for j, w in graph.rows[target] if j >= source)


def node_weight(p: BlockMatrix, target: int, source: int) -> Any:
    element = p[target, source]
    return 1 if element is I else 0 if element is ZERO else element


# ---------------------------------------------------------------- the ids


def test_e01_path_weights_are_the_inverse_and_all_42_bracketings_agree() -> None:
    p = path_weights(FIVE)
    for source in range(5):
        for target in range(source, 5):
            assert node_weight(p, target, source) == paths(FIVE, source, target)
    assert [p[4, 0], p[4, 1]] == [2 * 11 + 2 * 7 * 13, 3 * 11 + 3 * 7 * 13 + 5 * 13]

    row = blocks([[0, 0, 0, 0, I]])
    two_sources = identity(5).take(range(5), [0, 1])
    factors = [row, *elementary_factors(FIVE), two_sources @ [1, 1]]
    factors[-1] = column(factors[-1])
    ways = bracketings([factor.shape for factor in factors])
    assert len(ways) == 42 == catalan(5)
    assert {way.evaluate(factors)[0, 0] for way in ways} == {p[4, 0] + p[4, 1]}
    by_vectors = [str(way) for way in ways if way.by_vectors]
    assert len(by_vectors) == 5
    assert "(((((A B) C) D) E) F)" in by_vectors  # from the left: reverse mode
    assert "(A (B (C (D (E F)))))" in by_vectors  # from the right: forward mode
    assert len(ways) - len(by_vectors) == 37
    assert all(any(1 not in (m, n) for m, _, n in way.products) for way in ways if not way.by_vectors)
    assert all(way.cost == sum(m * k * n for m, k, n in way.products) for way in ways)
    assert ways[0].cost == cheapest_bracketing([factor.shape for factor in factors]).cost == 105
    assert ways[0].by_vectors


def test_e01_forward_backward_and_mixed_substitution_and_the_cheapest_elimination() -> None:
    p = path_weights(FIVE)
    g, sources = [0, 0, 0, 0, 1], [1, 1, 0, 0, 0]
    assert solve(I - FIVE, sources)[4] == p[4, 0] + p[4, 1]
    assert solve((I - FIVE).T, g)[:2] == [p[4, 0], p[4, 1]]
    for order in ([2, 3], [3, 2]):
        left = eliminate(FIVE, order)
        assert left.entries == {(4, 0): p[4, 0], (4, 1): p[4, 1]}
    assert elimination_cost(FIVE, [2, 3]) == 2 * 2 + 2 * 1
    assert elimination_cost(FIVE, [3, 2]) == 2 * 1 + 2 * 1
    assert cheapest_order(FIVE).vertices == (3, 2)  # reverse mode: one sink, two sources
    assert cheapest_order(FIVE).cost == 4


def test_e02_edge_elimination() -> None:
    p = path_weights(FIVE)
    assert eliminate_edge(FIVE, 3, 4)[4, 1] == 13 * 5
    assert eliminate_edge(FIVE, 3, 4)[4, 2] == 11 + 13 * 7
    # Node 3 has no way on then: the vertex elimination of figure 3, a rank-one update without row and column 3.
    keep = [0, 1, 2, 4]
    update = FIVE.take(keep, [3]) @ FIVE.take([3], keep)
    bypassed = eliminate_vertex(FIVE, 3).take(keep, keep)
    assert bypassed.entries == (FIVE.take(keep, keep) + update).entries
    assert path_weights(bypassed).entries == p.take(keep, keep).entries
    back = path_weights(eliminate_edge(FIVE, 2, 4))  # past node 2: paths from all others stay
    assert [back[4, j] for j in (0, 1, 3)] == [p[4, j] for j in (0, 1, 3)]
    on = path_weights(eliminate_edge(FIVE, 0, 2, into=False))  # past node 2: paths to all others stay
    assert [on[i, 0] for i in (3, 4)] == [p[i, 0] for i in (3, 4)]


def test_e02_edge_addition_at_the_sink() -> None:
    p, weights = path_weights(FIVE), {2: 17, 4: 19}
    grown = path_weights(add_sink(FIVE, weights))
    assert grown.take(range(5), range(5)).entries == p.entries
    g = column([weights.get(i, 0) for i in range(5)])
    assert grown.take([5], range(5)).entries == (g.T @ p).entries  # eq. 4, with sources in columns


def test_e02_complete_dag() -> None:
    """Figure 4: every node feeds all later ones. With all weights 1 there are 2^(k-1) paths k steps ahead."""
    n = 7
    p = path_weights(strictly_lower(n, {(j, i): 1 for i in range(n) for j in range(i)}))
    assert all(p[i, j] == 2 ** (i - j - 1) for i in range(n) for j in range(i))
    free = {(j, i): Fraction(j + 2, i + 1) for i in range(n) for j in range(i)}
    assert (path_weights(strictly_lower(n, free)) @ (I - strictly_lower(n, free))).to_dense() == pytest.approx(
        np.eye(n)
    )


def test_e02_spine_and_feeds_of_a_perceptron() -> None:
    """Figure 5, eq. 6 to 8: sources feed a spine one to one; the last row holds suffix products times feeds."""
    spine, feeds = [2, 3, 5], [7, 11, 13, 17]
    L = strictly_lower(4, {(i, i + 1): w for i, w in enumerate(spine)})
    D = diagonal(feeds)
    whole = strictly_lower(
        8, {(i, 4 + i): w for i, w in enumerate(feeds)} | {(4 + j, 4 + i): w for (i, j), w in L.entries.items()}
    )
    p = path_weights(whole)
    internal = path_weights(L)
    assert p.take(range(4, 8), range(4, 8)).entries == internal.entries
    assert p.take(range(4, 8), range(4)).entries == (internal @ D).entries
    suffix = [2 * 3 * 5, 3 * 5, 5, 1]
    assert D.T @ solve((I - L).T, [0, 0, 0, 1]) == [s * f for s, f in zip(suffix, feeds, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_e03_gradient_of_random_graphs_is_reverse_mode(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 6
    c = np.tril(rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.6), -1)

    @pb.function
    def last(p: Float64[Array, "6"]):
        x: list[Any] = []
        for i in range(n):
            x.append(pb.sin(sum((float(c[i, j]) * x[j] for j in range(i) if c[i, j]), p[i])))
        return x[-1]

    p, x, slopes = rng.standard_normal(n), np.zeros(n), np.zeros(n)
    for i in range(n):
        inside = p[i] + c[i] @ x
        x[i], slopes[i] = np.sin(inside), np.cos(inside)
    L = strictly_lower(n, {(j, i): slopes[i] * c[i, j] for i in range(n) for j in range(i)})
    gradient = diagonal(list(slopes)).T @ solve((I - L).T, [0] * (n - 1) + [1.0])
    np.testing.assert_allclose([float(e) for e in gradient], pb.grad(last).interpret(p), rtol=1e-14, atol=1e-15)


def inner(a: Any, b: Any) -> float:
    return float(np.sum(np.asarray(a) * np.asarray(b)))


def operators_of_table_2() -> Iterator[tuple[Operator, tuple[int, ...], np.ndarray]]:
    """Each operator with the shape it acts on and its dense form by formula."""
    rng = np.random.default_rng(4)
    m, n = 3, 4
    a, b, k = rng.standard_normal((2, m)), rng.standard_normal((n, 5)), rng.standard_normal((2, n))
    h = rng.standard_normal((m, n))
    vec = h.reshape(-1, order="F")
    yield LeftMultiply(a, "A"), (m, n), np.kron(np.eye(n), a)
    yield RightMultiply(b, "B"), (m, n), np.kron(b.T, np.eye(m))
    yield Kronecker(k, a, names=("K", "A")), (m, n), np.kron(k, a)
    yield Hadamard(h, "H"), (m, n), np.diag(vec)
    yield InnerProduct(h, "G"), (m, n), vec[None, :]
    yield InnerProduct(h, "G").T, (), vec[:, None]
    yield LeftMultiply(a, "A") @ RightMultiply(b, "B") @ Hadamard(h, "H"), (m, n), np.kron(b.T, a) @ np.diag(vec)
    yield I + 2 * Hadamard(h, "H") - I / 4, (m, n), 0.75 * np.eye(m * n) + 2 * np.diag(vec)


@pytest.mark.parametrize(("op", "shape", "dense"), list(operators_of_table_2()), ids=lambda value: str(value)[:12])
def test_e04_operators_adjoints_and_dense_forms(op: Operator, shape: tuple[int, ...], dense: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal(shape)
    image = op(x)
    y = rng.standard_normal(np.shape(image))
    assert inner(y, image) == pytest.approx(inner(op.T(y), x), rel=1e-12)
    np.testing.assert_allclose(op.to_dense(shape), dense, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(op.T.to_dense(np.shape(image)), dense.T, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(np.reshape(image, -1, order="F"), dense @ np.reshape(x, -1, order="F"), rtol=1e-12)


def test_e04_transpose_dot_reverses_operators() -> None:
    """Lemma 4.1: Gᵀ· L = (Lᵀ G)ᵀ·, for compositions too."""
    rng = np.random.default_rng(6)
    a, b, h = rng.standard_normal((2, 3)), rng.standard_normal((4, 5)), rng.standard_normal((3, 4))
    g, x = rng.standard_normal((2, 5)), rng.standard_normal((3, 4))
    chain = LeftMultiply(a, "A") @ RightMultiply(b, "B") @ Hadamard(h, "H")
    reversed_ = InnerProduct(g, "G") @ chain
    assert isinstance(reversed_, InnerProduct)
    assert str(reversed_) == "(H[H] R[Bᵀ] L[Aᵀ] G)ᵀ·"
    np.testing.assert_allclose(reversed_.array, h * (a.T @ g @ b.T), rtol=1e-13)
    assert reversed_(x) == pytest.approx(InnerProduct(g)(chain(x)), rel=1e-13)


@dataclass(frozen=True)
class Modulo7:
    value: int

    def __add__(self, other: Modulo7) -> Modulo7:
        return Modulo7((self.value + other.value) % 7)

    def __neg__(self) -> Modulo7:
        return Modulo7(-self.value % 7)

    def __sub__(self, other: Modulo7) -> Modulo7:
        return self + -other

    def __mul__(self, other: Modulo7) -> Modulo7:
        return Modulo7(self.value * other.value % 7)

    def inverse(self) -> Modulo7:
        return Modulo7(pow(self.value, -1, 7))


@dataclass(frozen=True)
class Quaternion:
    a: Fraction
    b: Fraction = Fraction(0)
    c: Fraction = Fraction(0)
    d: Fraction = Fraction(0)

    def __add__(self, o: Quaternion) -> Quaternion:
        return Quaternion(self.a + o.a, self.b + o.b, self.c + o.c, self.d + o.d)

    def __neg__(self) -> Quaternion:
        return Quaternion(-self.a, -self.b, -self.c, -self.d)

    def __sub__(self, o: Quaternion) -> Quaternion:
        return self + -o

    def __mul__(self, o: Quaternion) -> Quaternion:
        return Quaternion(
            self.a * o.a - self.b * o.b - self.c * o.c - self.d * o.d,
            self.a * o.b + self.b * o.a + self.c * o.d - self.d * o.c,
            self.a * o.c - self.b * o.d + self.c * o.a + self.d * o.b,
            self.a * o.d + self.b * o.c - self.c * o.b + self.d * o.a,
        )

    def conjugate(self) -> Quaternion:
        return Quaternion(self.a, -self.b, -self.c, -self.d)

    def inverse(self) -> Quaternion:
        norm = self.a**2 + self.b**2 + self.c**2 + self.d**2
        return Quaternion(self.a / norm, -self.b / norm, -self.c / norm, -self.d / norm)


def numbers(make: Callable[[int], Any]) -> tuple[BlockMatrix, list[Any]]:
    return blocks([[make(2), 0, 0], [make(3), make(4), 0], [make(5), make(6), make(3)]]), [make(1), make(2), make(4)]


def quaternion(k: int) -> Quaternion:
    return Quaternion(Fraction(k), Fraction(1, k), Fraction(k % 3), Fraction(-k))


def small_block(k: int) -> BlockMatrix:
    return blocks([[Fraction(k), 0], [Fraction(1), Fraction(k + 1)]])


ELEMENTS: dict[str, Callable[[int], Any]] = {
    "floats": float,
    "fractions": Fraction,
    "finite field": Modulo7,
    "quaternions": quaternion,
    "blocks": small_block,
    "blocks of quaternions": lambda k: blocks([[quaternion(k), 0], [quaternion(k + 1), quaternion(k + 2)]]),
    "operators": lambda k: LeftMultiply(np.array([[k, 1.0], [0.0, k + 1.0]])),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, BlockMatrix):
        return all(e + e == e for e in (a - b).entries.values())  # zeros of the elements' own
    if isinstance(a, Operator):
        return bool(np.allclose(a.to_dense((2, 1)), b.to_dense((2, 1)), rtol=1e-13))
    return bool(a == b)


@pytest.mark.parametrize("transposed", [False, True], ids=["forward", "back"])
@pytest.mark.parametrize("kind", ELEMENTS)
def test_e05_one_solver_for_all_elements(kind: str, transposed: bool) -> None:
    matrix, right = numbers(ELEMENTS[kind])
    matrix = matrix.T if transposed else matrix
    solution = solve(matrix, right)
    assert all(same(a, b) for a, b in zip(matrix @ solution, right, strict=True))


def test_e05_back_substitution_with_operators_is_the_gradient_and_prints() -> None:
    network = Network.random([3, 2, 2, 1], 4, scale=0.1)
    system = network.linearized()
    assert str((I - system.L).T) == (
        "[I  -L[W2ᵀ] H[δ2]              .]\n[.              I  -L[W3ᵀ] H[δ3]]\n[.              .              I]"
    )
    assert str(system.M.T[1, 1]) == "[R[X1ᵀ] H[δ2]]\n[  R[1] H[δ2]]"
    expected = differences(lambda p: network.with_parameters(p).loss(), network.parameters, 1e-5)
    assert distance(network.gradient(), expected) < 1e-8


def test_e05_transposition_is_recursive() -> None:
    i = Quaternion(Fraction(0), Fraction(1))
    inside = blocks([[i, 1 + 2j], [LeftMultiply([[1.0, 2.0]], "A"), np.array([[1.0, 2.0]])]])
    turned = blocks([[inside, 3.0]]).T[0, 0]
    assert turned[0, 0] == i.conjugate()
    assert turned[1, 0] == 1 - 2j
    assert str(turned[0, 1]) == "L[Aᵀ]"
    assert turned[1, 1].shape == (2, 1)


def test_e06_scalars_vectors_and_operators_give_the_same_gradient() -> None:
    """Sections 5.1 to 5.3: one neuron a layer, as numbers, as rows [w b] and as operators on 1 by 1 matrices."""
    network = Network.random([1, 1, 1, 1], 1)
    values, n = [float(x[0, 0]) for x in network.layers()], 3
    w, slopes, g = [float(w[0, 0]) for w in network.weights], [-x for x in values[1:]], values[-1]
    L = strictly_lower(n, {(i - 1, i): slopes[i] * w[i] for i in range(1, n)})
    back = solve((I - L).T, [ZERO, ZERO, g])
    by_numbers = diagonal([slopes[i] * values[i] for i in range(n)]).T @ back
    rows = diagonal([slopes[i] * np.array([[values[i], 1.0]]) for i in range(n)])
    by_vectors = rows.T @ back
    by_operators = network.gradient()
    assert all(v.shape == (2, 1) for v in by_vectors)
    np.testing.assert_allclose([v[0, 0] for v in by_vectors], by_numbers, rtol=1e-15)
    np.testing.assert_allclose(np.concatenate(by_vectors), np.concatenate(by_operators), rtol=1e-14)


def test_e07_forward_reading_is_sensitivity_and_backward_reading_the_gradient() -> None:
    network = Network.random([4, 3, 2, 2], 5)
    rng = np.random.default_rng(7)
    direction = [rng.standard_normal(p.shape) for p in network.parameters]
    grouped, last = network.linearized(), network.layers()[-1]
    system = Linearized(grouped.M.flatten(), grouped.L)  # a column for each parameter
    change = system.sensitivity(direction)

    def layers_at(t: float) -> np.ndarray:
        moved = [p + t * d for p, d in zip(network.parameters, direction, strict=True)]
        return network.with_parameters(moved).layers()[-1]

    np.testing.assert_allclose(change[-1], (layers_at(1e-5) - layers_at(-1e-5)) / 2e-5, rtol=1e-6, atol=1e-8)
    gradient = system.gradient([ZERO, ZERO, last])
    assert sum(inner(a, b) for a, b in zip(gradient, direction, strict=True)) == pytest.approx(inner(last, change[-1]))
    # The Jacobian holds both: a row of it, read from the left by Gᵀ·, is the gradient.
    for element, expected in zip(system.jacobian().take([2], range(6)).elements(), gradient, strict=True):
        np.testing.assert_allclose((InnerProduct(last, "G") @ element).array, expected, rtol=1e-12)


def test_e08_adjoint_method_on_an_explicit_chain_is_back_substitution() -> None:
    network = Network.random([4, 3, 2, 2], 5)
    system, last = network.linearized(), network.layers()[-1]
    # F = x - φ(x, p): ∂F/∂x = I - L, ∂F/∂p = -M (eq. 10).
    found = adjoint_method(I - system.L, -system.M, [ZERO, ZERO, last])
    gradient = [element for pair in found.gradient for element in pair.elements()]
    assert distance(gradient, network.gradient()) == 0.0
    assert all(
        np.all(a == b) for a, b in zip(found.multiplier, solve((I - system.L).T, [ZERO, ZERO, last]), strict=True)
    )


def test_e08_adjoint_method_on_an_implicit_equation() -> None:
    """x + tanh(A x) = B p: a dense Jacobian, solved by Newton's method."""
    rng = np.random.default_rng(8)
    a, b, c = rng.standard_normal((4, 4)), rng.standard_normal((4, 2)), rng.standard_normal(4)
    a *= 0.4

    def jacobian(x: np.ndarray) -> np.ndarray:
        return np.eye(4) + (1 - np.tanh(a @ x) ** 2)[:, None] * a

    def x_of(p: np.ndarray) -> np.ndarray:
        return newton(lambda x: x + np.tanh(a @ x) - b @ p, jacobian, np.zeros(4))

    def objective(parameters: list[np.ndarray]) -> float:
        return float(0.5 * np.sum((c * x_of(parameters[0])) ** 2))

    p = rng.standard_normal(2)
    x = x_of(p)
    found = adjoint_method(jacobian(x), -b, c * c * x)
    np.testing.assert_allclose(found.gradient, differences(objective, [p], 1e-5)[0], rtol=1e-8)
    as_operators = adjoint_method(LeftMultiply(jacobian(x)), LeftMultiply(-b), c * c * x)
    np.testing.assert_allclose(as_operators.gradient, found.gradient, rtol=1e-12)


def test_e09_the_challenge() -> None:
    """Nets [5, 4, 3, 1], batch 10, h(x) = exp(-x), loss ½ |X|²; finite differences with 1e-4."""
    network = Network.random([5, 4, 3, 1], 10, scale=0.1)
    gradient = network.gradient()

    def error(eps: float) -> float:
        return distance(gradient, differences(lambda p: network.with_parameters(p).loss(), network.parameters, eps))

    assert error(1e-4) <= 2e-7
    assert error(4e-4) / error(1e-4) == pytest.approx(16, rel=0.1)  # all of it is the error of the differences
    arguments = [p[:, 0] if k % 2 else p for k, p in enumerate(network.parameters)]
    reverse = pb.grad(challenge_loss, wrt=("w1", "b1", "w2", "b2", "w3", "b3"))(*arguments, network.start)
    reverse = [np.reshape(r, g.shape) for r, g in zip(reverse, gradient, strict=True)]
    assert distance(gradient, reverse) <= 1e-14 * max(1.0, float(np.sqrt(sum(np.sum(g**2) for g in gradient))))


def test_e11_f22_operators_and_reverse_mode_give_the_same_c() -> None:
    """The paper leaves open what operators cost; here both routes are compiled to the same text."""
    parameters = ("w1", "b1", "w2", "b2", "w3", "b3")
    sizes = {"B": 5, "A": 4, "C": 3, "D": 1, "N": 10}
    by_reverse_mode = pb.grad(challenge_of_columns, wrt=parameters)
    texts = [f.c_source(names="canonical", comments=False, **sizes) for f in (challenge_by_operators, by_reverse_mode)]
    assert texts[0] == texts[1]
    network = Network.random([5, 4, 3, 1], 10, scale=0.1)
    for f, g in zip(challenge_by_operators(*network.parameters, network.start), network.gradient(), strict=True):
        np.testing.assert_allclose(f, g, rtol=1e-12, atol=1e-15)


def test_e09_f23_the_challenge_has_as_many_lines_as_the_page_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "back_substitution.md").read_text(encoding="utf-8")
    told = re.search(r"The network and its data take (\d+) lines, its gradient by back substitution (\d+)", page)
    block = page.split("from pullback.operators import Hadamard, InnerProduct")[1].split("```\n\nThe loss")[0]
    found = [n for n in block.splitlines()[1:] if n.strip() and not n.startswith(("print", "[", "`"))]
    start = found.index("x = layers(weights, biases)")
    assert told is not None
    assert [int(told[1]), int(told[2])] == [start, len(found) - start + 2]  # with the two lines of the formula


class Counted:
    """A number that counts its products."""

    products = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.value + other.value)

    def __neg__(self) -> Counted:
        return Counted(-self.value)

    def __sub__(self, other: Counted) -> Counted:
        return Counted(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        Counted.products += 1
        return Counted(self.value * other.value)


@pytest.mark.parametrize("structure", ["bidiagonal", "fully connected", "weight tied"])
def test_e10_work_is_one_product_for_each_edge(structure: str) -> None:
    n, rng = 30, np.random.default_rng(10)
    spread = range(1, n) if structure == "fully connected" else [1]
    weights = {(j, j + s): float(rng.standard_normal()) / n for s in spread for j in range(n - s)}
    tied = structure == "weight tied"
    feeds = {(i, 0 if tied else i): float(rng.standard_normal()) for i in range(n)}
    width = 1 if tied else n

    L = strictly_lower(n, {at: Counted(w) for at, w in weights.items()})
    M = BlockMatrix((n, width), {at: Counted(w) for at, w in feeds.items()})
    Counted.products = 0
    gradient = Linearized(M, L).gradient([ZERO] * (n - 1) + [Counted(1.0)])
    assert Counted.products == len(weights) + len(feeds)

    plain = strictly_lower(n, weights).to_dense()
    feed = BlockMatrix((n, width), feeds).to_dense()
    np.testing.assert_allclose(
        [e.value for e in gradient],
        feed.T @ np.linalg.solve((np.eye(n) - plain).T, np.eye(n)[-1]),
        rtol=1e-10,
        atol=1e-14,
    )


def test_e10_dense_and_tied_networks_of_operators() -> None:
    """Every layer sees all earlier ones, and one square matrix serves them all: x_i = exp(-W (x_0 + ... + x_{i-1}))."""
    rng, n, batch = np.random.default_rng(11), 4, 3
    w, start = 0.3 * rng.standard_normal((2, 2)), rng.standard_normal((2, batch))

    def layers(parameters: list[np.ndarray]) -> list[np.ndarray]:
        values = [start]
        for _ in range(n):
            values.append(np.exp(-(parameters[0] @ sum(values))))
        return values

    values = layers([w])
    slopes = [Hadamard(-x) for x in values[1:]]
    L = strictly_lower(n, {(j, i): slopes[i] @ LeftMultiply(w) for i in range(n) for j in range(i)})
    M = column([slopes[i] @ RightMultiply(sum(values[: i + 1])) for i in range(n)])
    (gradient,) = Linearized(M, L).gradient([ZERO] * (n - 1) + [values[-1]])
    expected = differences(lambda p: float(0.5 * np.sum(layers(p)[-1] ** 2)), [w], 1e-5)[0]
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9)


def test_e12_no_operator_is_taken_for_the_identity() -> None:
    x = np.array([1.0, 3.0])
    half = LeftMultiply([[2.0, 0.0], [0.0, 2.0]], "A")
    (solved,) = solve(diagonal([half]), [x])
    assert solved.tolist() == [0.5, 1.5]
    with pytest.raises(DerivativeError, match=r"E212.*L\[A\] \+ R\[A\]"):
        solve(diagonal([half + RightMultiply(half.array, "A")]), [x])
    with pytest.raises(DerivativeError, match="E212"):
        solve(diagonal([InnerProduct(x, "G")]), [x])
    with pytest.raises(DerivativeError, match="E213"):
        solve(diagonal([LeftMultiply(np.zeros((2, 2)), "A")]), [x])
    with pytest.raises(DerivativeError, match="E213"):
        solve(strictly_lower(1, {}), [x])


def test_e12_both_sides_of_the_adjoint_test_are_522() -> None:
    """The authors' notebook prints 522 and 529 for want of a transpose; here is an example with both numbers."""
    a = np.array([[7, 8], [7, 8]])
    x, y = np.array([[1, 6], [2, 1]]), np.array([[8, 1], [6, 3]])
    op = LeftMultiply(a)
    assert inner(y, op(x)) == inner(op.T(y), x) == 522
    assert inner(op(y), x) == 529  # without the transpose


# Omissions -----------------------------------------------------------------------------------------------------------


def test_f21_the_computation_its_edge_weights_and_its_path_weights() -> None:
    """Fig. 6 and algorithms 1 to 3: each line, its derivatives, and the overall derivatives, all by name."""

    def computed(x: Any, y: Any) -> Any:
        z = pb.sin(x)
        a = y * z
        return pb.sum(a * x)

    x, y = np.array([0.5, 1.5]), np.array([2.0, -1.0])
    found = pb.graph(computed, x, y)
    assert found.computation[:2] == ("z = build i < 2 { sin(x[i]) }", "a = build i < 2 { y[i] * z[i] }")  # algorithm 1
    assert len(found.computation) == len(found.nodes) - found.sources

    edges, ones = found.edge_weights, np.ones(2)  # algorithm 2
    np.testing.assert_allclose(edges["z", "x"](ones), np.cos(x))
    np.testing.assert_allclose(edges["a", "y"](ones), np.sin(x))
    np.testing.assert_allclose(edges["a", "z"](ones), y)
    assert ("a", "x") not in edges  # x reaches a by z alone
    assert len(edges) == len(found.L.entries)
    assert str(edges).splitlines()[0].startswith("∂z/∂x = H[")

    paths = found.path_weights  # algorithm 3
    np.testing.assert_allclose(paths["a", "x"](ones), y * np.cos(x))
    np.testing.assert_allclose(paths["sum", "x"].T(1.0), y * (np.sin(x) + x * np.cos(x)))
    np.testing.assert_allclose(paths["sum", "y"].T(1.0), x * np.sin(x))
    for name, gradient in zip(("x", "y"), found.gradient(), strict=True):
        np.testing.assert_allclose(paths["sum", name].T(1.0), gradient)
    assert "∇a/∇x = " in str(paths)

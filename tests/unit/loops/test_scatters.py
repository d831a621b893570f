"""Neighboring scatters as one loop nest: which are, and that each adds its terms as before."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pullback.errors import PullbackError
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.program import Program
from pullback.loops.memory.verify import verify_function
from pullback.loops.plain.scatters import MOST, scatters_size
from pullback.loops.program.nodes import Call, walk
from pullback.machine import AVX2, AVX512, NEON, SCALAR, SSE2, Machine
from pullback.runtime.compile import compiler_command
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program

needs_compiler = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")

INPUTS = "y: f64[{K}], b: f64[9], d: f64[{M}], at: i64[{K}, {J}], of: i64[{K}, {J}], row: i64[{K}]"
A = "a: f64[9] = scatter k < {K}, j < {J} {{ [data(at[k, j], 9)] += y[k] * as_f64(j + 1) * d[data(of[k, j], {M})] }}"
C = "c: f64[{M}] = scatter n < {K}, i < {J} {{ [data(of[n, i], {M})] += y[n] * b[data(at[n, i], 9)] }}"
ROWS = "r: f64[9, {J}] = scatter k < {K}, j < {J} {{ [data(row[k], 9), j] += y[k] }}"
SIZES = {"K": 40, "J": 6, "M": 30}


def program(*statements: str, outs: str, **sizes: int) -> Program:
    text = f"f({INPUTS}) {{{{ {' '.join(statements)} return {outs} }}}}"
    return parse_program(text.format(**{**SIZES, **sizes}))


def inputs(K: int = 40, J: int = 6, M: int = 30, seed: int = 0) -> list[NDArray]:
    """Numbers, and positions of which several are equal."""
    random = np.random.default_rng(seed)
    y, b, d = (random.normal(size=n) for n in (K, 9, M))
    return [y, b, d, random.integers(0, 9, (K, J)), random.integers(0, M, (K, J)), random.integers(0, 9, K)]


def together(p: Program, machine: Machine = AVX512) -> list[int]:
    """The numbers of arrays that kernels of scatters add to."""
    calls = [s for s in walk(lower_program(p, {}, machine=machine).function.body) if isinstance(s, Call)]
    return [c.kernel.choice.schedule.steps[0].statements for c in calls  # type: ignore[attr-defined]
            if c.kernel.choice is not None and c.kernel.choice.name == "scatters"]  # fmt: skip


@pytest.mark.parametrize("machine", [SSE2, NEON, AVX2, AVX512])
def test_neighbors_that_read_the_same_positions_are_one_nest(machine: Machine) -> None:
    assert together(program(A, C, outs="a, c"), machine) == [2]


def test_machines_without_vectors_keep_plain_loops() -> None:
    assert together(program(A, C, outs="a, c"), SCALAR) == []


OTHER = "c: f64[{M}] = scatter n < {J}, i < {K} {{ [data(of[i, n], {M})] += y[i] }}"
ZERO = "c: f64[{M}] = scatter n < {K}, i < {J} {{ [data(of[n, i], {M})] += f64(0.0) }}"


@pytest.mark.parametrize(("statements", "outs"), [
    ((A, OTHER), "a, c"),  # another space
    ((A, C.replace("b[data(at[n, i], 9)]", "a[data(at[n, i], 9)]")), "a, c"),  # reads the first
    ((A, "c: f64[{M}] = scatter n < {K}, i < {J} {{ [n % {M}] += y[n] }}"), "a, c"),  # reads no positions
    ((A, C.replace("y[n] *", "[n >= i] y[n] *")), "a, c"),  # fewer terms
    ((ROWS, ROWS.replace("r:", "s:").replace("y[k]", "b[j]")), "r, s"),  # rows
    ((A.replace("data(at", "check(at"), C), "a, c"),  # a check names its statement
])  # fmt: skip
def test_neighbors_that_stay_apart(statements: tuple[str, ...], outs: str) -> None:
    assert together(program(*statements, outs=outs, K=6 if OTHER in statements else 40, M=30)) == []


def test_one_term_is_no_loop() -> None:
    one = "s: f64[9] = scatter {{ [data(row[0], 9)] += y[0] }}"
    p = program(one, one.replace("s:", "t:"), outs="s, t")
    assert scatters_size(p.body.statements) == 1


TURNS = """{{ zero = build i < 9 {{ f64(1.0) }}
  other = build i < 9 {{ f64(2.0) }}
  last_a, last_b = fold t < 3 (s_a = zero, s_b = other) {{
    n_a: f64[9] = scatter k < {K}, j < {J} {{ [data(at[k, j], 9)] += y[k] * {read}[data(at[j, k % {J}], 9)] }}
    n_b: f64[9] = scatter n < {K}, i < {J} {{ [data(at[n, i], 9)] += y[n] * d[data(of[n, i], {M})] }}
    yield {order} }}
  return last_a, last_b }}"""


@pytest.mark.parametrize("order", ["n_a, n_b", "n_b, n_a"])
@pytest.mark.parametrize("read", ["s_a", "s_b", "b"])
def test_states_that_are_written_in_place(read: str, order: str) -> None:
    """The second must not write where the first reads."""
    p = parse_program(f"f({INPUTS}) {TURNS}".format(**SIZES, read=read, order=order))
    there = "s_b" if order == "n_a, n_b" else "s_a"
    assert together(p) == ([] if read == there else [2])
    if compiler_command() is not None:
        assert_same(p, inputs())


def test_a_nest_ends_where_one_of_its_arrays_is_read() -> None:
    third = C.replace("c:", "e:").replace("b[data(at[n, i], 9)]", "a[data(at[n, i], 9)]")
    p = program(A, C, third, outs="a, c, e")
    assert scatters_size(p.body.statements) == 2
    assert together(p) == [2]


def test_a_nest_has_few_arrays() -> None:
    many = [C.replace("c:", f"c{k}:").replace("y[n]", f"{k + 1}.0 * y[n]") for k in range(2 * MOST + 1)]
    p = program(*many, outs=", ".join(f"c{k}" for k in range(len(many))))
    assert scatters_size(p.body.statements) == MOST
    assert together(p) == [MOST, MOST]


def assert_same(p: Program, given: list[NDArray], threads: int = 1) -> None:
    executable = compile_program(p, {}, threads=threads)
    verify_function(executable.lowered.function, executable.lowered.memory)
    got, _, stray = executable.run_poisoned(given)
    assert stray == 0
    for g, w in zip(got, interpret(p, given, {}), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-13, atol=1e-13)


@needs_compiler
@pytest.mark.parametrize("machine", ["", "generic", "scalar", "sse2"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes", [{}, {"K": 1, "J": 1}, {"K": 3, "J": 17, "M": 2}, {"K": 20_000, "J": 5, "M": 70}])
def test_the_same_sums(sizes: dict[str, int], threads: int, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if machine:
        monkeypatch.setenv("PULLBACK_MACHINE", machine)
    assert_same(program(A, C, outs="a, c", **sizes), inputs(**{**SIZES, **sizes}), threads)


def neighbors(seed: int) -> Program:
    """Conditions, guards by data, products of both, and arrays that die at a neighbor."""
    random = np.random.default_rng(seed)
    conds = str(random.choice(["", "[j >= 1] ", "[k >= 2 * j] ", "[k >= 1, j >= 2] "]))
    terms = [
        "y[k]",
        "w[k]",
        "b[data(at[k, j], 9)]",
        "d[data(of[k, j], {M})]",
        "as_f64(2 * j - 3)",
        "w[data(row[k], 9)]",
    ]
    places = ["[data(at[k, j], 9)]", "[data(of[k, j], {M})]", "[data(at[k, j], 9), data(of[k, j], {M})]"]
    shapes = ["9", "{M}", "9, {M}"]
    statements, outs = ["w = build k < {K} {{ exp(y[k]) }}"], []
    for n in range(int(random.integers(2, 6))):
        place = int(random.integers(0, 3))
        value = " * ".join(str(t) for t in random.choice(terms, int(random.integers(1, 4))))
        guard = "y[k] > 0.0 ? {0} : {{{{}}}}" if random.random() < 0.3 else "{0}"
        outs.append(f"s{n}")
        statements.append(
            f"s{n}: f64[{shapes[place]}] = scatter k < {{K}}, j < {{J}} {{{{ {places[place]} += {conds}"
            f"({guard.format(value)}) }}}}"
        )
    return program(*statements, outs=", ".join(outs))


@needs_compiler
@pytest.mark.parametrize("seed", range(12))
def test_random_neighbors(seed: int) -> None:
    given = inputs(seed=seed)
    given[0][3] = (np.nan, np.inf, -np.inf, 0.0)[seed % 4]
    with np.errstate(invalid="ignore"):
        assert_same(neighbors(seed), given)


def test_most_random_neighbors_are_nests() -> None:
    assert sum(bool(together(neighbors(seed))) for seed in range(12)) >= 6


@needs_compiler
def test_failed_checks_name_their_statement() -> None:
    p = program(A.replace("data(at", "check(at"), C, outs="a, c")
    given = inputs()
    given[3][7, 2] = 9
    with pytest.raises(PullbackError, match="at"):
        compile_program(p, {}).run(given)

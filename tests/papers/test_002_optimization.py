"""Zhao and Huang, DeepDSL: what is done to the statements of a gradient (section 6) and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array
from pullback.ir.expr import Apply, Get
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Build, Program
from pullback.ir.traverse import specialize, walk
from pullback.loops.memory.verify import verify_function
from pullback.loops.program.nodes import Call
from pullback.loops.program.nodes import walk as walk_loops
from pullback.passes.pipeline import PASSES, chosen, stages
from pullback.rewrite.cse import eliminate_common, eliminate_dead
from pullback.rewrite.normal_form import normalize
from pullback.runtime.emit import lower_program
from pullback.runtime.executor import compile_program

RNG = np.random.default_rng(6)
Matrix = Float64[Array, "N M"]
Vector = Float64[Array, "M"]

# C17: common subexpressions, simplification, products by the library ------------------------------------------------


def test_c17_equal_statements_are_one() -> None:
    """Up to the names of indices and of the arrays that were equal before."""
    program = parse_program("""f(x: f64[N], y: f64[N]) {
        a = build n < N { exp(x[n]) } b = build m < N { exp(x[m]) }
        c = build n < N { a[n] * y[n] } d = build k < N { b[k] * y[k] }
        r = build n < N { c[n] + d[N - 1 - n] } return r }""")
    expected = parse_program("""f(x: f64[N], y: f64[N]) {
        a = build n < N { exp(x[n]) } c = build n < N { a[n] * y[n] }
        r = build n < N { c[n] + c[N - 1 - n] } return r }""")
    found = eliminate_dead(eliminate_common(program))
    assert structurally_equal(found, expected), print_program(found)


def test_c17_what_differs_stays_apart() -> None:
    program = parse_program("""f(x: f64[N], y: f64[N]) {
        a = build n < N { exp(x[n]) } b = build n < N { exp(y[n]) } c = build n < N { exp(x[N - 1 - n]) }
        return a, b, c }""")
    assert structurally_equal(eliminate_common(program), program)


def test_c17_a_gradient_computes_no_function_twice() -> None:
    """The derivatives of exp, tanh and logistic are read from their values: nothing is called again."""

    def loss(x: Matrix, w: Vector) -> Any:
        h = pb.tanh(x @ w)
        return pb.sum(pb.exp(h) * pb.logistic(h) + pb.exp(h))

    program = pb.value_and_grad(loss, wrt="w").program()
    found = eliminate_dead(eliminate_common(normalize(program)))
    called = [
        e.primitive.name
        for s in found.body.statements
        if isinstance(s, Build)
        for value in s.values
        for e in walk(value)
        if isinstance(e, Apply) and e.primitive.transcendental
    ]
    assert sorted(called) == ["exp", "logistic", "tanh"]


PRODUCTS: dict[str, Callable[..., Any]] = {
    "x @ w": lambda x, w: x @ w,
    "by index": lambda x, w: pb.build(
        (x.shape[0], w.shape[1]), lambda i, j: pb.sum_over(x.shape[1], lambda k: x[i, k] * w[k, j])
    ),
    "tensordot": lambda x, w: pb.tensordot(x, w, axes=1),
    "broadcast": lambda x, w: pb.sum(x[:, :, None] * w[None, :, :], axis=1),
    "in its gradient": lambda x, w: pb.grad(lambda v: pb.sum((x @ v) * (x @ v)))(w),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_c17_products_are_packed_however_they_are_written(name: str) -> None:
    def f(x: Float64[Array, "N K"], w: Float64[Array, "K M"]) -> Any:
        return PRODUCTS[name](x, w)

    function = lower_program(pb.function(f).program(), {"N": 320, "K": 300, "M": 310}).function
    kernels = {id(s.kernel): s.kernel for s in walk_loops(function.body) if isinstance(s, Call)}.values()
    assert any(b.name == "panels_b" for k in kernels for b in k.scratch), [k.name for k in kernels]


# C18: an update y ← α f + β y is one statement, without memory for f -------------------------------------------------

STEPS = 3


def trained(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Descent from w over data."""

    def train(w: Any, *data: Any) -> Any:
        return pb.fold(STEPS, w, lambda w, _: w - 0.125 * pb.grad(lambda v: loss(v, *data))(w))

    return train


def train_weights(w: Float64[Array, "M K"], x: Float64[Array, "N M"], y: Float64[Array, "N K"]) -> Any:
    return trained(lambda w, x, y: pb.sum((x @ w) * y))(w, x, y)


def train_filter(w: Float64[Array, "P Q"], x: Float64[Array, "H W"], y: Float64[Array, "H-P+1 W-Q+1"]) -> Any:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return pb.sum_over(y.shape, lambda i, j: y[i, j] * pb.sum_over(w.shape, lambda p, q: w[p, q] * x[i + p, j + q]))

    return trained(loss)(w, x, y)


def train_bias(w: Float64[Array, "K"], x: Float64[Array, "N K"]) -> Any:
    return trained(lambda b, x: pb.sum(x * (x + b)))(w, x)


UPDATES: dict[str, tuple[Callable[..., Any], dict[str, int], str]] = {
    "weights": (train_weights, {"M": 90, "K": 80, "N": 70}, "M K"),
    "filter": (train_filter, {"H": 60, "W": 61, "P": 24, "Q": 25}, "P Q"),
    "bias": (train_bias, {"N": 9, "K": 4000}, "K"),
}


@pytest.mark.parametrize("name", UPDATES)
def test_c18_an_update_needs_no_memory_for_the_gradient(name: str) -> None:
    f, dims, shape = UPDATES[name]
    program = pb.function(f).program()
    executable = compile_program(program, dims)
    inputs = [RNG.standard_normal([d.constant or 0 for d in r.shape]) for r in specialize(program, dims).inputs]
    (wanted,) = interpret(program, inputs, {})
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (executable.memory.peak_bytes, 0)
    np.testing.assert_allclose(run.outputs[0], wanted, rtol=1e-10, atol=1e-10)
    weights = 8 * int(np.prod([dims[d] for d in shape.split()]))
    arrays = [b for b in executable.memory.buffers if b.bytes >= weights and not b.name.startswith("panels")]
    assert not arrays, [(b.name, b.bytes) for b in arrays]


# C19: operations that write over what they read, and those that may not ---------------------------------------------

IN_PLACE = {
    "sum": "s[n] + y[n]",
    "scale": "2.0 * s[n]",
    "pointwise": "s[n] * y[n]",
    "activation": "tanh(s[n])",
    "derivative of an activation": "s[n] * (1.0 - y[n] * y[n])",
}
NOT_IN_PLACE = {
    "reversed": "s[N - 1 - n] + y[n]",
    "shifted": "[n >= 1] s[n - 1] + y[n]",
    "summed": "sum m < N { [n >= m] s[m] } * y[n]",
}


def repeated(element: str) -> Program:
    return parse_program(f"""f(x: f64[N], y: f64[N]) {{
        z = fold t < 5 (s = x) {{ u = build n < N {{ {element} + 0.25 * y[n] }} yield u }} return z }}""")


@pytest.mark.parametrize("name", [*IN_PLACE, *NOT_IN_PLACE])
def test_c19_in_place(name: str) -> None:
    """Where each element is read at its own place alone, the state is written over; else there is a second array."""
    n = 1000
    program = repeated((IN_PLACE | NOT_IN_PLACE)[name])
    executable = compile_program(program, {"N": n})
    verify_function(executable.lowered.function, executable.lowered.memory)
    assert executable.memory.peak_bytes == (0 if name in IN_PLACE else 8 * n)
    inputs = list(RNG.uniform(0.1, 0.2, (2, n)))
    run = executable.run_poisoned(inputs)
    np.testing.assert_allclose(run.outputs[0], interpret(program, inputs, {})[0], rtol=1e-12)


@pytest.mark.parametrize("name", IN_PLACE)
def test_c19_what_is_read_again_is_not_written_over(name: str) -> None:
    """The old state lives on in the other result, so that the same operation may not take its place."""
    n = 1000
    program = parse_program(f"""f(x: f64[N], y: f64[N]) {{
        z, w = fold t < 5 (s = x, a = y) {{
          u = build n < N {{ {IN_PLACE[name]} + 0.25 * y[n] }}
          v = build n < N {{ a[n] + s[N - 1 - n] * u[n] }} yield u, v }}
        return z, w }}""")
    executable = compile_program(program, {"N": n})
    verify_function(executable.lowered.function, executable.lowered.memory)
    inputs = list(RNG.uniform(0.1, 0.2, (2, n)))
    run = executable.run_poisoned(inputs)
    assert (run.peak, run.stray) == (executable.memory.peak_bytes, 0)
    assert run.peak >= 8 * n
    for found, wanted in zip(run.outputs, interpret(program, inputs, {}), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


# C21: the order of the passes, and a dump of what each one gives ------------------------------------------------------


def test_c21_order_of_passes() -> None:
    """Preparation, common subexpressions, merging; then loops are made, ordered and given memory."""
    names = [p.name for p in PASSES]
    order = ["normalize", "common", "dead", "fuse", "operands", "hoist", "gather"]
    assert [n for n in names if n in order] == order
    assert len(set(names)) == len(names)


def test_c21_every_stage_can_be_seen_and_means_the_same() -> None:
    def loss(x: Matrix, w: Vector, y: Float64[Array, "N"]) -> Any:
        r = pb.logistic(x @ w) - y
        return pb.sum(pb.exp(r) * r)

    derived = pb.grad(loss, wrt="w")
    program, dims = derived.program(), {"N": 5, "M": 4}
    inputs = [RNG.standard_normal(s) for s in ((5, 4), (4,), (5,))]
    (wanted,) = interpret(program, inputs, {})
    shown = derived.explain(**dims).stages
    made = stages(program, dims)
    expected = ["elaborated", "specialized", *(p.name for p in chosen(program.settings, "fastest"))]
    assert [s.name for s in made] == expected
    assert [s.name for s in shown] == [*expected, "kernels", "C"]
    for stage in made:
        (found,) = interpret(parse_program(print_program(stage.program)), inputs, {})
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=stage.name)


def test_c21_copies_of_arrays_are_gone() -> None:
    """Alias removal: statements that only rename or reorder what another one made leave no array."""

    def f(x: Matrix) -> Any:
        y = pb.exp(x)
        z = pb.build(y.shape, lambda n, m: y[n, m])
        return pb.sum(pb.matrix_transpose(z) * pb.matrix_transpose(x))

    program = stages(pb.function(f).program(), {"N": 5, "M": 4})[-1].program
    values = [v for s in program.body.statements if isinstance(s, Build) for v in s.values]
    assert values and not any(isinstance(v, Get) for v in values), print_program(program)
    assert sum(isinstance(e, Apply) for v in values for e in walk(v)) == 1

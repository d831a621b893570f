"""A32: functions in C that users bring along, in every place where a traced function may stand."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array, verbs
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program
from pullback.runtime.compile import find_compiler

CUBE = """
#include <math.h>
/* a line that is longer than the lines of generated C, which must stay so: */ // { y[0] = x[0] + x[1] + x[2] + x[3] }
static double third(double x) { return pow(x, 3.0); }
void cube(const double *x, double *y, int64_t N) {
    for (int64_t i = 0; i < N; ++i) y[i] = third(x[i]);
}
void cube_back(const double *x, const double *bar, double *y, int64_t N) {
    for (int64_t i = 0; i < N; ++i) y[i] = 3.0 * x[i] * x[i] * bar[i];
}
"""
SPRING = """
void spring(const double *x, const double *k, double *y, double *energy, int64_t n) {
    *energy = 0.0;
    for (int64_t i = 0; i < n; ++i) {
        y[i] = -*k * x[i];
        *energy += 0.5 * *k * x[i] * x[i];
    }
}
"""
cube_back = pb.external(CUBE, "cube_back(x: f64[N], bar: f64[N]) -> f64[N]",
                        jvp=lambda p, out, t: 6 * p[0] * p[1] * t[0] + 3 * p[0] ** 2 * t[1])  # fmt: skip
cube = pb.external(CUBE, "cube(x: f64[N]) -> f64[N]", vjp=lambda p, out, bar: (cube_back(p[0], bar),))
spring = pb.external(SPRING, "(x: f64[N], k: f64) -> (f64[N], f64)",
                     jvp=lambda p, out, t: (-p[1] * t[0] - t[1] * p[0],
                                            p[1] * pb.sum(p[0] * t[0]) + 0.5 * t[1] * pb.sum(p[0] ** 2)))  # fmt: skip
X = np.array([[0.3, -0.8, 1.1, 0.5], [0.4, -0.7, 1.2, 0.6], [0.2, 0.1, -0.4, 0.9]])


def rows(x: Any) -> Any:
    """`cube` of each row, inside a `build`."""
    return pb.build(x.shape, lambda i, j: cube(x[i])[j] * x[i, j])


def branch(x: Any) -> Any:
    return pb.cond(x[0] > 0.25, cube, lambda y: 2.0 * y, x)


PLACES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "alone": (lambda x: cube(pb.sin(x[0])), lambda x: np.sin(x[0]) ** 3),
    "two results": (lambda x: spring(x[0], 2.0)[0] * spring(x[1], x[2, 0])[1],
                    lambda x: -2 * x[0] * 0.5 * x[2, 0] * (x[1] ** 2).sum()),
    "build": (rows, lambda x: x**4),
    "sum_over": (lambda x: pb.sum_over(3, lambda i: cube(pb.build(4, lambda k: x[i, k] * i))[1]),
                 lambda x: ((np.arange(3) * x[:, 1]) ** 3).sum()),
    "fold": (lambda x: pb.fold(3, x[0], lambda s, i: cube(s) + 0.1 * x[i]),
             lambda x: ((x[0] ** 3 + 0.1 * x[0]) ** 3 + 0.1 * x[1]) ** 3 + 0.1 * x[2]),
    "scan": (lambda x: pb.scan(2, x[0], lambda s, i: (cube(s), cube(x[i])))[1], lambda x: x[:2] ** 3),
    "cond": (lambda x: branch(x[0]) + branch(x[2]), lambda x: x[0] ** 3 + 2.0 * x[2]),
    "while": (lambda x: pb.while_loop(lambda s: pb.sum(s) < 3.0, lambda s: cube(s) + s + 0.5, x[0], max_trips=9),
              lambda x: (y := x[0] ** 3 + x[0] + 0.5) if (x[0] ** 3 + x[0] + 0.5).sum() >= 3.0 else y**3 + y + 0.5),
    "vmap": (lambda x: pb.vmap(cube)(x), lambda x: x**3),
    "vmap twice": (lambda x: pb.vmap(pb.vmap(cube))(pb.reshape(x, (3, 2, 2))), lambda x: x**3),
    "vmap of cond": (lambda x: pb.vmap(branch)(x), lambda x: np.where(x[:, :1] > 0.25, x**3, 2.0 * x)),
    "checkpoint": (lambda x: pb.checkpoint(lambda y: cube(pb.sin(y)))(x[0]), lambda x: np.sin(x[0]) ** 3),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a32_everywhere(place: str) -> None:
    """Interpreter and C give the function, and gradients what differences of it give."""
    f, meaning = PLACES[place]

    @pb.function
    def loss(x: Float64[Array, "3 4"]):
        return pb.sum(pb.sin(f(x)))

    def direct(x: np.ndarray[Any, Any]) -> float:
        return float(np.sin(meaning(x)).sum())

    np.testing.assert_allclose([loss(X), loss.interpret(X)], direct(X), rtol=1e-12)
    gradient = pb.grad(loss)
    steps = 1e-6 * np.eye(12).reshape(12, 3, 4)
    differences = np.array([(direct(X + h) - direct(X - h)) / 2e-6 for h in steps]).reshape(3, 4)
    for found in (gradient(X), gradient.interpret(X)):
        np.testing.assert_allclose(found, differences, rtol=1e-7, atol=1e-7)
    text = print_program(gradient.program())
    assert "external" in text and print_program(parse_program(text)) == text


def test_a32_in_a_line_of_verbs() -> None:
    """A kernel of the user's among rank verbs: on each row, and reduced by a sum."""
    f = pb.function(lambda x: verbs.reduce(lambda a, b: a + b, verbs.rank(cube, 1)(x), axis=0))
    np.testing.assert_allclose([f(X), f.interpret(X)], [(X**3).sum(axis=0)] * 2, rtol=1e-12)
    np.testing.assert_allclose(pb.grad(lambda x: pb.sum(f(x)))(X), 3 * X**2, rtol=1e-12)


def test_every_mode_and_order() -> None:
    x = X[0]
    expected = np.diag(3 * x**2)
    for mode in ("forward", "reverse", "mixed", "auto"):
        np.testing.assert_allclose(pb.jacobian(cube, mode=mode)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(pb.hessian(lambda x: pb.sum(cube(x)))(x), np.diag(6 * x), rtol=1e-12)
    np.testing.assert_allclose(pb.jacobian(cube, sparse=True)(x).toarray(), expected, rtol=1e-12)


def test_other_ways_to_run() -> None:
    f = pb.function(lambda x: cube(x) * x)
    x = np.linspace(-1, 1, 3000)
    for made in (f, pb.function(f.python, debug=True), pb.function(f.python, memory="least"),
                 pb.function(f.python, specialize="never")):  # fmt: skip
        np.testing.assert_allclose(made(x), x**4, rtol=1e-12)
    assert cube(np.zeros(0)).shape == (0,)
    assert cube(x=x[:2]).tolist() == (x[:2] ** 3).tolist()
    batch = pb.function(lambda x: pb.vmap(cube)(x), threads=2)
    np.testing.assert_allclose(batch(x.reshape(30, 100)), x.reshape(30, 100) ** 3, rtol=1e-12)
    assert pickle.loads(pickle.dumps(cube))(x[:1]) == x[0] ** 3


def test_types() -> None:
    """Element types as C has them, and dims of results that follow from several."""
    source = """void join(const float *a, const int32_t *b, const bool *keep, float *out, int64_t n, int64_t m) {
        for (int64_t i = 0; i < n + m; ++i) out[i] = *keep ? (i < n ? a[i] : (float)b[i - n]) : 0.0f;
    }"""
    join = pb.external(source, "join(a: f32[N], b: i32[M], keep: bool) -> f32[N + M]")
    assert join.type == "(a: f32[N], b: i32[M], keep: bool) -> f32[M + N]"
    a, b = np.ones(2, np.float32), np.arange(3, dtype=np.int32)
    assert join(a, b, True).tolist() == join.interpret(a, b, True).tolist() == [1, 1, 0, 1, 2]


def test_a32_export(tmp_path: Path) -> None:
    """The definition is in the exported C, which compiles without anything else and checks itself."""

    @pb.function
    def cube(x: Float64[Array, "N"], k: Float64[Array, ""]):  # a name that the C has, too
        return globals()["cube"](x) + spring(x, k)[0] + globals()["cube"](2.0 * x)

    made = pb.value_and_grad(pb.function(lambda x, k: pb.sum(cube(x, k))))
    made(X[0], 2.0)
    for f, dims in ((cube, {"N": 4}), (made, {})):
        folder = tmp_path / f.name
        f.export(folder, **dims)
        (source,) = (p for p in folder.glob("*.c") if p.name != "main.c")
        assert source.read_text().count("static double third") == 1
        sources = [str(p) for p in folder.glob("*.c")]
        warnings = ["-Wall", "-Wextra", "-Wno-comment", "-Werror", "-Wno-unused-function"]
        command = [*find_compiler().command, "-std=gnu99", *warnings, *sources, "-lm", "-o", folder / "main"]
        subprocess.run(command, check=True)
        assert subprocess.run([folder / "main"], check=False).returncode == 0


def test_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "cube.c").write_text(CUBE)
    assert pb.external(str(tmp_path / "cube.c"), "cube(x: f64[N]) -> f64[N]")(np.array([2.0])) == 8.0

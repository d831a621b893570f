"""least_squares: known problems, bundle adjustment, derivatives beside differences, C, and failures."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64, Int64
from scipy import optimize

import pullback as pb
from pullback import Array, DerivativeError, TraceError, UnfinishedError

BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])
KOWALIK = np.array([0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
PLACES = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def bard(x: Any) -> Any:
    u = np.arange(1.0, 16.0)
    v = 16.0 - u
    return BARD - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


def kowalik(x: Any) -> Any:
    return KOWALIK - x[0] * (PLACES**2 + PLACES * x[1]) / (PLACES**2 + PLACES * x[2] + x[3])


def freudenstein(x: Any) -> Any:
    return [-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1], -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]]


# Moré, Garbow and Hillstrom 1981: residuals, the start, and the sum of their squares at the minimum.
PROBLEMS: dict[str, tuple[Callable[[Any], Any], list[float], tuple[float, ...]]] = {
    "rosenbrock": (lambda x: [10 * (x[1] - x[0] ** 2), 1 - x[0]], [-1.2, 1.0], (0.0,)),
    "freudenstein": (freudenstein, [0.5, -2.0], (0.0, 48.98425)),
    "beale": (
        lambda x: [y - x[0] * (1 - x[1] ** (k + 1)) for k, y in enumerate((1.5, 2.25, 2.625))], [1.0, 1.0], (0.0,)
    ),
    "bard": (bard, [1.0, 1.0, 1.0], (8.21487e-3, 17.4286)),
    "powell": (
        lambda x: [x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10**0.5 * (x[0] - x[3]) ** 2],
        [3.0, -1.0, 0.0, 1.0], (0.0,),
    ),
    "kowalik": (kowalik, [0.25, 0.39, 0.415, 0.39], (3.07505e-4, 1.02734e-3)),
    "wood": (
        lambda x: [10 * (x[1] - x[0] ** 2), 1 - x[0], 90**0.5 * (x[3] - x[2] ** 2), 1 - x[2],
                   10**0.5 * (x[1] + x[3] - 2), 10**-0.5 * (x[1] - x[3])],
        [-3.0, -1.0, -3.0, -1.0], (0.0,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("solver", ["cholesky", "cg", "sparse"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_known_minima(name: str, solver: str) -> None:
    residuals, start, minima = PROBLEMS[name]
    rows = (lambda x: pb.stack(list(residuals(x)))) if isinstance(residuals(start), list) else residuals

    def found(x0: Any) -> Any:
        return pb.least_squares(rows, x0, solver=solver, tol=1e-7, max_steps=2000)

    x = pb.function(found)(np.array(start))
    square = float(np.sum(np.square(residuals(x))))
    assert min(abs(square - m) for m in minima) < 1e-5 * max(1e-3, *minima), square


def rotated(w: Any, x: Any, xp: Any) -> Any:
    """The rotation of x by the vector w (Rodrigues), for |w| > 0."""
    angle = xp.sqrt(w[0] ** 2 + w[1] ** 2 + w[2] ** 2)
    k = w / angle
    cross = xp.stack([k[1] * x[2] - k[2] * x[1], k[2] * x[0] - k[0] * x[2], k[0] * x[1] - k[1] * x[0]])
    return x * xp.cos(angle) + cross * xp.sin(angle) + k * ((k * x).sum() * (1 - xp.cos(angle)))


def projected(camera: Any, point: Any, xp: Any) -> Any:
    """The image of a point: rotation, translation, division, focal length and a radial distortion."""
    at = rotated(camera[:3], point, xp) + camera[3:6]
    flat = -at[:2] / at[2]
    square = (flat * flat).sum()
    return flat * (camera[6] * (1 + camera[7] * square))


CAMERAS, POINTS = 3, 9


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cholesky", "cg", "sparse"])
def test_f18_bundle_adjustment(solver: str) -> None:
    """Cameras and points are found again from images, from a start near them; some images are not seen."""
    r = np.random.default_rng(4)
    cameras = np.concatenate([r.normal(size=(CAMERAS, 3)) * 0.2 + 0.1, r.normal(size=(CAMERAS, 2)) * 0.3,
                              -5.0 + 0.3 * r.normal(size=(CAMERAS, 1)), 1.5 + 0.1 * r.random((CAMERAS, 1)),
                              0.05 * r.normal(size=(CAMERAS, 1))], axis=1)  # fmt: skip
    points = r.normal(size=(POINTS, 3))
    pairs = np.array([(c, p) for c in range(CAMERAS) for p in range(POINTS) if (c + p) % 7])
    seen = np.stack([projected(cameras[c], points[p], np) for c, p in pairs])
    first = {"cameras": cameras, "points": points + 0.02 * r.normal(size=points.shape)}

    def errors(x: Any, seen: Any) -> Any:
        cameras, points = pb.take(x["cameras"], pairs[:, 0], axis=0), pb.take(x["points"], pairs[:, 1], axis=0)
        return pb.vmap(pb.function(lambda camera, point: projected(camera, point, pb)))(cameras, points) - seen

    def cost(x: dict[str, np.ndarray]) -> float:
        found = [projected(x["cameras"][c], x["points"][p], np) for c, p in pairs]
        return float(np.square(np.stack(found) - seen).sum())

    run = pb.function(lambda first, seen: pb.least_squares(errors, first, seen, solver=solver, max_steps=300))
    found = run(first, seen)
    assert cost(first) > 1e-3
    assert cost(found) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("by", [-1, 1, 2])
def test_sparse_steps_leave_out_what_lies_beyond_an_end(by: int) -> None:
    """A residual at an end has fewer unknowns; the same minimum as by a dense factor."""

    def errors(x: Any, y: Any) -> Any:
        n = x.shape[0]
        return pb.build(n, lambda i: pb.exp(0.3 * x[i]) - 0.5 * x.at(i + by, fill=0.7) * x[i] - y[i])

    first, y = np.linspace(0.1, 0.9, 7), np.linspace(1.1, 1.3, 7)
    found = [pb.function(lambda x, y: pb.least_squares(errors, x, y, solver=solver, max_steps=200))(first, y)
             for solver in ("sparse", "cholesky")]  # fmt: skip
    np.testing.assert_allclose(*found, rtol=1e-6)


def decay(p: Any, t: Any, y: Any) -> Any:
    return p["size"] * pb.exp(p["rate"] * t) - y


def bundle() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cameras and points near the true ones, the pairs of a camera and a point it sees, and noisy images."""
    r = np.random.default_rng(4)
    low, high = [-0.2, -0.2, 0.1, -0.3, -0.3, -5.3, 1.4, 0.01], [0.2, 0.2, 0.3, 0.3, 0.3, -4.7, 1.6, 0.05]
    cameras, points = r.uniform(low, high, (CAMERAS, 8)), r.normal(size=(POINTS, 3))
    pairs = np.array([(c, p) for c in range(CAMERAS) for p in range(POINTS) if (c + p) % 7])
    seen = np.stack([projected(cameras[c], points[p], np) for c, p in pairs])
    seen += 1e-3 * r.normal(size=seen.shape)
    return cameras + 1e-2 * r.normal(size=cameras.shape), points + 0.05 * r.normal(size=points.shape), pairs, seen


@pytest.mark.slow
def test_f18_a_sparse_bundle_in_exported_c_is_that_of_scipy(tmp_path: Path) -> None:
    """One entry of the Jacobian for each camera's and point's number that is in an image, none for all others."""
    cameras, points, pairs, seen = bundle()

    def errors(x: Any, first: Any, seen: Any, pairs: Any) -> Any:
        own = pb.take(x["cameras"], pairs[:, 0], axis=0), pb.take(x["points"], pairs[:, 1], axis=0)
        images = pb.vmap(pb.function(lambda camera, point: projected(camera, point, pb)))(*own)
        return {"images": images - seen, "near": 0.1 * (x["cameras"] - first)}

    @pb.function
    def adjusted(
        cameras: Float64[Array, "3 8"], points: Float64[Array, "9 3"], seen: Float64[Array, "E 2"],
        pairs: Int64[Array, "E 2"],
    ) -> Any:  # fmt: skip
        start = {"cameras": cameras, "points": points}
        found = pb.least_squares(errors, start, cameras, seen, pairs, solver="sparse")
        return found["cameras"], found["points"]

    def flat(v: np.ndarray) -> np.ndarray:
        c, p = v[: cameras.size].reshape(cameras.shape), v[cameras.size :].reshape(points.shape)
        images = np.stack([projected(c[i], p[j], np) for i, j in pairs]) - seen
        return np.concatenate([images.ravel(), 0.1 * (c - cameras).ravel()])

    start = np.concatenate([cameras.ravel(), points.ravel()])
    ends: Any = {"xtol": 1e-9, "ftol": 1e-12, "gtol": 1e-8, "max_nfev": 30}
    expected = optimize.least_squares(flat, start, jac="3-point", method="trf", tr_solver="lsmr", **ends)

    adjusted.export(tmp_path, E=len(pairs))
    library = tmp_path / "adjusted.so"
    command = ["cc", "-std=c99", "-O0", "-shared", "-fPIC", "adjusted.c", "-o", library.name, "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    room = int((tmp_path / "adjusted.h").read_text().partition("ADJUSTED_ARENA_BYTES ")[2].split()[0])
    results, arena = (np.empty_like(cameras), np.empty_like(points)), np.empty(room + 64, np.uint8)
    at = [a.ctypes.data for a in (cameras, points, seen, pairs, *results)]
    at.append(arena.ctypes.data + -arena.ctypes.data % 64)
    fault = (ctypes.c_int64 * 2)()
    assert ctypes.CDLL(str(library)).adjusted(*map(ctypes.c_void_p, at), fault) == 0
    found = np.concatenate([r.ravel() for r in results])
    np.testing.assert_allclose(found, expected.x, atol=1e-3)  # the valley is flat, and SciPy ends a little earlier
    cost = np.square(flat(found)).sum() / 2
    assert cost == pytest.approx(expected.cost, rel=1e-4)
    assert cost <= expected.cost * (1 + 1e-9)
    assert np.square(flat(start)).sum() > 100 * expected.cost


def test_dense_residuals_have_no_entries() -> None:
    fit = pb.function(lambda x: pb.least_squares(lambda x: pb.sum(x) * x, x, solver="sparse"))
    with pytest.raises(DerivativeError, match=r"\[E204\] least_squares: .* is dense") as error:
        fit(np.ones(3))
    assert 'try: solver="cg" or "cholesky"' in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_derivatives_are_those_of_the_minimum(solver: str) -> None:
    """By data that is not fitted exactly, where the curvature of the residuals counts."""
    t = np.linspace(0.0, 1.0, 6)
    y = 2.0 * np.exp(-3.0 * t) + 0.2 * np.sin(9.0 * t)

    def rate(t: Any, y: Any) -> Any:
        first = {"size": pb.asarray(1.0), "rate": pb.asarray(0.0)}
        return pb.least_squares(decay, first, t, y, solver=solver, tol=1e-12)["rate"]

    run = pb.function(rate)
    steps = np.eye(6) * 1e-5
    for wrt in ("t", "y"):
        found = pb.grad(rate, wrt=wrt)(t, y)
        moved = [run(t + e, y) - run(t - e, y) if wrt == "t" else run(t, y + e) - run(t, y - e) for e in steps]
        np.testing.assert_allclose(found, np.array(moved) / 2e-5, rtol=1e-6, atol=1e-8)


@pb.function
def line(t: Float64[Array, "N"], y: Float64[Array, "N"]):
    """A line by least squares: one step from any start."""
    return pb.least_squares(lambda p, t, y: p[0] + p[1] * t - y, np.zeros(2), t, y)


@pytest.mark.slow
def test_linear_problems_and_c(tmp_path: Path) -> None:
    r = np.random.default_rng(2)
    t, y = r.normal(size=20), r.normal(size=20)
    a = np.stack([np.ones(20), t], axis=1)
    np.testing.assert_allclose(line(t, y), np.linalg.lstsq(a, y, rcond=None)[0], rtol=1e-7)
    jacobian = pb.jacobian(line, wrt="y")(t, y)
    np.testing.assert_allclose(jacobian, np.linalg.pinv(a), atol=1e-9)
    (tmp_path / "line.c").write_text(line.c_source())
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "line.c"]
    subprocess.run(["cc", *flags], cwd=tmp_path, check=True)


def test_unknowns_that_no_residual_reads_stay() -> None:
    f = pb.function(lambda x: pb.least_squares(lambda x: x[:1] - 3.0, x))
    assert f(np.array([0.0, 7.0])) == pytest.approx([3.0, 7.0])


@pytest.mark.slow
def test_failures() -> None:
    rosenbrock = lambda x: pb.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    start = np.array([-1.2, 1.0])
    with pytest.raises(UnfinishedError) as error:
        pb.function(lambda x: pb.least_squares(rosenbrock, x, max_steps=3))(start)
    told = [n for n in str(error.value).splitlines() if n.startswith(("UnfinishedError", "  try"))]
    assert told == [
        "UnfinishedError [E404] least_squares: the partial derivatives are not within the tolerance after "
        "max_steps steps, or a value is not finite",
        '  try: another x0, a larger max_steps or tolerance; at_limit="report" gives a bool that says so beside the '
        "result      See `pullback explain-error E404`",
    ]
    x, failed = pb.function(lambda x: pb.least_squares(rosenbrock, x, max_steps=3, at_limit="report"))(start)
    assert failed and np.isfinite(x).all()
    x, failed = pb.function(lambda x: pb.least_squares(rosenbrock, x, at_limit="report"))(start * np.nan)
    assert failed
    with pytest.raises(TraceError) as wrong:
        pb.function(lambda x: pb.least_squares(rosenbrock, x, solver="lu"))(start)
    told = [n for n in str(wrong.value).splitlines() if not n.startswith(("  -->", "   |"))]
    assert told == [
        "TraceError [E144] least_squares: solver='lu' is none of 'cholesky', 'cg', 'sparse'",
        '  try: "cholesky", or "sparse" or "cg" for many unknowns      See `pullback explain-error E144`',
    ]

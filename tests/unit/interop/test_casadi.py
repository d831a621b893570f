"""CasADi loads our C by its own interface: values, derivatives with their patterns, and a solver on top."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32, Float64

import pullback as pb
from pullback import Array
from pullback.errors import TraceError
from pullback.interop.casadi import export
from tests.strict import QUIET


@pb.function
def model(x: Float64[Array, "N 2"], k: Float64[Array, ""]):
    return pb.sin(x[:, 0]) * k, x.T * 2.0, pb.sum(x[1:, 0] * x[:-1, 1])


def compiled(f: Any, folder: Path, **dims: int) -> str:
    files = [name for name in export(f, folder, **dims) if name.endswith(".c")]
    flags = ["-std=gnu99", "-O1", "-Wall", *QUIET, "-Werror", "-fPIC", "-shared"]
    subprocess.run(["cc", *flags, *files, "-o", str(folder / "f.so"), "-lm"], check=True)
    return str(folder / "f.so")


def test_casadi_loads_a_function_with_its_jacobian(tmp_path: Path) -> None:
    casadi = pytest.importorskip("casadi", reason="CasADi is a peer, not a dependency")
    f = casadi.external("model", compiled(model, tmp_path, N=3))
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=(3, 2)), 1.5
    for ours, theirs in zip(model(x, np.array(k)), f(x, k), strict=True):
        np.testing.assert_array_equal(np.asarray(theirs).reshape(np.shape(ours)), ours)
    s, t = casadi.MX.sym("s", 3, 2), casadi.MX.sym("t")
    assert [str(f.sparsity_out(i)) for i in range(3)] == ["3x1", "2x3", "1x1"]
    for i, y in enumerate(f(s, t)):
        slope = casadi.Function("g", [s, t], [casadi.jacobian(y, casadi.vertcat(casadi.vec(s), t))])
        got = np.asarray(slope(x, k))
        for column in range(7):
            change = np.zeros(7)
            change[column] = 1e-6
            dx, dk = change[:6].reshape(2, 3).T, change[6]
            up, down = (np.asarray(model(x + sign * dx, np.array(k + sign * dk))[i]).T.reshape(-1) for sign in (1, -1))
            np.testing.assert_allclose(got[:, column], (up - down) / 2e-6, atol=1e-8)
    assert f.jacobian().nnz_out(0) == 3  # each sine of its own element


def test_a_solver_of_casadi_uses_it(tmp_path: Path) -> None:
    casadi = pytest.importorskip("casadi", reason="CasADi is a peer, not a dependency")

    @pb.function
    def circle(x: Float64[Array, "2"]):
        return pb.stack([x[0] ** 2 + x[1] ** 2 - 4.0, x[0] - x[1]])

    f = casadi.external("circle", compiled(circle, tmp_path))
    x = casadi.MX.sym("x", 2)
    root = casadi.rootfinder("root", "newton", {"x": x, "g": f(x)})
    np.testing.assert_allclose(np.asarray(root(np.array([1.0, 2.0]), [])[0]).ravel(), np.sqrt(2.0), rtol=1e-10)


def test_the_text_of_the_interface(tmp_path: Path) -> None:
    text = Path(export(model, tmp_path, N=3)[0]).read_text()
    assert "int model(const casadi_real **arg, casadi_real **res, casadi_int *iw, casadi_real *w, int mem) {" in text
    for name in ("model", "jac_model"):
        for part in ("n_in", "n_out", "name_in", "name_out", "sparsity_in", "sparsity_out", "work"):
            assert f" {name}_{part}(" in text or f"*{name}_{part}(" in text
    with pytest.raises(TraceError, match=r"\[E531\] half: CasADi's functions are of arrays of f64"):
        export(half, tmp_path)


@pb.function
def half(x: Float32[Array, "2"]):
    return x * 0.5

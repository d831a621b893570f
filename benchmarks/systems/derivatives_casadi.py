"""Derivatives by CasADi: generated C, compiled with -O3 and called like our compiled functions."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.systems.derivatives_c import call, entry
from pullback.runtime.compile import compiled_library

if TYPE_CHECKING:
    from benchmarks.derivatives import DerivativeCase

__all__ = ["FORMS", "prepare"]

# a dense Jacobian of 10^6 elements and more takes CasADi minutes to build
FORMS = dict.fromkeys(("dot", "max", "plus", "scale", "lse", "nnmf", "nnmf-10", "nnmf-50", "blocks"), ("generated C",))
NAME = "derivative"


def _point(ca: Any, p: Any, x: Any) -> Any:
    r, c, f, center, k = p[0:3], p[3:6], p[6], p[7:9], p[9:11]
    angle = ca.sqrt(ca.dot(r, r))
    v, z = r / angle, x - c
    y = z * ca.cos(angle) + ca.cross(v, z) * ca.sin(angle) + v * ca.dot(v, z) * (1 - ca.cos(angle))
    e = y[0:2] / y[2]
    q = ca.dot(e, e)
    return e * (1 + k[0] * q + k[1] * q * q) * f + center


def _function(ca: Any, name: str, n: int) -> Any:
    """A CasADi function whose outputs lie in memory as ours do (its matrices are stored by columns)."""
    v, w, s = ca.MX.sym("v", n), ca.MX.sym("w", n), ca.MX.sym("s")
    both: list[Any]
    if name == "dot":
        f = ca.dot(v, w)
        return ca.Function(NAME, [v, w], [ca.gradient(f, v), ca.gradient(f, w)])
    if name == "max":
        return ca.Function(NAME, [v], [ca.gradient(ca.mmax(v), v)])
    if name == "plus":
        return ca.Function(NAME, [v, w], [ca.densify(ca.jacobian(v + w, v))])
    if name == "scale":
        return ca.Function(NAME, [s, v], [ca.jacobian(s * v, s)])
    if name == "lse":
        return ca.Function(NAME, [v], [ca.gradient(ca.logsumexp(v), v)])
    if name.startswith("nnmf"):
        k = int(name.partition("-")[2] or 1)
        a, wt, ht = ca.MX.sym("a", n, n), ca.MX.sym("w", k, n), ca.MX.sym("h", n, k)  # the transposes of ours
        p = ca.mtimes(ht, wt)
        f = ca.sum1(ca.sum2(ca.log(p) + a / p))
        both = [ca.gradient(f, wt), ca.gradient(f, ht)]
        return ca.Function(NAME, [a, wt, ht], both)
    p, x = ca.SX.sym("p", 11), ca.SX.sym("x", 3)
    f = _point(ca, p, x)
    one = ca.Function("point", [p, x], [ca.densify(ca.jacobian(f, p)).T, ca.densify(ca.jacobian(f, x)).T])
    p, x = ca.MX.sym("p", 11), ca.MX.sym("x", 3, n)
    return ca.Function(NAME, [p, x], one.map(n, [True, False], [False, False])(p, x))


_WRAPPER = """
int wrapped({parameters}, void *arena) {{
    const casadi_real *arg[{arguments}] = {{{inputs}}};
    casadi_real *res[{results}] = {{{outputs}}};
    static casadi_int integers[{integers}];
    static casadi_real reals[{reals}];
    (void)arena;
    return derivative(arg, res, integers, reals, 0);
}}
"""


def prepare(case: DerivativeCase, n: int, form: str) -> Callable[[], Any]:
    """A call of the generated C, through one function of our convention."""
    ca = import_module("casadi")
    function = _function(ca, case.name, n)
    inputs, outputs = case.make(n), case.outputs(n)
    before = os.getcwd()
    generator = ca.CodeGenerator("derivative.c")
    generator.add(function)
    text = generator.dump()
    assert os.getcwd() == before
    names = [f"x{k}" for k in range(len(inputs))], [f"y{k}" for k in range(len(outputs))]
    wrapper = _WRAPPER.format(
        parameters=", ".join([f"const double *{x}" for x in names[0]] + [f"double *{y}" for y in names[1]]),
        inputs=", ".join(names[0]),
        outputs=", ".join(names[1]),
        arguments=function.sz_arg() + 1,
        results=function.sz_res() + 1,
        integers=function.sz_iw() + 1,
        reals=function.sz_w() + 1,
    )
    path = compiled_library(text + wrapper, ("-O3",))
    return call(entry(path, "wrapped", inputs, outputs, 0), inputs, outputs)

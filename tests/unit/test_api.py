"""Functions: calls in and out of NumPy, calls of one another, derivatives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from jaxtyping import Float, Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.calls import compiled, table
from pullback.errors import UsageError
from pullback.ir.verify import verify
from pullback.runtime.compile import compiler_command


class Params(NamedTuple):
    w: Float64[Array, "K M"]
    b: Float64[Array, "K"]


@pb.function
def dense(p: Params, x: Float64[Array, "M"]):
    """One layer."""
    return p.w @ x + p.b


@pb.function
def loss(p: Params, x: Float64[Array, "N M"], y: Int64[Array, "N"]):
    y = pb.in_range(y, p.b.shape[0])

    def one(n):
        z = dense(p, x[n])
        return pb.log(pb.sum(pb.exp(z))) - z[y[n]]

    return pb.mean(pb.build(x.shape[0], one))


@pb.function
def energy(x: Float64[Array, "N"]):
    return pb.sum(x**3) / 3


def arguments():
    rng = np.random.default_rng(0)
    return Params(rng.normal(size=(2, 3)), rng.normal(size=2)), rng.normal(size=(4, 3)), np.array([0, 1, 1, 0])


def reference_loss(p, x, y):
    z = x @ p.w.T + p.b
    return (np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]).mean()


def differences(f, x, step=1e-6):
    """Central differences of a function of one array."""
    out = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[k] += step
        down[k] -= step
        out[k] = (f(up) - f(down)) / (2 * step)
    return out


# Calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["c", "interpreter"])
def test_calls_and_trees_in_and_out(monkeypatch, backend):
    monkeypatch.setenv("PULLBACK_BACKEND", backend)
    p, x, y = arguments()

    @pb.function
    def both(p: Params, x: Float64[Array, "M"]):
        return {"out": dense(p, x), "p": p, "norm": pb.sum(x * x)}

    result = both(p, x[0])
    np.testing.assert_allclose(result["out"], p.w @ x[0] + p.b)
    np.testing.assert_array_equal(result["p"].w, p.w)
    assert isinstance(result["norm"], np.float64)
    assert isinstance(result["p"], Params)
    np.testing.assert_allclose(loss(p, x, y), reference_loss(p, x, y))
    np.testing.assert_allclose(dense(x=x[1], p=p), p.w @ x[1] + p.b)


def test_repeated_calls_and_several_shapes():
    for n in (3, 5, 3, 3, 1):
        x = np.arange(float(n))
        assert energy(x) == pytest.approx((x**3).sum() / 3)
        assert energy(x) == pytest.approx((x**3).sum() / 3)


def test_what_an_earlier_call_looked_like_decides_nothing_else():
    @pb.function
    def f(p: dict[str, Float64[Array, "N"]], rate: float, n: pb.Size["S"], k: pb.Static = 1):
        return p["a"] * rate + p["b"] * k + pb.zeros(n)[0]

    a, b = np.ones(2), np.full(2, 10.0)
    for _ in range(2):
        assert f({"a": a, "b": b}, 2.0, 3).tolist() == [12.0, 12.0]
        assert f({"b": b, "a": a}, 4, 3).tolist() == [14.0, 14.0]
        assert f({"a": a, "b": b}, np.float64(2.0), 5, 3).tolist() == [32.0, 32.0]
        assert f({"a": a, "b": b}, 2.0, 3, 2).tolist() == [22.0, 22.0]
        assert f({"a": b, "b": np.arange(4.0)[::2]}, 1.0, 3).tolist() == [10.0, 12.0]
        with pytest.raises(pb.DTypeError):
            f({"a": a, "b": b.astype(np.float32)}, 2.0, 3)
        with pytest.raises(pb.ShapeError):
            f({"a": a, "b": np.ones(3)}, 2.0, 3)


def test_strided_arguments_are_copied_and_not_written():
    x = np.arange(12.0).reshape(3, 4)
    for view in (x[:, 1], x[::-1, 2], x.T[1], x[1, ::2]):
        before = x.copy()
        assert energy(view) == pytest.approx((view**3).sum() / 3)
        np.testing.assert_array_equal(x, before)


def test_read_only_and_buffer_arguments():
    x = np.arange(4.0)
    x.flags.writeable = False
    assert energy(x) == pytest.approx(12.0)
    assert energy(memoryview(np.arange(4.0))) == pytest.approx(12.0)
    assert energy([0.0, 1.0, 2.0, 3.0]) == pytest.approx(12.0)


def test_out_is_filled_and_returned():
    p, x, _ = arguments()
    out = np.empty(2)
    assert dense(p, x[0], out=out) is out
    np.testing.assert_allclose(out, p.w @ x[0] + p.b)
    with pytest.raises(pb.ShapeError, match="E110"):
        dense(p, x[0], out=np.empty(3))
    with pytest.raises(pb.DTypeError, match="E122"):
        dense(p, x[0], out=np.empty(2, np.float32))


def test_results_do_not_share_memory():
    @pb.function
    def f(x: Float64[Array, "N"]):
        return x, 2 * x

    x = np.ones(3)
    a, b = f(x)
    a[0] = 7
    assert x[0] == 1
    c, d = f(x)
    assert not np.shares_memory(b, d) and not np.shares_memory(a, c)


def test_look_at_a_function():
    assert dense.type == "(p: Params(w: f64[K, M], b: f64[K]), x: f64[M]) -> f64[K]"
    assert dense.__doc__ == "One layer."
    assert repr(dense) == f"<pullback function dense{dense.type}>"
    assert dense.ir.startswith("dense(p_w: f64[K, M]")
    source = dense.c_source(K=2, M=3)
    assert "dense" in source and "malloc" not in source
    assert str(dense.memory(K=2, M=3))
    stages = dense.explain(K=2, M=3).stages
    assert stages[0].name == "elaborated" and stages[-1].name == "C"
    assert dense.explain().stages[0].text == dense.ir
    assert dense.memory(K=2).peak_bytes(M=5) >= 0 and "int64_t M" in dense.c_source(K=2)


def test_programs_verify():
    for f in (dense, loss, energy, pb.grad(loss), pb.value_and_grad(energy)):
        verify(f.program())


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
@pytest.mark.parametrize(("wish", "own"), [("always", 7), ("auto", 4), ("never", 0)])
def test_one_c_serves_sizes_beyond_the_first(wish: Any, own: int) -> None:
    @pb.function(specialize=wish)
    def f(x: Float64[Array, "N"]):
        return pb.cumulative_sum(x) * x

    for _ in range(2):
        for n in (1, 2, 5, 8, 9, 33, 100):
            x = np.linspace(0.0, 1.0, n)
            np.testing.assert_allclose(f(x), np.cumsum(x) * x, rtol=1e-12)
    made = [r.executable for _, r in f._table.kept.items()]
    assert (len(made), sum(not e.record.dims for e in made)) == (7, own)
    assert len({e.record.text for e in made if e.record.dims}) == (own < 7)
    assert f(np.zeros(0)).shape == (0,)


def test_the_environment_decides_for_functions_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def double(x: Float64[Array, "N"]) -> Any:
        return x * 2

    monkeypatch.setenv("PULLBACK_SPECIALIZE", "always")
    assert pb.function(double).program().settings.specialize == "always"
    assert pb.function(specialize="auto")(double).program().settings.specialize == "auto"
    monkeypatch.setenv("PULLBACK_SPECIALIZE", "often")
    with pytest.raises(UsageError) as caught:
        pb.function(double)
    assert str(caught.value).splitlines() == [
        "UsageError [E601] PULLBACK_SPECIALIZE=often is none of auto, always, never",
        "  try: auto      See `pullback explain-error E601`",
    ]


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_dims_that_come_again_get_c_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PAYS", 4 * compiled.CALL)
    monkeypatch.setattr(table, "MOST", 5)

    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
        return x * y

    def calls(n: int, count: int) -> list[bool]:
        """Whether C for all sizes served each of these calls."""
        out = np.empty(n)
        found = []
        for _ in range(count):
            f(np.full(n, 3.0), np.full(n, 2.0), out=out)
            assert (out == 6).all()
            found.append(bool(f._table.kept.items()[-1][1].executable.record.dims))
        return found

    for n in range(1, 5):
        assert calls(n, 1) == [False]
    assert calls(10, 5) == [True, True, True, False, False]  # each counts for 2000 operations and ten
    assert calls(11, 5) == [True] * 5  # a sixth of five
    assert calls(12, 1) == [True]


def test_memory_modes_are_named() -> None:
    for call in (lambda: pb.function(lambda x: x, memory="none"), lambda: dense.memory("none", N=1, M=2, K=3)):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == "memory='none': \"fastest\", \"less\" or \"least\""


def test_a_memory_mode_goes_with_derivatives() -> None:
    @pb.function(memory="less")
    def energy(x: Float64[Array, "N"]):
        return pb.sum(x * x)

    assert pb.grad(energy).program().settings.memory == "less"


def test_options():
    @pb.function(threads=1, specialize="never", donate="x")
    def f(x: Float64[Array, "N"]):
        return x + 1

    assert f.program().settings.donate == (0,)  # the inputs that x is made of
    with pb.threads(1):
        assert f(np.zeros(1)).tolist() == [1.0]
    for bad in ({"threads": 0}, {"threads": True}, {"specialize": "sometimes"}):
        with pytest.raises(ValueError, match=r"sometimes|number of threads"):
            pb.function(**bad)
    with pytest.raises(ValueError, match="threads"), pb.threads(0):
        pass


def test_exact_sums_are_in_the_order_in_which_they_are_written():
    x, y, z = np.array([-1e16]), np.array([1e16]), np.array([1.0])
    with pb.exact():
        apart = pb.function(lambda x, y, z: y + (x + z))
        inside = pb.function(lambda x, y, z: pb.build(1, lambda i: y[i] + (x[i] + z[i])))
        for f in (apart, inside):
            assert f(x, y, z).tolist() == f.interpret(x, y, z).tolist() == [0.0]
            assert pb.vjp(f)(x, y, z, cotangent=z)[0].tolist() == [0.0]


def test_exact_is_noted():
    with pb.exact():

        @pb.function
        def f(x: Float64[Array, "N"]):
            return pb.sum(x)

    assert f.program().settings.exact
    assert not energy.program().settings.exact


def test_without_a_compiler_the_interpreter_runs_with_one_warning():
    code = """
        import warnings
        import numpy as np
        import pullback as pb

        @pb.function
        def f(x):
            return x + 1

        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(f(np.zeros(2)).tolist(), f(np.zeros(3)).tolist(), len(seen))
    """
    environment = {
        **os.environ,
        "PATH": "/nowhere",
        "CC": "/nowhere/cc",
        "PYTHONPATH": ":".join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[1.0, 1.0] [1.0, 1.0, 1.0] 1", done.stderr


def test_importing_is_light():
    heavy = ("jaxtyping", "platformdirs", "safetensors")
    code = f"import sys, pullback; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
    )
    assert done.stdout.strip() == "[]"


def test_public_names_exist():
    assert [n for n in pb.__all__ if not hasattr(pb, n)] == []


# Traced functions call traced functions -------------------------------------------------------------------------


def test_a_call_unifies_dims():
    @pb.function
    def outer(x: Float64[Array, "A"], y: Float64[Array, "B"]):
        def shifted(v: Float64[Array, "N"], w: Float64[Array, "N+1"]):
            return pb.build(v.shape[0], lambda n: v[n] + w[n + 1])

        g = pb.function(shifted)
        return g(x, pb.concat([x, x[:1]])), g(y[:1], y[:1] * pb.ones(2))

    assert outer.type == "(x: f64[A], y: f64[B]) -> (f64[A], f64[1])"
    a, b = outer.interpret(np.array([1.0, 2.0]), np.array([5.0, 6.0]))
    np.testing.assert_allclose(a, [3.0, 3.0])
    np.testing.assert_allclose(b, [10.0])


def test_requirements_of_a_callee_become_the_callers():
    @pb.function
    def valid(x: Float64[Array, "N"], w: Float64[Array, "K"]):
        N, K = x.shape[0], w.shape[0]
        return pb.build(N - K + 1, lambda i: pb.sum_over(K, lambda k: x[i + k] * w[k]))

    @pb.function
    def twice(x: Float64[Array, "N"], w: Float64[Array, "K"]):
        return valid(valid(x, w), w)

    assert twice.type == "(x: f64[N], w: f64[K]) -> f64[N - 2 * K + 2] where N >= K, N + 1 >= 2 * K"
    x, w = np.arange(6.0), np.ones(2)
    np.testing.assert_allclose(twice.interpret(x, w), np.convolve(np.convolve(x, w, "valid"), w, "valid"))


def test_passing_a_row_copies_nothing():
    @pb.function
    def total(x: Float64[Array, "M"]):
        return pb.sum_over(x.shape[0], lambda m: x[m])

    @pb.function
    def rows(x: Float64[Array, "N M"]):
        return pb.fold(x.shape[0], 0.0, lambda s, n: s + total(x[n]))

    assert "x[n, m]" in rows.ir and "build m" not in rows.ir
    assert rows.interpret(np.ones((2, 3))) == 6.0


def test_calls_inside_builds_with_loops_in_the_callee():
    @pb.function
    def horner(c: Float64[Array, "K"], x: float):
        return pb.fold(c.shape[0], 0.0, lambda s, k: s * x + c[k])

    @pb.function
    def table(c: Float64[Array, "J K"], x: Float64[Array, "N"]):
        return pb.build((c.shape[0], x.shape[0]), lambda j, n: horner(c[j], x[n]))

    verify(table.program())
    c, x = np.arange(6.0).reshape(2, 3), np.array([0.5, 2.0])
    np.testing.assert_allclose(table.interpret(c, x), [np.polyval(r, x) for r in c])


def test_an_index_passed_to_a_function_stays_an_index():
    @pb.function
    def element(x: Float64[Array, "N"], n: int):
        return x[n]

    @pb.function
    def last(x: Float64[Array, "N"]):
        return pb.build(x.shape[0], lambda n: element(x, n)) + element(x, 0)

    assert "check" not in last.ir
    np.testing.assert_allclose(last.interpret(np.array([1.0, 2.0])), [2.0, 3.0])
    assert element.interpret(np.array([1.0, 2.0]), 1) == 2.0
    with pytest.raises(IndexError):
        element.interpret(np.array([1.0, 2.0]), 2)


def test_captured_arrays_of_a_callee():
    table = np.array([1.0, 2.0, 3.0])

    @pb.function
    def scaled(x: Float64[Array, "3"]):
        return x * table

    @pb.function
    def outer(x: Float64[Array, "3"]):
        return scaled(x) + scaled(table) + table

    x = np.ones(3)
    np.testing.assert_allclose(outer(x), table + table**2 + table)
    np.testing.assert_allclose(outer.interpret(x), table + table**2 + table)
    assert len(outer.program().inputs) == 2


# Derivatives ----------------------------------------------------------------------------------------------------


def test_gradient_of_a_tree():
    p, x, y = arguments()
    g = pb.grad(loss)(p, x, y)
    assert isinstance(g, Params)
    np.testing.assert_allclose(g.w, differences(lambda w: reference_loss(Params(w, p.b), x, y), p.w), atol=1e-8)
    np.testing.assert_allclose(g.b, differences(lambda b: reference_loss(Params(p.w, b), x, y), p.b), atol=1e-8)
    assert (
        pb.grad(loss).type
        == "(p: Params(w: f64[K, M], b: f64[K]), x: f64[N, M], y: i64[N]) -> Params(w: f64[K, M], b: f64[K])"
    )


def test_wrt_by_name_position_and_tuple():
    p, x, y = arguments()
    by_name, by_position = pb.grad(loss, wrt="x")(p, x, y), pb.grad(loss, wrt=1)(p, x, y)
    np.testing.assert_array_equal(by_name, by_position)
    q, v = pb.grad(loss, wrt=("p", -2))(p, x, y)
    np.testing.assert_array_equal(v, by_name)
    assert isinstance(q, Params)


def test_a_list_of_parameters_is_a_tuple_of_them():
    @pb.function
    def f(x: Float64[Array, "N"], y: Float64[Array, "N"]):
        return pb.sum(x * x * y)

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for derivative in (pb.grad, pb.value_and_grad, pb.hessian):
        assert derivative(f, wrt=["x", 1]) is derivative(f, wrt=("x", 1))
    assert pb.vjp(f, wrt=[1]) is pb.vjp(f, wrt=(1,)) and pb.hvp(f, wrt=[0]) is pb.hvp(f, wrt=(0,))
    assert pb.jacobian(f, wrt=[0, 1], sparse=True) is pb.jacobian(f, wrt=(0, 1), sparse=True)
    dx, dy = pb.grad(f, wrt=[0, 1])(x, y)
    assert (dx.tolist(), dy.tolist()) == ([6.0, 16.0], [1.0, 4.0])
    _, backward = pb.forward_backward(f, wrt=[1])
    assert backward(pb.forward_backward(f, wrt=[1])[0](x, y)[1], 1.0)[0].tolist() == [1.0, 4.0]


def test_value_and_grad_and_aux():
    @pb.function
    def f(x: Float[Array, "N"], c: float):
        return c * pb.sum(x * x), {"sum": pb.sum(x), "x": x}

    x = np.arange(3.0)
    (value, aux), g = pb.value_and_grad(f, has_aux=True)(x, 2.0)
    assert value == 10.0 and aux["sum"] == 3.0
    np.testing.assert_allclose(g, 4 * x)
    g, aux = pb.grad(f, wrt="c", has_aux=True)(x, 2.0)
    assert g == 5.0 and aux["x"].tolist() == [0.0, 1.0, 2.0]
    value, g = pb.value_and_grad(energy)(x)
    assert value == 3.0
    np.testing.assert_allclose(g, x**2)


def test_gradients_are_functions_of_the_same_annotations():
    p, x, y = arguments()
    g = pb.grad(loss)
    assert pb.grad(loss) is g
    with pytest.raises(pb.DTypeError, match="E122"):
        g(p, x.astype(np.float32), y)


def test_gradient_inside_a_loop():
    @pb.function
    def descend(x: Float64[Array, "N"], rate: float, steps: pb.Size["S"]):
        return pb.fold(steps, x, lambda x, _: x - rate * pb.grad(energy)(x))

    x = np.array([1.0, 0.5])
    expected = x.copy()
    for _ in range(5):
        expected = expected - 0.1 * expected**2
    np.testing.assert_allclose(descend.interpret(x, 0.1, 5), expected)
    np.testing.assert_allclose(descend(x, 0.1, 5), expected)


def test_gradient_of_a_closure_over_traced_values():
    @pb.function
    def sgd(w: Float64[Array, "M"], x: Float64[Array, "N M"], y: Float64[Array, "N"], rate: float):
        def step(w, n):
            def error(v):
                return (pb.sum(v * x[n]) - y[n]) ** 2

            return w - rate * pb.grad(error)(w)

        return pb.fold(x.shape[0], w, step)

    verify(sgd.program())
    rng = np.random.default_rng(1)
    w, x, y = rng.normal(size=3), rng.normal(size=(5, 3)), rng.normal(size=5)
    expected = w.copy()
    for n in range(5):
        expected = expected - 0.1 * 2 * (expected @ x[n] - y[n]) * x[n]
    np.testing.assert_allclose(sgd.interpret(w, x, y, 0.1), expected)
    np.testing.assert_allclose(sgd(w, x, y, 0.1), expected)


def test_gradient_inside_a_build_is_lifted():
    @pb.function
    def jacobian(x: Float64[Array, "N"], a: Float64[Array, "K N"]):
        def row(k):
            return pb.grad(lambda v: pb.sum(pb.sin(v) * a[k]))(x)

        return pb.build(a.shape[0], row)

    verify(jacobian.program())
    x, a = np.array([0.1, 0.2, 0.3]), np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(jacobian.interpret(x, a), a * np.cos(x))


def test_gradients_nest():
    @pb.function
    def second(x: float):
        return pb.grad(pb.grad(lambda v: pb.sin(v) * v))(x)

    x = 0.7
    np.testing.assert_allclose(second.interpret(x), 2 * np.cos(x) - x * np.sin(x))

    @pb.function
    def confusion(x: float):  # the derivative of x * d(x + y)/dy is 1
        return pb.grad(lambda x: x * pb.grad(lambda y: x + y)(1.0))(x)

    assert confusion.interpret(3.0) == 1.0


def test_the_guard_of_where_travels_with_the_cotangent():
    @pb.function
    def f(x: Float64[Array, "N"]):
        return pb.sum(pb.where(x > 0, pb.log(x), 0.0))

    np.testing.assert_allclose(pb.grad(f)(np.array([0.0, 2.0, -1.0])), [0.0, 0.5, 0.0])


def test_gradient_in_single_precision():
    @pb.function
    def f(x: Float32[Array, "N"]):
        return pb.mean(x * x)

    g = pb.grad(f)(np.ones(4, np.float32))
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, 0.5)


@pytest.mark.slow
def test_ir_is_the_same_in_every_process():
    code = """
        import numpy as np, pullback as pb
        from jaxtyping import Float64
        from pullback import Array

        @pb.function
        def f(p: dict[str, Float64[Array, "N M"]], x: Float64[Array, "N M"]):
            h = pb.build(x.shape, lambda n, m: pb.exp(p["a"][n, m]) + p["b"][n, m] * x[n, m])
            return pb.sum(h * h), {k: pb.sum(v) for k, v in p.items()}

        x = np.zeros((2, 3))
        p = {"b": x, "a": x}
        f.interpret(p, x)
        print(f.ir)
        print(pb.grad(f, has_aux=True).program(p, x).body.results)
        print(f.c_source(N=2, M=3))
    """
    texts = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={
                "PYTHONPATH": ":".join(p for p in sys.path if p),
                "PYTHONHASHSEED": seed,
                "PATH": os.environ.get("PATH", ""),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1


def test_call_overhead_is_small():
    x = np.ones(4)
    energy(x)
    start = time.perf_counter()
    for _ in range(2000):
        energy(x)
    each = (time.perf_counter() - start) / 2000
    assert each < 200e-6

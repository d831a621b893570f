"""Optimizers against their formulas, written out in NumPy, on twenty steps; and what is made of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import DataError, DTypeError, PullbackError, ShapeError, TraceError

Values = np.ndarray[Any, Any]
Tree = dict[str, dict[str, Values]]
STEPS = 20
SHAPES = {"conv1": {"w": (3, 2), "b": (3,)}, "dense1": {"w": (2, 4)}}

ON_W = nn.parameter_groups({"*/w": nn.sgd(0.1)})


def tree(seed: int) -> Tree:
    random = np.random.default_rng(seed)
    return {layer: {n: random.standard_normal(s) for n, s in own.items()} for layer, own in SHAPES.items()}


def flat(x: Any) -> dict[str, Values]:
    return {f"{layer}/{n}": a for layer, own in x.items() for n, a in own.items()}


def run(optimizer: nn.Optimizer, steps: int = STEPS, seed: int = 0) -> tuple[Tree, Any]:
    """The parameters and the state after some steps with gradients drawn anew for each."""

    @pb.function
    def step(p: Any, g: Any, state: Any, t: Any) -> Any:
        updates, state = optimizer.update(g, state, p, t)
        return optimizer.apply(p, updates), state

    p = tree(seed)
    state = optimizer.init(p)
    for t in range(steps):
        p, state = step.interpret(p, tree(100 + t), state, np.int64(t))
    return p, state


Reference = Callable[[Values, list[Values]], Values]


def sgd(
    rate: float, momentum: float = 0.0, nesterov: bool = False, dampening: float = 0.0, decay: float = 0.0
) -> Reference:
    def reference(p: Values, gradients: list[Values]) -> Values:
        buffer = None
        for g in gradients:
            g = g + decay * p
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            p = p - rate * (g + momentum * buffer if nesterov else buffer if momentum else g)
        return p

    return reference


def adagrad(rate: float, epsilon: float = 1e-10, start: float = 0.0) -> Reference:
    def reference(p: Values, gradients: list[Values]) -> Values:
        total = np.full_like(p, start)
        for g in gradients:
            total = total + g**2
            p = p - rate * g / (np.sqrt(total) + epsilon)
        return p

    return reference


def rmsprop(rate: float, centered: bool = False, momentum: float = 0.0, epsilon: float = 1e-8) -> Reference:
    def reference(p: Values, gradients: list[Values]) -> Values:
        square = mean = buffer = np.zeros_like(p)
        for g in gradients:
            square = 0.99 * square + 0.01 * g**2
            mean = 0.99 * mean + 0.01 * g
            buffer = momentum * buffer + g / (np.sqrt(square - mean**2 if centered else square) + epsilon)
            p = p - rate * buffer
        return p

    return reference


def adam(rate: Any, decay: float = 0.0, b1: float = 0.9, b2: float = 0.999, epsilon: float = 1e-8) -> Reference:
    def reference(p: Values, gradients: list[Values]) -> Values:
        m = v = np.zeros_like(p)
        for t, g in enumerate(gradients, 1):
            now = rate(t - 1) if callable(rate) else rate
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
            m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
            p = p - now * (m_hat / (np.sqrt(v_hat) + epsilon) + decay * p)
        return p

    return reference


def lion(rate: float, decay: float = 0.0) -> Reference:
    def reference(p: Values, gradients: list[Values]) -> Values:
        m = np.zeros_like(p)
        for g in gradients:
            c = 0.9 * m + 0.1 * g
            p = p - rate * (np.sign(c) + decay * p)
            m = 0.99 * m + 0.01 * g
        return p

    return reference


def falling(t: int) -> float:
    return float(0.05 * (1 + np.cos(np.pi * min(t / 15, 1))))


@pytest.mark.parametrize(
    ("optimizer", "reference"),
    [
        (nn.sgd(0.1), sgd(0.1)),
        (nn.sgd(0.1, 0.9), sgd(0.1, 0.9)),
        (nn.sgd(0.1, 0.9, nesterov=True), sgd(0.1, 0.9, True)),
        (nn.sgd(0.1, 0.9, dampening=0.3), sgd(0.1, 0.9, False, 0.3)),
        (nn.weight_decay(0.02) >> nn.sgd(0.1, 0.5), sgd(0.1, 0.5, decay=0.02)),
        (nn.adagrad(0.1), adagrad(0.1)),
        (nn.adagrad(0.1, eps=1e-4, initial_accumulator_value=0.5), adagrad(0.1, 1e-4, 0.5)),
        (nn.rmsprop(0.01), rmsprop(0.01)),
        (nn.rmsprop(0.01, centered=True, momentum=0.9), rmsprop(0.01, True, 0.9)),
        (nn.adam(0.01), adam(0.01)),
        (nn.adam(0.01, betas=(0.0, 0.9)), adam(0.01, 0.0, 0.0, 0.9)),
        (nn.adam(nn.cosine_decay_schedule(0.1, decay_steps=15)), adam(falling)),
        (nn.adamw(0.01, weight_decay=0.1), adam(0.01, 0.1)),
        (nn.adam(0.01) >> nn.decoupled_weight_decay(0.1, learning_rate=0.01), adam(0.01, 0.1)),
        (nn.lion(0.01, weight_decay=0.1), lion(0.01, 0.1)),
    ],
    ids=lambda x: repr(x) if isinstance(x, nn.Optimizer) else "",
)
def test_b22_twenty_steps_are_those_of_the_formula(optimizer: nn.Optimizer, reference: Reference) -> None:
    found, start = flat(run(optimizer)[0]), flat(tree(0))
    gradients = [flat(tree(100 + t)) for t in range(STEPS)]
    for name, array in found.items():
        np.testing.assert_allclose(array, reference(start[name], [g[name] for g in gradients]), rtol=0, atol=1e-13)


def test_b22_a_stack_of_plugins_on_a_quadratic() -> None:
    """L2, momentum and a rate, one behind the other, on f(p) = ½ Σ c (p - 1)²."""
    c = np.array([1.0, 4.0])
    descent = nn.sgd(nn.step_decay(0.2, step_size=5), 0.9)
    optimizer = nn.weight_decay(l2=0.1, l1=0.01) >> nn.clip_by_value(3.0) >> descent

    @pb.function
    def step(p: Any, state: Any, t: Any) -> Any:
        g = pb.grad(lambda p: 0.5 * pb.sum(c * (p - 1.0) ** 2))(p)
        updates, state = optimizer.update(g, state, p, t)
        return p + updates, state

    p = expected = np.array([3.0, -2.0])
    state, v = optimizer.init(p), np.zeros(2)
    for t in range(STEPS):
        p, state = step.interpret(p, state, np.int64(t))
        g = np.clip(c * (expected - 1) + 0.1 * expected + 0.01 * np.sign(expected), -3, 3)
        v = 0.9 * v + g
        expected = expected - 0.2 * 0.1 ** (t // 5) * v
    np.testing.assert_allclose(p, expected, rtol=1e-13)


OPTIONS = list(product((0.0, 0.9), (0.0, 0.05), (0.0, 0.5)))  # momentum, decay, clip


@pytest.mark.parametrize(("momentum", "decay", "clip"), OPTIONS)
def test_c26_the_solver_of_deepdsl(momentum: float, decay: float, clip: float) -> None:
    """Momentum, weight decay and clipping, each on or off, with factors by parameter and one that is fixed."""
    rate = nn.step_decay(0.1, step_size=3, gamma=0.5)
    optimizer = nn.caffe_sgd(
        rate,
        momentum,
        decay,
        clip_gradients=clip,
        lr_mult={"*/b": 2.0},
        decay_mult={"*/b": 0.0},
        frozen=["dense1/*"],
    )
    found = flat(run(optimizer, 7)[0])
    p = flat(tree(0))
    v = {name: np.zeros_like(a) for name, a in p.items()}
    for t in range(7):
        g = flat(tree(100 + t))
        norm = np.sqrt(sum(np.sum(g[n] ** 2) for n in p if n != "dense1/w"))
        for n in p:
            bias = n.endswith("/b")
            own = g[n] * (clip / norm if 0 < clip < norm else 1) + decay * (0 if bias else 1) * p[n]
            v[n] = momentum * v[n] + 0.1 * 0.5 ** (t // 3) * (2 if bias else 1) * own
            p[n] = p[n] - (0 if n == "dense1/w" else 1) * v[n]
    for name, array in p.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-14)


def test_b25_two_groups_with_optimizers_of_their_own() -> None:
    together = nn.parameter_groups({"*/b": nn.sgd(0.1, 0.9), "*": nn.clip_by_global_norm(1.0) >> nn.adamw(0.01)})
    p, state = run(together)
    weights = {"conv1": {"w": None}, "dense1": {"w": None}}
    alone_b = flat(run(nn.sgd(0.1, 0.9))[0])["conv1/b"]
    assert np.array_equal(p["conv1"]["b"], alone_b)
    frozen = nn.freeze("*/b") >> nn.clip_by_global_norm(1.0) >> nn.adamw(0.01)
    for layer in weights:
        assert np.array_equal(p[layer]["w"], run(frozen)[0][layer]["w"])
    assert {k: sorted(v) for k, v in state["*"].items()} == {"adamw": ["mean", "square"]}
    assert list(state["*/b"]["momentum"]) == ["conv1/b"]


def test_clipping_by_the_norm_of_all() -> None:
    optimizer = nn.clip_by_global_norm(0.5) >> nn.sgd(1.0)
    found, start, g = flat(run(optimizer, 1)[0]), flat(tree(0)), flat(tree(100))
    norm = np.sqrt(sum(np.sum(x**2) for x in g.values()))
    for name in start:
        np.testing.assert_allclose(found[name], start[name] - 0.5 / norm * g[name], rtol=1e-14)
    far = nn.clip_by_global_norm(100.0) >> nn.sgd(1.0)
    assert np.array_equal(run(far, 3)[0]["conv1"]["w"], run(nn.sgd(1.0), 3)[0]["conv1"]["w"])


def test_frozen_parameters_have_no_update_and_no_state() -> None:
    optimizer = nn.adam(0.1) >> nn.freeze("conv1/*")  # wherever it stands
    p, state = run(optimizer, 3)
    assert np.array_equal(p["conv1"]["w"], tree(0)["conv1"]["w"])
    assert list(state["adam"]["mean"]) == ["dense1/w"]
    f = pb.function(lambda p, g, s: optimizer.update(g, s, p, 0)[0])
    updates = f.interpret(tree(0), {"dense1": tree(1)["dense1"]}, optimizer.init(tree(0)))
    assert updates["conv1"] == {"w": None, "b": None}


def test_gradients_of_frozen_parameters_are_not_computed() -> None:
    optimizer = nn.freeze("a") >> nn.sgd(0.1)

    def step(p: Any) -> Any:
        g = pb.grad(lambda p: pb.sum(pb.tanh(p["a"])) + pb.sum(pb.exp(p["b"])))(p)
        return optimizer.apply(p, optimizer.update(g, {}, p, 0)[0])

    p = {"a": np.ones(300), "b": np.ones(300)}
    f = pb.function(step)
    assert np.array_equal(f.interpret(p)["a"], p["a"])
    assert "exp" in f.ir
    assert "tanh" not in f.c_source()


@pytest.mark.parametrize(
    "inner", [nn.sgd(0.1, 0.9), nn.clip_by_global_norm(0.5) >> nn.adam(nn.linear_schedule(0.1, decay_steps=8))]
)
def test_small_batches_accumulated_are_one_large_batch(inner: nn.Optimizer) -> None:
    """Twelve steps of a batch, and four of three times the batch."""
    x, y = (np.random.default_rng(k).standard_normal((12, 4, 3)) for k in (5, 6))

    def after(optimizer: nn.Optimizer, batches: int) -> Values:
        xs, ys = (a.reshape(batches, -1, 3) for a in (x, y))

        @pb.function
        def train(p: Any, state: Any) -> Any:
            def step(carry: Any, t: Any) -> Any:
                p, state = carry
                g = pb.grad(lambda p: pb.mean((pb.asarray(xs)[t] @ p["w"] - pb.asarray(ys)[t]) ** 2))(p)
                updates, state = optimizer.update(g, state, p, t)
                return optimizer.apply(p, updates), state

            return pb.fold(batches, (p, state), step)[0]["w"]

        p = {"w": np.eye(3)}
        w: Values = train(p, optimizer.init(p))
        return w

    np.testing.assert_allclose(after(nn.accumulate_gradients(3, inner), 12), after(inner, 4), rtol=1e-12)


def test_the_average_of_the_parameters() -> None:
    optimizer = nn.adam(0.1) >> nn.ema(0.9) >> nn.freeze("*/b")
    expected = flat(tree(0))
    for steps in range(1, 6):
        p, state = run(optimizer, steps)
        expected = {n: 0.9 * a + 0.1 * flat(p)[n] for n, a in expected.items()}
    found = flat(optimizer.averaged(state, p))
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array if name.endswith("w") else flat(p)[name], rtol=1e-14)
    inside = nn.accumulate_gradients(2, nn.parameter_groups({"*": nn.sgd(0.1) >> nn.ema(0.5)}))
    assert np.array_equal(inside.averaged(inside.init(tree(3)), tree(0))["conv1"]["w"], tree(3)["conv1"]["w"])


class Pair(NamedTuple):
    w: Any
    b: Any


@dataclass
class Record:
    pair: Any
    rest: Any


def test_every_kind_of_tree() -> None:
    random = np.random.default_rng(0)
    w, b, c, d = (random.standard_normal(n) for n in (2, 3, 4, 2))
    p = Record(Pair(w, b), [(c,), {"z": d + 1j * d}])
    optimizer = nn.freeze("pair/b") >> nn.parameter_groups({"rest/*": nn.sgd(1.0), "*": nn.adam(0.1)})
    state = optimizer.init(p)
    assert list(state["parameter_groups"]["*"]["mean"]) == ["pair/w"]

    @pb.function
    def step(p: Any, state: Any) -> Any:
        updates, state = optimizer.update(p, state, p, 0)
        return optimizer.apply(p, updates), state

    after, state = step.interpret(p, state)
    np.testing.assert_allclose(after.pair.w, w - 0.1 * np.sign(w), rtol=1e-6)
    assert np.array_equal(after.pair.b, b)
    assert not after.rest[0][0].any()
    assert not after.rest[1]["z"].any()
    alone = pb.function(lambda p: nn.sgd(0.5).update(p, {}, p, 0)[0])
    assert alone.interpret(w).tolist() == (-0.5 * w).tolist()


@pytest.mark.parametrize(
    "optimizer",
    [
        nn.clip_by_global_norm(1.0)
        >> nn.adamw(nn.cosine_decay_schedule(0.1, decay_steps=9, warmup_steps=2), weight_decay=0.1)
        >> nn.ema(0.9),
        nn.rmsprop(0.1, momentum=0.5),
        nn.lion(0.1),
        nn.accumulate_gradients(2, nn.caffe_sgd(0.1, 0.9, 0.1, clip_gradients=1.0)),
    ],
    ids=repr,
)
def test_element_types_stay(optimizer: nn.Optimizer) -> None:
    """Parameters in f32 and f64 in one tree, each computed in its own; compiled, and close to f64 throughout."""
    p = {"a": np.linspace(-1, 1, 5, dtype=np.float32), "b": np.linspace(-1, 1, 5)}
    state = optimizer.init(p)

    @pb.function
    def step(p: Any, state: Any, t: Any) -> Any:
        updates, state = optimizer.update(pb.tree_map(pb.sin, p), state, p, t)
        return optimizer.apply(p, updates), state

    for t in range(4):
        p, state = step(p, state, np.int64(t))
    assert (p["a"].dtype, p["b"].dtype) == (np.float32, np.float64)
    leaves = [a for a in _arrays(state) if a.ndim]
    assert {a.dtype for a in leaves} == {np.dtype(np.float32), np.dtype(np.float64)}
    np.testing.assert_allclose(p["a"], p["b"], atol=1e-6)


def _arrays(x: Any) -> list[Values]:
    return [a for v in x.values() for a in _arrays(v)] if isinstance(x, dict) else [x]


def test_states_are_dicts_of_spelled_names() -> None:
    optimizer = nn.scale(2.0) >> nn.scale(0.5) >> nn.rmsprop(0.1, centered=True, momentum=0.9)
    assert optimizer.init({"w": np.ones(2)}) == {
        "rmsprop": {slot: {"w": pytest.approx(np.zeros(2))} for slot in ("square", "mean", "momentum")}
    }
    twice = nn.ema(0.5) >> nn.ema(0.6)
    assert sorted(twice.init({"w": np.ones(2)})) == ["ema", "ema2"]


def test_what_shows_is_what_was_written() -> None:
    written = [
        "sgd(0.1, momentum=0.9, nesterov=True)",
        "clip_by_global_norm(1.0) >> adamw(cosine_decay_schedule(0.001, 1000, warmup_steps=100), weight_decay=0.1)",
        "parameter_groups({'*/b': sgd(0.1), '*': freeze('conv1/*', 'dense1/*') >> lion(0.01)})",
        "accumulate_gradients(4, adam(0.001, betas=(0.8, 0.999)) >> ema(0.999))",
    ]
    names = {n: getattr(nn, n) for n in nn.__all__}
    for text in written:
        made = eval(text, names)
        assert repr(made) == text
        assert (made, hash(made)) == (eval(text, names), hash(eval(text, names)))
    assert nn.sgd(0.1) != nn.sgd(0.2)
    assert (nn.sgd(0.1) >> nn.scale(2.0)) >> nn.scale(3.0) == nn.sgd(0.1) >> (nn.scale(2.0) >> nn.scale(3.0))


def test_the_rate_of_a_step() -> None:
    schedule = nn.linear_schedule(0.1, decay_steps=10)
    assert (nn.clip_by_global_norm(1.0) >> nn.adam(schedule) >> nn.ema(0.9)).learning_rate_at(5) == pytest.approx(0.05)
    assert nn.accumulate_gradients(2, nn.sgd(schedule)).learning_rate_at(5) == pytest.approx(0.08)
    assert nn.parameter_groups({"a": nn.freeze("*"), "*": nn.sgd(0.3)}).learning_rate_at(0) == 0.3
    assert nn.clip_by_global_norm(1.0).learning_rate_at(0) is None


def test_a_rate_that_is_an_argument() -> None:
    f = pb.function(lambda p, g, rate: nn.adam(rate).update(g, nn.adam(rate).init(p), p, 0)[0])
    np.testing.assert_allclose(f.interpret(np.ones(2), np.ones(2), 0.25), -0.25, rtol=1e-6)


def update(optimizer: nn.Optimizer, p: Any, g: Any, state: Any = None) -> Any:
    state = optimizer.init(p) if state is None else state
    return pb.function(lambda p, g, s: optimizer.update(g, s, p, 0)[0]).interpret(p, g, state)


def test_a_factor_and_a_decay_may_be_schedules() -> None:
    """The second step of each: a factor of 0.25, and an average of 0.3 of the old and 0.7 of the new."""
    p, g, rates = {"w": np.ones(2)}, {"w": np.full(2, 2.0)}, nn.piecewise_constant_schedule({0: 0.5, 1: 0.25})
    steps = lambda optimizer, n: pb.function(lambda p, g, s: optimizer.update(g, s, p, n)).interpret(
        p, g, optimizer.init(p))  # fmt: skip
    np.testing.assert_allclose(steps(nn.scale(rates) >> nn.sgd(1.0), 1)[0]["w"], -0.5)
    optimizer = nn.sgd(1.0) >> nn.ema(nn.piecewise_constant_schedule({0: 0.9, 1: 0.3}))
    state = steps(optimizer, 1)[1]
    np.testing.assert_allclose(optimizer.averaged(state, p)["w"], 0.3 * 1.0 + 0.7 * -1.0)


@pytest.mark.parametrize("wrong", [lambda: nn.adam(-1), lambda: nn.exponential_decay(-1.0, decay_rate=0.5)])
def test_a_wrong_setting_points_at_the_line_of_the_user(wrong: Callable[[], Any]) -> None:
    with pytest.raises(TraceError, match=r"--> .*test_optimizers\.py:"):
        wrong()


ONE = {"conv1": {"w": np.ones((2, 3)), "b": np.ones(2)}}


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (lambda: nn.sgd(-0.1), TraceError, "[E170] sgd: learning_rate is -0.1"),
        (lambda: nn.sgd("fast"), TraceError, "[E170] sgd: learning_rate is 'fast'"),  # type: ignore[arg-type]
        (lambda: nn.sgd(0.1, 1.0), TraceError, "[E170] sgd: momentum is 1.0"),
        (lambda: nn.sgd(0.1, nesterov=True), TraceError, "[E170] sgd: nesterov is True"),
        (lambda: nn.adam(0.1, eps=0.0), TraceError, "a number above 0"),
        (lambda: nn.adam(float("nan")), TraceError, "[E170] adam: learning_rate is nan"),
        (lambda: nn.adam(0.1, 0.9), TraceError, "[E170] adam: betas is 0.9"),  # type: ignore[arg-type]
        (lambda: nn.adam(0.1, (0.9, 1.0)), TraceError, "[E170] adam: betas[1] is 1.0"),
        (lambda: nn.lion(0.1, (-0.9, 0.9)), TraceError, "[E170] lion: betas[0] is -0.9"),
        (lambda: nn.adam(0.1, eps=0.0), TraceError, "[E170] adam: eps is 0.0"),
        (lambda: nn.ema(1.5), TraceError, "[E170] ema: decay is 1.5"),
        (lambda: nn.clip_by_value(0.0), TraceError, "[E170] clip_by_value: clip_value is 0.0"),
        (lambda: nn.exponential_decay(0.1, decay_rate=0.0), TraceError, "[E170] exponential_decay: decay_rate is 0.0"),
        (lambda: nn.clip_by_global_norm(0.0), TraceError, "[E170] clip_by_global_norm: max_norm is 0.0"),
        (lambda: nn.scale_learning_rates({"w": -1.0}), TraceError, "[E170] scale_learning_rates: w is -1.0"),
        (lambda: nn.freeze(), TraceError, "[E170] freeze: patterns is ()"),
        (lambda: nn.accumulate_gradients(0, nn.sgd(0.1)), TraceError, "[E170] accumulate_gradients: steps is 0"),
        (
            lambda: nn.accumulate_gradients(2, 0.1),  # type: ignore[arg-type]
            TraceError,
            "[E170] accumulate_gradients: optimizer is 0.1",
        ),
        (lambda: nn.parameter_groups({}), TraceError, "[E170] parameter_groups: parts is {}"),
        (lambda: nn.parameter_groups({"*": nn.scale(2.0)}), TraceError, "[E171] parameter_groups: scale(2.0) makes no"),
        (lambda: nn.sgd(0.1) >> nn.adam(0.1), TraceError, "[E171] sgd(0.1) >> adam(0.1): both make updates"),
        (lambda: nn.caffe_sgd(0.1, clip_gradients=-1), TraceError, "[E170] caffe_sgd: clip_gradients is -1"),
        (lambda: nn.cosine_decay_schedule(0.1, 10, 10), TraceError, "[E170] cosine_decay_schedule: warmup_steps is 10"),
        (
            lambda: nn.piecewise_constant_schedule({5: 0.1}),
            TraceError,
            "[E170] piecewise_constant_schedule: learning_rates is {5: 0.1}",
        ),
        (lambda: (nn.freeze("conv2/*") >> nn.sgd(0.1)).init(ONE), TraceError, "[E108] freeze: no parameter is called"),
        (lambda: ON_W.init(ONE), TraceError, "[E108] parameter_groups: no pattern for conv1/b"),
        (lambda: nn.accumulate_gradients(2, ON_W).check_names(["conv1/b"]), TraceError, "[E108]"),
        (
            lambda: nn.parameter_groups({"*": nn.sgd(0.1), "*/c": nn.sgd(0.2)}).init(ONE),
            TraceError,
            "[E108] parameter_groups: no parameter is called '*/c'",
        ),
        (lambda: nn.sgd(0.1).init({"n": np.arange(3)}), DTypeError, "n : i64[3]"),
        (
            lambda: update(nn.sgd(0.1), ONE, {"conv1": {"w": np.ones((2, 3))}}),
            ShapeError,
            "without gradient: conv1/b",
        ),
        (
            lambda: update(nn.sgd(0.1), ONE, {**ONE, "conv2": np.ones(2)}),
            ShapeError,
            "no parameter: conv2",
        ),
        (
            lambda: update(nn.sgd(0.1), ONE, {"conv1": {"w": np.ones((3, 2)), "b": np.ones(2)}}),
            ShapeError,
            "the gradient of conv1/w has another shape",
        ),
        (
            lambda: update(nn.sgd(0.1), {"w": np.ones(2)}, {"w": np.ones(2, np.float32)}),
            DTypeError,
            "parameter : f64[2]      gradient : f32[2]",
        ),
        (
            lambda: update(nn.adam(0.1), ONE, ONE, nn.sgd(0.1, 0.9).init(ONE)),
            TraceError,
            "[E139] adam(0.1): the state has no mean of conv1/b",
        ),
        (lambda: nn.sgd(0.1).init({"a": {"b": np.ones(1)}, "a/b": np.ones(1)}), DataError, "are called a/b"),
    ],
)
def test_errors(wrong: Callable[[], Any], kind: type[PullbackError], message: str) -> None:
    with pytest.raises(kind) as found:
        wrong()
    assert message in str(found.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_pass_over_memory_for_each_parameter(dtype: Any) -> None:
    """Moments, update, parameter and average of Adam are one kernel, the same for both parameters; no array between."""
    optimizer = nn.clip_by_value(1.0) >> nn.adamw(nn.cosine_decay_schedule(0.1, decay_steps=9)) >> nn.ema(0.9)

    @pb.function
    def step(p: Any, g: Any, state: Any, t: Any) -> Any:
        updates, state = optimizer.update(g, state, p, t)
        return optimizer.apply(p, updates), state

    p = {name: np.zeros((50, 80), dtype) for name in "ab"}
    state = optimizer.init(p)
    step(p, p, state, np.int64(0))
    text = step.c_source()
    assert text.count("static void step") == 1
    assert step.memory().peak_bytes < 1000  # numbers alone


def test_fit_takes_frozen_parameters_and_averages_and_refuses_what_makes_no_step() -> None:
    def loss(p: Any, state: Any, batch: Any) -> Any:
        return pb.mean((batch[0] @ p["conv1"]["w"] @ p["dense1"]["w"] - batch[1]) ** 2)

    random = np.random.default_rng(0)
    x, start = random.standard_normal((8, 3)), tree(0)
    data = (x, random.standard_normal((8, 4)))
    clipped = nn.clip_by_global_norm(1.0) >> nn.adamw(nn.cosine_decay_schedule(0.1, decay_steps=8))
    optimizer = nn.freeze("conv1/*") >> clipped >> nn.ema(0.9)
    run = nn.fit(loss, data, parameters=start, optimizer=optimizer, epochs=2, batch_size=4, progress=False)
    assert np.array_equal(run.parameters["conv1"]["w"], start["conv1"]["w"])
    assert not np.array_equal(run.parameters["dense1"]["w"], start["dense1"]["w"])
    averaged = optimizer.averaged(run.optimizer_state, run.parameters)
    assert not np.array_equal(averaged["dense1"]["w"], run.parameters["dense1"]["w"])
    for wrong, message in ((nn.clip_by_global_norm(1.0), "E171"), (0.1, "E170")):
        with pytest.raises(TraceError, match=rf"\[{message}\] fit: "):
            nn.fit(loss, data, parameters=start, optimizer=wrong, epochs=1, batch_size=4, progress=False)

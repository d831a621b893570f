"""Layers as values: types, parameters, state, composition, and what is said where they do not fit."""

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.nn.layer import Layer
from pullback.nn.scope import Scope


@nn.layer("N C H W")
def window(scope: Scope, x: Any, channels: int, size: int, *, padding: int = 0) -> Any:
    n, inputs, height, width = x.shape
    w = scope.parameter("w", (channels, inputs, size, size))
    extents = (n, channels, height + 2 * padding - size + 1, width + 2 * padding - size + 1)
    over = (inputs, size, size)

    def at(n: Any, o: Any, i: Any, j: Any) -> Any:
        return pb.sum_over(over, lambda c, u, v: x.at(n, c, i + u - padding, j + v - padding) * w[o, c, u, v])

    return pb.build(extents, at)


@nn.layer("N M")
def noisy(scope: Scope, x: Any) -> Any:
    if not scope.training:
        return x
    count = scope.state("count", (), dtype="int64")
    scope.update("count", count + 1)
    return x + pb.random.uniform(scope.key(), x.shape, dtype=x.dtype)


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


def test_c02_types_with_symbols() -> None:
    net = nn.sequential(window(20, 5), nn.relu, nn.flatten(), nn.dense(10))
    assert [" ".join(line.split()) for line in str(net.type).splitlines()] == [
        "(x: f32[N, C, H, W]) -> f32[N, 10]",
        "window1 window(20, 5) f32[N, 20, H - 4, W - 4] w f32[20, C, 5, 5]",
        "relu1 relu f32[N, 20, H - 4, W - 4]",
        "flatten1 flatten() f32[N, 20 * H * W - 80 * H - 80 * W + 320]",
        "dense1 dense(10) f32[N, 10] w f32[10, 20 * H * W - 80 * H - 80 * W + 320], b f32[10]",
    ]
    assert str(nn.dense(7).type).splitlines()[0] == "(x: f32[N, M]) -> f32[N, 7]"
    assert str(nn.models.lenet().type).splitlines()[0] == "(x: f32[N, C, H, W]) -> f32[N, 10]"
    bound = net.on("N 3 8 8")
    assert bound.type.result == "f32[N, 10]"
    parameters, state = bound.init(seed=1)
    assert {k: {n: a.shape for n, a in v.items()} for k, v in parameters.items()} == {
        "window1": {"w": (20, 3, 5, 5)}, "dense1": {"w": (10, 320), "b": (10,)},
    }  # fmt: skip
    assert state == {}
    assert parameters["dense1"]["w"].dtype == np.float32
    assert bound.init(dtype=np.float64)[0]["dense1"]["w"].dtype == np.float64


def test_c02_a_residual_makes_its_input_fit() -> None:
    net = nn.residual(window(64, 3, padding=1), nn.relu, window(64, 3, padding=1))
    assert net.type.takes == "f32[N, 64, H, W]"
    joined = nn.branches(window(8, 1), window(4, 3, padding=1))
    assert joined.type.result == "f32[N, 12, H, W]"
    assert nn.residual(window(8, 1), shortcut=window(8, 1)).type.takes == "f32[N, C, H, W]"


def test_a_start_follows_from_seed_and_name_alone() -> None:
    one = nn.sequential(nn.dense(4), nn.dense(2)).on("N 3").init(seed=5)[0]
    other = nn.sequential(nn.dense(4), nn.relu, nn.dense(7).named("more"), nn.dense(2)).on("N 3").init(seed=5)[0]
    np.testing.assert_array_equal(one["dense1"]["w"], other["dense1"]["w"])
    assert not np.array_equal(one["dense1"]["w"], nn.dense(4).on("N 3").init(seed=6)[0]["w"])


def test_c06_networks_compose_by_value() -> None:
    a, b, c = nn.dense(3), nn.relu, nn.dense(2)
    for net in (nn.sequential(a, b, c), a >> b >> c, c @ b @ a, c @ (b @ a), nn.sequential(a, nn.sequential(b, c))):
        assert repr(net) == "sequential(dense(3), relu, dense(2))"
    x = np.random.default_rng(0).normal(size=(5, 4))
    net = nn.sequential(a, b, c).on("N 4")
    p, _ = net.init(dtype=np.float64)
    wanted = np.maximum(x @ p["dense1"]["w"].T + p["dense1"]["b"], 0) @ p["dense2"]["w"].T + p["dense2"]["b"]
    np.testing.assert_allclose(net(p, x), wanted, rtol=1e-12)
    np.testing.assert_allclose(pb.function(lambda p, x: net(p, x))(p, x), wanted, rtol=1e-12)


def test_one_name_is_one_layer() -> None:
    half = nn.dense(3, bias=False)

    @nn.layer("N 3")
    def twice(scope: Scope, x: Any) -> Any:
        return scope.call(half, scope.call(half, x, "half"), "half")

    p, _ = twice().init(dtype=np.float64)
    x = np.eye(3)
    np.testing.assert_allclose(twice()(p, x), (p["half"]["w"] @ p["half"]["w"]).T, rtol=1e-12)


def test_state_and_keys_change_in_training_alone() -> None:
    net = nn.sequential(nn.dense(3), noisy()).on("N 2")
    p, state = net.init(seed=0)
    assert state["noisy1"]["key"].dtype == np.uint32 and state["noisy1"]["count"] == 0
    x = np.ones((2, 2), np.float32)
    step = pb.function(lambda p, s, x: net.apply(p, s, x, training=True))
    one, after = step(p, state, x)
    two, later = step(p, after, x)
    again, _ = step(p, state, x)
    assert (after["noisy1"]["count"], later["noisy1"]["count"]) == (1, 2)
    assert np.array_equal(one, again) and not np.array_equal(one, two)
    quiet, same = pb.function(lambda p, s, x: net.apply(p, s, x))(p, state, x)
    assert same["noisy1"]["count"] == 0
    np.testing.assert_allclose(quiet, net(p, x, state))


def test_the_gradient_of_an_objective() -> None:
    net = nn.sequential(nn.dense(4), noisy(), nn.relu, nn.dense(1)).on("N 3")
    p, s = net.init(dtype=np.float64)
    loss = pb.function(nn.objective(net, lambda y, t: pb.sum((y - t) ** 2)))
    batch = (np.random.default_rng(0).normal(size=(5, 3)), np.ones((5, 1)))
    (value, after), gradient = pb.value_and_grad(loss, wrt="parameters", has_aux=True)(p, s, batch)
    assert after["noisy1"]["count"] == 1
    moved = {**p, "dense1": {**p["dense1"], "b": p["dense1"]["b"] + [1e-6, 0, 0, 0]}}
    difference = (loss(moved, s, batch)[0] - value) / 1e-6
    np.testing.assert_allclose(gradient["dense1"]["b"][0], difference, rtol=1e-4)


def test_what_does_not_fit_names_the_layers() -> None:
    net = nn.sequential(window(20, 5), nn.flatten(), nn.dense(10))
    p, _ = net.on("N 1 8 8").init()
    image = np.zeros((2, 1, 9, 8), np.float32)
    assert message(lambda: net.on("N 1 8 3")) == (
        "E105 build: the size -1 is negative | in window1 = window(20, 5), which was given f32[N, 1, 8, 3] | None"
    )
    assert message(lambda: net(p, image)) == (
        "E161 dense1: parameter w is [10, 320], not [10, 400] | in dense1 = dense(10), which was given f32[2, 400] by "
        "flatten1 | an input of the size that `net.init` made the parameters for, or new parameters"
    )
    assert message(lambda: net({"window1": {}}, image)) == (
        "E160 window1: no parameter w is given, [20, 1, 5, 5] | given: nothing; in window1 = window(20, 5), which was "
        "given f32[2, 1, 9, 8] | `net.init(seed=0)` gives parameters and state of this network"
    )
    assert message(lambda: net({"window1": 3.0}, image)) == (
        "E160 the parameters given for window1 are no dict |  | `net.init(seed=0)` gives parameters and state"
    )
    assert message(lambda: nn.residual(window(3, 3)).type) == (
        "E162 what is added has another shape: [N, 3, H, W] and [N, 3, H - 2, W - 2] |  | layers that keep the shape, "
        "or a projection"
    )
    uneven = nn.branches(window(3, 3), window(3, 1))
    assert message(lambda: uneven.type).startswith("E162 branches differ beside axis 1: ")
    assert message(lambda: net.init()) == (
        "E164 window1/w : [20, C, 5, 5] depends on input sizes that are not given | the network takes f32[N, C, H, W] "
        '| give them: `net.on("N 784")` for rows, `net.on("N 1 28 28")` for images'
    )
    assert message(lambda: nn.sequential(nn.relu).type) == (
        'E165 sequential(relu): no layer says what shape it takes |  | say it: `net.on("N 784")`'
    )


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (nn.sequential, "E163 sequential of no layers |  | `nn.sequential(nn.dense(10))`"),
        (nn.branches, "E163 branches of no layers |  | `nn.branches(a, b)`"),
        (lambda: nn.sequential(nn.dense), "E163 dense is how a layer is made |  | `dense(…)`"),
        (
            lambda: nn.sequential(3),
            "E163 3 is no layer |  | layers such as `nn.dense(10)`, or functions of arrays such as `nn.relu`",
        ),
        (lambda: nn.dense(3).named("a b"), "E163 'a b' is no name for a layer |  | an identifier: \"stem\""),
        (
            lambda: window(3),
            "E163 window: missing a required argument: 'size' |  | "
            "`window(channels, size, *, padding=0)`",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_network(f: Any, what: str) -> None:
    assert message(f) == what


def test_layers_are_values() -> None:
    assert isinstance(nn.dense(3), Layer)
    assert repr(nn.dense(3, bias=False)) == "dense(3, bias=False)"


def test_a27_a_description_counts_what_runs() -> None:
    net = nn.sequential(window(20, 5), nn.relu, nn.flatten(), nn.dense(10))
    found = net.describe(batch_size=2, C=1, H=8, W=8)
    assert [row.operations for row in found.rows] == [2 * 2 * 20 * 16 * 25, 2 * 20 * 16, 0, 2 * 10 * (2 * 320 + 1)]
    assert [row.parameters for row in found.rows] == [500, 0, 0, 3210]
    assert found.parameters == 3710 and found.parameter_bytes == 4 * 3710
    assert found.operations == sum(row.operations for row in found.rows)
    p, s = net.on("N 1 8 8").init()
    assert found.inference.interpret(p, s, np.zeros((2, 1, 8, 8), np.float32)).shape == (2, 10)
    assert found.peaks["training"]["fastest"] == found.training.memory().arena_bytes
    assert message(lambda: net.describe(batch_size=2, C=1)) == (
        "E115 sequential(window(20, 5), relu, flatten(), dense(10)): H, W of its input f32[N, C, H, W] is not given "
        "|  | describe(batch_size=2, H=…, W=…)"
    )


def test_a_network_of_several_results_is_described() -> None:
    both = nn.layer("N M")(lambda scope, x: (x, nn.relu(x)))
    found = both().describe(2, M=3)
    wanted = nn.layer("N M")(lambda scope, x: x + nn.relu(x))().describe(2, M=3)
    assert found.peaks.keys() == wanted.peaks.keys()
    x = np.array([[1.0, -2.0, 3.0]] * 2, np.float32)
    assert found.training.interpret((), (x, ()), np.int64(0))[1] == 2 * (1 + 4 + 9 + 1 + 9)


def test_functions_with_rules_are_named_by_their_place() -> None:
    """Values of a function with rules of its own are named after its layer, as all others are."""
    net = nn.sequential(nn.dense(3), nn.relu, nn.dense(2), nn.relu).on("N 4")
    names = [out.name for s in net.function().program().body.statements for out in s.outs]
    assert [n.partition("_")[0] for n in names] == ["dense1", "dense1", "relu1", "dense2", "dense2", "relu2"]

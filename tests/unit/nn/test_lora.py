"""Low-rank adapters: what is trained, gradients by their formulas, merging, files, and what freezing saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.nn.parameters import named

BASE = nn.sequential(
    *(nn.conv(4, 3, padding=1, stride=2), nn.batch_norm(), nn.relu, nn.residual(nn.conv(4, 3, padding=1))),
    *(nn.conv(4, 3, groups=2), nn.flatten(), nn.dense(6), nn.relu, nn.dense(3)),
).on("N 2 8 8")
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(5, 2, 8, 8))


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


def at_random(tree: Any) -> Any:
    """Arrays of the same shapes, none of them zeros."""
    return pb.tree_map(lambda a: RANDOM.normal(size=np.shape(a)) * 0.3, tree)


def test_adapters_are_the_parameters_and_the_rest_is_state() -> None:
    net = nn.lora(BASE, rank=2, trainable="dense2/*")
    parameters, state = net.init(seed=4)
    adapted = ("conv1", "dense1", "residual1/body/conv1")
    wanted = {f"{place}/lora_{k}/w" for place in adapted for k in "ab"} | {"dense2/w", "dense2/b"}
    assert set(named(parameters)) == wanted  # the convolution in groups has none
    before, running = BASE.init(seed=4)
    both = named(parameters) | named(state)
    for name, array in (named(before) | named(running)).items():
        assert np.array_equal(both[name], array), name
    assert set(both) == wanted | set(named(before)) | set(named(running))


def test_the_network_begins_as_it_was() -> None:
    net = nn.lora(BASE, rank=2)
    found = net(*net.init(dtype=np.float64)[:1], X, net.init(dtype=np.float64)[1])
    parameters, state = BASE.init(dtype=np.float64)
    np.testing.assert_allclose(found, BASE(parameters, X, state), rtol=1e-13, atol=1e-13)


def test_merged_weights_give_the_same() -> None:
    net = nn.lora(BASE, rank=2, alpha=6, trainable=["dense2/b"])
    parameters, state = net.init(dtype=np.float64)
    parameters = at_random(parameters)
    merged = net.merge(parameters, state)
    assert [list(named(t)) for t in merged] == [list(named(t)) for t in BASE.init()]
    np.testing.assert_allclose(BASE(merged[0], X, merged[1]), net(parameters, X, state), rtol=1e-11, atol=1e-11)
    assert np.abs(merged[0]["conv1"]["w"] - state["conv1"]["w"]).max() > 0.1
    single = net.merge(*pb.tree_map(lambda a: np.asarray(a, np.float32), (parameters, state)))
    assert single[0]["conv1"]["w"].dtype == np.float32


def test_gradients_are_those_of_the_formula() -> None:
    """With y = x (w + s b a)ᵀ and the cotangent c: ā = s bᵀ cᵀ x and b̄ = s cᵀ x aᵀ."""
    net = nn.lora(nn.dense(4).on("N 3"), rank=2, alpha=5)
    parameters, state = net.init(dtype=np.float64)
    parameters = at_random(parameters)
    x, c = RANDOM.normal(size=(7, 3)), RANDOM.normal(size=(7, 4))
    found = pb.grad(pb.function(lambda p, s, x, c: pb.sum(net(p, x, s) * c)), wrt="p")(parameters, state, x, c)
    a, b = (parameters[name]["w"] for name in ("lora_a", "lora_b"))
    np.testing.assert_allclose(found["lora_a"]["w"], 2.5 * b.T @ c.T @ x, rtol=1e-12)
    np.testing.assert_allclose(found["lora_b"]["w"], 2.5 * c.T @ x @ a.T, rtol=1e-12)


@pytest.mark.slow
def test_training_moves_the_adapters_alone(tmp_path: Path) -> None:
    """Saved adapters make the trained network again, and hold nothing else."""
    base = nn.sequential(nn.dense(8), nn.tanh, nn.dense(3)).on("N 4")
    net = nn.lora(base.starting_from(*base.init(seed=5)), rank=2)
    x = RANDOM.normal(size=(60, 4)).astype(np.float32)
    data = x, x[:, :3].argmax(1)
    run = nn.fit(net, nn.cross_entropy, data, optimizer=nn.adamw(0.05), epochs=30, progress=False)
    assert run.history["loss"][-1] < 0.6 * run.history["loss"][0]
    for name, array in named(base.init(seed=5)[0]).items():
        assert np.array_equal(named(run.state)[name], array), name
    nn.save_parameters(tmp_path / "adapter.safetensors", run.parameters)
    adapter = nn.load_parameters(tmp_path / "adapter.safetensors", run.parameters)
    assert sum(a.size for a in named(adapter).values()) == 2 * (4 + 8) + 2 * (8 + 3)
    again = net.starting_from(adapter)
    parameters, state = again.init()
    assert np.array_equal(again(parameters, x, state), net(run.parameters, x, run.state))


def test_where_is_a_pattern_patterns_or_a_function() -> None:
    places = ("dense1/*", ["conv1/w", "dense?/w"], lambda name: name.startswith("residual"))
    found = [{n.split("/lora")[0] for n in named(nn.lora(BASE, 1, where=w).init()[0])} for w in places]
    assert found == [{"dense1"}, {"conv1", "dense1", "dense2"}, {"residual1/body/conv1"}]


def test_what_cannot_be_adapted() -> None:
    assert message(lambda: nn.lora(BASE, 0)).startswith("E170 lora: rank is 0 |")
    assert message(lambda: nn.lora(BASE, where=[])).startswith("E170 lora: where is [] |")
    assert message(lambda: nn.lora(BASE, where="query*").type) == (
        "E108 lora: where: no parameter is called 'query*' | parameters: conv1/w, residual1/body/conv1/w, dense1/w, "
        'dense2/w | a name, or a pattern such as "*/b": `*` stands for any letters, / too'
    )
    assert message(lambda: nn.lora(BASE, trainable="*").type).startswith("E108 lora: no weights have adapters |")
    assert message(lambda: nn.lora(nn.lora(BASE)).type).startswith("E163 lora: a network with adapters in another one")

    @nn.layer("N M")
    def twice(scope: Any, x: Any) -> Any:
        return scope.parameter("a", (1,)) * scope.state("a", (1,)) * x

    net = nn.sequential(twice(), nn.dense(2))
    assert message(lambda: nn.lora(net).type).startswith("E163 lora: twice1/a is a parameter and a state |")


@pytest.mark.slow
def test_a_description_says_what_freezing_saves() -> None:
    base = nn.sequential(nn.dense(8), nn.relu, nn.dense(3)).on("N 16")
    how: dict[str, Any] = {"batch_size": 4, "loss": nn.cross_entropy}
    whole = base.describe(**how, optimizer=nn.adam(0.1))
    frozen = base.describe(**how, optimizer=nn.freeze("dense1/*") >> nn.adam(0.1))
    count = 8 * 16 + 8
    assert whole.unfrozen is None
    assert frozen.unfrozen is not None
    assert frozen.unfrozen.frozen == count
    assert frozen.unfrozen.optimizer_bytes == whole.optimizer_bytes == frozen.optimizer_bytes + 8 * count
    assert frozen.peaks["training, nothing frozen"] == whole.peaks["training"]
    assert frozen.peaks["training"]["fastest"] < whole.peaks["training"]["fastest"]
    assert f"{count:,} parameters are frozen, else optimizer {whole.optimizer_bytes:,} bytes" in str(frozen)
    groups = nn.parameter_groups({"dense1/*": nn.freeze("*"), "*": nn.adam(0.1)})
    in_groups = base.describe(**how, optimizer=groups)
    assert in_groups.unfrozen is not None
    assert in_groups.unfrozen.optimizer_bytes == whole.optimizer_bytes
    adapted = nn.lora(base, 1, trainable="dense2/*").describe(**how, optimizer=nn.adam(0.1))
    assert adapted.unfrozen is not None
    assert adapted.unfrozen.frozen == count
    assert adapted.optimizer_bytes == 8 * (16 + 8 + 8 * 3 + 3)
    assert adapted.unfrozen.optimizer_bytes == whole.optimizer_bytes
    assert {row.name for row in adapted.rows} >= {"dense1", "dense1/lora_a", "dense1/lora_b", "dense2"}


def test_a_network_of_channels_last_and_of_one_axis() -> None:
    base = nn.sequential(nn.conv(3, (3,), dilation=2, padding=((4, 0),), layout="NHWC")).on("N 9 2")
    net = nn.lora(base, 2, alpha=3)
    parameters, state = net.init(dtype=np.float64)
    parameters = at_random(parameters)
    merged, _ = net.merge(parameters, state)
    x = RANDOM.normal(size=(2, 9, 2))
    np.testing.assert_allclose(base(merged, x), net(parameters, x, state), rtol=1e-12, atol=1e-12)


def test_merging_needs_the_adapters() -> None:
    """Without them the result would be the network before training."""
    net = nn.lora(nn.dense(1, bias=False).on("N 2"), rank=1)
    with pytest.raises(pb.TraceError) as error:
        net.merge({}, {"w": np.ones((1, 2))})
    lines = [n for n in str(error.value).splitlines() if not n.startswith(("  -->", "   |"))]
    assert lines == [
        "TraceError [E160] merge: no array lora_a/w is given",
        "  try: the parameters and the state of the network with adapters      See `pullback explain-error E160`",
    ]

"""The models beside the papers' classifiers: what they compute, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import data, nn
from pullback.errors import PullbackError
from pullback.nn import models

RANDOM = np.random.default_rng(0)


def at_random(tree: Any) -> Any:
    return pb.tree_map(lambda a: RANDOM.normal(size=np.shape(a)) * 0.5, tree)


def test_sums_by_segment_and_their_gradient() -> None:
    x, segments = RANDOM.normal(size=(7, 3)), np.array([0, 4, 1, 4, 4, 0, 1])
    wanted = np.zeros((5, 3))
    np.add.at(wanted, segments, x)
    sums = pb.function(lambda x, segments: models.segment_sum(x, segments, 5))
    assert np.array_equal(sums(x, segments), wanted)
    assert np.array_equal(sums(x[:0], segments[:0]), np.zeros((5, 3)))
    squares = pb.function(lambda x, segments: pb.sum(models.segment_sum(x, segments, 5) ** 2))
    np.testing.assert_allclose(pb.grad(squares, wrt="x")(x, segments), 2 * wanted[segments], rtol=1e-14)


def numpy_graph(p: Any, nodes: Any, edges: Any, layers: int) -> Any:
    h = nodes
    for k in range(1, layers + 1):
        mean = np.zeros_like(h)
        for n in range(len(h)):
            arriving = [h[s] for s, t in edges if t == n]
            mean[n] = np.mean(arriving, axis=0) if arriving else 0
        h = np.maximum(h @ p[f"own{k}"]["w"].T + p[f"own{k}"]["b"] + mean @ p[f"others{k}"]["w"].T, 0)
    return h @ p["out"]["w"].T + p["out"]["b"]


def test_a_graph_network_on_graphs_of_several_sizes() -> None:
    """Graphs in one array give what each gives alone."""
    net = models.graph_network(3, hidden_size=4).on({"nodes": "N 2", "edges": "i64[E, 2]"})
    p = at_random(net.init(dtype=np.float64)[0])
    graphs = [(RANDOM.normal(size=(n, 2)), RANDOM.integers(0, n, (e, 2))) for n, e in ((3, 4), (1, 0), (5, 9))]
    starts = np.cumsum([0, *(len(nodes) for nodes, _ in graphs)])
    whole = {
        "nodes": np.concatenate([nodes for nodes, _ in graphs]),
        "edges": np.concatenate([edges + start for (_, edges), start in zip(graphs, starts)]),
    }
    wanted = np.concatenate([numpy_graph(p, nodes, edges, 2) for nodes, edges in graphs])
    np.testing.assert_allclose(net(p, whole), wanted, rtol=1e-12, atol=1e-12)


def test_causal_convolutions_see_the_past_alone() -> None:
    net = models.tcn(2, channels=3, num_layers=3).on("N L 1")
    p = at_random(net.init(dtype=np.float64)[0])
    x = RANDOM.normal(size=(1, 14, 1))
    other = x.copy()
    other[:, 4] += 1
    changed = np.abs(net(p, other) - net(p, x)).max((0, 2)) > 1e-12
    assert changed.tolist() == [k in range(4, 12) for k in range(14)]  # 1 + 7 steps


def test_causal_convolutions_equal_numpy() -> None:
    p = at_random(models.tcn(1, channels=2, num_layers=2).on("N L 1").init(dtype=np.float64)[0])
    x = RANDOM.normal(size=(1, 6, 1))

    def dense(name: str, y: Any) -> Any:
        return y @ p[name]["w"].T + p[name]["b"]

    h, skipped = dense("first", x), 0.0
    for k, gap in ((1, 1), (2, 2)):
        before = np.concatenate([np.zeros((1, gap, 2)), h[:, :-gap]], axis=1)
        w = p[f"gates{k}"]["w"]
        both = before @ w[:, :, 0].T + h @ w[:, :, 1].T + p[f"gates{k}"]["b"]
        y = np.tanh(both[..., :2]) / (1 + np.exp(-both[..., 2:]))
        skipped = skipped + dense(f"skip{k}", y)
        h = h + dense("rest1", y) if k == 1 else h
    wanted = dense("out2", np.maximum(dense("out1", np.maximum(skipped, 0)), 0))
    np.testing.assert_allclose(models.tcn(1, channels=2, num_layers=2)(p, x), wanted, rtol=1e-12, atol=1e-12)


def test_a_forecast_goes_on_step_by_step() -> None:
    net = models.deepar(hidden_size=3).on("N L 2")
    p = at_random(net.init(dtype=np.float64)[0])
    past, then, noise = (RANDOM.normal(size=s) for s in ((2, 4, 2), (2, 2, 1), (2, 3)))
    drawn = pb.function(lambda p, x, z, c: models.forecast(net, p, x, z, c))(p, past, noise, then)
    for s in range(3):  # the whole sequence is read again for each value
        y = net(p, past)
        value = (y["mean"] + y["scale"] * noise[:, s, None, None])[:, -1]
        np.testing.assert_allclose(drawn[:, s], value[:, 0], rtol=1e-10)
        if s < 2:
            past = np.concatenate([past, np.stack([value, then[:, s]], axis=2)], axis=1)


def test_gaussian_likelihood_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    mean, scale, target = RANDOM.normal(size=5), RANDOM.random(5) + 0.1, RANDOM.normal(size=5)
    found = pb.function(lambda m, s, t: models.gaussian_nll({"mean": m, "scale": s}, t))(mean, scale, target)
    np.testing.assert_allclose(found, -stats.norm.logpdf(target, mean, scale).mean(), rtol=1e-12)


def test_a_variational_autoencoder_and_its_loss() -> None:
    net = models.vae(2, hidden_size=3).on("N 1 2 2")
    p, state = net.init(dtype=np.float64)
    p, x = at_random(p), RANDOM.random((4, 1, 2, 2))
    y = net(p, x, state)
    seen = np.maximum(x.reshape(4, 4) @ p["encoder"]["dense1"]["w"].T + p["encoder"]["dense1"]["b"], 0)
    mean = seen @ p["mean"]["w"].T + p["mean"]["b"]
    np.testing.assert_allclose(y["mean"], mean, rtol=1e-12)
    drawn = models.vae_decoder((1, 2, 2), hidden_size=3)(p["decoder"], mean)
    np.testing.assert_allclose(y["logits"], drawn, rtol=1e-12)
    log_variance, z = y["log_variance"], y["logits"]
    pixels = (np.logaddexp(0, z) - x * z).sum((1, 2, 3))
    divergence = 0.5 * (mean**2 + np.exp(log_variance) - 1 - log_variance).sum(1)
    found = pb.function(lambda y, x: models.elbo_loss(y, x))(y, x)
    np.testing.assert_allclose(found, (pixels + divergence).mean(), rtol=1e-12)


def test_training_draws_a_point_near_the_mean() -> None:
    net = models.vae(2, hidden_size=3).on("N 1 2 2")
    p, state = net.init(dtype=np.float64)
    step = pb.function(lambda p, s, x: net.apply(p, s, x, training=True))
    x = RANDOM.random((4, 1, 2, 2))
    (one, after), (same, _) = step(p, state, x), step(p, state, x)
    other, _ = step(p, after, x)
    assert np.array_equal(one["logits"], same["logits"])
    assert not np.array_equal(one["logits"], other["logits"])
    assert np.array_equal(one["mean"], other["mean"])


def test_a_unet_of_multiples() -> None:
    net = models.unet(2, base_channels=2, depth=3)
    assert net.type.takes == "f32[N, C, 8 * H, 8 * W]"
    with pytest.raises(PullbackError) as error:
        net.on("N C 12 16")
    assert [n for n in str(error.value).splitlines() if not n.startswith(("  -->", "   |"))] == [
        "ShapeError [E162] unet: an image of f32[N, C, 12, 16] cannot be halved 3 times",
        "  try: sizes that are multiples of 8      See `pullback explain-error E162`",
    ]
    assert 'net.on("N C 12 16")' in str(error.value)


def test_a_unet_joins_resolutions() -> None:
    """With depth 1, its parts by hand."""
    net = models.unet(1, base_channels=2, depth=1).on("N 1 4 4")
    p = at_random(net.init(dtype=np.float64)[0])
    x = RANDOM.normal(size=(1, 1, 4, 4))
    twice = [nn.sequential(*(nn.conv(c, 3, padding=1), nn.relu) * 2) for c in (2, 4)]
    wide = twice[0](p["down1"], x)
    small = twice[1](p["bottom"], wide.reshape(1, 2, 2, 2, 2, 2).max((3, 5)))
    back = nn.conv_transpose(2, 2, stride=2)(p["wider1"], small)
    wanted = nn.conv(1, 1)(p["out"], twice[0](p["up1"], np.concatenate([wide, back], axis=1)))
    np.testing.assert_allclose(net(p, x), wanted, rtol=1e-12, atol=1e-12)


def test_a_vision_transformer_reads_patches() -> None:
    """A patch is a token, in the order of rows; with no position, their order does not matter."""
    net = models.vit(3, patch_size=2, embed_dim=4, num_heads=2, num_layers=1).on("N 1 4 4")
    p, _ = net.init(dtype=np.float64)
    p["positional_encoding1"]["w"][...] = 0
    x = RANDOM.normal(size=(2, 1, 4, 4))
    turned = np.concatenate([x[:, :, 2:], x[:, :, :2]], axis=2)
    np.testing.assert_allclose(net(p, turned), net(p, x), rtol=1e-10, atol=1e-12)
    p["positional_encoding1"]["w"][...] = RANDOM.normal(size=(4, 4))
    assert np.abs(net(p, turned) - net(p, x)).max() > 1e-6


@pytest.mark.slow
def test_a_small_resnet_reads_digits() -> None:
    """Six epochs reach 98 percent (docs/reference/models.md); the vision transformer is in the gallery."""
    digits = data.load("digits")
    (x, y), (x_test, y_test) = ((part.inputs[:, None], part.targets) for part in (digits.train, digits.test))
    rate = nn.cosine_decay_schedule(3e-3, decay_steps=3 * 44)
    net = models.resnet18(10, width_mult=1 / 8)
    run = nn.fit(net, nn.cross_entropy, (x, y), optimizer=nn.adam(rate), epochs=3, seed=0, progress=False)
    measured = {"parameters": run.parameters, "state": run.state, "metrics": [nn.metrics.accuracy]}
    accuracy = nn.evaluate(net, nn.cross_entropy, (x_test, y_test), **measured)["accuracy"]
    assert accuracy > 0.88, accuracy

"""The models beside PyTorch's: their sizes, and the loss and all gradients of narrow ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.nn import models
from pullback.nn.layer import Layer
from tests.unit.nn.torch_peers.cases import MODELS, distance, expected, leaves, our_model, wave


def size(net: Layer) -> int:
    return sum(int(np.prod([int(str(e)) for e in w.extents])) for _, w in net.type.wanted("parameters"))


@pytest.mark.parametrize(
    ("make", "takes", "count"),
    [
        (models.lenet, "N 1 28 28", 431_080),
        (models.lenet_tanh, "N 1 28 28", 431_080),
        (models.alexnet, "N 3 227 227", 60_965_224),
        (lambda: models.alexnet(groups=1), "N 3 227 227", 62_378_344),
        (models.overfeat, "N 3 231 231", 145_920_872),
        (models.vgg11, "N 3 224 224", 132_863_336),
        (models.alexnet_owt, "N 3 224 224", 61_100_840),
        (models.vgg13, "N 3 224 224", 133_047_848),
        (models.vgg16, "N 3 224 224", 138_357_544),
        (models.vgg19, "N 3 224 224", 143_667_240),
        (models.googlenet_bn, "N 3 224 224", 6_624_904),
        (models.resnet34, "N 3 224 224", 21_797_672),
        (models.resnet101, "N 3 224 224", 44_549_160),
        (models.resnet152, "N 3 224 224", 60_192_808),
        (models.googlenet, "N 3 224 224", 13_378_280),
        (lambda: models.googlenet(aux_logits=False), "N 3 224 224", 6_998_552),
        (models.resnet18, "N 3 224 224", 11_689_512),
        (models.resnet50, "N 3 224 224", 25_557_032),
        (models.mobilenet_v2, "N 3 224 224", 3_504_872),
    ],
)
def test_c31_parameters_are_as_many_as_in_the_papers(make: Any, takes: str, count: int) -> None:
    assert size(make().on(takes)) == count


@pytest.mark.parametrize("name", MODELS)
def test_c31_c33_loss_and_gradients_equal_pytorch(name: str) -> None:
    far, where = distance(our_model(name), expected()[name])
    assert far < 1e-11, where


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


def test_a_network_of_no_width() -> None:
    wanted = "E163 width_mult is 0 |  | a positive number: 1 is the paper's width"
    assert message(lambda: models.vgg11(width_mult=0)) == wanted


def test_c31_too_small_an_image_names_the_layer() -> None:
    assert message(lambda: models.alexnet(10, width_mult=1 / 8).on("N 3 32 32")) == (
        "E167 max_pool: windows that reach over 3 × 3 do not fit [2, 2] | in max_pool2 = max_pool(3, 2), which was "
        "given f32[N, 32, 2, 2] by local_response_norm2 | larger images, or fewer layers that make them smaller"
    )


def test_c31_classes_and_sizes_of_the_image_are_free() -> None:
    assert models.resnet18(7).on("N 1 40 48").type.result == "f32[N, 7]"
    assert models.resnet18(7).type.takes == "f32[N, C, H, W]"


@pytest.mark.slow
def test_c33_two_networks_learn_against_each_other() -> None:
    """The generator's step follows from d(g(z)), the discriminator's takes g(z) as it is."""
    g = models.generator(1, 8, base_channels=2).on("N 3")
    d = models.discriminator(base_channels=2).on("N 1 8 8")
    parameters = g.init(0, dtype=np.float64)[0], d.init(1, dtype=np.float64)[0]
    optimizers = nn.sgd(0.5), nn.adam(0.01)
    states = tuple(o.init(p) for o, p in zip(optimizers, parameters))
    images, noise = wave((4, 1, 8, 8), 1), wave((4, 3), 2)
    step = pb.function(models.gan_step(g, d, optimizers))
    moved, _, (of_generator, of_discriminator) = step.interpret(parameters, states, 0, images, noise)

    made = g(parameters[0], noise)
    scores, others = d(parameters[1], made), d(parameters[1], images)
    np.testing.assert_allclose(of_generator, np.log1p(np.exp(-scores)).mean(), rtol=1e-12)
    wanted = (np.log1p(np.exp(-others)) + np.log1p(np.exp(scores))).mean()
    np.testing.assert_allclose(of_discriminator, wanted, rtol=1e-12)

    def loss(p: Any, z: Any) -> Any:
        return pb.mean(nn.softplus(-d(parameters[1], g(p, z))))

    gradient = pb.grad(pb.function(loss), wrt="p").interpret(parameters[0], noise)
    for path, leaf in leaves(gradient):
        before, now = (dict(leaves(tree[0]))[path] for tree in (parameters, moved))
        np.testing.assert_allclose(now, before - 0.5 * leaf, rtol=1e-9, atol=1e-12)
    for path, leaf in leaves(moved[1]):  # the first step of adam has the size of its rate
        change = np.abs(leaf - dict(leaves(parameters[1]))[path])
        np.testing.assert_allclose(change[change > 0], 0.01, rtol=1e-3)


def test_c33_a_policy_learns_from_rewards() -> None:
    """The policy must choose the one of four places that it sees; a reward says whether it did."""
    net = models.policy(4, hidden_size=8).on("N 4")
    optimizer = nn.adam(0.05)

    @pb.function
    def step(p: Any, s: Any, k: Any, seen: Any, actions: Any, returns: Any) -> Any:
        gradient = pb.grad(lambda p: models.reinforce(net(p, seen), (actions, returns)), wrt="p")(p)
        change, after = optimizer.update(gradient, s, p, k)
        return pb.tree_map(lambda a, c: a + c, p, change), after

    random = np.random.default_rng(0)
    p = net.init(0, dtype=np.float64)[0]
    s = optimizer.init(p)
    for k in range(150):
        seen = np.eye(4)[random.integers(4, size=16)]
        scores = net(p, seen)
        actions = np.argmax(scores + random.gumbel(size=scores.shape), axis=1)
        rewards = (actions == seen.argmax(1)).astype(float)
        p, s = step(p, s, k, seen, actions, rewards - 0.25)
    assert (net(p, np.eye(4)).argmax(1) == np.arange(4)).all()


def test_c33_returns_are_discounted_sums() -> None:
    rewards = wave((6,), 1)
    wanted = [sum(0.9 ** (k - t) * rewards[k] for k in range(t, 6)) for t in range(6)]
    found = pb.function(lambda r: models.discounted_returns(r, 0.9)).interpret(rewards)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)

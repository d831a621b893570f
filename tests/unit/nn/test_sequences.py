"""Layers of sequences beside PyTorch's: values, and gradients by the input and every parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from tests.unit.nn.torch_peers.cases import LAYERS, distance, expected, ours


@pytest.mark.parametrize("name", LAYERS)
def test_c27_layers_equal_pytorch(name: str) -> None:
    far, where = distance(ours(LAYERS[name], np.float64, interpreted=True), expected()[name])
    assert far < 1e-11, where


@pytest.mark.parametrize("name", ["ctc", "lstm-two-both", "gru", "attention-groups-rotary"])
@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 1e-5), (np.float64, 1e-11)])
def test_c27_layers_in_c_equal_pytorch(name: str, dtype: Any, most: float) -> None:
    far, where = distance(ours(LAYERS[name], dtype, interpreted=False), expected()[name])
    assert far < most, where


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


@pytest.mark.parametrize("make", [nn.lstm, nn.gru])
def test_a_sequence_in_two_parts_with_the_state_between(make: Any) -> None:
    net = make(4, num_layers=2).on("2 6 3")
    p, _ = net.init(seed=3, dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(2, 6, 3))

    @pb.function
    def halves(p: Any, x: Any) -> Any:
        first, state = net(p, (x[:, :4], None))
        second, state = net(p, (x[:, 4:], state))
        return pb.concat([first, second], axis=1), state

    joined, state = halves.interpret(p, x)
    np.testing.assert_allclose(joined, net(p, x), atol=1e-14)
    np.testing.assert_allclose(state[1]["h"], joined[:, -1], atol=1e-14)


def test_two_directions_of_different_layers() -> None:
    net = nn.bidirectional(nn.lstm(4), nn.gru(3)).on("2 6 5")
    p, _ = net.init(seed=3, dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(2, 6, 5))
    y = net(p, x)
    np.testing.assert_allclose(y[:, :, :4], nn.lstm(4)(p["forward"], x), atol=1e-14)
    np.testing.assert_allclose(y[:, ::-1, 4:], nn.gru(3)(p["backward"], x[:, ::-1]), atol=1e-14)


def test_rotated_products_follow_from_the_distance() -> None:
    q = np.broadcast_to(np.random.default_rng(0).normal(size=8), (1, 9, 1, 8))
    turned = pb.function(lambda x: nn.rotary_embedding(x)).interpret(np.ascontiguousarray(q))[0, :, 0]
    products = turned @ turned.T
    for k in range(9):
        np.testing.assert_allclose(np.diagonal(products, k), products[0, k], atol=1e-12)


def test_an_integer_without_a_row_is_an_error() -> None:
    net = nn.embedding(3, 2)
    for bad in (3, -1):
        assert message(lambda: net({"w": np.ones((3, 2))}, np.array([[0, bad]]))).startswith("E401 ")


def test_labels_that_do_not_fit_their_sequence_are_infinitely_unlikely() -> None:
    loss = pb.function(lambda x, labels, lengths: nn.ctc_loss(x, labels, lengths))
    x, labels = np.zeros((3, 3, 3)), np.array([[1, 1], [1, 2], [2, 2]])
    value = loss.interpret(x, labels, np.array([2, 2, 3]))
    np.testing.assert_allclose(value, [np.inf, np.log(9), np.log(27)], rtol=1e-12)
    by_x = pb.grad(pb.function(lambda x, labels, lengths: pb.sum(nn.ctc_loss(x, labels, lengths))), wrt="x")
    gradient = by_x.interpret(x, labels, np.array([2, 2, 3]))
    assert np.isfinite(gradient).all() and not gradient[0].any() and not gradient[1, 2].any()


def test_features_of_heads_follow() -> None:
    assert nn.attention(4).type.takes == "f32[N, L, 4 * D]"
    for encoding in (nn.positional_encoding("learned"), nn.positional_encoding("learned", max_length=9)):
        assert encoding.type.result == "f32[N, L, M]"
    assert nn.attention(4, rotary=True).type.takes == "f32[N, L, 8 * D]"


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda: nn.lstm(0), "E163 lstm: hidden_size is 0 |  | a whole number from 1 up: `hidden_size=1`"),
        (lambda: nn.gru(3, num_layers=0), "E163 gru: num_layers is 0 |  | a whole number from 1 up: `num_layers=1`"),
        (
            lambda: nn.lstm(3, reverse=True, bidirectional=True),
            "E163 lstm: reverse and bidirectional |  | one of `reverse`, `bidirectional`",
        ),
        (
            lambda: nn.embedding(0, 3),
            "E163 embedding: num_embeddings is 0 |  | a whole number from 1 up: `num_embeddings=1`",
        ),
        (
            lambda: nn.attention(4, num_kv_heads=3),
            "E163 attention: num_heads is 4, num_kv_heads 3 |  | a `num_kv_heads` that divides `num_heads`",
        ),
        (
            lambda: nn.attention(4).on("N L 30"),
            "E162 attention: 4 heads do not share 30 features evenly |  | a multiple of 4 features",
        ),
        (
            lambda: nn.attention(4, rotary=True).on("N L 20"),
            "E162 attention: 4 heads do not share 20 features evenly in pairs |  | a multiple of 8 features",
        ),
        (
            lambda: pb.function(lambda x, y: nn.ctc_loss(x, y))(np.zeros((2, 3, 4)), np.zeros((3, 2), int)),
            "E102 ctc_loss: the input has 2 sequences, the targets 3 |  | targets (N, S) for an input (N, L, K), with "
            "`target_lengths` where some have fewer",
        ),
        (
            lambda: pb.function(lambda x, y: nn.ctc_loss(x, y, blank=4))(np.zeros((2, 3, 4)), np.zeros((2, 2), int)),
            "E163 ctc_loss: blank is 4, of 4 classes |  | the number of a class, from 0 up",
        ),
        (
            lambda: nn.positional_encoding("rotary"),
            "E163 positional_encoding: kind is 'rotary' |  | one of 'sinusoidal', 'learned'",
        ),
        (
            lambda: nn.positional_encoding("learned", max_length=3).on("N 4 2"),
            "E162 positional_encoding: 4 steps where 3 are learned |  | `max_length=4`",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_layer_of_sequences(f: Any, what: str) -> None:
    assert message(f) == what

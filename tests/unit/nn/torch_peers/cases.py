"""Networks whose values and gradients are compared with PyTorch's: numbers that go in, and what is kept of results."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import models
from pullback.nn.layer import Layer

NUMBERS = Path(__file__).parent / "numbers.json"
Values = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A network and what it is given; for integers, below which number; and whether it runs as training does."""

    make: Callable[[], Layer]
    shape: tuple[int, ...]
    below: int | None = None
    training: bool = False

    def network(self) -> Layer:
        """The network for this input."""
        return self.make().on(" ".join(map(str, self.shape)))

    def input(self, dtype: Any) -> Values:
        """The input."""
        if self.below is not None:
            return np.floor((wave(self.shape, 1) + 1) / 2 * self.below).astype(np.int64)
        return wave(self.shape, 1).astype(dtype)


LABELS = np.array([[2, 2, 1], [1, 2, 3], [3, 1, 0]])
LENGTHS, LABEL_LENGTHS = np.array([7, 5, 6]), np.array([3, 3, 1])


@nn.layer("N L K")
def ctc(scope: Any, x: Any) -> Any:
    return nn.ctc_loss(x, LABELS, LENGTHS, LABEL_LENGTHS)


MASK = np.array([[True, True, False, True, True], [False, True, True, False, True]])


@nn.layer("N L M")
def looking(scope: Any, x: Any, heads: int, groups: int, causal: bool = False) -> Any:
    """Three steps that attend to five others."""
    look = nn.attention(heads, num_kv_heads=groups, is_causal=causal)
    given = {"query": x[:, :3], "key": x[:, 3:]} | ({"mask": MASK} if causal else {})
    return scope.call(look, given, "look")


@nn.layer("N L M")
def passed_on(scope: Any, x: Any, kind: Any) -> Any:
    """Two layers, of which the second begins with the state after the last step of the first."""
    one, two = (nn.with_states(nn.sequential(kind(4).named("cell"))) for _ in range(2))
    y, states = scope.call(one, (x[:, :2], None), "one")
    z, states = scope.call(two, (x[:, 2:], states), "two")
    last = [pb.expand_dims(state, 1) for _, state in sorted(states["cell"].items())]
    return pb.concat([y, z, *last], axis=1)


LAYERS = {
    "ctc": Case(ctc, (3, 7, 4)),
    "embedding": Case(lambda: nn.embedding(7, 5), (3, 4), 7),
    "lstm": Case(lambda: nn.lstm(4), (2, 5, 3)),
    "lstm-last-backward": Case(lambda: nn.lstm(4, return_sequences=False, reverse=True), (2, 5, 3)),
    "lstm-two-both": Case(lambda: nn.lstm(4, num_layers=2, bidirectional=True), (2, 5, 3)),
    "gru": Case(lambda: nn.gru(4), (2, 5, 3)),
    "gru-two-both": Case(lambda: nn.gru(4, num_layers=2, bidirectional=True), (2, 5, 3)),
    "attention": Case(lambda: nn.attention(2), (2, 5, 8)),
    "attention-causal": Case(lambda: nn.attention(4, is_causal=True), (2, 5, 8)),
    "attention-groups-rotary": Case(lambda: nn.attention(4, num_kv_heads=2, rotary=True, is_causal=True), (2, 5, 16)),
    "attention-other": Case(lambda: looking(2, 2), (2, 8, 8)),
    "attention-other-causal-mask": Case(lambda: looking(4, 2, causal=True), (2, 8, 8)),
    "lstm-states": Case(lambda: passed_on(nn.lstm), (2, 5, 3)),
    "gru-states": Case(lambda: passed_on(nn.gru), (2, 5, 3)),
    "position-learned": Case(lambda: nn.positional_encoding("learned", max_length=7), (2, 5, 6)),
    "position": Case(lambda: nn.positional_encoding(), (2, 5, 6)),
}


CLASSES = 10
MODELS = {
    "lenet": Case(lambda: models.lenet(), (2, 1, 28, 28)),
    "lenet_tanh": Case(lambda: models.lenet_tanh(), (2, 1, 28, 28)),
    "alexnet": Case(lambda: models.alexnet(CLASSES, width_mult=1 / 8), (2, 3, 67, 67)),
    "overfeat": Case(lambda: models.overfeat(CLASSES, width_mult=1 / 16), (2, 3, 71, 71)),
    "vgg11": Case(lambda: models.vgg11(CLASSES, width_mult=1 / 8), (2, 3, 32, 32)),
    "vgg16": Case(lambda: models.vgg16(CLASSES, width_mult=1 / 8), (2, 3, 32, 32)),
    "googlenet": Case(
        lambda: models.googlenet(CLASSES, width_mult=1 / 8, dropout=(0, 0)), (1, 3, 80, 80), training=True
    ),
    "resnet18": Case(lambda: models.resnet18(CLASSES, width_mult=1 / 8), (2, 3, 64, 64), training=True),
    "resnet50": Case(lambda: models.resnet50(CLASSES, width_mult=1 / 8), (2, 3, 64, 64), training=True),
    "mobilenet_v2": Case(
        lambda: models.mobilenet_v2(CLASSES, width_mult=1 / 4, dropout=0), (4, 3, 64, 64), training=True
    ),
    "character_lstm": Case(lambda: models.character_lstm(11, hidden_size=8), (2, 6), 11),
    "gpt": Case(lambda: models.gpt(11, embed_dim=16, num_layers=2, max_length=7), (2, 6), 11),
    "autoencoder": Case(lambda: models.autoencoder(12), (3, 1, 4, 5)),
}


def target(name: str, case: Case) -> Values:
    """The targets of a model: a label for each image or letter, or the image itself."""
    if name == "autoencoder":
        return wave(case.shape, 1)
    shape = case.shape if case.below else case.shape[:1]
    return 7 * np.arange(np.prod(shape)).reshape(shape) % CLASSES


def wave(shape: tuple[int, ...], seed: int) -> Values:
    """Numbers between -1 and 1 without order, the same on every machine."""
    k = np.arange(1, int(np.prod(shape)) + 1, dtype=np.float64)
    return np.sin(0.37 * k * k + seed).reshape(shape)


def filled(tree: dict[str, Any], dtype: Any, path: str = "") -> dict[str, Any]:
    """A tree of the same shapes, filled by name: weights by their fan in, the rest near where it starts."""
    out: dict[str, Any] = {}
    for name, leaf in tree.items():
        place = f"{path}/{name}" if path else name
        if isinstance(leaf, dict):
            out[name] = filled(leaf, dtype, place)
            continue
        values = wave(leaf.shape, zlib.crc32(place.encode()) % 1000)
        many = leaf.ndim > 1
        scale = np.sqrt(2 / np.prod(leaf.shape[1:])) if many else 0.25
        out[name] = (scale * values + (0 if many else leaf)).astype(dtype)
    return out


def leaves(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a tree with their paths."""
    for name, leaf in tree.items():
        place = f"{path}/{name}" if path else name
        if isinstance(leaf, dict):
            yield from leaves(leaf, place)
        else:
            yield place, leaf


def digest(a: Any) -> list[float]:
    """Two numbers that follow from all of an array's: its norm, and its product with a wave."""
    values = np.asarray(a, np.float64).ravel()
    return [float(np.sqrt(values @ values)), float(values @ wave(values.shape, 2))]


def ours(case: Case, dtype: Any, *, interpreted: bool) -> dict[str, list[float]]:
    """Pullback's results of a case: digests of the value, and of the gradients of its product with a wave."""
    net = case.network()
    parameters, state = net.init(dtype=dtype)
    given = filled(parameters, dtype)
    x = case.input(dtype)

    def loss(p: Any, x: Any, s: Any, r: Any) -> Any:
        y = net(p, x, s)
        return pb.sum(y * r), y

    wrt = tuple(n for n in (("p",) if given else ()) + (("x",) if case.below is None else ()))
    derivative = pb.value_and_grad(pb.function(loss), wrt=wrt, has_aux=True)
    shape = [int(e) for e in net.type.result.partition("[")[2].rstrip("]").split(",")]
    arguments = given, x, state, wave(tuple(shape), 3).astype(dtype)
    (_, y), gradients = (derivative.interpret if interpreted else derivative)(*arguments)
    found = dict(zip(wrt, gradients))
    out = {"result": digest(y)}
    if "x" in found:
        out["input"] = digest(found["x"])
    return out | {name: digest(g) for name, g in leaves(found.get("p", {}))}


def our_model(name: str, *, interpreted: bool = True) -> dict[str, list[float]]:
    """Pullback's results of a model: its loss, and digests of the gradients by all parameters."""
    case = MODELS[name]
    net = case.network()
    parameters, state = net.init(dtype=np.float64)
    x = case.input(np.float64)
    loss = nn.mse_loss if name == "autoencoder" else models.with_auxiliary(nn.cross_entropy)
    objective = pb.function(nn.objective(net, loss, training=case.training))
    derivative = pb.value_and_grad(objective, wrt="parameters", has_aux=True)
    given = filled(parameters, np.float64), state, (x, target(name, case))
    (value, _), gradient = (derivative.interpret if interpreted else derivative)(*given)
    return {"loss": [float(value), 0.0]} | {k: digest(g) for k, g in leaves(gradient)}


def expected() -> dict[str, dict[str, list[float]]]:
    """PyTorch's numbers, as they are stored."""
    found: dict[str, dict[str, list[float]]] = json.loads(NUMBERS.read_text())
    return found


def distance(found: dict[str, list[float]], wanted: dict[str, list[float]]) -> tuple[float, str]:
    """The largest difference, and where: relative to the norm of its array, or to 0.1 where sums cancel to less."""
    assert found.keys() == wanted.keys()
    return max((max(abs(a - b) for a, b in zip(found[k], wanted[k])) / max(wanted[k][0], 0.1), k) for k in wanted)

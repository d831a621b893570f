"""Low-rank adapters (LoRA): fine-tune a network by small matrices beside frozen weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np

from pullback.errors import TraceError
from pullback.nn import init as initializers
from pullback.nn.layer import Layer, Parameters, as_layer
from pullback.nn.layers.convolution import conv
from pullback.nn.layers.dense import dense
from pullback.nn.scope import Initializer, LayerPart, Scope
from pullback.nn.settings import check_matches, check_number, check_whole, refused
from pullback.source import user_position
from pullback.tracing.array import Array

__all__ = ["Adapted", "lora"]

DOWN, UP = "lora_a", "lora_b"  # the names of the adapters' layers
WEIGHTS: Final = "w"
Where = str | Sequence[str] | Callable[[str], bool]


def lora(net: Any, rank: int = 8, *, alpha: float | None = None, where: Where = "*", trainable: Where = ()) -> Adapted:
    """Add trainable matrices of low rank to the frozen weights of a network (LoRA, Hu et al. 2021).

        y = w x + alpha / rank · lora_b (lora_a x)       w, and all other parameters, stay as they are

    The parameters of the new network are the adapters alone. All other arrays are in its state. So any optimizer trains
    the adapters only, and `nn.save_parameters` saves them alone. A convolution has a convolution as lora_a, and one of
    size 1 as lora_b. lora_b begins as zeros: the network begins as it was.

    Args:
        net: the network. `init` gives its initial arrays; `net.starting_from(parameters, state)` has trained ones.
        rank: the rank of the adapters.
        alpha: the factor of the adapters, times rank; by default `rank`.
        where: the weights with adapters: names or patterns ("*query/w"), or a function of the name that returns a bool.
            Only the weights w of `dense` and `conv` in one group have adapters.
        trainable: parameters that are trained as they are, such as a new last layer: names, patterns or a function.
    Returns:
        A network. `merge` gives the parameters and the state of `net` with the adapters added.
    Raises:
        TraceError: [E170] a setting is out of range. [E108] A pattern matches no parameter.

    >>> from pullback import nn
    >>> net = nn.sequential(nn.dense(32), nn.relu, nn.dense(10)).on("N 64")
    >>> small = nn.lora(net, rank=4, trainable="dense2/*")
    >>> parameters, state = small.init(seed=0)
    >>> {layer: sorted(arrays) for layer, arrays in parameters.items()}, sorted(state["dense1"])
    ({'dense1': ['lora_a', 'lora_b'], 'dense2': ['b', 'w']}, ['b', 'w'])
    >>> merged, _ = small.merge(parameters, state)
    >>> merged["dense1"]["w"].shape
    (32, 64)
    """
    base = as_layer(net)
    check_whole("lora", "rank", rank)
    if alpha is not None:
        check_number("lora", "alpha", alpha, above=True)
    settings = _Settings(rank, alpha, _chosen("where", where), _chosen("trainable", trainable))
    text = f"lora({base!r}, {rank}" + (f", alpha={alpha!r})" if alpha is not None else ")")

    def forward(scope: Scope, x: Any) -> Any:
        own = _Frozen.of(scope, settings, len(scope.path), _Names())
        y = own.around(base).forward(own, x)
        own.names.check(settings)
        return y

    return Adapted(
        base.kind if base.kind != "sequential" else "network", forward, base.takes, base.integers, text=text,
        name=base.name, parts=base.parts, accepts=base.accepts, base=base, adapters=settings,
    )  # fmt: skip


@dataclass(frozen=True)
class _Settings:
    """The settings of adapters; those of names are patterns or a function."""

    rank: int = 0
    alpha: float | None = None
    where: tuple[str, ...] | Callable[[str], bool] = ()
    trainable: tuple[str, ...] | Callable[[str], bool] = ()

    @property
    def factor(self) -> float:
        """The factor of the adapters' results."""
        return 1.0 if self.alpha is None else self.alpha / self.rank

    def adapts(self, name: str) -> bool:
        """Whether weights have adapters."""
        return _fits(self.where, name) and not self.trains(name)

    def trains(self, name: str) -> bool:
        """Whether a parameter is trained as it is."""
        return _fits(self.trainable, name)


def _chosen(setting: str, given: Any) -> tuple[str, ...] | Callable[[str], bool]:
    if callable(given):
        return given  # type: ignore[no-any-return]
    patterns = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else (None,)
    if not all(isinstance(p, str) for p in patterns) or (setting == "where" and not patterns):
        raise refused("lora", setting, given, 'names or patterns of parameters: "*query/w", or a function of the name')
    return patterns


def _fits(chosen: tuple[str, ...] | Callable[[str], bool], name: str) -> bool:
    return bool(chosen(name)) if callable(chosen) else any(fnmatchcase(name, p) for p in chosen)


@dataclass(frozen=True, eq=False, repr=False)
class Adapted(Layer):
    """A network with adapters (`lora`).

    Attributes:
        base: the network without them.
        adapters: their settings.
    """

    base: Layer = field(kw_only=True)
    adapters: _Settings = field(kw_only=True)

    def merge(self, parameters: Any, state: Any) -> tuple[Parameters, Parameters]:
        """Return parameters and state of the network without adapters, with these added to the weights.

        Args:
            parameters: the parameters, after training.
            state: the state, after training.
        Raises:
            TraceError: [E160] an array is missing.

        >>> from pullback import nn
        >>> net = nn.lora(nn.dense(1, bias=False).on("N 2"), rank=1)
        >>> adapter = {"lora_a": {"w": np.array([[1.0, 2.0]])}, "lora_b": {"w": np.array([[10.0]])}}
        >>> net.merge(adapter, {"w": np.array([[0.5, 0.5]])})
        ({'w': array([[10.5, 20.5]])}, {})
        """
        known = self.base.on(self.takes).type if self.takes is not None else self.base.type
        own = {path for path, _ in self.type.wanted("parameters")}
        trees: tuple[Parameters, Parameters] = {}, {}
        for path, _ in known.wanted("parameters"):
            trained = self.adapters.trains("/".join(path))
            w = np.asarray(_at(parameters if trained else state, path))
            down, up = ((*path[:-1], layer, WEIGHTS) for layer in (DOWN, UP))
            if path[-1] == WEIGHTS and down in own:
                w = self._added(w, np.asarray(_at(parameters, down)), np.asarray(_at(parameters, up)))
            _put(trees[0], path, w)
        for path, _ in known.wanted("state"):
            _put(trees[1], path, np.asarray(_at(state, path)))
        return trees

    def _added(self, w: Any, down: Any, up: Any) -> Any:
        """The weights plus the product of the adapters, rounded once."""
        product = up.reshape(len(up), -1).astype(np.float64) @ down.reshape(len(down), -1)
        return (w + self.adapters.factor * product.reshape(w.shape)).astype(w.dtype)


@dataclass
class _Names:
    """The parameters that the network has, and those that may have adapters."""

    all: list[str] = field(default_factory=list)
    adaptable: list[str] = field(default_factory=list)

    def check(self, settings: _Settings) -> None:
        """Refuse patterns that match nothing, and a network that has no adapters."""
        if not callable(settings.where):
            check_matches("lora: where", settings.where, self.adaptable)
        if not callable(settings.trainable):
            check_matches("lora: trainable", settings.trainable, self.all)
        if not any(map(settings.adapts, self.adaptable)):
            raise TraceError("E108", "lora: no weights have adapters", position=user_position(),
                             facts=[f"weights: {', '.join(self.adaptable)}"],
                             remedy='`where="*"` for those of all layers `dense` and `conv`')  # fmt: skip


class _Frozen(Scope):
    """A scope whose parameters are states, except for those of adapters and trained layers."""

    settings: _Settings
    depth: int  # of the network with adapters in the path
    names: _Names

    @classmethod
    def of(cls, scope: Scope, settings: _Settings, depth: int, names: _Names) -> _Frozen:
        """The scope with frozen parameters at the place of another one."""
        if isinstance(scope, _Frozen):
            raise TraceError("E163", "lora: a network with adapters in another one", position=user_position(),
                             remedy="`net.merge(parameters, state)` first")  # fmt: skip
        own = cls.__new__(cls)
        own.__dict__.update(scope.__dict__, settings=settings, depth=depth, names=names)
        return own

    def parameter(self, name: str, shape: Any, init: Initializer | None = None) -> Array:
        """The frozen array, from the state; or the trained one."""
        full = self._full(name)
        self.names.all.append(full)
        if self.settings.trains(full):
            return super().parameter(name, shape, init)
        default = initializers.kaiming_normal() if _rank(shape) > 1 else initializers.zeros()
        return super().state(name, shape, self._start(0, name, init or default))

    def state(self, name: str, shape: Any, init: Initializer | None = None, *, dtype: Any = None) -> Array:
        """A state of the layer itself; its name must not be that of a frozen parameter."""
        if self._full(name) in self.names.all:
            raise TraceError("E163", f"lora: {self._full(name)} is a parameter and a state", position=user_position(),
                             remedy="another name for one of them")  # fmt: skip
        return super().state(name, shape, init, dtype=dtype)

    def run(self, layer: LayerPart, x: Any) -> Any:
        """Call a layer, with adapters if it has them."""
        return super().run(self.around(layer) if isinstance(layer, Layer) else layer, x)

    def around(self, layer: Layer) -> Layer:
        """The layer of this scope with adapters, or as it is."""
        if not _adaptable(layer):
            return layer
        self.names.adaptable.append(self._full(WEIGHTS))
        if not self.settings.adapts(self._full(WEIGHTS)):
            return layer
        down, up = _adapters(layer, self.settings.rank)

        def forward(scope: Scope, x: Any) -> Any:
            y = layer.forward(scope, x)
            return y + self.settings.factor * scope.call(up, scope.call(down, x, DOWN), UP)

        return replace(layer, forward=forward)

    def _inside(self, own: str) -> Scope:
        inner = super()._inside(own)
        return inner if own in (DOWN, UP) else _Frozen.of(inner, self.settings, self.depth, self.names)

    def _full(self, name: str) -> str:
        return "/".join((*self.path[self.depth :], name))


def _adaptable(layer: Layer) -> bool:
    """Whether a layer is linear in its weights, and these are one matrix."""
    known = {"dense": dense(1).settings, "conv": conv(1, 1).settings}.get(layer.kind)
    return known is not None and layer.settings.keys() == known.keys() and layer.settings.get("groups", 1) == 1


def _adapters(layer: Layer, rank: int) -> tuple[Layer, Layer]:
    """The layer to `rank` features, and the one from them."""
    given, zeros = dict(layer.settings), initializers.zeros()
    if layer.kind == "dense":
        return dense(rank, bias=False), dense(given["units"], bias=False, init=zeros)
    channels, one = given["out_channels"], tuple(1 for _ in _space(given))
    plain = conv(1, 1).settings
    windows = {k: v for k, v in given.items() if k in ("stride", "padding", "dilation", "layout") and v != plain[k]}
    layout = {k: v for k, v in windows.items() if k == "layout"}
    down = conv(rank, given["kernel_size"], bias=False, **windows)
    return down, conv(channels, one, bias=False, init=zeros, **layout)


def _space(settings: Mapping[str, Any]) -> Sequence[Any]:
    """A sequence with as many elements as a convolution has spatial axes."""
    tuples = (v for k in ("kernel_size", "stride", "padding", "dilation") if isinstance(v := settings[k], tuple | list))
    return next(iter(tuples), (1, 1))


def _rank(shape: Any) -> int:
    return len(shape) if isinstance(shape, tuple | list) else 1


def _at(tree: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(tree, Mapping) or name not in tree:
            raise TraceError("E160", f"merge: no array {'/'.join(path)} is given", position=user_position(),
                             remedy="the parameters and the state of the network with adapters")  # fmt: skip
        tree = tree[name]
    return tree


def _put(tree: Any, path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value

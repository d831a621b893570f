"""The `Scope` of a layer: it provides parameters, state and random keys where the layer uses them.

A layer is a function of a scope and its input. While types are inferred, the scope returns zeros and records the
requests. During computation it returns the given arrays. So the shapes of parameters are stated only where they are
used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

import numpy as np

import pullback as pb
from pullback.errors import DTypeError, PullbackError, ShapeError, TraceError
from pullback.ir import nodes as ir
from pullback.ir.index import DimSymbol, Index
from pullback.ir.types import DType
from pullback.nn.inputs import tree_text
from pullback.source import user_position, walked
from pullback.state import PerThread
from pullback.tracing import tree
from pullback.tracing.array import Array, shape_text, type_text
from pullback.tracing.making import as_array, extent_of
from pullback.tracing.tracer import current

__all__ = ["AROUND", "Call", "Initializer", "LayerPart", "Replaced", "Scope", "Wanted", "check_axes", "type_of"]

Initializer = Callable[[np.random.Generator, tuple[int, ...], Any], np.ndarray[Any, Any]]
Tree = dict[str, Any]
Starts = tuple[Mapping[str, Any], Mapping[str, Any]]  # initial parameters and state, trees that may be incomplete


MIXING: Final = frozenset({  # layers that combine steps or samples, or move axes
    "avg_pool", "batch_norm", "concat", "conv", "conv_transpose", "flatten", "global_avg_pool", "global_max_pool",
    "group_norm", "instance_norm", "local_response_norm", "max_pool", "permute", "reshape",
})  # fmt: skip


class _Around(PerThread):
    """A function of a scope, a layer and its input that runs the layer; None to call it directly."""

    run: Callable[[Any, Any, Any], Any] | None = None


AROUND = _Around()


class LayerPart(Protocol):
    """The interface of a layer that a scope uses (`layer.Layer`)."""

    @property
    def kind(self) -> str:
        """The kind of the layer, which names it in a network, followed by a number."""

    @property
    def name(self) -> str | None:
        """The name that the user gave, instead of the kind."""

    @property
    def forward(self) -> Callable[[Scope, Any], Any]:
        """The function that computes the layer."""

    @property
    def accepts(self) -> str | None:
        """The required axes of the input, as an annotation writes them; None if any are accepted."""


@dataclass(frozen=True)
class Wanted:
    """A requested array of a layer: its local name, its shape, and its initializer."""

    name: str
    extents: tuple[Index, ...]
    init: Initializer
    dtype: Any  # an element type, None for that of the network


@dataclass
class Call:
    """A call of a layer: its input, its result, and its requested arrays."""

    path: tuple[str, ...]
    layer: LayerPart
    given: str
    result: str = ""
    structure: tree.Structure = tree.LEAF  # of the result
    arrays: tuple[tuple[DType, tuple[Index, ...]], ...] = ()  # element types and sizes of the result
    parameters: list[Wanted] = field(default_factory=list)
    state: list[Wanted] = field(default_factory=list)
    carried: list[Wanted] = field(default_factory=list)
    composed: bool = False  # whether it is composed of layers
    statements: tuple[ir.Statement, ...] = ()  # the statements of the layer and its parts

    @property
    def name(self) -> str:
        """The path of the layer, as errors and tables write it."""
        return "/".join(self.path)

    @property
    def shown(self) -> bool:
        """Whether tables have a row for it: it is not composed of others, or has arrays of its own."""
        return not self.composed or bool(self.parameters or self.state)


class Replaced(Exception):
    """Raised to replace a dim of the network's input, so that two shapes become equal."""

    def __init__(self, symbol: str, extent: Index) -> None:
        super().__init__(symbol, extent)
        self.symbol = symbol
        self.extent = extent


class Scope:
    """The place of a layer in a network, while the network is traced.

    Attributes:
        path: the names of the layers from the network down to this one.
        training: whether this is a training step, with dropout and batch statistics.
        after: the layer called before this one in the same parent, for errors.
        mask: bools (N, L), true where a step of a sequence is there, within `nn.masked`; else None. A layer that mixes
            steps leaves out the others.
        part_of: converts a called object, or a function of arrays, to a layer; `layer` sets it.
    """

    part_of: ClassVar[Callable[[Any], Any]]

    def __init__(
        self,
        path: tuple[str, ...] = (),
        *,
        parameters: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        training: bool = False,
        calls: list[Call] | None = None,
        dtype: Any = None,
        after: str | None = None,
        carried: Mapping[str, Any] | None = None,
        starts: Starts = ({}, {}),
        mask: Array | None = None,
    ) -> None:
        self.path = path
        self.mask = mask
        self.after = after
        self.training = training
        self._parameters = {} if parameters is None else parameters
        self._state = {} if state is None else state
        self._calls = calls  # where requests are recorded; None if arrays are given
        self._call: Call | None = None
        self._dtype = dtype
        self._counts: Counter[str] = Counter()
        self._before: str | None = None  # the layer that was called last
        self._next: Tree = dict(self._state)
        self._carried = carried  # where sequences go on; None if each begins anew
        self._carried_next: Tree = {}
        self._starts = starts

    # The interface for layers ------------------------------------------------------------------------------------

    def parameter(self, name: str, shape: Any, init: Initializer | None = None) -> Array:
        """Return a trainable array.

        Args:
            name: the array's name in this layer. Equal names give the same array.
            shape: the sizes: ints, dims of the input, or arithmetic on these.
            init: an initializer of `pullback.nn.init`; by default `kaiming_normal` for two axes or more, else zeros.
        Returns:
            The array, of the network's element type.
        Raises:
            TraceError: [E160] the given parameters lack this array. ShapeError: [E161] the array has another shape.
        """
        from pullback.nn import init as initializers

        extents = _extents(shape)
        chosen = init or (initializers.kaiming_normal() if len(extents) > 1 else initializers.zeros())
        chosen = self._start(0, name, chosen)
        return self._array("parameter", Wanted(name, extents, chosen, None), self._parameters)

    def state(self, name: str, shape: Any, init: Initializer | None = None, *, dtype: Any = None) -> Array:
        """Return the value, before this step, of an array that training updates without gradients."""
        from pullback.nn import init as initializers

        chosen = self._start(1, name, init or initializers.zeros())
        return self._array("state", Wanted(name, _extents(shape), chosen, dtype), self._next)

    def update(self, name: str, value: Any) -> None:
        """Set the value of a state after this step; its element type stays."""
        self._next[name] = pb.asarray(value).astype(self._next[name].dtype) if name in self._next else value

    def carried(self, name: str, shape: Any, *, dtype: Any = None) -> Array:
        """Return the state that a sequence begins with: zeros, or the one that `with_states` was given.

        Args:
            name: the array's name in this layer.
            shape: the sizes, as for `parameter`.
            dtype: the element type of the zeros; by default that of the network.
        Raises:
            TraceError: [E160] the given states lack this array. ShapeError: [E161] the array has another shape.
        """
        from pullback.nn import init as initializers

        wanted = Wanted(name, _extents(shape), initializers.zeros(), None)
        if self._calls is not None and self._call is not None:
            self._call.carried.append(wanted)
        if self._carried:
            return self._given("state", wanted, self._carried)
        zeros: Array = pb.zeros(tuple(wanted.extents), dtype=dtype or self._dtype or np.float32)
        return zeros

    def carry(self, name: str, value: Any) -> None:
        """Set what the sequence that follows begins with."""
        self._carried_next[name] = value

    def carrying(self, states: Mapping[str, Any] | None, run: Callable[[], Any]) -> tuple[Any, Tree]:
        """Run a part of this layer whose sequences go on from these states.

        Args:
            states: a tree of arrays as this method returns it; None for zeros.
            run: a function that calls layers.
        Returns:
            The result, and the states after it.
        """
        before = self._carried, self._carried_next
        self._carried, self._carried_next = {} if states is None else states, {}
        y = run()
        after = self._carried_next
        self._carried, self._carried_next = before
        return y, after

    def masking(self, mask: Array | None, run: Callable[[], Any]) -> Any:
        """Run a part of this layer on sequences whose steps are there where `mask` (N, L) is true."""
        before, self.mask = self.mask, mask
        y = run()
        self.mask = before
        return y

    def key(self) -> Array:
        """Return a fresh random key for this step; the layer's state determines the next one."""
        keys = pb.random.split(self.state("key", (2,), _random_key, dtype="uint32"))
        self.update("key", keys[0])
        own: Array = keys[1]
        return own

    def unify(self, a: Any, b: Any, what: str) -> None:
        """Require two sizes or two shapes to be equal.

        During type inference, a size that is a single dim of the network's input is replaced by the other size.

        Args:
            a: a size or a tuple of sizes.
            b: a size or a tuple of sizes.
            what: the error text for a mismatch, such as "the branches of a residual differ".
        Raises:
            ShapeError: [E162] they cannot be equal.
        """
        left, right = (_extents(x) for x in (a, b))
        if len(left) == len(right):
            for one, other in zip(left, right):
                if one != other and self._calls is not None:
                    _replace(one, other)
                    _replace(other, one)
            if left == right:
                return
        raise ShapeError(
            "E162",
            f"{self._place()}{what}: {shape_text(left)} and {shape_text(right)}",
            position=user_position(),
            remedy="layers that keep the shape, or a projection",
        )

    def call(self, layer: Any, x: Any, name: str | None = None) -> Any:
        """Call another layer as a part of this one.

        Args:
            layer: a Layer, or a function of arrays.
            x: the input.
            name: the layer's name; by default its kind and a number. Calls with the same name share parameters.
        """
        part = Scope.part_of(layer)
        own = name or part.name or self._numbered(part.kind)
        inner = self._inside(own)
        y = inner.run(part, x)
        self._before = "/".join(inner.path)
        if inner._carried_next:
            self._carried_next[own] = inner._carried_next
        if inner._next:
            self._next[own] = inner._next
        return y

    def starting(self, starts: Starts, run: Callable[[], Any]) -> Any:
        """Run a part of this layer whose arrays begin with these values; those of an enclosing call go first."""
        before = self._starts
        self._starts = _merged(starts[0], before[0]), _merged(starts[1], before[1])
        y = run()
        self._starts = before
        return y

    # The interface for networks --------------------------------------------------------------------------------------

    def run(self, layer: LayerPart, x: Any) -> Any:
        """Call the layer at this place; record its requests while types are inferred."""
        if self._calls is None:
            with walked(), self._here(layer, x):
                self.check(layer, x)
                return layer.forward(self, x) if AROUND.run is None else AROUND.run(self, layer, x)
        self._call = call = Call(self.path, layer, type_of(x))
        self._calls.append(call)
        written = current().scope.statements
        before = len(written)
        with walked(), self._here(layer, x):
            self.check(layer, x)
            y = layer.forward(self, x)
        call.result = type_of(y)
        found, call.structure = tree.flatten(y)
        call.arrays = tuple((x.settled, tuple(x.extents)) for x in found if isinstance(x, Array))
        if len(call.arrays) < len(found):
            call.structure = tree.NONE  # not a tree of arrays
        call.composed = self._calls[-1] is not call
        call.statements = tuple(written[before:])
        return y

    def check(self, layer: LayerPart, x: Any) -> None:
        """Refuse an input with other axes than the layer takes, and layers that would not see the mask."""
        check_axes(layer.kind, layer.accepts, x)
        if self.mask is not None and (layer.kind in MIXING or getattr(layer, "settings", {}).get("axes", 1) != 1):
            raise TraceError(
                "E163",
                f"{layer.kind} within `nn.masked` would mix the steps of a sequence with what fills its row",
                position=user_position(),
                remedy="layers of single steps, `nn.lstm`, `nn.gru` or `nn.attention`; "
                "or a layer of your own that reads `scope.mask`",
            )

    @property
    def next_state(self) -> Tree:
        """The state after this step, a tree like the state before it."""
        return self._next

    @property
    def arrays(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The parameters and the state given for this layer and its parts."""
        return self._parameters, self._state

    @property
    def carries(self) -> bool:
        """Whether sequences go on from given states."""
        return bool(self._carried)

    def _inside(self, own: str) -> Scope:
        """The scope of a part of this layer."""
        return Scope(
            (*self.path, own),
            parameters=self._part("parameters", own, self._parameters),
            state=self._part("state", own, self._next),
            training=self.training,
            calls=self._calls,
            dtype=self._dtype,
            after=self._before,
            carried=self._part("states", own, self._carried) if self._carried else self._carried,
            starts=(self._starts[0].get(own, {}), self._starts[1].get(own, {})),
            mask=self.mask,
        )

    def _start(self, which: int, name: str, init: Initializer) -> Initializer:
        """The initializer of an array: the one of its layer, or a given value."""
        given = self._starts[which].get(name)
        return init if given is None else _Given("/".join((*self.path, name)), given)

    def _numbered(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind}{self._counts[kind]}"

    def _part(self, what: str, name: str, whole: Mapping[str, Any]) -> Mapping[str, Any]:
        part = whole.get(name, {})
        if not isinstance(part, Mapping):
            raise TraceError(
                "E160",
                f"the {what} given for {'/'.join((*self.path, name))} are no dict",
                position=user_position(),
                remedy="`net.init(seed=0)` gives parameters and state",
            )
        return part

    def _array(self, what: str, wanted: Wanted, given: Mapping[str, Any]) -> Array:
        if self._calls is not None:
            return self._recorded(what, wanted, given)
        return self._given(what, wanted, given)

    def _given(self, what: str, wanted: Wanted, given: Mapping[str, Any]) -> Array:
        if wanted.name not in given:
            raise TraceError(
                "E160",
                f"{self._place()}no {what} {wanted.name} is given, {shape_text(wanted.extents)}",
                position=user_position(),
                facts=[f"given: {', '.join(given) or 'nothing'}"],
                remedy="`net.init(seed=0)` gives parameters and state of this network",
            )
        array: Array = as_array(given[wanted.name])
        if array.extents != wanted.extents:
            raise ShapeError(
                "E161",
                f"{self._place()}{what} {wanted.name} is {shape_text(array.extents)}, not {shape_text(wanted.extents)}",
                position=user_position(),
                remedy="an input of the size that `net.init` made the parameters for, or new parameters",
            )
        return array

    def _recorded(self, what: str, wanted: Wanted, given: Mapping[str, Any]) -> Array:
        assert self._call is not None
        if wanted.name in given and what == "state":  # changed before, in this step
            return as_array(given[wanted.name])
        asked = self._call.parameters if what == "parameter" else self._call.state
        if all(w.name != wanted.name for w in asked):
            asked.append(wanted)
        zeros: Array = pb.zeros(tuple(wanted.extents), dtype=wanted.dtype or self._dtype)
        return zeros

    @contextmanager
    def _here(self, layer: LayerPart, x: Any) -> Iterator[None]:
        """Name arrays by the current layer; errors name the innermost layer and its input."""
        try:
            with current().at_place("".join(f"{name}_" for name in self.path)):
                yield
        except PullbackError as error:
            if self.path and not any(fact.startswith("in ") for fact in error.facts):
                given = f"which was given {type_of(x)}" + (f" by {self.after}" if self.after else "")
                error.facts = (*error.facts, f"in {'/'.join(self.path)} = {layer}, {given}")
                if isinstance(error, DTypeError) and type_of(x).startswith("u8"):
                    error.remedy = "`x / np.float32(255)`; of a data set `dataset.transformed(data.scale())`"
            raise

    def _place(self) -> str:
        return f"{'/'.join(self.path)}: " if self.path else ""


def _extents(shape: Any) -> tuple[Index, ...]:
    return tuple(extent_of(e, "shape") for e in (shape if isinstance(shape, tuple | list) else (shape,)))


def check_axes(kind: str, accepts: str | None, x: Any) -> None:
    """Refuse an input with too few or too many axes for a layer.

    Raises:
        ShapeError: [E162] an array has other axes. TraceError: [E168] the input is a dict.
    """
    if accepts and isinstance(x, Mapping):
        raise TraceError(
            "E168",
            f"{kind} takes one array, and was given {type_of(x)}",
            position=user_position(),
            remedy="`nn.parallel` applies a layer to each input by name, and `nn.concat` joins them",
        )
    axes = (accepts or "...").split()
    named = [a for a in axes if a != "..."]
    if not isinstance(x, Array) or x.ndim == len(named) or (x.ndim > len(named) and "..." in axes):
        return
    of = {"N C H W": "images ", "N H W C": "images ", "N L M": "sequences "}.get(" ".join(axes), "")
    remedy = f"`nn.reshape({', '.join(axes[1:])})` before it, with the sizes of a sample"
    if "..." in axes:
        remedy = "an array with more axes"
    elif x.ndim == len(axes) - 1:
        remedy += "; `x[None]` if x is one sample"
    raise ShapeError(
        "E162",
        f"{kind} takes {of}{' '.join(axes)}, and was given {type_text(x)}",
        position=user_position(),
        remedy=remedy,
    )


@dataclass(frozen=True)
class _Given:
    """The initializer of an array that is given."""

    name: str
    value: Any

    def __call__(self, random: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        found = np.shape(self.value)
        if found != shape:
            raise ShapeError(
                "E161",
                f"{self.name} begins as an array of {list(found)}, and is {list(shape)} for this input",
                position=user_position(),
                remedy="an input of the size that the arrays were made for",
            )
        return np.array(self.value, dtype)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Mapping[str, Any]:
    """Nested mappings as one; where both have a value, the second's."""
    both = {k: _merged(under[k], v) if isinstance(v, Mapping) and k in under else v for k, v in over.items()}
    return {**under, **both}


def _random_key(random: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    return random.integers(0, 2**32, shape, dtype=np.uint32)


def _replace(one: Index, other: Index) -> None:
    """Raise Replaced if one size is a dim of the input, and the other does not contain it."""
    symbol = one.single
    if isinstance(symbol, DimSymbol) and symbol not in other.symbols:
        raise Replaced(symbol.name, other)


def type_of(x: Any) -> str:
    """The type of an array, or of a tree of arrays, as text."""
    leaves, structure = tree.flatten(x)
    return tree_text(structure, (type_text(leaf) if isinstance(leaf, Array) else str(leaf) for leaf in leaves))

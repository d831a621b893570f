"""Layers as values: the parts of a network, and the network itself.

net = sequential(conv(20, 5), max_pool(2), flatten(), dense(10))
net.type                                     # every layer's line, sizes as symbols
net = net.on("N 1 28 28")                    # sizes given, checked
parameters, state = net.init(seed=0)
y, state = net.apply(parameters, state, x, training=True)      # inside a traced function
y = net(parameters, x)                                         # anywhere, for inference
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec

import numpy as np
from numpy.typing import DTypeLike

import pullback as pb
from pullback.errors import PullbackError, TraceError
from pullback.nn.inputs import Takes, bound, check_takes, checked
from pullback.nn.scope import Scope
from pullback.nn.settings import check_seed, refused
from pullback.nn.types import NetworkType, find_type, function_types
from pullback.notebook import Displayed
from pullback.source import user_position
from pullback.state import temporary
from pullback.tables import html_note, html_table
from pullback.tracing import elsewhere
from pullback.tracing.active import is_tracing
from pullback.tracing.array import Array
from pullback.tracing.public import Answers

if TYPE_CHECKING:
    from pullback.ir.settings import MemoryMode
    from pullback.nn.describe import Description
    from pullback.nn.export import Weights, What

__all__ = ["Layer", "as_layer", "layer", "written"]

Settings = ParamSpec("Settings")
Parameters = dict[str, Any]
LONGEST: Final = 72  # letters of a layer in an error


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Answers, Displayed):
    """A layer with its settings, or a network made of layers.

    Attributes:
        kind: the name of the layer in a network, followed by a number: conv1, conv2.
        forward: the function of a `Scope` and the input that computes the layer.
        takes: the shape of the input in the form of an annotation; None if any shape is accepted. Of several inputs, a
            tree of shapes.
        integers: whether the input holds integers, such as positions in an alphabet.
        accepts: the axes that the input must have, as an annotation writes them: "N C H W", "... M".
        text: the layer's source text.
        name: the name in a network, which replaces kind and number.
        parts: the component layers: those of a chain in order, or the chain and the shortcut of a residual.
        settings: all settings by name, including defaults.
    """

    kind: str
    forward: Callable[[Scope, Any], Any]
    takes: Takes = None
    integers: bool = False
    text: str = field(kw_only=True)
    name: str | None = None
    parts: tuple[Layer, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    accepts: str | None = None
    chain: ClassVar[Callable[..., Layer]]  # `composition.sequential`, which sets it

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """The layer's type as a table, or its source text if the type is unknown."""
        try:
            return self.type._repr_html_()
        except PullbackError as error:  # such as E165: no layer states its input shape
            rows = [("layer", ""), *((part.name or part.kind, str(part)) for part in self.parts or (self,))]
            return html_table(rows) + html_note(f"types are not known: {error.what}", f"try: {error.remedy}")

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # other processes recompute cached results

    def __str__(self) -> str:
        whole = repr(self)
        return whole if len(whole) <= LONGEST else f"{whole[:LONGEST]}…"

    # Composition ----------------------------------------------------------------------------------------------

    def __rshift__(self, other: Any) -> Layer:
        return self.chain(self, other)

    def __rrshift__(self, other: Any) -> Layer:
        return self.chain(other, self)

    def __matmul__(self, other: Any) -> Layer:
        return self.chain(other, self)

    def __rmatmul__(self, other: Any) -> Layer:
        return self.chain(self, other)

    def named(self, name: str) -> Layer:
        """Return the layer under another name, which its parameters use in trees, files and errors.

        >>> from pullback import nn
        >>> net = nn.sequential(nn.dense(3).named("hidden"), nn.relu, nn.dense(2)).on("N 4")
        >>> sorted(net.init(seed=0)[0])
        ['dense1', 'hidden']
        """
        if not str(name).isidentifier():
            raise TraceError(
                "E163", f"{name!r} is no name for a layer", position=user_position(), remedy='an identifier: "stem"'
            )
        return replace(self, name=name)

    def starting_from(self, parameters: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> Layer:
        """Return the network whose `init` gives these arrays; arrays that are missing begin as before.

        Args:
            parameters: a tree as `init` gives it, or a part of one.
            state: the same of the state.
        Raises:
            TraceError: [E163] the trees hold an array that the network does not have.

        >>> from pullback import nn
        >>> net = nn.dense(2).on("N 3").starting_from({"b": np.array([1.0, 2.0])})
        >>> net.init(seed=0)[0]["b"].tolist()
        [1.0, 2.0]
        """
        from pullback.nn.starts import starting

        started: Layer = starting(self, parameters, {} if state is None else state)
        return started

    def on(self, takes: Takes) -> Layer:
        """Return the network for inputs of given sizes, after checking its types.

        Args:
            takes: sizes of the input as in an annotation: numbers, and names for open ones. An element type other than
                that of the network is written as types are printed: "i64[N, L]". Of several inputs, a tree of these: a
                dict, tuple, NamedTuple or dataclass. A name that occurs twice is one size.
        Returns:
            The network; `type` shows every layer's shapes.
        Raises:
            ShapeError: a layer does not accept its input; the error names it.
            TraceError: [E168] the network takes inputs of other names.

        >>> from pullback import nn
        >>> nn.dense(3).on("N 4").type.result
        'f32[N, 3]'
        >>> net = nn.parallel(image=nn.flatten(), age=nn.dense(2)) >> nn.concat() >> nn.dense(3)
        >>> net.on({"image": "N 1 8 8", "age": "N 1"}).type.takes
        '{age: f32[N, 1], image: f32[N, 1, 8, 8]}'
        """
        given: object = takes
        is_sizes = isinstance(given, tuple | list) and all(n is None or isinstance(n, int) for n in given)
        if given is None or is_sizes or isinstance(given, int | float):
            sizes: Any = given if is_sizes else (None, 784)
            text = " ".join("N" if n is None else str(n) for n in sizes)
            raise refused("on", "takes", given, f'one string, with names for open sizes: `net.on("{text}")`')
        check_takes(takes, "on")
        sized = replace(self, takes=bound(self.takes, takes, f"on: {self}"))
        sized.typed()
        return sized

    # Types ----------------------------------------------------------------------------------------------------

    @property
    def type(self) -> NetworkType:
        """A line for each layer: its settings, result type and parameters; open sizes are symbols.

        >>> from pullback import nn
        >>> nn.sequential(nn.dense(3), nn.relu).type
        (x: f32[N, M]) -> f32[N, 3]
          dense1  dense(3)  f32[N, 3]  w f32[3, M], b f32[3]
          relu1   relu      f32[N, 3]
        """
        return self.typed()

    def typed(self, dtype: DTypeLike = np.float32) -> NetworkType:
        """`type`, for an element type: float32 or float64."""
        return self._types(np.dtype(dtype).name)

    @cached_property
    def _types(self) -> Callable[[str], NetworkType]:
        return temporary(lambda dtype: find_type(self, dtype))

    def init(self, seed: int = 0, *, dtype: DTypeLike = np.float32) -> tuple[Parameters, Parameters]:
        """Return the initial parameters and state.

        The random numbers of an array depend only on the seed and on its name. So adding a layer changes no other
        array.

        Args:
            seed: equal seeds give equal arrays on every machine.
            dtype: float32 or float64.
        Returns:
            Nested dicts of NumPy arrays. The state is empty if no layer has one.
        Raises:
            ShapeError: [E164] the shape of a parameter depends on an open size; `net.on("N 784")` sets it.

        >>> from pullback import nn
        >>> parameters, state = nn.dense(3).on("N 4").init(seed=0)
        >>> parameters["w"].shape, parameters["b"].tolist(), state
        ((3, 4), [0.0, 0.0, 0.0], {})
        """
        check_seed("init", seed)
        return self.typed(dtype).start(seed)

    def describe(
        self, batch_size: int = 1, *, loss: Any = None, optimizer: Any = None,
        target: Any = None, updates: int = 1, dtype: DTypeLike = np.float32, **sizes: int,
    ) -> Description:  # fmt: skip
        """Return a table of all layers with shapes, parameters, operations and bytes, and of peak memory.

        Nothing runs. The peaks are planned when the table is printed, or when `peaks` is read, for the modes "fastest",
        "less" and "least". Programs take the planned memory to the byte. Training is the step that `nn.fit` compiles
        for this loss, these targets and this optimizer. The last line lists the defaults that were assumed.

        Args:
            batch_size: the first size of the input, if it is open.
            loss: the loss of result and target, as for `nn.fit`; by default the sum of squares, without a target.
            optimizer: as for `nn.fit`; by default `nn.sgd`.
            target: targets of one batch, for their shape and element type; by default int64 labels, or an array like
                the result if the loss refuses labels.
            updates: updates per call. `nn.fit` makes several per call for small networks, and prints the number.
            dtype: float32 or float64.
            sizes: the other open sizes, by name.
        Raises:
            ShapeError: [E115] a size is open and not given.

        >>> from pullback import nn
        >>> print(nn.sequential(nn.dense(3), nn.relu, nn.dense(2)).describe(batch_size=8, M=4))
        sequential(x: f32[8, 4])
        layer             result     parameters  operations  bytes
        ------  --------  ---------  ----------  ----------  -----
        dense1  dense(3)  f32[8, 3]          15         216     96
        relu1   relu      f32[8, 3]                      24     96
        dense2  dense(2)  f32[8, 2]           8         112     64
                                             23         352
        <BLANKLINE>
        parameters 92 bytes, optimizer 0 bytes
        memory besides parameters, input and result  fastest  less  least
        -------------------------------------------  -------  ----  -----
          inference                                      128   128    128
          training                                       320   320    320
        training: an update with loss the sum of squares (assumed); optimizer sgd(0.01) (assumed)
        """
        from pullback.nn.describe import describe

        return describe(self, batch_size, loss, optimizer, target, updates, dtype, sizes)

    # Use ------------------------------------------------------------------------------------------------------

    def apply(self, parameters: Any, state: Any, x: Any, *, training: bool = False) -> tuple[Any, Any]:
        """Return the result for an input and the next state; for use inside a traced function.

        Args:
            parameters: a tree as `init` gives it.
            state: a tree as `init` gives it.
            x: the input.
            training: whether to apply dropout and use batch statistics; otherwise the state is unchanged.
        """
        checked(self.takes, x, str(self))
        scope = Scope(parameters=parameters, state=state, training=training)
        y = scope.run(self, x)
        return y, scope.next_state

    def function(self, dtype: DTypeLike = np.float32) -> pb.Function:
        """Return inference as a traced function of (parameters, state, x) with annotated shapes.

        Its type, C and memory are available before any array exists.

        Args:
            dtype: float32 or float64.
        Raises:
            ShapeError: [E164] the shape of a parameter depends on an open size.

        >>> from pullback import nn
        >>> nn.dense(3, bias=False).on("N 4").function().type
        '(parameters: {w: f32[3, 4]}, state: {}, x: f32[N, 4]) -> f32[N, 3]'
        """
        trees = self.init(dtype=dtype)

        def inference(parameters: Any, state: Any, x: Any) -> Any:
            return self.apply(parameters, state, x)[0]

        inference.__name__ = self.name or self.kind
        inference.__annotations__ = function_types(self, trees, dtype)
        return pb.function(inference)

    def export(
        self,
        directory: str | os.PathLike[str],
        parameters: Any,
        state: Any = None,
        *,
        what: What = "infer",
        batch_size: int = 1,
        loss: Any = None,
        optimizer: Any = None,
        target: Any = None,
        weights: Weights = "file",
        memory: MemoryMode = "fastest",
        plain: bool = False,
    ) -> dict[str, Any]:
        """Write a C project that infers, evaluates and trains, without allocation, using only libc and libm.

        Args:
            directory: created if it does not exist; files of the same names are replaced.
            parameters: the initial parameters of the program.
            state: the initial state, for networks that have one.
            what: the commands to include: "infer" for infer and test, "train" for train, "both" for all three.
            batch_size: the number of samples per update.
            loss: the loss of result and target, for training; of several results, a dict of losses.
            optimizer: the optimizer, for training.
            target: targets of one batch, for their shape and element type; by default int64 labels.
            weights: "file" to read the weights from a file, "const" for constant arrays in the C.
            memory: the memory mode: "fastest", "less" or "least".
            plain: whether to write C99 without vectors, as in `Function.c_source`: fewer lines, and slower.
        Returns:
            `files`, the paths written, and `arena_bytes` for each function.
        Raises:
            TraceError: [E166] training without a loss or an optimizer, or with weights in the C.
            ShapeError: [E164] a size of the input other than the first is open.

        >>> from pullback import nn
        >>> net = nn.dense(2).named("small").on("N 3")
        >>> net.export("small", *net.init(seed=0), weights="const")["files"]
        ['small/small_infer.h', 'small/small_infer.c', 'small/main.c', 'small/CMakeLists.txt']
        """
        from pullback.nn.export import export

        kept = {} if state is None else state
        given = (what, batch_size, loss, optimizer, target, weights, memory, plain)
        return export(self, directory, parameters, kept, *given)

    def __call__(self, parameters: Any, x: Any, state: Any = None) -> Any:
        """Run inference on an input: traced inside a traced function, compiled outside.

        >>> from pullback import nn
        >>> net = nn.dense(1, bias=False).on("N 2")
        >>> net({"w": np.array([[2.0, 3.0]])}, np.array([[1.0, 10.0]])).tolist()
        [[32.0]]
        """
        if isinstance(x, Mapping) and not isinstance(parameters, Mapping):
            what = f"{self}: the parameters come first, and then the input"
            raise TraceError("E160", what, position=user_position(), remedy="`net(parameters, x)`")
        if is_tracing():
            return self.apply(parameters, {} if state is None else state, x)[0]
        return self._inference(parameters, x, {} if state is None else state)

    @cached_property
    def _inference(self) -> pb.Function:
        def inference(parameters: Any, x: Any, state: Any) -> Any:
            return self.apply(parameters, state, x)[0]

        return pb.function(inference)


def layer(
    takes: Takes | Callable[..., Takes] = None, *, integers: bool = False, accepts: str | None = None
) -> Callable[[Callable[Concatenate[Scope, Any, Settings], Any]], Callable[Settings, Layer]]:
    """Make a layer from a function of a scope, an input, and settings.

    Args:
        takes: the shape of the input as an annotation, or None for any shape; of several inputs, a tree of shapes as
            for `on`; or a function that checks the settings and returns these.
        integers: whether the input holds integers.
        accepts: the axes that an input must have: "... M" for one or more; "=" for the axes of `takes`.
    Returns:
        A decorator. The decorated function takes the settings and returns a Layer.

    >>> from pullback import nn
    >>> @nn.layer("N M")
    ... def scale(scope, x, by=1.0):
    ...     return by * scope.parameter("a", (x.shape[1],), nn.init.ones()) * x
    >>> scale(3.0)({"a": np.array([1.0, 2.0])}, np.array([[1.0, 1.0]])).tolist()
    [[3.0, 6.0]]
    >>> @nn.layer({"x": "N M", "weight": "N"})
    ... def weighted(scope, inputs):
    ...     return inputs["x"] * inputs["weight"][:, None]
    >>> weighted().type.result
    'f32[N, M]'
    """
    if callable(takes) and next(iter(inspect.signature(takes).parameters), "") == "scope":
        what = f"layer: the decorator of {takes.__name__} has no brackets"
        remedy = '`@nn.layer("N M")`, or `@nn.layer()` for any shape'
        raise TraceError("E163", what, position=user_position(), remedy=remedy)

    def decorate(f: Callable[Concatenate[Scope, Any, Settings], Any]) -> Callable[Settings, Layer]:
        signature = inspect.signature(f)
        own = signature.replace(parameters=list(signature.parameters.values())[2:])
        kind = f.__name__
        room = "nn.models" if str(f.__module__).startswith("pullback.nn.models.") else "nn"

        @functools.wraps(f)
        def make(*settings: Settings.args, **named: Settings.kwargs) -> Layer:
            text, known = written(kind, own, settings, named, room)
            shape = takes(*settings, **named) if callable(takes) else takes
            forward = calling(f, lambda scope, x: f(scope, x, *settings, **named))
            return Layer(kind, forward, shape, integers, text=text, settings=known,
                         accepts=shape if accepts == "=" else accepts)  # fmt: skip

        make.__signature__ = own  # type: ignore[attr-defined]
        return make

    return decorate


def calling(f: Any, forward: Callable[[Scope, Any], Any]) -> Callable[[Scope, Any], Any]:
    """Return `forward` with the function that it calls as `__wrapped__`, as `functools.wraps` names it."""
    forward.__wrapped__ = f  # type: ignore[attr-defined]
    return forward


def written(
    kind: str, own: inspect.Signature, settings: tuple[Any, ...], named: dict[str, Any], room: str = "nn"
) -> tuple[str, dict[str, Any]]:
    """Return the source text of a layer with these settings, and all its settings by name.

    Raises:
        TraceError: [E163] the settings do not match the signature.
    """
    try:
        bound = own.bind(*settings, **named)
    except TypeError as error:
        unknown = next((name for name in named if name not in own.parameters), "")
        what = f"got an unexpected keyword argument {unknown!r}" if unknown else str(error)
        plain = [p.replace(annotation=p.empty) for p in own.parameters.values()]
        form = f"`{kind}{own.replace(parameters=plain, return_annotation=own.empty)}`"
        remedy = elsewhere.parameter(f"{room}.{kind}", unknown, list(own.parameters)) if unknown else ""
        raise TraceError("E163", f"{kind}: {what}", position=user_position(), remedy=remedy or form) from None
    given = [*map(_setting, settings), *(f"{k}={_setting(v)}" for k, v in named.items())]
    bound.apply_defaults()
    return f"{kind}({', '.join(given)})", dict(bound.arguments)


def _setting(value: Any) -> str:
    if isinstance(value, Array) and value.index is not None:
        return str(value.index)
    return value.__name__ if inspect.isfunction(value) else repr(value)


def as_layer(x: Any) -> Layer:
    """Convert a function of arrays to a layer without parameters; layers stay as they are.

    Raises:
        TraceError: [E163] the object is neither a layer nor a function.
    """
    if isinstance(x, Layer):
        return x
    if callable(x):
        kind = getattr(x, "__name__", type(x).__name__)
        if isinstance(getattr(x, "__signature__", None), inspect.Signature) and hasattr(x, "__wrapped__"):
            raise TraceError("E163", f"{kind} is how a layer is made", position=user_position(), remedy=f"`{kind}(…)`")
        own = kind if kind.isidentifier() else "function"
        return Layer(own, calling(x, lambda scope, array: x(array)), text=getattr(x, "text", kind))
    wanted = "layers such as `nn.dense(10)`, or functions of arrays such as `nn.relu`"
    if isinstance(x, list | tuple):
        raise TraceError(
            "E163", f"a {type(x).__name__} is no layer", position=user_position(), remedy="`nn.sequential(*layers)`"
        )
    raise TraceError("E163", f"{x!r} is no layer", position=user_position(), remedy=wanted)


Scope.part_of = as_layer

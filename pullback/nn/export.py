"""Export networks as C projects whose program infers, evaluates and trains on files of numbers.

    lenet_infer.c .h        the network, inference
    lenet_train.c .h        an update: loss, gradient, optimizer
    main.c                  lenet infer | test | train
    lenet.safetensors       parameters, state and optimizer state; training rewrites it
    CMakeLists.txt

The program does not allocate memory. Without training, the weights may be `const` arrays in the C instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

import pullback as pb
from pullback.calls.specs import spec_like
from pullback.codegen.targets import C_TO_READ, PLAIN_C
from pullback.errors import ShapeError, TraceError
from pullback.ir.types import dtype_of
from pullback.nn.describe import example_targets
from pullback.nn.export_main import Array, Field, Main, Step
from pullback.nn.inputs import dims_of, leaves, map_dims, names, zeros
from pullback.nn.objective import LossOfParts, loss_of, objective
from pullback.nn.parameters import named
from pullback.nn.types import Network, function_types
from pullback.runtime.export import Exported, library, put_files
from pullback.source import user_position
from pullback.tracing import tree

__all__ = ["Weights", "What", "export"]

What = Literal["infer", "train", "both"]
Weights = Literal["file", "const"]
REMEDY: Final = "net.export(directory, parameters, what='both', loss=nn.cross_entropy, optimizer=nn.sgd(0.1))"


@dataclass(frozen=True)
class _Tree:
    """A tree of arrays in the weights file: the parameters, the state, or the optimizer state."""

    name: str
    value: Any

    @property
    def arrays(self) -> list[Array]:
        """The arrays, with their names in the file and in C."""
        return [Array.of(f"{self.name}/{name}", array) for name, array in named(self.value).items()]


def export(
    network: Network,
    directory: str | os.PathLike[str],
    parameters: Any,
    state: Any,
    what: What,
    batch: int,
    loss: Any,
    optimizer: Any,
    target: Any,
    weights: Weights,
    memory: Any,
    plain: bool,
) -> dict[str, Any]:
    """See `Layer.export`."""
    _check(what, weights, loss, optimizer)
    name = network.name or network.kind
    dtype = _dtype(parameters)
    if weights == "file":  # all C functions take arrays of one element type
        parameters, state = (tree.map_leaves(lambda x: _of_type(x, dtype), t) for t in (parameters, state))
    trees = [_Tree("parameters", parameters), _Tree("state", state)]
    samples = _samples(network, dtype)
    infer = train = None
    made: list[Exported] = []
    if what != "train":
        f = _constant(network, parameters, state, dtype) if weights == "const" else network.function(dtype)
        made.append(_library(f, f"{name}_infer", memory, plain, _batch_dim(network, 1)))
        infer = Step(made[-1].source, made[-1].lowered.function.outputs)
    if what != "infer":
        trees.append(_Tree("optimizer", optimizer.init(parameters)))
        targets = _targets(network, loss, batch, dtype) if target is None else target
        f = _update(network, loss, optimizer, [t.value for t in trees], samples, batch, targets)
        made.append(_library(f, f"{name}_train", memory, plain, {}))
        train = Step(made[-1].source, made[-1].lowered.function.outputs)
    else:
        targets = np.zeros(1, np.int64) if target is None else target
    arrays = [array for t in trees for array in t.arrays]
    if train is not None:
        arrays.append(Array.of("step", np.zeros((), np.int64)))
    in_file = weights == "file"
    fields = _fields(network, dtype, samples, tree.map_leaves(np.asarray, targets))
    main = Main(name, infer, train, arrays if in_file else [], len(parameters_of(trees)), *fields, batch)
    texts: dict[str, str | bytes] = {file: text for library in made for file, text in library.files.items()}
    texts |= {"main.c": main.text, "CMakeLists.txt": main.cmake}
    if in_file:
        texts[main.weights] = main.content
    files = put_files(directory, texts)
    return {"files": files, "arena_bytes": {m.name: m.source.arena_bytes for m in made}}


def parameters_of(trees: Sequence[_Tree]) -> list[Array]:
    """The arrays that inference takes: parameters and state."""
    return [array for t in trees if t.name != "optimizer" for array in t.arrays]


def _check(what: str, weights: str, loss: Any, optimizer: Any) -> None:
    wrong = None
    if what not in ("infer", "train", "both"):
        wrong = f"what={what!r}: 'infer', 'train' or 'both'"
    elif weights not in ("file", "const"):
        wrong = f"weights={weights!r}: 'file' or 'const'"
    elif what != "infer" and (loss is None or optimizer is None):
        wrong = "a program that trains needs a loss and an optimizer"
    elif what != "infer" and weights == "const":
        wrong = "weights in the C cannot be trained"
    if wrong:
        raise TraceError("E166", f"export: {wrong}", position=user_position(), remedy=REMEDY)


def _dtype(parameters: Any) -> np.dtype[Any]:
    """The element type of the C: f64 if a parameter has it, else f32."""
    found = {np.asarray(leaf).dtype.newbyteorder("=") for leaf in tree.flatten(parameters)[0]}
    return np.dtype(np.float64 if np.dtype(np.float64) in found else np.float32)


def _of_type(x: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert floating-point arrays to this type; return other arrays unchanged."""
    array = np.asarray(x)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    found = dtype_of(array.dtype)
    return array.astype(dtype, copy=False) if found and (found.is_floating or found.is_half) else array


def _samples(network: Network, dtype: np.dtype[Any]) -> Any:
    """One sample of the input, with a leading axis of size 1: of integers, or of an element type."""
    for name, text in leaves(network.takes or "").items():
        if not dims_of(text) or not all(t.isdigit() for t in dims_of(text)[1:]):
            of = "the input" if name == "input" else name
            raise ShapeError(
                "E164",
                f"export: the sizes of {of} of {network} are open: {text or None}",
                position=user_position(),
                remedy='give them: `net.on("N 784")` for rows, `net.on("N 1 28 28")` for images',
            )
    return zeros(map_dims(network.takes, lambda dims: ["1", *dims[1:]]), dtype, network.integers)


def _targets(network: Network, loss: Any, batch: int, dtype: np.dtype[Any]) -> Any:
    """Example targets of a batch: labels; of several results, by their losses."""
    if not isinstance(loss_of(loss), LossOfParts):
        return np.zeros(batch, np.int64)
    return example_targets(network.typed(dtype).results(**_batch_dim(network, batch)), batch, loss, dtype)


def _fields(network: Network, dtype: np.dtype[Any], samples: Any, targets: Any) -> tuple[list[Field], list[Field]]:
    """The arrays that the program reads from files: inputs, and targets."""
    results = network.typed(dtype).results(**_batch_dim(network, 1))
    by_name = dict(zip(*_named(results), strict=True))
    first = next(iter(by_name.values()))
    inputs = [Field(*_names("input", name), sample) for name, sample in zip(*_named(samples), strict=True)]
    found = []
    for name, target in zip(*_named(targets), strict=True):
        classes = _classes(by_name.get(name, first if name == "input" else None), target)
        found.append(Field(*_names("target", name), target[:1], "targets", classes))
    return inputs, found


def _named(x: Any) -> tuple[list[str], list[Any]]:
    """The names and arrays of a tree."""
    found, structure = tree.flatten(x)
    return names(structure), found


def _names(kind: str, name: str) -> tuple[str, str]:
    """The label of a file and the C variable of an array: INPUTS and `input`, or IMAGE and `input_image`."""
    if name == "input":  # the only one
        return f"{kind}s".upper(), kind
    own = re.sub(r"\W+", "_", name).strip("_")
    if name.startswith("input["):  # by position
        own = own.removeprefix("input_")
        return f"{kind}_{own}".upper(), f"{kind}_{own}"
    return own.upper(), f"{kind}_{own}"


def _classes(scores: Any, targets: NDArray[Any]) -> int:
    """The number of classes; 0 unless each row of scores has one integer target."""
    if scores is None or targets.dtype.kind not in "iu" or scores.ndim != targets.ndim + 1:
        return 0
    return int(scores.shape[-1])


def _batch_dim(network: Network, batch: int) -> dict[str, int]:
    firsts = {dims_of(text)[0] for text in leaves(network.takes or "").values()}
    return {first: batch for first in firsts if not first.isdigit()}


def _library(f: pb.Function, name: str, memory: Any, plain: bool, dims: dict[str, int]) -> Exported:
    f.python.__name__ = name
    program, found = pb.function(memory=memory)(f.python).for_dims(dims)
    captured = tuple(map(_frozen, program.settings.captured))  # arrays captured by layers and losses become C constants
    fixed = replace(program, settings=replace(program.settings, captured=captured))
    return library(fixed, found, target=PLAIN_C if plain else C_TO_READ)


def _constant(network: Network, parameters: Any, state: Any, dtype: np.dtype[Any]) -> pb.Function:
    """Inference as a function that contains the parameters."""
    fixed = [tree.map_leaves(_frozen, t) for t in (parameters, state)]

    def inference(x: Any) -> Any:
        return network.apply(fixed[0], fixed[1], x)[0]

    inference.__annotations__ = {"x": function_types(network, ({}, {}), dtype)["x"]}
    return pb.function(inference)


def _frozen(array: Any) -> NDArray[Any]:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def _update(
    network: Network, loss: Any, optimizer: Any, trees: Sequence[Any], samples: Any, batch: int, target: Any
) -> pb.Function:
    """The function of one update: it returns the new trees, and the loss before the update."""
    of_batch = objective(network, loss)

    def update(parameters: Any, state: Any, kept: Any, step: Any, x: Any, target: Any) -> Any:
        found = pb.value_and_grad(of_batch, wrt="parameters", has_aux=True)(parameters, state, (x, target))
        (value, after), gradients = found
        changes, memory = optimizer.update(gradients, kept, parameters, step)
        return optimizer.apply(parameters, changes), after, memory, value

    x = tree.map_leaves(lambda sample: np.zeros((batch, *sample.shape[1:]), sample.dtype), samples)
    given = dict(zip(("parameters", "state", "kept", "step", "x", "target"), (*trees, np.int64(0), x, target)))
    update.__annotations__ = {name: spec_like(value) for name, value in given.items()}
    return pb.function(update)

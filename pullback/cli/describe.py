"""`pullback describe`: the cost of a network at a size, before anything runs."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from pullback.cli.options import add_json, at_least
from pullback.cli.output import print_json
from pullback.errors import UsageError
from pullback.tracing.elsewhere import nearest

if TYPE_CHECKING:
    from pullback.nn.describe import Description
    from pullback.nn.layer import Layer

__all__ = ["register", "run"]

CLASSES: Final = ("num_classes", "vocab_size", "num_actions", "out_channels", "out_features")  # parameters of models


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "describe",
        help="print the layers of a network and its memory",
        description="Print a table of a network's layers: shapes, parameters, operations and bytes. Below it is the "
        "peak memory of inference and training.",
        examples=("pullback describe lenet --input 1,28,28", "pullback describe resnet18 --input 3,224,224"),
    )
    add = command.add_argument
    add("network", metavar="NETWORK", help="a network of `pullback.nn.models`, such as lenet")
    add("--input", type=_extents, required=True, metavar="C,H,W", help="the shape of one sample")
    add("--batch-size", type=at_least(1), default=1, metavar="N", help="samples in a batch")
    add("--classes", type=at_least(1), metavar="N", help="classes, letters or actions (default: the network's)")
    add("--limit", type=at_least(1), metavar="BYTES", help="also plan which arrays to swap out to train in this memory")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    network = _network(options.network, options.classes).named(options.network)
    found = network.on(" ".join(["N", *options.input])).describe(options.batch_size, **_trained(options.network))
    print(found)
    if options.limit is not None:
        print(f"\nswapping while training, {found.swap_plan(options.limit)}")
    if options.json:
        print_json(_json(found))
    return 0


def _trained(name: str) -> dict[str, Any]:
    """The loss and optimizer of `pullback train` for the network; none for other networks."""
    from pullback.nn.models import LAYERED

    recipe = LAYERED.get(name)
    return {} if recipe is None else {"loss": recipe.loss, "optimizer": recipe.optimizer(recipe.learning_rate)}


def _network(name: str, classes: int | None) -> Layer:
    """The network of a name for a number of classes.

    Raises:
        UsageError: [E605] there is no network of this name, [E601] it needs a number of classes, or takes none.
    """
    from pullback.nn.models import NETWORKS as known

    if name not in known:
        close = nearest(name, known)
        raise UsageError(
            "E605",
            f"{name}: no such network",
            facts=("networks: " + ", ".join(known),),
            remedy=" or ".join(close) or "one of these",
        )
    first = next(iter(inspect.signature(known[name]).parameters.values()))
    if classes is not None:
        if first.name not in CLASSES:
            raise UsageError("E601", f"{name} has no classes", remedy="leave --classes out")
        return known[name](classes)
    if first.default is first.empty and first.name in CLASSES:
        raise UsageError("E601", f"{name}: the number of classes, letters or actions is missing", remedy="--classes 64")
    return known[name]()


def _extents(text: str) -> list[str]:
    """An argument type: sizes with commas between."""
    extents = text.replace("×", ",").replace("x", ",").split(",")
    if not all(e.isdecimal() and int(e) for e in extents):
        raise argparse.ArgumentTypeError(f"{text}: sizes with commas between are needed, such as 3,224,224")
    return extents


def _json(found: Description) -> dict[str, Any]:
    numbers = ("name", "takes", "parameters", "parameter_bytes", "optimizer_bytes", "operations", "peaks", "step")
    return {**{n: getattr(found, n) for n in numbers}, "layers": [asdict(row) for row in found.rows]}

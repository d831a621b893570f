"""`pullback train`: train a network, measure it on the test set, save what it takes to go on."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from pullback.cli.options import add_json, at_least, positive
from pullback.cli.output import print_json
from pullback.data import Dataset, Splits, load
from pullback.errors import DataError, UsageError
from pullback.nn.models import NAMES, Recipe

__all__ = ["register", "run"]

INTERRUPTED = 130
OPTIMISERS = ("sgd", "momentum", "rmsprop", "adam", "adamw", "lion")


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "train",
        help="train a network and measure it",
        description="Train a network on images, measuring the test set after every epoch.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = command.add_argument
    add("network", choices=NAMES, help="which network")
    add("--data", default="digits", metavar="NAME", help="`digits`, or a folder of images (`pullback.data.load`)")
    add("--images", type=at_least(1), metavar="N", help="train on the first N images only")
    length = command.add_mutually_exclusive_group()
    epochs = "passes over the images (default: 10 for zhang, 20 for lenet)"
    length.add_argument("--epochs", type=at_least(0), metavar="N", help=epochs)
    length.add_argument("--steps", type=at_least(0), metavar="N", help="updates, instead of epochs")
    add("--batch", type=at_least(1), metavar="N", help="images per update (default: 1 for zhang, 64 for lenet)")
    add("--optimiser", choices=OPTIMISERS, default="sgd", help="what an update does with the gradient")
    add("--rate", type=positive, metavar="R", help="learning rate (default: 0.5 for zhang, 0.1 for lenet)")
    add("--init", choices=("constant", "uniform"), default="uniform", help="initial parameters")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the uniform start and the order of images")
    add("--in-order", action="store_true", help="take the images in their order, in every epoch")
    add("--load", metavar="PATH", help="start from the parameters in this file, or folder of checkpoints")
    add("--save", metavar="DIR", help="write checkpoints and the history into this folder")
    add("--resume", action="store_true", help="go on from the last checkpoint in the folder of --save")
    add("--history", metavar="FILE.csv", help="write what was measured in every epoch")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train, test, save, report."""
    from pullback import nn
    from pullback.nn.models import recipe as find
    from pullback.nn.parameters import check_writable

    if options.history:
        check_writable(options.history)
    if options.resume and not options.save:
        raise UsageError("E601", "--resume without --save", remedy="the folder of the run that is to go on: --save DIR")
    recipe = find(options.network)
    splits = load(options.data)
    train, test = (_fitting(recipe, part) for part in (splits.train.first(options.images), splits.test))
    train = train.transformed(*recipe.transforms)
    parameters = recipe.start(options.init, seed=options.seed)
    if options.load:
        parameters = nn.load_parameters(options.load, parameters)
    print(_headline(options, recipe, splits, len(train)), file=sys.stderr, flush=True)
    done = nn.fit(
        recipe.loss,
        train,
        parameters=parameters,
        optimiser=_optimiser(options, recipe),
        epochs=None if options.steps is not None else _epochs(options, recipe),
        steps=options.steps,
        batch=options.batch or recipe.batch,
        seed=options.seed,
        shuffle=not options.in_order,
        evaluate=test,
        metrics=recipe.metrics,
        save=options.save,
        resume=options.resume if options.save else None,
    )
    if options.history:
        done.history.save(options.history)
    if done.end == "interrupted":
        kept = f"saved in {options.save}: --resume goes on" if options.save else "nothing saved"
        print(f"interrupted after {done.steps:,} updates; {kept}", file=sys.stderr)
        return INTERRUPTED
    measured = done.history.rows[-1] if len(done.history) else nn.evaluate(
        recipe.loss, test, parameters=done.parameters, metrics=recipe.metrics, batch=options.batch or recipe.batch
    )  # fmt: skip
    share = measured["accuracy"]
    print(f"accuracy {share:.1%} on {len(test):,} test images, trained in {done.seconds:.2f} s")
    if options.save:
        print(f"parameters saved in {options.save}")
    if options.json:
        print_json({"losses": done.history.losses, "accuracy": share, "seconds": done.seconds})
    return 0


def _epochs(options: argparse.Namespace, recipe: Recipe) -> int:
    return recipe.epochs if options.epochs is None else int(options.epochs)


def _optimiser(options: argparse.Namespace, recipe: Recipe) -> Any:
    from pullback.nn import optimisers

    rate = recipe.rate if options.rate is None else options.rate
    if options.optimiser == "momentum":
        return optimisers.sgd(rate, momentum=0.9)
    return getattr(optimisers, options.optimiser)(rate)


def _fitting(recipe: Recipe, data: Dataset) -> Dataset:
    """The data, if the network takes it.

    Raises:
        DataError: [E508] its images are of another size, [E513] a label is no class.
    """
    if data.inputs.shape[1:] != recipe.image:
        found, wanted = (" × ".join(map(str, shape)) for shape in (data.inputs.shape[1:], recipe.image))
        raise DataError(
            "E508",
            f"{recipe.name} takes images of {wanted}",
            facts=(f"{len(data)} images of {found}",),
            remedy="a data set of that size",
        )
    from pullback.nn.training.task import check_labels

    check_labels(np.asarray(data.targets), recipe.classes, data.name)
    return data


def _headline(options: argparse.Namespace, recipe: Recipe, data: Splits, count: int) -> str:
    size = sum(x.size for x in recipe.start(seed=0))
    start = f"from {options.load}" if options.load else f"{options.init} start"
    length = f"{options.steps} updates" if options.steps is not None else f"{_epochs(options, recipe)} epochs"
    batch = min(options.batch or recipe.batch, count)
    return (
        f"{recipe.name} ({size:,} parameters, {start}) on {count:,} images of {data.name}, "
        f"{length}, {_optimiser(options, recipe)}, batch {batch}"
    )

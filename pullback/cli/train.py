"""`pullback train`: train a network, test it, and save checkpoints."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pullback.cli.options import add_json, at_least, device_name, positive, share
from pullback.cli.output import INTERRUPTED, print_json
from pullback.data import Dataset, load
from pullback.errors import DataError, UsageError, counted
from pullback.nn.models import NAMES, Recipe
from pullback.nn.parameters import named
from pullback.nn.training.labels import check_labels

__all__ = ["register", "run"]

OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam", "adamw", "lion")


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "train",
        help="train a network",
        description="Train a network on images or text, and evaluate it on the test set after every epoch.",
        examples=(
            "pullback train lenet --epochs 5 --save run",
            "pullback train lenet --save run --resume",
            "pullback train resnet18 --data photos/ --history history.csv",
        ),
    )
    add = command.add_argument
    add("network", choices=NAMES, metavar="NETWORK", help=f"one of {', '.join(NAMES)}")
    add("--data", default="digits", metavar="PATH", help="`digits`, a folder of images, or a text file")
    add("--images", type=at_least(1), metavar="N", help="train on the first N samples only")
    length = command.add_mutually_exclusive_group()
    epochs = "passes over the samples (default: 20 for lenet, 10 for most others)"
    length.add_argument("--epochs", type=at_least(0), metavar="N", help=epochs)
    length.add_argument("--steps", type=at_least(0), metavar="N", help="number of updates, instead of epochs")
    add("--batch-size", type=at_least(1), metavar="N", help="samples per update (default: 1 for zhang, 64 for lenet)")
    add("--optimizer", choices=OPTIMIZERS, help="optimizer (default: the network's)")
    rates = "the size of an update (default: 0.5 for zhang, 0.1 for lenet, less for batches below the default size)"
    add("--learning-rate", type=positive, metavar="R", help=rates)
    add("--init", choices=("constant", "uniform"), default="uniform", help="initial parameters")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the initial parameters and the order of samples")
    add("--device", type=device_name, metavar="NAME", help="run on this device: cuda, cuda:1, opencl or cpu")
    add("--devices", type=lambda text: text.split(","), metavar="NAMES", help="train on several: cuda:0,cuda:1")
    add("--workers", type=at_least(1), metavar="N", help="train in N processes, each on a part of every batch")
    add("--no-shuffle", action="store_true", help="take the samples in their order, in every epoch")
    add("--load", metavar="PATH", help="start from the parameters in this file or folder of checkpoints")
    add("--save", metavar="DIR", help="write checkpoints and the history to this folder")
    resume = command.add_mutually_exclusive_group().add_argument
    resume("--resume", action="store_true", help="continue from the last checkpoint in the folder of --save")
    intact, anyway = "continue from the last undamaged checkpoint", "continue although it belongs to another run"
    for how, about in (("newest intact", intact), ("anyway", anyway)):
        flag = f"--resume-{how.replace(' ', '-')}"
        resume(flag, dest="resume", action="store_const", const=how, default=False, help=about)
    add("--history", metavar="FILE", help="write the loss and metrics of every epoch as CSV, or as a picture: FILE.svg")
    add("--tensorboard", metavar="DIR", help="write the loss and metrics of every epoch as event files for TensorBoard")
    add("--average", type=share, metavar="D", help="evaluate and save moving averages of the parameters of this decay")
    add("--quiet", action="store_true", help="show no progress")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train, test, save, report."""
    from pullback import nn
    from pullback.nn.models import recipe as find
    from pullback.nn.parameters import check_writable

    if options.history:
        check_writable(options.history, "the history")
    if options.resume and not options.save:
        raise UsageError("E601", "--resume without --save", remedy="the folder of the run that is to go on: --save DIR")
    recipe = find(options.network)
    splits = load(options.data)
    task = _task(options, recipe, splits.train.take(options.images), splits.test)
    if not options.quiet:
        print(_headline(options, task, splits.name), file=sys.stderr, flush=True)
    done = nn.fit(
        task.model,
        task.loss,
        task.train,
        parameters=task.parameters,
        state=task.state,
        optimizer=task.optimizer,
        epochs=None if options.steps is not None else _epochs(options, recipe),
        steps=options.steps,
        batch_size=options.batch_size or recipe.batch_size,
        seed=options.seed,
        shuffle=not options.no_shuffle,
        validation_data=task.test,
        metrics=recipe.metrics,
        save=options.save,
        resume=options.resume if options.save else None,
        progress=not options.quiet,
        callbacks=[nn.TensorBoardLogger(options.tensorboard)] if options.tensorboard else [],
        average=options.average,
        device=options.device,
        devices=options.devices,
        workers=options.workers,
    )
    if options.history:
        shown = done.history.picture() if options.history.endswith(".svg") else done.history
        shown.save(options.history)
    if done.stop_reason == "interrupted":
        kept = f"saved in {options.save}: --resume goes on" if options.save else "nothing saved"
        print(f"interrupted after {done.steps:,} updates; {kept}", file=sys.stderr)
        return INTERRUPTED
    measured = done.history.rows[-1] if len(done.history) else nn.evaluate(
        task.model, task.loss, task.test, metrics=recipe.metrics, state=done.state,
        parameters=done.parameters if options.average is None else done.averaged_parameters,
        device=options.device,
    )  # fmt: skip
    share = measured["accuracy"]
    print(f"accuracy {share:.1%} on {len(task.test):,} test samples, trained in {done.seconds:.2f} s")
    if options.save:
        print(f"parameters saved in {options.save}")
    if options.json:
        print_json({"losses": done.history.losses, "accuracy": share, "seconds": done.seconds})
    return 0


def _epochs(options: argparse.Namespace, recipe: Recipe) -> int:
    return recipe.epochs if options.epochs is None else int(options.epochs)


class _Task(NamedTuple):
    """A training task: what to train, on which data, from which parameters."""

    recipe: Recipe
    model: Any  # a network, or a loss of parameters
    loss: Any  # of the network
    parameters: Any
    state: Any
    optimizer: Any
    train: Dataset
    test: Dataset


def _task(options: argparse.Namespace, recipe: Recipe, train: Dataset, test: Dataset) -> _Task:
    """The network for this data, with parameters to start from.

    Raises:
        DataError: [E508] it does not accept the data, [E513] a label is out of range; those of `load_parameters`.
        UsageError: [E601] `--init constant` of a network of layers.
    """
    from pullback import nn

    model: Any = recipe.loss
    loss: Any = None
    state: Any = {}
    if recipe.network is None:
        assert recipe.init is not None
        classes = recipe.num_classes or 0
        for part in (train, test):
            _check_size(recipe, part)
        parameters = recipe.init(options.init, seed=options.seed)
    else:
        if options.init == "constant":
            raise UsageError("E601", f"{recipe.name}: --init constant", remedy="`zhang` and `lenet` have such a start")
        train, test = _with_channel(train), _with_channel(test)
        classes = len(train.classes or ()) or int(np.max(train.targets)) + 1
        network = recipe.network(classes)
        parameters, state = network.on(" ".join(["N", *map(str, train.inputs.shape[1:])])).init(options.seed)
        model, loss = network, recipe.loss
    for part in (train, test):
        check_labels(np.asarray(part.targets), classes, part.name)
    if options.load:
        parameters = nn.load_parameters(options.load, parameters)
    train = train.transformed(*recipe.transforms)
    return _Task(recipe, model, loss, parameters, state, _optimizer(options, recipe), train, test)


def _with_channel(data: Dataset) -> Dataset:
    """Add a channel axis to images of one channel."""
    shape = data.inputs.shape
    return replace(data, inputs=data.inputs[:, None]) if len(shape) == 3 else data


def _rate(options: argparse.Namespace, recipe: Recipe) -> float:
    """The learning rate; by default that of the recipe, smaller in proportion for smaller batches.

    Gradients of few samples are noisy, and the recipe's rate can end in NaN (Goyal et al., *Accurate, large minibatch
    SGD*, 2017). Larger batches keep the rate.
    """
    if options.learning_rate is not None:
        return float(options.learning_rate)
    return recipe.learning_rate * min(1.0, (options.batch_size or recipe.batch_size) / recipe.batch_size)


def _optimizer(options: argparse.Namespace, recipe: Recipe) -> Any:
    from pullback.nn import optimizers

    rate = _rate(options, recipe)
    if options.optimizer is None:
        return recipe.optimizer(rate)
    if options.optimizer == "momentum":
        return optimizers.sgd(rate, momentum=0.9)
    return getattr(optimizers, options.optimizer)(rate)


def _check_size(recipe: Recipe, data: Dataset) -> None:
    """Refuse images whose size a hand-written network does not accept.

    Raises:
        DataError: [E508] with the two sizes.
    """
    if recipe.image is not None and data.inputs.shape[1:] != recipe.image:
        found, wanted = (" × ".join(map(str, shape)) for shape in (data.inputs.shape[1:], recipe.image))
        raise DataError(
            "E508",
            f"{recipe.name} takes images of {wanted}",
            facts=(f"{counted(len(data), 'image')} of {found}",),
            remedy="a data set of that size",
        )


def _headline(options: argparse.Namespace, task: _Task, data: str) -> str:
    recipe, count = task.recipe, len(task.train)
    size = sum(np.size(x) for x in named(task.parameters).values())
    start = f"from {options.load}" if options.load else f"{options.init} start" if recipe.init else "random start"
    epochs = counted(_epochs(options, recipe), "epoch")
    length = epochs if options.steps is None else counted(options.steps, "update")
    return (
        f"{recipe.name} ({size:,} parameters, {start}) on {count:,} samples of {data}, "
        f"{length}, {task.optimizer}, batch size {min(options.batch_size or recipe.batch_size, count)}"
    )

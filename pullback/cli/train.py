"""`pullback train`: train a network, measure it on the test set, save its parameters."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from pullback.cli.options import add_json, at_least, positive
from pullback.cli.output import print_json, progress_bar
from pullback.data import load
from pullback.nn.models import NAMES
from pullback.nn.network import Network

__all__ = ["register", "run"]

INTERRUPTED = 130


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "train",
        help="train a network and measure it",
        description="Train a network on handwritten digits, then recognise the test set.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = command.add_argument
    add("network", choices=NAMES, help="which network")
    add("--data", default="digits", metavar="NAME", help="`digits`, or a folder of idx files, plain or gzip")
    add("--images", type=at_least(1), metavar="N", help="train on the first N images only")
    add("--epochs", type=at_least(0), default=10, metavar="N", help="passes over the images")
    add("--batch", type=at_least(1), metavar="N", help="images per update (default: 1 for zhang, 64 for lenet)")
    add("--rate", type=positive, metavar="R", help="learning rate (default: 0.5 for zhang, 0.1 for lenet)")
    add("--init", choices=("constant", "uniform"), default="uniform", help="initial parameters")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the uniform start")
    add("--load", metavar="FILE", help="start from these parameters")
    add("--save", metavar="FILE", help="write the parameters at the end, or when interrupted")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train, test, save, report."""
    from pullback.nn.models import network as find
    from pullback.nn.network import initialise
    from pullback.nn.parameters import check_writable, load_parameters, save_parameters
    from pullback.nn.training import accuracy, check_images

    if options.save:
        check_writable(options.save)
    dataset = load(options.data)
    split = dataset.train.first(options.images)
    network = find(options.network)
    check_images(network, split.images)
    if options.load:
        parameters = load_parameters(options.load, network)
    else:
        parameters = initialise(network, options.init, seed=options.seed)
    print(_headline(options, network, dataset.name, len(split.images)), file=sys.stderr, flush=True)

    with _interruption() as interrupted:
        losses, seconds, complete = _fit(options, network, parameters, split, interrupted)
        if options.save:
            save_parameters(options.save, network, parameters)
        if not complete:
            kept = f"parameters saved to {options.save}" if options.save else "nothing saved"
            print(f"interrupted in epoch {max(1, len(losses))} of {options.epochs}; {kept}", file=sys.stderr)
            return INTERRUPTED
    share = accuracy(network, parameters, dataset.test.images, dataset.test.labels)
    print(f"accuracy {share:.1%} on {len(dataset.test.images):,} test images, trained in {seconds:.2f} s")
    if options.save:
        print(f"parameters saved to {options.save}")
    if options.json:
        print_json({"losses": losses, "accuracy": share, "seconds": seconds})
    return 0


def _headline(options: argparse.Namespace, network: Network, data: str, count: int) -> str:
    size = sum(int(np.prod(shape)) for shape in network.shapes.values())
    start = f"from {options.load}" if options.load else f"{options.init} start"
    rate = network.rate if options.rate is None else options.rate
    batch = min(options.batch or network.batch, count)
    return (
        f"{network.name} ({size:,} parameters, {start}) on {count:,} images of {data}, "
        f"{options.epochs} epochs, rate {rate:g}, batch {batch}"
    )


def _fit(
    options: argparse.Namespace, network: Network, parameters: Any, split: Any, interrupted: list[bool]
) -> tuple[list[float], float, bool]:
    """Train with a progress bar: the losses, the seconds, and whether it came to its end."""
    from pullback.nn.training import Progress, fit

    start = time.perf_counter()
    with progress_bar() as bar:

        def show(state: Progress) -> None:
            share = (state.epoch - 1 + state.done / state.images) / state.epochs
            bar.update(share, f"epoch {state.epoch}/{state.epochs}  loss {state.loss:.5f}")
            if state.done == state.images:
                bar.line(f"epoch {state.epoch:3d}  loss {state.loss:.5f}  {time.perf_counter() - start:6.2f} s")

        try:
            history = fit(
                network,
                parameters,
                split.images,
                split.labels,
                epochs=options.epochs,
                batch=options.batch,
                rate=options.rate,
                progress=show,
                stop=lambda: interrupted[0],
            )
        except Exception:
            # The terminal sends Ctrl-C to the C compiler too, whose failure is then no error of ours. No update has
            # been left half done: the compiled loop runs to its end once it has started.
            if not interrupted[0]:
                raise
            return [], time.perf_counter() - start, False
    return list(history.losses), history.seconds, history.complete


@contextmanager
def _interruption() -> Iterator[list[bool]]:
    """Note the first Ctrl-C instead of raising; training then stops between two calls. The second one raises."""
    interrupted = [False]

    def note(number: int, frame: FrameType | None) -> None:
        if interrupted[0]:
            raise KeyboardInterrupt
        interrupted[0] = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)

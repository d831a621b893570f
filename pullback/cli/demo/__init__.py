"""`pullback demo`: six steps from a shape error to a C program that reads digits, in a minute."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pullback.cli.options import add_json, import_file
from pullback.cli.output import print_json, table
from pullback.data import Splits, load_digits
from pullback.errors import CompilerError, ShapeError
from pullback.files import put_file
from pullback.runtime.compile import Compiler, find_compiler
from pullback.writing import writing

__all__ = ["register", "run"]

STEPS: Final = 6
EPOCHS: Final = 15
BATCH: Final = 32
RATE: Final = 5e-3
HERE: Final = Path(__file__).parent
BLOCKS: Final = np.array([[" ", "▄"], ["▀", "█"]])  # by the upper and the lower half


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "demo",
        help="show an error, a gradient, and a network trained and exported to C",
        description="Show a shape error and a gradient. Train a network on the bundled digits, export it to C and run "
        "the C program. Write a page with every stage of compilation. It takes some ten seconds.",
        examples=("pullback demo", "pullback demo --out /tmp/demo"),
    )
    command.add_argument("--out", metavar="DIR", default="pullback-demo", help="folder for the files that it writes")
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the steps in order.

    Raises:
        CompilerError: [E410] there is no C compiler, [E411] it failed.
        DataError: [E506] scikit-learn, which has the digits, is not installed.
        UsageError: [E607] the folder cannot be written.
    """
    start, folder = time.perf_counter(), Path(options.out)
    _say(1, "Find a mistake in shapes before anything runs.")
    _show_mistake(folder)
    _say(2, "Derive the gradient of one line of maths, as a program one can read.")
    gradient = _show_gradient(folder)
    _say(3, "Train a small convolutional network on handwritten digits.")
    compiler, digits = find_compiler(), load_digits()  # check before the long work: both may be missing
    network, trained = _train(digits)
    _say(4, "Write the network as C, compile it, and have it read ten digits.")
    measured = _read_in_c(folder, compiler, network, trained.parameters, digits)
    _say(5, "Write a page with every stage from the line of maths to C, and a picture of the filters.")
    gradient.explain(N=64, M=32, html=folder / "explain.html")
    print(f"{folder / 'explain.html'}: open it in a browser")
    _draw_filters(folder / "filters.png", trained.parameters["conv1"]["w"][:, 0])
    _say(6, "Go on from here.")
    _say_what_next(folder)
    print(f"\nAll of it took {time.perf_counter() - start:.0f} s.")
    if options.json:
        files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
        print_json({"accuracy": trained.history["accuracy"][-1], **measured, "files": files})
    return 0


def _say(step: int, text: str) -> None:
    gap = "" if step == 1 else "\n"
    print(f"{gap}[{step}/{STEPS}] {text}", flush=True)


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _write(path: Path, content: str | bytes, mode: int = 0o666) -> Path:
    """Write a file atomically, and create its folder."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        put_file(path, content if isinstance(content, bytes) else content.encode(), mode)
    return path


def _show_mistake(folder: Path) -> None:
    """Write a file with a mistake, and print its error."""
    try:
        import_file(_write(folder / "mistake.py", _text("mistake.txt")))
    except ShapeError as error:
        print(error)


def _show_gradient(folder: Path) -> Any:
    """Write a file with a loss, print the loss and its gradient, and return the gradient."""
    import pullback as pb

    text = _text("line.txt")
    gradient = pb.grad(import_file(_write(folder / "line.py", text)).loss, "w")
    print(f"{text.splitlines()[-1].strip()}\n\n{gradient.ir}", end="")
    return gradient


def _train(digits: Splits) -> tuple[Any, Any]:
    """Train a network, print how many digits it gets right, and return it with its run.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    from pullback import nn

    network = nn.sequential(
        nn.conv(8, 5), nn.relu, nn.max_pool(2), nn.conv(16, 5), nn.relu, nn.max_pool(2), nn.flatten(), nn.dense(10)
    ).named("digits").on("N 1 28 28")  # fmt: skip
    train, test = ((part.inputs[:, None], part.targets) for part in (digits.train, digits.test))
    steps = EPOCHS * -(-len(digits.train) // BATCH)
    schedule = nn.cosine_decay_schedule(RATE, decay_steps=steps)
    run = nn.fit(
        network, nn.cross_entropy, train, optimizer=nn.adam(schedule), epochs=EPOCHS, batch_size=BATCH, seed=0,
        validation_data=test, metrics=[nn.metrics.accuracy], progress=False,
    )  # fmt: skip
    if run.stop_reason == "interrupted":
        raise KeyboardInterrupt
    count = sum(x.size for layer in run.parameters.values() for x in layer.values())
    print(f"{count:,} parameters, {EPOCHS} epochs of {len(digits.train):,} digits in "
          f"{run.seconds:.1f} s\n"
          f"{run.history['accuracy'][-1]:.1%} of {len(digits.test)} other digits are right")  # fmt: skip
    return network, run


def _read_in_c(
    folder: Path, compiler: Compiler, network: Any, parameters: Any, digits: Splits
) -> dict[str, Any]:
    """Export the network, compile and run a program that calls it, and return its sizes and time."""
    made = network.export(folder / "c", parameters, weights="const")
    source, program = _write(folder / "read.c", _text("read.c")), folder / "read"
    first = [np.flatnonzero(digits.test.targets == digit)[0] for digit in range(10)]
    images = digits.test.inputs[first]
    numbers = _write(folder / "digits.f32", images.tobytes())
    _compile(compiler, [source, folder / "c" / "digits_infer.c"], program)
    done = subprocess.run([program.resolve(), numbers], check=True, capture_output=True, text=True)
    read, took = done.stdout.splitlines()
    found, microseconds = list(map(int, read.split())), float(took.split()[0])
    print(_drawn(images, found))
    size, arena = program.stat().st_size, made["arena_bytes"]["digits_infer"]
    print(f"{program}: {size:,} bytes with the weights, {arena:,} bytes of working memory, nothing allocated\n"
          f"one digit takes {microseconds:.1f} microseconds")  # fmt: skip
    return {"read": found, "program_bytes": size, "arena_bytes": arena, "microseconds": microseconds}


def _compile(compiler: Compiler, sources: list[Path], program: Path) -> None:
    """Compile a program, and move it into place when it is complete.

    Raises:
        CompilerError: [E411] it failed.
    """
    options = ["-std=c99", "-O2", "-march=native", "-Wno-psabi"]
    command = [*compiler.command, *options, *map(str, sources), "-o", str(program), "-lm"]
    print(shlex.join([Path(command[0]).name, *command[1:]]), flush=True)
    with tempfile.TemporaryDirectory() as work:
        command[-2] = os.path.join(work, program.name)
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise CompilerError("E411", f"the C compiler failed on {sources[0]}", facts=done.stderr.splitlines()[:5],
                                remedy="set CC to another compiler")  # fmt: skip
        _write(program, Path(command[-2]).read_bytes(), 0o777)


def _drawn(images: NDArray[np.float32], found: list[int]) -> str:
    """Draw images (N, 28, 28), five in a row, two pixels per character, with the recognized digit below."""
    ink = images.reshape(len(images), 14, 2, 14, 2).mean((2, 4)) > 0.5
    pictures = BLOCKS[ink[:, ::2].astype(int), ink[:, 1::2].astype(int)]  # (N, 7, 14)
    rows = []
    for k in range(0, len(images), 5):
        rows += ["  ".join("".join(line) for line in lines).rstrip() for lines in pictures[k : k + 5].swapaxes(0, 1)]
        rows.append("  ".join(f"read: {digit}".center(14) for digit in found[k : k + 5]).rstrip())
    return "\n".join(rows)


def _draw_filters(path: Path, filters: NDArray[np.float32]) -> None:
    """Draw filters (N, height, width) side by side; if matplotlib is not installed, say so."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture of the filters: matplotlib is not installed; pip install 'pullback[demo]'")
        return
    figure = Figure(figsize=(len(filters), 1.4), layout="constrained")
    limit = float(np.abs(filters).max())
    for k, weights in enumerate(filters):
        axes = figure.add_subplot(1, len(filters), k + 1)
        axes.imshow(weights, cmap="RdBu", vmin=-limit, vmax=limit)
        axes.set_axis_off()
    figure.suptitle("Filters of the first layer: blue adds, red takes away", fontsize=9)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    _write(path, content.getvalue())
    print(f"{path}: the {len(filters)} filters of the first layer")


def _say_what_next(folder: Path) -> None:
    """Print commands to try."""
    line = folder / "line.py"
    print(table([
        (f"pullback check {folder / 'mistake.py'}", "mend the mistake, and check again"),
        (f"pullback explain {line}:loss --grad w", "how the gradient was found, step by step"),
        (f"pullback export {line}:loss --out loss", "the loss as a C project, for all sizes"),
        ("pullback train lenet --save run", "a larger network on the same digits"),
        ("docs/tutorials/first_hour.md", "from one line of maths to a network in C"),
    ], right=[False, False]))  # fmt: skip

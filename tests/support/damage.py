"""Damaged ONNX files: each is refused with an error of this package, or read.

python -m tests.support.damage --files 10000 --seed 0

The files are the small models that come with the package onnx. Each is damaged by its seed. Bytes are changed, cut
out or doubled, or the file is cut short. Or one field of the model changes: inputs and results of nodes are renamed,
left out or exchanged. Operators, attributes, extents, element types and versions are changed, and nodes are left out
or moved. A fault is any other exception, an error about a node that does not say which, more than `SECONDS`, or more
memory than `ROOM`.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pullback.errors import PullbackError
from pullback.onnx import load
from pullback.onnx.graph import library

__all__ = ["damaged", "main", "models", "outcome"]

FOLDERS: Final = ("simple", "pytorch-converted", "pytorch-operator")  # of the package onnx
LARGEST: Final = 100_000  # bytes of a file that is damaged
SECONDS: Final = 20
ROOM: Final = 6 << 30  # bytes of addresses that a damaged file may take besides what there is
NUMBERS: Final = (-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 17, 1000, 2**31, 2**40, 2**63 - 1)
# Of the first two a call has to say an extent, a rank.
OF_FILES: Final = ("E117", "E140", "E520", "E521", "E522", "E523", "E527", "E528")
NAMED: Final = ("node ", "the array ", "the input ", "the result ", "the graph ")
"""The words with which errors about a part of a file begin."""


def models() -> dict[str, bytes]:
    """The small models that come with the package onnx, by their names."""
    data = Path(str(library().__file__)).parent / "backend" / "test" / "data"
    files = [f for folder in FOLDERS for f in sorted((data / folder).glob("*/model.onnx"))]
    return {f.parent.name: f.read_bytes() for f in files if f.stat().st_size <= LARGEST}


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A copy with one to three things changed: bytes, or fields of the model."""
    if rng.random() < 0.35:
        return _bytes(content, rng)
    model = library().ModelProto()
    model.ParseFromString(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(_FIELDS)(model, rng)
    changed: bytes = model.SerializeToString()
    return changed


def _bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    if rng.random() < 0.15:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, kind = rng.randrange(max(len(data), 1)), rng.randrange(4)
        if kind < 2 and data:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at : at + rng.randrange(1, 9)]
        else:
            data[at:at] = data[at : at + rng.randrange(1, 9)]
    return bytes(data)


def _name(model: Any, rng: random.Random) -> str:
    """A name that there is, or is not."""
    there = [n for node in model.graph.node for n in (*node.input, *node.output)]
    return str(rng.choice([*there, "", "nothing", "ü" * 3]))


def _node(model: Any, rng: random.Random) -> Any:
    return rng.choice(model.graph.node) if model.graph.node else library().NodeProto()


def _input(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    if node.input:
        node.input[rng.randrange(len(node.input))] = _name(model, rng)


def _fewer_inputs(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    if node.input:
        del node.input[rng.randrange(len(node.input))]


def _more_inputs(model: Any, rng: random.Random) -> None:
    _node(model, rng).input.append(_name(model, rng))


def _output(model: Any, rng: random.Random) -> None:
    node = _node(model, rng)
    if node.output and rng.random() < 0.7:
        node.output[rng.randrange(len(node.output))] = _name(model, rng)
    else:
        node.output.append(_name(model, rng))


def _operator(model: Any, rng: random.Random) -> None:
    known = library().defs.get_all_schemas()
    _node(model, rng).op_type = rng.choice(known).name if rng.random() < 0.8 else "Nothing"


def _attribute(model: Any, rng: random.Random) -> None:
    """An attribute left out, renamed, of another kind, or of other numbers."""
    node = _node(model, rng)
    if not node.attribute:
        node.attribute.append(library().helper.make_attribute(rng.choice(("axis", "axes", "to")), rng.choice(NUMBERS)))
        return
    at = rng.randrange(len(node.attribute))
    a, kind = node.attribute[at], rng.randrange(4)
    if kind == 0:
        del node.attribute[at]
    elif kind == 1:
        a.name = rng.choice(("axis", "nothing", "pads", "kernel_shape"))
    elif kind == 2:
        a.type = rng.randrange(0, 15)
    else:
        _other_numbers(a, rng)


def _other_numbers(a: Any, rng: random.Random) -> None:
    a.i, a.f = rng.choice(NUMBERS), rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    a.s = rng.choice((b"", b"nothing", b"\xff"))
    if a.ints and rng.random() < 0.7:
        a.ints[rng.randrange(len(a.ints))] = rng.choice(NUMBERS)
    elif a.ints:
        a.ints.append(rng.choice(NUMBERS))


def _extent(model: Any, rng: random.Random) -> None:
    """An extent of an array, or of what goes in or comes out."""
    g = model.graph
    arrays = [t.dims for t in g.initializer if t.dims]
    extents = [d for v in (*g.input, *g.output) for d in v.type.tensor_type.shape.dim]
    if arrays and rng.random() < 0.5:
        dims = rng.choice(arrays)
        dims[rng.randrange(len(dims))] = rng.choice(NUMBERS)
    elif extents:
        rng.choice(extents).dim_value = rng.choice(NUMBERS)


def _type(model: Any, rng: random.Random) -> None:
    g = model.graph
    if g.initializer and rng.random() < 0.5:
        rng.choice(g.initializer).data_type = rng.randrange(0, 30)
    elif g.input:
        rng.choice(g.input).type.tensor_type.elem_type = rng.randrange(0, 30)


def _version(model: Any, rng: random.Random) -> None:
    for o in model.opset_import:
        o.version = rng.choice((*NUMBERS, *range(1, 25)))


def _left_out(model: Any, rng: random.Random) -> None:
    """A node, an array or a result is not there, or a node stands elsewhere."""
    g, kind = model.graph, rng.randrange(4)
    group = (g.node, g.initializer, g.output, g.node)[kind]
    if not group:
        return
    at = rng.randrange(len(group))
    taken = type(group[at])()
    taken.CopyFrom(group[at])
    del group[at]
    if kind == 3:
        group.insert(rng.randrange(len(group) + 1), taken)


_FIELDS: Final[Sequence[Callable[[Any, random.Random], None]]] = (
    _input, _fewer_inputs, _more_inputs, _output, _operator, _attribute, _attribute, _extent, _type, _version,
    _left_out,
)  # fmt: skip


def outcome(content: bytes) -> str:
    """The outcome for a file: "read", the code of the error that refused it, or "fault: …"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f, _ = load(content, batch_size=1)
            _ = f.type  # it is traced for this
    except PullbackError as error:
        if error.code not in OF_FILES or (error.code == "E522" and not error.what.startswith(NAMED)):
            return f"fault: an error that does not say where: [{error.code}] {error.what}"
        return error.code
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"fault: {type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
    return "read"


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage files, say what became of them; 1 where one had a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.damage", description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    _limited()
    found = Counter(_judged(models(), range(options.seed, options.seed + options.files)))
    faults = {what: n for what, n in found.items() if what.startswith("fault")}
    print(", ".join(f"{n} {what}" for what, n in sorted(found.items()) if what not in faults))
    print(f"{sum(found.values())} files, {sum(faults.values())} with a fault")
    return int(bool(faults))


def _judged(bases: dict[str, bytes], seeds: Iterable[int]) -> Iterable[str]:
    """The outcome of each file, with faults and their seeds as they come."""
    names = list(bases)
    for seed in seeds:
        rng = random.Random(seed)
        name = names[rng.randrange(len(names))]
        content = damaged(bases[name], rng)
        signal.alarm(SECONDS)
        what = outcome(content)
        signal.alarm(0)
        if what.startswith("fault"):
            print(f"seed {seed}, {name}: {what}", flush=True)
        yield what


def _limited() -> None:
    """Ends what takes too long or too much memory by an exception."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (_addresses() + ROOM, resource.RLIM_INFINITY))


def _addresses() -> int:
    """Bytes of addresses that this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main())

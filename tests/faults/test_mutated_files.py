"""Mutated files of every reader: each is read, or refused with an error that has a code.

    python -m pytest tests/faults/test_mutated_files.py                          a small form, some seconds
    PULLBACK_NIGHTLY=1 python -m pytest -s tests/faults/test_mutated_files.py    100,000 files

A file is a good one with bytes changed, cut out, doubled or spliced with another file, with numbers of its header
replaced by extreme ones, or its compressed content changed. A fault is an exception without a code, more than
`SECONDS` for a file, or more memory than `ROOM`.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import resource
import signal
import struct
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from pullback import data
from pullback.apl import AplError, Workspace
from pullback.apl.limits import Limits
from pullback.apl.workspace import read_text
from pullback.errors import PullbackError
from pullback.ir.parser import parse_program
from pullback.ir.verify import verify

NIGHTLY = bool(os.environ.get("PULLBACK_NIGHTLY"))
FILES = 100_000 if NIGHTLY else 1_600
SECONDS = 20
ROOM = 2 << 30  # bytes that a file may take besides what there is
LIMIT = 1 << 26  # of readers
EXTREME = (0, 1, 2**8 - 1, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
PROGRAMS = Path(__file__).parents[1] / "programs"


@dataclass(frozen=True)
class Reader:
    """A reader of one kind of file.

    Attributes:
        share: how many of a hundred files are its own.
        good: files that it reads.
        place: the name of the file in an empty folder.
        read: reads the folder's file, and uses what it has read.
        change: makes a mutated file of a good one; that of bytes unless told otherwise.
    """

    share: float
    good: list[bytes]
    place: str
    read: Callable[[Path], object]
    change: Callable[[bytes, list[bytes], random.Random], bytes] | None = None


# Mutations ------------------------------------------------------------------------------------------------------------


def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """A copy with one to four changes."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(min(len(made), rng.choice((16, 128, 10**6))) + 1)  # rather near the header
        match rng.randrange(9):
            case 0 | 1:
                made[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                made[at : at + 1] = bytes([made[at] ^ 1 << rng.randrange(8)]) if at < len(made) else b""
            case 3:
                del made[at : at + rng.choice((1, 2, 8, 64))]
            case 4:
                made[at:at] = made[at : at + rng.choice((1, 2, 8, 64))]
            case 5:
                del made[at:]
            case 6:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                made[at : at + 32] = other[start : start + rng.choice((4, 32, 1000))]
            case 7:
                number = struct.pack(rng.choice("<>") + "I", rng.choice(EXTREME))
                made[at : at + 4] = number[: rng.choice((1, 2, 4))]
            case _:
                digits = str(rng.choice((*EXTREME, -1, 10**18, 10**30))).encode()
                made[at : at + rng.randrange(3)] = digits
    return bytes(made)


def of_gzip(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Gzip data of a mutated file, or mutated gzip data; sometimes of much more than its header promises."""
    if rng.random() < 0.001:
        return gzip.compress(content + bytes(LIMIT + (1 << 20)), 1)
    inner = rng.random() < 0.6
    packed = gzip.compress(mutated(content, others, rng) if inner else content, 1)
    return packed if inner else mutated(packed, [packed], rng)


def of_zip(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """An archive with a mutated member, or a mutated archive."""
    if rng.random() < 0.4:
        return mutated(content, others, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for entry in archive.infolist():
            member = archive.read(entry)
            made.writestr(entry.filename, mutated(member, [member], rng) if rng.random() < 0.6 else member)
    return out.getvalue()


# Good files -----------------------------------------------------------------------------------------------------------


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


def _idx(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], code: int) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def _arrays() -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(6, 4))
    return [plain, np.asfortranarray(plain), *(plain.astype(kind) for kind in ("f4", ">f8", "i2", "u1", "?", "c8"))]


def _images() -> dict[str, bytes]:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 255, (9, 7, 3), np.uint8)
    kinds = {"png": {}, "jpeg": {}, "gif": {}, "bmp": {}, "tiff": {"compression": "tiff_lzw"}, "webp": {}, "ppm": {}}
    return {k: _saved(lambda f, k=k, o=o: image.fromarray(pixels).save(f, k, **o)) for k, o in kinds.items()}


# Readers --------------------------------------------------------------------------------------------------------------


def _samples(folder: Path) -> None:
    found = data.load(folder)
    for part in (found.train, found.test):
        np.asarray(part.inputs[np.arange(min(2, len(part.inputs)))]).sum()


def _beside(name: str, wanted: bytes) -> Callable[[Path], None]:
    """Put the other files of a folder beside the mutated one, and read the folder."""

    def read(folder: Path) -> None:
        for other in ("train", "test"):
            path = folder / name.format(other)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wanted)
        _samples(folder)

    return read


def _npy(folder: Path) -> None:
    for part in ("train", "test"):
        for kind, array in (("inputs", _arrays()[0]), ("targets", np.arange(6))):
            if not (path := folder / f"{part}-{kind}.npy").exists():
                np.save(path, array)
    _samples(folder)


def _tied(folder: Path) -> None:
    work = Workspace()
    work["path"] = str(next(folder.iterdir()))
    work.evaluate("t←path⎕NTIE 0 ⋄ ⎕NSIZE t ⋄ ⎕NREAD t 83,(5⌊⎕NSIZE t),0 ⋄ ⎕NREAD t 645 1 3 ⋄ ⎕NUNTIE t")


def _table(folder: Path) -> None:
    work = Workspace()
    work["path"] = str(folder / "a.csv")
    work.evaluate("+/,⎕CSV path")


def _script(folder: Path) -> None:
    shown: list[object] = []
    limits = Limits(0.5, 1 << 29)
    try:
        Workspace(show=shown.append, limits=limits).within_limits(read_text(folder / "a.apl"), "a.apl")
    except AplError as error:
        if error.kind == "SYSTEM ERROR":
            raise error.__cause__ or error from None
        raise


def _program(folder: Path) -> None:
    verify(parse_program((folder / "a.pb").read_bytes().decode("utf-8", "replace")))


def _network(folder: Path) -> None:
    from tests.support.damage import outcome

    what = outcome((folder / "a.onnx").read_bytes())
    assert not what.startswith("fault"), what


def _scripts() -> list[bytes]:
    pairs = Path(__file__).parents[1] / "apl" / "pairs"
    lines = [line.strip() for path in sorted(pairs.glob("*.txt")) for line in path.read_text("utf-8").splitlines()
             if line.startswith(" " * 6)]  # fmt: skip
    return ["\n".join(lines[k : k + 3]).encode() for k in range(0, len(lines), 3)]


def readers() -> dict[str, Reader]:
    """All readers, by the kind of their files."""
    arrays, text = _arrays(), ("A line, ärgerlich.\n" * 30).encode()
    idx = [_idx(np.arange(24, dtype=np.uint8).reshape(6, 2, 2), 8), _idx(np.ones((3, 2)), 14)]
    npy = [_saved(lambda f, a=a: np.save(f, a)) for a in arrays]
    npz = [_saved(lambda f, s=s: s(f, inputs=arrays[2], targets=np.arange(6))) for s in (np.savez, np.savez_compressed)]
    cifar = bytes(range(256)) * 12 + b"\0\0"
    table = b"1,2,3\n4.5,-6,7e8\n.5,1e300,0\n"
    found = {
        "idx": Reader(14, idx, "a.idx", lambda f: data.read_idx(f / "a.idx").sum()),
        "idx, gzip": Reader(14, idx, "a.idx.gz", lambda f: data.read_idx(f / "a.idx.gz").sum(), of_gzip),
        "NumPy": Reader(8, npy, "train-inputs.npy", _npy),
        "NumPy archive": Reader(8, npz, "train.npz", _beside("{}.npz", npz[0]), of_zip),
        "CIFAR": Reader(2, [cifar], "train.bin", _beside("{}.bin", cifar)),
        "text": Reader(8, [text], "a.txt", lambda f: data.load_text(f / "a.txt", sequence_length=3).inputs[0]),
        "CSV": Reader(10, [table], "a.csv", _table),
        "tied file": Reader(6, [text], "a", _tied),
        "tied file, gzip": Reader(6, [text], "a.gz", _tied, of_gzip),
        "script": Reader(3, _scripts(), "a.apl", _script),
        "program": Reader(6, [p.read_bytes() for p in sorted(PROGRAMS.glob("*.pb"))], "a.pb", _program),
    }
    for kind, image in _images().items():
        found[kind] = Reader(2, [image], "train/a/1.png", _beside("{}/a/1.png", image))
    try:
        from tests.support.damage import damaged, models
    except ImportError:
        return found
    graphs = list(models().values())
    found["ONNX"] = Reader(1, graphs, "a.onnx", _network, lambda content, others, rng: damaged(content, rng))
    return found


# The run --------------------------------------------------------------------------------------------------------------


@contextmanager
def within_bounds() -> Iterator[None]:
    """End what takes too long or too much memory with an exception that has no code."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    before = resource.getrlimit(resource.RLIMIT_DATA)
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + ROOM, before[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_DATA, before)


def outcome(reader: Reader, content: bytes, folder: Path) -> str:
    """What became of a file: "read", the code of its error, or "fault: …"."""
    path = folder / reader.place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            signal.alarm(SECONDS)
            reader.read(folder)
            signal.alarm(0)
    except PullbackError as error:
        return error.code
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"fault: {type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
    finally:
        signal.alarm(0)
    return "read"


@pytest.mark.slow
def test_every_mutated_file_is_read_or_refused_with_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_READ_LIMIT", str(LIMIT))
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    monkeypatch.delenv("PULLBACK_DATA", raising=False)
    table = readers()
    whole = sum(reader.share for reader in table.values())
    faults: dict[str, str] = {}
    total = 0
    with within_bounds():
        for name, reader in table.items():
            counts: Counter[str] = Counter()
            start = time.monotonic()
            folder = tmp_path / name
            for k in range(-(-int(FILES * reader.share) // int(whole))):
                rng = random.Random(f"{name} {k}")
                content = (reader.change or mutated)(rng.choice(reader.good), reader.good, rng)
                what = outcome(reader, content, folder)
                counts[what[:60]] += 1
                if what.startswith("fault"):
                    faults.setdefault(what, f"{name} {k}")
            total += counts.total()
            print(f"{name}: {counts.total()} files, {time.monotonic() - start:.0f} s, {dict(counts.most_common(12))}")
    print(f"{total} files, {len(faults)} kinds of fault")
    assert not faults, "\n".join(f"{seed}: {what}" for what, seed in faults.items())

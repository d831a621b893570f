"""Readers are bounded: by what a header promises, and by the limit, before memory is taken."""

from __future__ import annotations

import gzip
import struct
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import data, reading
from pullback.apl import AplError, Workspace
from pullback.data.archive import read_archive
from pullback.errors import DataError, PullbackError, UsageError

HUGE = 1 << 26
HEADER = b"\0\0\x08\x01" + struct.pack(">I", 10)


def code(run: Callable[[], object], expected: type[PullbackError] = DataError) -> str:
    """The code of the error that this ends with."""
    with pytest.raises(expected) as caught:
        run()
    return caught.value.code


def peak(run: Callable[[], object]) -> int:
    """The most memory that this took, in bytes."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_gzip_data_is_unpacked_as_far_as_the_header_promises(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(HEADER + bytes(HUGE), 1))
    assert peak(lambda: code(lambda: data.read_idx(path))) < 1 << 23
    assert code(lambda: data.read_idx(path)) == "E504"


def test_gzip_data_without_a_header_is_unpacked_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(HUGE), 1))
    monkeypatch.setenv(reading.VARIABLE, "1000000")
    work = Workspace()
    work["path"] = str(path)
    assert peak(lambda: code(lambda: work.evaluate("path⎕NTIE 0"), AplError)) < 1 << 24
    with pytest.raises(AplError, match=r"FILE ERROR.*it unpacks to more than 1000000 bytes"):
        work.evaluate("path⎕NTIE 0")


@pytest.mark.parametrize("damage", [
    b"", b"\x1f\x8b", b"\x1f\x8b" + bytes(20),
    gzip.compress(bytes(99), mtime=0)[:-9],  # with the time in it each worker would collect another test
])  # fmt: skip
def test_damaged_gzip_data_ends_no_session(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(damage)
    work = Workspace()
    work["path"] = str(path)
    if damage:
        assert code(lambda: work.evaluate("path⎕NTIE 0"), AplError) == "E808"
    else:
        assert int(work.evaluate("⎕NSIZE path⎕NTIE 0")) == 0


@pytest.mark.parametrize("extents", [(0,) * 255, (0, 2**32 - 1, 2**32 - 1, 2**32 - 1), (1,) * 65])
@pytest.mark.parametrize("packed", [False, True])
def test_headers_that_no_array_has(extents: tuple[int, ...], packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.idx"
    content = struct.pack(f">BBBB{len(extents)}I", 0, 0, 8, len(extents), *extents) + b"\1" * (0 not in extents)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert code(lambda: data.read_idx(path)) == "E527"


def test_huge_extents_of_gzip_data_are_refused_by_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.idx"
    path.write_bytes(gzip.compress(b"\0\0\x0e\x03" + b"\xff" * 12 + bytes(HUGE), 1))
    assert peak(lambda: code(lambda: data.read_idx(path))) < 1 << 23
    assert code(lambda: data.read_idx(path)) == "E527"


READERS: dict[str, Callable[[Path], object]] = {
    "idx": data.read_idx,
    "text": data.load_text,
    "⎕CSV": lambda path: Workspace().evaluate(f"⎕CSV '{path}'"),
    "⎕NTIE": lambda path: Workspace().evaluate(f"'{path}'⎕NTIE 0"),
}


def _onnx(path: Path) -> object:
    pytest.importorskip("onnx")
    from pullback import onnx

    return onnx.load(path)


@pytest.mark.parametrize("read", [*READERS.values(), _onnx], ids=[*READERS, "onnx"])
def test_no_reader_reads_more_than_the_limit(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert code(lambda: read(path), PullbackError) in ("E527", "E808")
    monkeypatch.setenv(reading.VARIABLE, "5000000")
    assert peak(lambda: code(lambda: read(Path("/dev/zero")), PullbackError)) < 1 << 25
    assert code(lambda: read(Path("/dev/zero")), PullbackError) in ("E527", "E808")
    assert code(lambda: read(Path("a\0b")), PullbackError) in ("E501", "E808")


def test_the_limit_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data.write_idx(path := tmp_path / "a.idx", np.zeros((10, 10), np.uint8))
    monkeypatch.setenv(reading.VARIABLE, "112")
    assert data.read_idx(path).shape == (10, 10)
    monkeypatch.setenv(reading.VARIABLE, "111")
    with pytest.raises(DataError) as caught:
        data.read_idx(path)
    assert caught.value.message.replace(str(path), "a.idx") == (
        """\
DataError [E527] a.idx: the file has 112 bytes
   | limit: 111 bytes
  try: set PULLBACK_READ_LIMIT to more bytes, if you trust the file      See `pullback explain-error E527`"""
    )
    monkeypatch.setenv(reading.VARIABLE, "much")
    with pytest.raises(UsageError, match="PULLBACK_READ_LIMIT=much is not a number of bytes"):
        data.read_idx(path)


def _archive(path: Path, header: str, content: bytes = b"") -> None:
    text = header.encode() + b"\n"
    member = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", member)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [("(10**12,)", "E503"), (f"({10**12},)", "E527"), (f"({10**6},)", "E503"), (f"(0, {2**62}, {2**62})", "E527"),
     ("(" + "1, " * 70 + ")", "E527"), ("(-1,)", "E503"), ("(" * 3000, "E503"), ("(True,)", "E503")],
)  # fmt: skip
def test_arrays_of_an_archive_are_checked_by_their_headers(shape: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "train.npz"
    _archive(path, f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}")
    assert peak(lambda: code(lambda: read_archive(path))) < 1 << 22
    assert code(lambda: data.load(tmp_path)) == expected


def test_an_archive_of_objects_or_without_arrays_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.npz"
    np.savez(path, x=np.array([{}, 1], object))
    assert code(lambda: data.load(tmp_path)) == "E503"
    path.write_bytes(b"PK\3\4" + bytes(100))
    assert code(lambda: data.load(tmp_path)) == "E503"


def _png(side: int, pixels: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def test_images_are_checked_by_their_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setenv(reading.VARIABLE, "1000000")
    for part in ("train", "test"):
        folder = tmp_path / part / "a"
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(_png(4, bytes(20)))
    assert np.asarray(data.load(tmp_path).train.inputs[np.array([0])]).shape == (1, 3, 4, 4)
    for side in (600, 60_000, 2**31 - 1):
        (tmp_path / "train/a/2.png").write_bytes(_png(side, bytes(1000)))
        images: Any = data.load(tmp_path).train.inputs
        assert peak(lambda images=images: code(lambda: images[np.array([1])])) < 1 << 22
        assert code(lambda images=images: images[np.array([1])]) == "E527"


def test_a_checkpoint_of_an_expert_is_its_own_or_refused(tmp_path: Path) -> None:
    from pullback import nn
    from pullback.lazy.remote import Expert

    settings: dict[str, Any] = {"network": nn.dense(2).on("N 3"), "checkpoint": str(tmp_path), "load": True}
    Expert("e", **settings).save()
    Expert("e", **settings)
    (path,) = tmp_path.glob("e.*")
    content = path.read_bytes()
    for damage in (content[:-30], content[:50], b"", b"no archive", content[:-1] + bytes([content[-1] ^ 64])):
        path.write_bytes(damage)
        assert code(lambda: Expert("e", **settings)) == "E509"
    path.unlink()
    Expert("e", nn.dense(4).on("N 3"), checkpoint=str(tmp_path)).save()
    assert code(lambda: Expert("e", **settings)) == "E510"


def test_bounds_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.idx"
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12))
    start = time.process_time()
    assert code(lambda: data.read_idx(path)) == "E527"
    assert time.process_time() - start < 0.5

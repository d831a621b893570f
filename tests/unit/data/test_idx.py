"""Reading and writing idx files: A24 of the paper's program, and every way a file can be wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from pullback.data import read_idx, write_idx
from pullback.errors import DataError


def idx3(count: int = 2, rows: int = 3, columns: int = 4) -> bytes:
    """A synthetic file of images, written out by hand."""
    return (
        b"\x00\x00\x08\x03"
        + struct.pack(">III", count, rows, columns)
        + bytes(i % 256 for i in range(count * rows * columns))
    )


@pytest.mark.parametrize("compressed", [False, True])
def test_a24_idx3_file(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "images"  # the content tells, not the name
    path.write_bytes(gzip.compress(idx3()) if compressed else idx3())
    images = read_idx(path)
    assert images.dtype == np.uint8
    assert images.tolist() == np.arange(24).reshape(2, 3, 4).tolist()


@pytest.mark.parametrize(
    ("code", "dtype", "element", "value"),
    [
        (0x08, np.uint8, b"\xff", 255),
        (0x09, np.int8, b"\xff", -1),
        (0x0B, np.int16, b"\x01\x02", 258),
        (0x0C, np.int32, b"\xff\xff\xff\xfe", -2),
        (0x0D, np.float32, b"\x3f\x80\x00\x00", 1.0),
        (0x0E, np.float64, b"\xc0\x00\x00\x00\x00\x00\x00\x00", -2.0),
    ],
)
def test_element_types_are_big_endian(tmp_path: Path, code: int, dtype: type, element: bytes, value: float) -> None:
    path = tmp_path / "one"
    path.write_bytes(bytes([0, 0, code, 1]) + struct.pack(">I", 1) + element)
    array = read_idx(path)
    assert array.dtype == np.dtype(dtype)
    assert array.dtype.isnative
    assert array.tolist() == [value]


@pytest.mark.parametrize("name", ["a.idx", "a.idx.gz"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_write_then_read(tmp_path: Path, name: str, dtype: type, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) * 7 % 100).astype(dtype).reshape(shape)
    write_idx(tmp_path / name, array)
    again = read_idx(tmp_path / name)
    assert again.dtype == array.dtype
    assert again.shape == shape
    assert np.array_equal(again, array)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_write_accepts_the_other_byte_order(tmp_path: Path) -> None:
    write_idx(tmp_path / "a", np.array([1, 258], dtype=">i4"))
    assert read_idx(tmp_path / "a").tolist() == [1, 258]


def fails(path: Path, code: str, *phrases: str) -> None:
    with pytest.raises(DataError) as caught:
        read_idx(path)
    message = str(caught.value)
    assert message.startswith(f"DataError [{code}] {path}: "), message
    assert f"explain-error {code}" in message
    assert "try: " in message
    for phrase in phrases:
        assert phrase in message


@pytest.mark.parametrize("kept", range(4, 40))
def test_a_file_cut_anywhere_is_truncated(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut"
    path.write_bytes(idx3()[:kept])
    fails(path, "E503", "ends")


def test_truncated_elements_say_how_many(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(idx3()[:-5])
    fails(path, "E503", "uint8 of shape (2, 3, 4)", "24 bytes of elements expected", "19 found")


@pytest.mark.parametrize("kept", [2, 10, 30, -1, -8])
def test_a_truncated_gzip_file(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(idx3(20, 28, 28))[:kept])
    fails(path, "E503", "gzip data is truncated")


def test_a_damaged_gzip_file(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(idx3(20, 28, 28)))
    content[-6] ^= 0xFF  # the checksum
    path = tmp_path / "damaged.gz"
    path.write_bytes(content)
    fails(path, "E503", "damaged")


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\x08", b"\x89PNG\r\n\x1a\n", b"a,b,c\n1,2,3\n", b"\0\0\x0a\x01\0\0\0\0", b"\0\x01\x08\x01\0\0\0\0"],
    ids=["empty", "three bytes", "png", "csv", "unknown type", "bad magic"],
)
def test_a_foreign_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    fails(path, "E502", "not an idx file")


def test_bytes_after_the_end(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(idx3() + b"xx")
    fails(path, "E504", "2 bytes follow")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    fails(tmp_path / "missing", "E501", "No such file")
    fails(tmp_path, "E501", "Is a directory")


def test_huge_extents_do_not_overflow(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(b"\0\0\x0e\x03" + b"\xff" * 12 + b"\0" * 8)
    fails(path, "E503")


def test_an_unwritable_element_type(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="E502"):
        write_idx(tmp_path / "a", np.zeros(3, np.int64))
    assert list(tmp_path.iterdir()) == []

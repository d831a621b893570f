"""Files are written whole or not at all, wherever a link leads, whatever they are called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pullback.files import check_place, put_file


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    check_place(path)
    put_file(path, b"content")
    assert path.read_bytes() == b"content"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["n" * 256, "missing/file", "folder", "circle"])
def test_what_cannot_be_written_is_found_out_before(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for write in (check_place, lambda path: put_file(path, b"content")):
        with pytest.raises(OSError):
            write(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["circle", "folder"]


def test_links_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link, dangling = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"old")
    link.symlink_to(target)
    dangling.symlink_to("there/new")
    for path in (link, dangling):
        check_place(path)
        put_file(path, b"content")
        assert path.is_symlink()
        assert path.resolve().read_bytes() == b"content"
    assert sorted(os.listdir(tmp_path / "there")) == ["file", "new"]


def test_permissions_are_those_of_the_mask_or_of_the_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        put_file(tmp_path / "new", b"")
        (tmp_path / "old").touch(0o604)
        (tmp_path / "old").chmod(0o604)
        put_file(tmp_path / "old", b"content")
    finally:
        os.umask(before)
    assert [(tmp_path / n).stat().st_mode & 0o777 for n in ("new", "old")] == [0o640, 0o604]


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        put_file(path, b"content")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        put_file(Path(f"/dev/fd/{writing}"), b"content")
        assert os.read(reading, 100) == b"content"
    finally:
        os.close(reading)
        os.close(writing)

"""`pullback cache`: its entries, what damage it finds, and what it removes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pullback.cli.main import main
from pullback.runtime import cache as caching
from pullback.runtime.cache import KINDS, find, keep


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for known in ("_spare_folders", "_UNWRITABLE", "_said", "_SECRETS"):
        monkeypatch.setattr(caching, known, type(getattr(caching, known))())
    return folder


def fill() -> None:
    keep("libraries", "00", b"0123456789", ".so")
    keep("libraries", "01", b"x" * 1000, ".so")
    keep("refused", "02", json.dumps({"name": "dot"}).encode(), ".json")


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(["cache", *words]) == status
    return capsys.readouterr().out


def test_no_cache_is_empty(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "--json").splitlines()[-1])
    assert found["kinds"] == {kind: {"entries": 0, "bytes": 0} for kind in KINDS}
    assert said(capsys, "check").splitlines()[-1] == "0 entries, all as they were written"
    assert not cache.exists()


def test_a_list(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    (path,) = (cache / "refused").rglob("*.json")
    os.utime(path, (then := time.time() - 3600 * 6, then))
    assert said(capsys, "list", "--kind", "libraries", "--kind", "refused") == f"""\
the cache folder {cache}
kind       entries  bytes
libraries        2  1,010
refused          1     15
refused by the compiler: dot, which is plain C for 18.0 hours more
"""
    os.utime(path, (then := time.time() - 3600 * 25, then))
    assert json.loads(said(capsys, "--json").splitlines()[-1])["refused"] == []


def test_damage_is_found(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    assert said(capsys, "check").splitlines()[-1] == "3 entries, all as they were written"
    (path,) = (cache / "libraries/01").iterdir()
    path.write_bytes(b"y" * 1000)
    moved = cache / "objects/00"
    moved.mkdir(parents=True, mode=0o700)
    moved.parent.chmod(0o700)
    other = moved / next((cache / "libraries/00").iterdir()).name
    other.write_bytes(b"0123456789")
    assert said(capsys, "check", status=1) == (
        f"the cache folder {cache}\n4 entries, 2 not as they were written:\n{path}\n{other}\n")
    found = json.loads(said(capsys, "check", "--kind", "libraries", "--json", status=1).splitlines()[-1])
    assert found == {"folder": str(cache), "entries": 2, "damaged": [str(path)]}


def test_clear_removes_entries_alone(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    mine = [cache / "notes.txt", cache / "libraries" / "notes.txt"]
    for path in mine:
        path.write_text("mine")
    builds = [cache / "pullback-build-old", cache / "pullback-build-new"]
    for path in builds:
        (path / "inside").mkdir(parents=True)
    os.utime(builds[0], (then := time.time() - 7200, then))
    assert said(capsys, "clear", "--kind", "refused").splitlines()[-1] == "entries removed: 1, 15 bytes"
    assert find("libraries", "00") is not None
    assert [path.exists() for path in builds] == [False, True]  # another process may be at work in the new one
    assert json.loads(said(capsys, "clear", "--json").splitlines()[-1]) == {
        "folder": str(cache), "removed": 2, "bytes": 1010, "abandoned": 0}
    assert find("libraries", "00") is None
    assert all(path.read_text() == "mine" for path in mine)


def test_a_folder_that_is_not_used(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    assert main(["cache", "clear"]) == 1
    assert capsys.readouterr().err == (
        f"CompilerError [E416] the cache folder {cache} can be written by others (chmod go-w)\n"
        "  try: PULLBACK_CACHE_DIR names another      See `pullback explain-error E416`\n")

"""What the cache holds is taken only as it was written, from a folder that is the user's alone."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pullback.errors import CompilerError
from pullback.lazy import finish_compiling
from pullback.runtime import cache as caching
from pullback.runtime import compile as compiling
from pullback.runtime.cache import cache_folder, find, keep
from pullback.runtime.load import Library, compiled_entry, loaded

TEXT = "int answer(void *arena) {\n    return arena ? 0 : 42;\n}\n"
ROOT = str(Path(__file__).parents[3])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    finish_compiling()  # pieces that an earlier test left would be compiled into this folder
    folder = tmp_path / "my cache"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for known in ("_spare_folders", "_UNWRITABLE", "_said", "_SECRETS"):
        monkeypatch.setattr(caching, known, type(getattr(caching, known))())
    return folder


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def answers() -> bool:
    return compiled_entry(TEXT, "answer", 1)(0) == 42


# Damage ---------------------------------------------------------------------------------------------------------


def damage(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The content of an entry after something that happens to files."""
    some = bytearray(data)
    match rng.randrange(6):
        case 0:
            some[rng.randrange(len(some))] ^= 1 << rng.randrange(8)
        case 1:
            for _ in range(50):
                some[rng.randrange(len(some))] ^= 1 << rng.randrange(8)
        case 2:
            del some[rng.randrange(len(some)) :]
        case 3:
            some.clear()
        case 4:
            start = rng.randrange(len(some))
            some[start : start + 512] = bytes(len(some[start : start + 512]))
        case _:
            return rng.choice(others)
    return bytes(some)


def test_a_damaged_entry_is_none(cache: Path) -> None:
    rng = random.Random(0)
    contents = {f"{k:040x}": rng.randbytes(rng.randrange(1, 5000)) for k in range(12)}
    for key, content in contents.items():
        keep("kind", key, content, ".x")
    taken = 0
    for path in entries(cache) * 40:
        key = path.name.partition("-")[0]
        content = contents[key]
        changed = damage(content, [c for c in contents.values() if c is not content], rng)
        path.write_bytes(changed)
        found = find("kind", key)
        assert found is None if changed != content else found is not None
        taken += found is None
        keep("kind", key, content, ".x")
        assert find("kind", key) == (path, content)
    assert taken > 450


def test_an_entry_of_another_kind_or_key_is_none(cache: Path) -> None:
    keep("a", "00", b"content")
    (path,) = entries(cache)
    for other in (cache / "b" / "00" / path.name, cache / "a" / "01" / path.name.replace("00-", "01-", 1)):
        other.parent.mkdir(parents=True)
        shutil.copy(path, other)
    assert find("a", "00") == (path, b"content")
    assert find("b", "00") is None
    assert find("a", "01") is None


PROGRAM = """
import numpy as np
import pullback as pb

x = np.linspace(0.0, 1.0, 7)
gradient = pb.grad(lambda x: pb.sum(x * pb.exp(x)))
for _ in range(2):
    np.testing.assert_allclose(gradient(x), np.exp(x) * (1 + x), rtol=1e-13)
"""


def process(code: str = PROGRAM) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-W", "error", "-c", code], text=True, stderr=subprocess.PIPE,
                            env={**os.environ, "PYTHONPATH": ROOT})  # fmt: skip


def ends_well(p: subprocess.Popen[str]) -> bool:
    assert p.communicate(timeout=300)[1] == ""
    return p.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1000] + bytes(b ^ 255 for b in data[-1000:]),
        lambda data: b"",
    ],
    ids=["cut", "changed", "empty"],
)
def test_a_process_with_a_damaged_cache_works_as_with_none(cache: Path, change: Callable[[bytes], bytes]) -> None:
    assert ends_well(process())
    before = entries(cache)
    for path in before:
        path.write_bytes(change(path.read_bytes()))
    assert ends_well(process())
    assert {p.name.partition("-")[0] for p in entries(cache)} == {p.name.partition("-")[0] for p in before}
    assert all(find(p.parent.parent.name, p.name.partition("-")[0]) for p in before)


@pytest.mark.slow
def test_processes_fill_one_cache_at_the_same_time(cache: Path) -> None:
    at_once = [process() for _ in range(4)]
    assert all(map(ends_well, at_once))
    assert not [p for p in cache.rglob("*") if p.name.startswith((".", "pullback-build-"))]
    for path in entries(cache):
        assert find(path.parent.parent.name, path.name.partition("-")[0]) is not None


def test_all_who_need_the_secret_first_have_the_same(tmp_path: Path) -> None:
    for k in range(100):
        path, at_once = tmp_path / str(k) / "secret", threading.Barrier(4)

        def secret(path: Path = path, at_once: threading.Barrier = at_once) -> bytes | None:
            at_once.wait()
            return caching._new_secret(path)

        with ThreadPoolExecutor(4) as pool:
            found = {f.result() for f in [pool.submit(secret) for _ in range(4)]}
        assert found == {path.read_bytes()}


FORKS = """
import os, sys
import numpy as np
import pullback as pb

f = pb.function(lambda x: pb.sum(pb.exp(x)), threads=2)
g = pb.function(lambda x: pb.sum(pb.tanh(x)))
x = np.linspace(0.0, 1.0, 100_000)
first = f(x)
child = os.fork()
same = all(f(x) == first for _ in range(3)) and abs(g(x) - np.tanh(x).sum()) < 1e-6  # g for the first time, in both
if not child:
    sys.exit(0 if same else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (0 if same else 4))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("cached", [True, False], ids=["cache", "no cache"])
def test_a_forked_process_goes_on(cache: Path, monkeypatch: pytest.MonkeyPatch, cached: bool) -> None:
    code = FORKS
    if not cached:  # each of both has a folder of its own in its place
        cache.write_text("a file where the folder should be")
        code = f"import warnings\nwarnings.simplefilter('ignore')\n{FORKS}"
        monkeypatch.setenv("TMPDIR", str(cache.parent))
    assert ends_well(process(code))
    assert not list(cache.parent.glob("pullback-*"))


# Folders --------------------------------------------------------------------------------------------------------


def refused(cache: Path, why: str, remedy: str = "a folder of your own") -> None:
    """The cache is not used, which is said once, and everything works."""
    with pytest.warns(RuntimeWarning) as caught:
        assert answers()
        assert answers()
    assert [str(w.message) for w in caught] == [
        f"the cache folder {cache} {why}: compiled functions are kept for this process only "
        f"(set PULLBACK_CACHE_DIR to {remedy})"
    ]


def test_a_folder_that_others_may_write(cache: Path) -> None:
    for mode in (0o777, 0o770, 0o1777, 0o757):
        caching._said.clear()
        cache.mkdir(exist_ok=True)
        cache.chmod(mode)
        refused(cache, "can be written by others (chmod go-w)")
        assert not entries(cache)


def test_a_folder_of_somebody_else(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    look = os.lstat

    def lstat(path: object, **given: object) -> os.stat_result:
        s = look(path, **given)  # type: ignore[call-overload]
        return os.stat_result((*s[:4], 12345, *s[5:10])) if path == cache else s

    monkeypatch.setattr(os, "lstat", lstat)
    refused(cache, "belongs to another user")
    assert not entries(cache)


def test_a_folder_that_cannot_be_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    look = os.scandir

    def scandir(path: object) -> object:
        if path == cache:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", scandir)
    refused(cache, "cannot be read")


def test_a_folder_that_cannot_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers()
    make = os.mkdir

    def mkdir(path: object, mode: int = 0o777) -> None:
        if Path(str(path)).is_relative_to(cache):
            raise PermissionError(13, "Permission denied", str(path))
        make(str(path), mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert answers()  # what is there is found
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert compiled_entry(TEXT.replace("42", "43"), "answer", 1)(0) == 43


def test_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("PULLBACK_CACHE_DIR", "HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.chdir(tmp_path)
    refused(cache_folder(), "has no home folder to be in")
    assert not list(tmp_path.glob("~*"))


def test_a_cache_where_nothing_may_run(cache: Path) -> None:
    """As on a file system mounted with noexec."""

    def load(path: str) -> Library:
        if Path(path).is_relative_to(cache):
            raise OSError(f"{path}: failed to map segment from shared object")
        return Library(path)

    for _ in range(2):
        assert loaded(TEXT, load=load).entry("answer", 1)(0) == 42
    assert len(list(cache.rglob("*.so"))) == 1


def test_nowhere_may_anything_run() -> None:
    def load(path: str) -> Library:
        raise OSError("failed to map segment from shared object")

    with pytest.raises(CompilerError) as caught:
        loaded(TEXT, load=load)
    assert str(caught.value) == (
        "CompilerError [E411] a compiled library cannot be loaded: failed to map segment from shared object\n"
        "  try: set PULLBACK_CACHE_DIR or TMPDIR to a folder where programs may run, or CC to another compiler      "
        "See `pullback explain-error E411`"
    )


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "here/cache")
    assert answers()
    assert len(list((tmp_path / "here/cache").rglob("*.so"))) == 1


def test_folders_are_the_users_alone(cache: Path) -> None:
    before = os.umask(0)
    try:
        keep("kind", "00", b"content")
    finally:
        os.umask(before)
    assert {p.stat().st_mode & 0o777 for p in (cache, *cache.rglob("*")) if p.is_dir()} == {0o700}
    assert {p.stat().st_mode & 0o777 for p in entries(cache)} == {0o600}


# The secret -----------------------------------------------------------------------------------------------------


def test_a_cache_that_somebody_else_filled_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep("kind", "00", b"theirs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another home"))
    caching._SECRETS.clear()
    assert find("kind", "00") is None
    keep("kind", "00", b"mine")
    assert [found.content for found in [find("kind", "00")] if found] == [b"mine"]


def test_a_secret_that_others_may_read_is_replaced(tmp_path: Path) -> None:
    keep("kind", "00", b"content")
    secret = tmp_path / "state" / "pullback" / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    for spoil in (lambda: secret.chmod(0o644), lambda: secret.write_bytes(b"short"), secret.unlink):
        before = secret.read_bytes()
        spoil()
        caching._SECRETS.clear()
        assert find("kind", "00") is None
        keep("kind", "00", b"content")
        assert find("kind", "00") is not None
        assert secret.stat().st_mode & 0o777 == 0o600
        assert secret.read_bytes() != before


def test_without_a_place_for_it_the_secret_is_in_the_cache(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    keep("kind", "00", b"content")
    caching._SECRETS.clear()
    assert find("kind", "00") is not None
    assert (cache / "secret").stat().st_mode & 0o777 == 0o600


# Other users ----------------------------------------------------------------------------------------------------

ROOTED = hasattr(os, "geteuid") and os.geteuid() == 0
VICTIM, ATTACKER = 65534, 65533
START = f"""
import os, stat, warnings
from pullback.runtime import cache
from pullback.runtime.cache import another_cache, find, keep
from pullback.runtime.load import compiled_entry
text = {TEXT!r}
with another_cache():  # all that is imported, as this user may not see where Python is
    compiled_entry(text, "answer", 1)
if {ROOTED}:
    os.setgroups([])
    os.setgid({VICTIM})
    os.setuid({VICTIM})
"""
LOOKS = """
warnings.simplefilter("ignore")
keep("kind", "01", b"mine")
print(*(found and found.content for found in (find("kind", "00"), find("kind", "01"))))
"""
ANSWERS = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(compiled_entry(text, "answer", 1)(0))
print(*(str(w.message).partition(":")[0] for w in caught), sep="; ")
(folder,) = cache._spare_folders
print(folder, oct(stat.S_IMODE(os.stat(folder).st_mode)))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that another user reaches, too."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        hidden = [p for p in place.parents if ROOTED and not p.stat().st_mode & 0o001]
        if hidden:
            pytest.skip(f"another user cannot reach {hidden[0]}")
        for name in ("cache", "temporary"):
            own(place / name)
        yield place


def own(folder: Path, user: int = VICTIM, mode: int = 0o700) -> Path:
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)
    if ROOTED:
        os.chown(folder, user, user)
    return folder


def as_victim(place: Path, code: str) -> list[str]:
    """The lines that a process of one user prints, who has no home."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    places = {"PULLBACK_CACHE_DIR": str(place / "cache"), "TMPDIR": str(place / "temporary"), "HOME": "/dev/null"}
    ended = subprocess.run([sys.executable, "-c", START + code], env={**known, **places, "PYTHONPATH": ROOT},
                           capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def forge(cache: Path, secret: bytes, user: int = VICTIM, mode: int = 0o600, inside: int = 0o700) -> Path:
    """An entry whose code was made with this secret."""
    code = hashlib.blake2b(b"kind\x0000\0theirs", digest_size=20, key=secret).hexdigest()
    folder = own(own(cache / "kind", mode=inside) / "00")
    path = folder / f"00-{code}"
    path.write_bytes(b"theirs")
    path.chmod(mode)
    if ROOTED:
        os.chown(path, user, user)
    return path


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users")
def test_without_a_place_for_the_secret_nothing_is_taken(place: Path) -> None:
    """A cache that came with other files, read-only, from somebody who knew that there would be no key."""
    forge(place / "cache", b"")
    (place / "cache").chmod(0o555)
    assert as_victim(place, LOOKS) == ["None None"]
    answer, said, folder = as_victim(place, ANSWERS)
    assert answer == "42"
    assert said == f"the cache folder {place}/cache cannot be written"
    path, mode = folder.split()
    assert Path(path).parent == place / "temporary"
    assert mode == "0o700"
    assert not Path(path).exists()  # it went with its process


@pytest.mark.skipif(not ROOTED, reason="files of two users are made by root alone")
def test_a_folder_of_another_user(place: Path) -> None:
    forge(place / "cache", b"")
    own(place / "cache", ATTACKER, 0o755)
    assert as_victim(place, LOOKS) == ["None None"]
    assert as_victim(place, ANSWERS)[1] == f"the cache folder {place}/cache belongs to another user"


def secret_of_victim(place: Path) -> bytes:
    assert as_victim(place, LOOKS) == ["None b'mine'"]
    return (place / "cache" / "secret").read_bytes()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users")
@pytest.mark.parametrize("changed", ["nothing", "an entry", "a folder", "the entry's owner"])
def test_an_entry_that_others_may_change_is_none(place: Path, changed: str) -> None:
    """Its content may be right when it is read, and another one when it is loaded."""
    if changed == "the entry's owner" and not ROOTED:
        pytest.skip("files of two users are made by root alone")
    secret = secret_of_victim(place)
    forge(place / "cache", secret, user=ATTACKER if "owner" in changed else VICTIM,
          mode=0o666 if changed == "an entry" else 0o644, inside=0o777 if changed == "a folder" else 0o700)
    found = {"nothing": "b'theirs' b'mine'", "a folder": "None None"}.get(changed, "None b'mine'")
    assert as_victim(place, LOOKS) == [found]


def test_libraries_are_the_users_alone(cache: Path) -> None:
    """Whatever the mask, which compilers go by."""
    before = os.umask(0)
    try:
        assert answers()
    finally:
        os.umask(before)
    assert {stat.S_IMODE(p.stat().st_mode) & 0o022 for p in (cache, *cache.rglob("*"))} == {0}


# The compiler's words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["'{path}'", "'{path}' -march=native", '"{path}" -O1', "{path}"])
def test_a_compiler_in_a_folder_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    path = wrapper(tmp_path / "a folder" / "my cc")
    monkeypatch.setenv("CC", form.format(path=path))
    assert answers()
    assert compiling.find_compiler().command[0] == str(path)


@pytest.mark.parametrize("form", ["./my-cc", "tools/../my-cc -O1", "env ./my-cc"])
def test_a_compiler_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    (tmp_path / "tools").mkdir()
    wrapper(tmp_path / "my-cc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CC", form)
    assert answers()


def test_a_compiler_on_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper(tmp_path / "tools" / "cc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"tools{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CC", raising=False)
    assert answers()
    assert compiling.find_compiler().command == (str(tmp_path / "tools/cc"),)


def test_a_quotation_without_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "'/usr/bin/cc -O1")
    with pytest.raises(CompilerError) as caught:
        compiling.find_compiler()
    assert str(caught.value) == (
        "CompilerError [E410] no C compiler: CC='/usr/bin/cc -O1 names no program\n"
        "  try: install gcc or clang, or `pip install ziglang`      See `pullback explain-error E410`"
    )


def wrapper(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shutil.which("cc")} "$@"\n')
    path.chmod(0o755)
    return path

"""The disk cache: compiled code by key, authenticated when read.

    CACHE / kind / first two letters of the key / key-code.suffix

The code is a digest of kind, key and content, keyed with the user's secret (BLAKE2, RFC 7693). A damaged, exchanged or
foreign entry has another code. It is ignored and rebuilt. Entries are written to temporary files and then renamed. So
readers need no lock, and processes may write the same entry at the same time.

A library from the cache runs with the user's rights. So a folder that belongs to another user, or that others may
write, is not used. A single warning reports it, as for a folder that cannot be read or written. A temporary folder of
this process replaces it. The same holds for folders and files inside: an entry that others may change between check and
load is not used. The secret is stored outside the cache if possible. So a cache copied from elsewhere is not trusted,
even if its files now belong to the user. Otherwise the secret is stored in the cache. If it cannot be stored at all,
codes prove nothing, and the cache is neither read nor written.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import math
import os
import shutil
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from pullback.errors import CompilerError
from pullback.files import put_file
from pullback.single_flight import single_flight
from pullback.state import context_variable, registered

SECRET_BYTES = 32
CODE_BYTES = 20
PRIVATE = 0o600
BUILD, SECRET = "pullback-build", "pullback-secret"  # the prefix of a process's folders
DISK = {errno.ENOSPC: "is full", errno.EDQUOT: "is full", errno.EFBIG: "takes no file so large"}
OTHERS_WRITE, OTHERS_ANY = 0o022, 0o077
_OTHER: ContextVar[Path | None] = context_variable("cache", None)


class Found(NamedTuple):
    """A cache entry: its file and content."""

    path: Path
    content: bytes


def cache_folder() -> Path:
    """The folder `PULLBACK_CACHE_DIR`, else the user's cache folder; unusable if there is no home."""
    other = _OTHER.get()
    if other is not None:
        return other
    own = os.environ.get("PULLBACK_CACHE_DIR")
    if own:
        return Path(os.path.abspath(os.path.expanduser(own)))
    import platformdirs

    try:
        return Path(platformdirs.user_cache_dir("pullback", appauthor=False))
    except RuntimeError:  # some Python versions raise this
        return Path("~", "pullback")


@contextmanager
def another_cache() -> Iterator[None]:
    """Use an empty temporary cache inside the block."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pullback-", ignore_cleanup_errors=True) as folder:
        token = _OTHER.set(Path(folder))
        try:
            yield
        finally:
            _OTHER.reset(token)


# Entries --------------------------------------------------------------------------------------------------------


def find(kind: str, key: str, seconds: float = math.inf) -> Found | None:
    """The unaltered entry with this key, or None.

    Args:
        seconds: ignore entries older than this, and entries dated in the future.
    """
    for root in _readable_folders():
        folder = root / kind / key[:2]
        try:
            names = [name for name in os.listdir(folder) if name.startswith(f"{key}-")]
        except OSError:
            continue
        for name in names:
            found = _as_written(root, kind, folder / name)
            if found is not None and (seconds == math.inf or 0 <= age(found.path) <= seconds):
                return found
    return None


def _as_written(root: Path, kind: str, path: Path) -> Found | None:
    """The entry in a file; None if it was altered, or if others may change it."""
    key, _, rest = path.name.partition("-")
    try:
        _check_own(path.parent.parent, path.parent)
        content = _read_own(path)
        right = rest.partition(".")[0] == _code(root, kind, key, content)
    except OSError:
        return None
    return Found(path, content) if right else None


def age(path: Path) -> float:
    """The age of a file in seconds: negative if a clock was set back, infinite if the file is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return math.inf


def keep(kind: str, key: str, content: bytes, suffix: str = "") -> None:
    """Store an entry if a folder is writable; otherwise the next process redoes the work."""
    for root in _readable_folders():
        try:
            path = _place(root, kind, key, content, suffix)
            put_file(path, content, PRIVATE)
        except OSError:
            continue
        return


def keep_file(root: Path, kind: str, key: str, file: Path, suffix: str) -> Path:
    """Move a file into this folder as an entry.

    Raises:
        OSError: the folder cannot be written.
    """
    path = _place(root, kind, key, file.read_bytes(), suffix)
    file.chmod(PRIVATE)
    os.replace(file, path)
    return path


@contextmanager
def work_folder(root: Path) -> Iterator[Path]:
    """A temporary folder for making entries of this folder. The process does not end while it is used.

    Raises:
        OSError: the folder cannot be written.
    """
    import tempfile

    _make_folder(root)
    if root not in _tidied:
        _tidied.add(root)
        remove_abandoned()
    folder = Path(tempfile.mkdtemp(dir=root, prefix=f"{BUILD}-"))
    _builds.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _builds.discard(folder)


def _place(root: Path, kind: str, key: str, content: bytes, suffix: str) -> Path:
    folder = root / kind / key[:2]
    _make_folder(folder)
    _check_own(folder.parent, folder)
    return folder / f"{key}-{_code(root, kind, key, content)}{suffix}"


def _make_folder(folder: Path) -> None:
    """Create a private folder of the user, and its parents."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _check_own(*folders: Path) -> None:
    """Raise OSError if one of the folders is another user's, or if others may write it."""
    for folder in folders:
        if not _is_own(os.stat(folder)):
            raise PermissionError(errno.EPERM, "others may change it", str(folder))


def _read_own(path: Path, limit: int = -1, others: int = OTHERS_WRITE) -> bytes:
    """Read a file of the user, up to a limit; raise OSError if others have any of these rights."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        if not _is_own(os.fstat(file.fileno()), others):
            raise PermissionError(errno.EPERM, "others may change it", str(path))
        return file.read(limit)


def _is_own(s: os.stat_result, others: int = OTHERS_WRITE) -> bool:
    return s.st_uid == _user() and not stat.S_IMODE(s.st_mode) & others


# Whole cache ----------------------------------------------------------------------------------------------------

KINDS = ("programs", "libraries", "objects", "derived", "compilers", "refused", "cubins", "tuned")
ABANDONED = 3600.0


def files(kind: str) -> list[Path]:
    """The files of all entries of a kind in the cache folder, altered or not.

    Raises:
        CompilerError: [E416] the folder must not be used.
    """
    root = cache_folder()
    why = _objection(root)
    if why is not None:
        raise CompilerError("E416", f"the cache folder {root} {why}", remedy="PULLBACK_CACHE_DIR names another")
    return sorted(p for p in (root / kind).glob("??/*") if p.is_file() and not p.name.startswith("."))


def is_sound(path: Path) -> bool:
    """Whether the entry in one of these files is unaltered."""
    kind, start = path.parts[-3:-1]
    return path.name.startswith(start) and _as_written(cache_folder(), kind, path) is not None


def remove_abandoned() -> int:
    """Remove leftovers of killed processes if they are older than an hour; return their number."""
    root = cache_folder()
    places = [(root, f"{BUILD}-*"), *((root / kind, "??/.*.new") for kind in KINDS),
              *((s.parent, f"{SECRET}-*") for s in _secret_files(root))]  # fmt: skip
    left = [p for folder, pattern in places for p in _listed(folder, pattern) if age(p) > ABANDONED]
    for path in left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return len(left)


def _listed(folder: Path, pattern: str) -> list[Path]:
    """The files that match a pattern; none if another process removes the folder meanwhile."""
    try:
        return list(folder.glob(pattern))
    except FileNotFoundError:
        return []


# The secret -----------------------------------------------------------------------------------------------------

_SECRETS: dict[Path, bytes] = registered({}, "one for each cache folder")


def _code(root: Path, kind: str, key: str, content: bytes) -> str:
    code = hashlib.blake2b(f"{kind}\0{key}\0".encode(), digest_size=CODE_BYTES, key=_secret(root))
    code.update(content)
    return code.hexdigest()


def _secret(root: Path) -> bytes:
    """The user's secret, created on first use.

    Raises:
        OSError: the secret cannot be stored anywhere.
    """
    found = _SECRETS.get(root)
    if found is None:
        read = (_read_secret(p) or _new_secret(p) for p in _secret_files(root))
        found = next((s for s in read if s is not None), None)
        if found is None:
            raise PermissionError(errno.EACCES, "there is no place for the key of its entries", str(root))
        found = _SECRETS.setdefault(root, found)
    return found


def _secret_files(root: Path) -> list[Path]:
    """The possible files of the secret, in order of preference."""
    state = Path(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "pullback")
    return [folder / "secret" for folder in (state, root) if folder.is_absolute()]


def _read_secret(path: Path) -> bytes | None:
    """The secret in a private file of the user, or None."""
    try:
        content = _read_own(path, SECRET_BYTES + 1, OTHERS_ANY)
    except OSError:
        return None
    return content if len(content) == SECRET_BYTES else None


def _new_secret(path: Path) -> bytes | None:
    """Create a secret in place of an invalid file; use one that another process has written meanwhile."""
    import tempfile

    try:
        _make_folder(path.parent)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{SECRET}-", ignore_cleanup_errors=True) as folder:
            new = Path(folder, "secret")
            put_file(new, os.urandom(SECRET_BYTES), PRIVATE)
            try:
                os.link(new, path)
            except OSError:  # there is a file, or the file system has no links
                if _read_secret(path) is None:
                    os.replace(new, path)
    except OSError:
        return None
    return _read_secret(path)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


# Folders --------------------------------------------------------------------------------------------------------

_FOLDERS = "one for each cache folder"
_UNWRITABLE: set[Path] = registered(set(), _FOLDERS, stays="with the process")
_said: set[Path] = registered(set(), _FOLDERS, stays="with the process: a warning is given once")
_tidied: set[Path] = registered(set(), _FOLDERS, stays="with the process")
_spare_folders: list[Path] = registered([], 1, stays="with the process")


def writable_folders() -> Iterator[Path]:
    """Folders for entries: the cache, then a folder of this process. Call `give_up` if writing fails."""
    root = cache_folder()
    if root not in _UNWRITABLE and _is_usable(root):
        yield root
    try:
        yield _spare_folder()
    except OSError as error:
        raise _no_place("no folder for temporary files can be written", error) from error


def give_up(root: Path, error: OSError) -> None:
    """Stop writing to this folder, and warn once; raise if no other folder is left."""
    why = DISK.get(error.errno or 0, "cannot be written")
    if root in _spare_folders:
        raise _no_place(f"the folder {root} {why}", error) from error
    _UNWRITABLE.add(root)
    _say(root, why, "a folder with room")


def _no_place(what: str, error: OSError) -> CompilerError:
    more = ", or raise the limit of a file's size (`ulimit -f`)" if error.errno == errno.EFBIG else ""
    return CompilerError("E412", f"a library needs a place, and {what}",
                         facts=(f"the cache folder {cache_folder()} did not serve either",),
                         remedy="set PULLBACK_CACHE_DIR or TMPDIR to a folder with room" + more)


def runnable_copy(path: Path) -> Path:
    """A copy of a library in a folder of this process, as a cache may be mounted noexec.

    Raises:
        OSError: that folder cannot be written either.
    """
    folder = _spare_folder()
    if path.is_relative_to(folder):
        raise OSError(errno.EACCES, "nothing may run in the folder for temporary files", str(folder))
    copy = folder / "copies" / path.name
    _make_folder(copy.parent)
    put_file(copy, path.read_bytes(), PRIVATE)
    return copy


def _readable_folders() -> Iterator[Path]:
    root = cache_folder()
    if _is_usable(root):
        yield root
    yield from _spare_folders


def _is_usable(root: Path) -> bool:
    why = _objection(root)
    if why is not None:
        _say(root, why, "a folder of your own")
    return why is None


def _objection(root: Path) -> str | None:
    """The reason why a folder must not be used; None if it may be used or created."""
    if not root.is_absolute():
        return "has no home folder to be in"
    try:
        found = [os.lstat(root), os.stat(root)]
        os.scandir(root).close()
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return "is no folder"
    except OSError:
        return "cannot be read"
    if any(s.st_uid != _user() for s in found):
        return "belongs to another user"
    if stat.S_IMODE(found[-1].st_mode) & OTHERS_WRITE:
        return "can be written by others (chmod go-w)"
    return None


def _say(root: Path, why: str, remedy: str) -> None:
    if root not in _said:
        _said.add(root)
        warnings.warn(f"the cache folder {root} {why}: compiled functions are kept for this process only "
                      f"(set PULLBACK_CACHE_DIR to {remedy})", RuntimeWarning, stacklevel=2)


def _spare_folder() -> Path:
    """The folder of this process, removed at its end."""
    with single_flight(_spare_folder):
        if not _spare_folders:
            import tempfile

            _spare_folders.append(Path(tempfile.mkdtemp(prefix="pullback-")))
            _passing.append(_spare_folders[0])
        return _spare_folders[0]


# The end of the process -----------------------------------------------------------------------------------------

_builds: set[Path] = registered(set(), "work folders in use", stays="with the build")
_passing: list[Path] = registered([], "folders made for this process", stays="with the process, which removes them")


def _end() -> None:
    """Wait for compilers in other threads, which need their folders; then remove temporary files."""
    while _builds:
        time.sleep(0.01)
    for folder in _passing:
        shutil.rmtree(folder, ignore_errors=True)


def _forget() -> None:
    """In a forked process, leave folders and builds to the parent."""
    for known in (_spare_folders, _builds, _passing):
        known.clear()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

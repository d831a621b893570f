"""Dfns that a session compiles by itself, because they take long.

A named dfn of the workspace whose calls have taken `AFTER` seconds is compiled in a background thread, for the types
and shapes of its arguments. The program has one more result: whether all numbers had the meaning that they have in a
session (`watch`). If they had not, or if anything fails, the session evaluates the call as ever, which shows the exact
result or error. So a dfn is compiled only if evaluating it again does no harm: the traced program has no effects.

A compiled version is used while the names that it read have the same values, and the settings, too.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import pullback as pb
from pullback.apl.bits import LARGE, WHOLE
from pullback.apl.compiled import leaves, to_python
from pullback.apl.dfns import Function, TailCall
from pullback.apl.functions import Shy, plain
from pullback.apl.scopes import Taken, still_true, taking
from pullback.apl.tree import Dfn
from pullback.apl.values import NDArray, Value, from_python
from pullback.apl.watch import NotSameError, Watch
from pullback.apl.workspace import Workspace
from pullback.calls.function import Function as Traced
from pullback.errors import PullbackError
from pullback.single_flight import deep_recursion
from pullback.state import registered

__all__ = ["Hot", "compile_by_itself"]

AFTER: Final = 0.3  # seconds of evaluation until a dfn is compiled
VERSIONS: Final = 4  # of a dfn: for types and shapes, and after changes of names
KEPT: Final = 500  # dfns that are looked at
MISSES: Final = 3  # calls with a failed test until the test counts against a version
SMALL: Final = 4096  # elements that are looked at in each call
EXIT: Final = 5.0  # seconds that the end of the process waits for a compiler
TYPES: Final = frozenset("?ld")  # truth values, integers and floating-point numbers


@dataclass(eq=False)
class _Version:
    """A dfn compiled for the types and shapes of its arguments, or the reason why it is not.

    Attributes:
        call: the compiled function.   taken: the names that it depends on, with their values.
        result: the types and shapes of its result.   shy: whether a session does not print it.
        state: what `)COMPILED` shows.   calls: how many there were.   misses: how many of them a test failed.
    """

    key: Hashable
    state: str = "waiting"
    call: Callable[..., Any] | None = None
    taken: Taken = field(default_factory=dict)
    result: Any = None
    shy: bool = False
    calls: int = 0
    misses: int = 0


@dataclass(eq=False)
class _Record:
    """The times and the versions of a dfn."""

    name: str
    seconds: float = 0.0
    versions: dict[Hashable, _Version] = field(default_factory=dict)
    made: int = 0


@dataclass(eq=False)
class _Job:
    """A version to be compiled: with a call that was evaluated, and its result."""

    f: Function
    version: _Version
    given: list[Value]
    expected: Value | Shy
    seconds: float


class Hot:
    """The compiled dfns of a workspace.

    Args:
        after: seconds of evaluation until a dfn is compiled.
        background: whether another thread compiles; otherwise the call does that is one too many.
        run: how a traced function is called; by default it is compiled.
    """

    def __init__(
        self, after: float = AFTER, background: bool = True, run: Callable[..., Any] = lambda f, *given: f(*given)
    ) -> None:
        self.after = after
        self.background = background
        self.run = run
        self.records: dict[Dfn, _Record] = {}
        self._lock = threading.Lock()
        self._next: _Job | None = None
        self._thread: threading.Thread | None = None
        self._ended = False

    # Calls ------------------------------------------------------------------------------------------------------

    def result(self, f: Function, y: Value, x: Value | None, evaluate: Callable[..., Any]) -> Any:
        """The result of a call: of compiled code, or else of `evaluate`, which may give a tail call."""
        if f.scope.parent is not None or f.operator is not None or not f.called:
            return evaluate(y, x)
        record = self.records.get(f.dfn)
        if record is None:
            record = self.records[f.dfn] = _Record(f.name)
            if len(self.records) > KEPT:
                del self.records[next(iter(self.records))]
        given = [y] if x is None else [x, y]
        if record.versions:
            found = self._compiled(record, given)
            if found is not None:
                return found
        start = time.perf_counter()
        made = evaluate(y, x)
        record.seconds += time.perf_counter() - start
        if not isinstance(made, TailCall) and record.seconds >= self.after:
            self._consider(record, f, given, made)
        return made

    def _compiled(self, record: _Record, given: list[Value]) -> Value | Shy | None:
        """The result of the compiled version for these arguments; None if the session is to evaluate the call."""
        version = record.versions.get(_key(given))
        if version is None or version.call is None:
            return None
        if not still_true(version.taken):
            del record.versions[version.key]
            return None
        if not all(map(_is_ordinary, given)):
            return None
        version.calls += 1
        try:
            found, same = version.call(*map(to_python, given))
        except Exception:  # whatever it is, the session shows it when it evaluates the call
            same = False
        if not same:
            version.misses += 1
            if version.misses >= MISSES and 2 * version.misses > version.calls:
                version.call, version.state = None, "evaluated: its numbers are often out of the ordinary"
            return None
        made = _as(from_python(found), version.result)
        return Shy(made) if version.shy else made

    # Compiling --------------------------------------------------------------------------------------------------

    def _consider(self, record: _Record, f: Function, given: list[Value], made: Value | Shy) -> None:
        """Have a version compiled for these arguments."""
        key = _key(given)
        if key is None or key in record.versions or record.made >= VERSIONS or self._ended:
            return
        if not all(map(_is_ordinary, given)):
            return
        job = _Job(f, _Version(key), given, made, record.seconds)
        if not self.background:
            record.versions[key] = job.version
            record.made += 1
            self._compile(job)
            return
        with self._lock:
            if self._next is not None and self._next.seconds >= job.seconds:
                return
            if self._next is not None:
                self._taken_back(self._next)
            record.versions[key] = job.version
            record.made += 1
            self._next = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="pullback-apl", daemon=True)
                atexit.unregister(self.close)  # of an earlier thread
                atexit.register(self.close)
                self._thread.start()

    def _taken_back(self, job: _Job) -> None:
        record = self.records.get(job.f.dfn)
        if record is not None:
            record.versions.pop(job.version.key, None)
            record.made -= 1

    def _work(self) -> None:
        while True:
            with self._lock:
                job, self._next = self._next, None
                if job is None or self._ended:
                    self._thread = None
                    return
            job.version.state = "being compiled"
            self._compile(job)

    def _compile(self, job: _Job) -> None:
        """Compile a version, and compare its result with the one that the session computed."""
        version = job.version
        for exact in (False, True):
            try:
                with deep_recursion(60_000):
                    self._try(job, exact)
                return
            except NotSameError as error:
                version.state = f"evaluated: {error}"
                if not error.exact:
                    return
            except PullbackError as error:
                version.state = f"evaluated: {error.what}"
                return
            except Exception as error:
                version.state = f"evaluated: {type(error).__name__}"
                return

    def _try(self, job: _Job, exact: bool) -> None:
        version, taken = job.version, Taken()
        watch = Watch(exact, lambda: not self._ended)
        shy: list[bool] = []
        arguments = [to_python(v) for v in job.given]

        def first() -> Any:
            with pb.exact() if exact else nullcontext():
                traced = _function(job.f, len(job.given), watch, shy)
                return traced, self.run(traced, *arguments)

        with taking(taken):
            traced, (found, same) = contextvars.Context().run(first)
        if not all(_is_ordinary(v) for v in taken.values() if isinstance(v, np.ndarray)):
            raise NotSameError("a name whose numbers are out of the ordinary")
        if not same:
            raise NotSameError("its numbers are out of the ordinary")
        expected = plain(job.expected)
        version.result = _form(expected)
        if version.result is None or not _agree(from_python(found), expected):
            raise NotSameError("digits that differ", exact=not exact)
        if shy[0] != isinstance(job.expected, Shy):
            raise NotSameError("a value that a session does not print, or prints")
        version.shy, version.taken = shy[0], taken
        version.call = lambda *given: self.run(traced, *given)
        version.state = "compiled, in order" if exact else "compiled"

    # About it ---------------------------------------------------------------------------------------------------

    def report(self) -> list[str]:
        """Lines that say which dfns are compiled, and why others are not."""
        lines = []
        for record in sorted(self.records.values(), key=lambda r: -r.seconds):
            for version in record.versions.values():
                count = f" ({version.calls} calls, {version.misses} of them evaluated)" if version.calls else ""
                lines.append(f"{record.name} {_text(version.key)}: {version.state}{count}")
        return lines

    def wait(self) -> None:
        """Wait until nothing is being compiled."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """End: trace no further, and wait a little for a compiler."""
        self._ended = True
        thread = self._thread
        if thread is not None:
            thread.join(EXIT)
        atexit.unregister(self.close)


def compile_by_itself(work: Workspace) -> None:
    """Let a workspace compile dfns that take long, unless PULLBACK_APL_COMPILE is `off`."""
    if os.environ.get("PULLBACK_APL_COMPILE", "") != "off":
        work.hot = Hot()


def _function(f: Function, count: int, watch: Watch, shy: list[bool]) -> Any:
    """The function of Pullback for a dfn, with one more result: whether all tests hold."""

    def result(y: Value, x: Value | None = None) -> Any:
        with watch.active(), watch.block():
            made = f.evaluated(from_python(y), None if x is None else from_python(x))
            shy[:] = [isinstance(made, Shy)]
            found = to_python(plain(made))
            return found, watch.held(leaves(found))

    def one(omega: Any) -> Any:
        return result(omega)

    def two(alpha: Any, omega: Any) -> Any:
        return result(omega, alpha)

    call = one if count == 1 else two
    call.__name__ = call.__qualname__ = f.called or "f"
    return Traced(call)


# The form of values: their types and shapes --------------------------------------------------------------------------


def _form(x: Value) -> Any:
    """The type and shape of a value, or those of a nested vector's elements; None if it is empty or else."""
    if not isinstance(x, np.ndarray) or not x.size:
        return None
    if x.dtype != object:
        return (x.dtype.char, x.shape) if x.dtype.char in TYPES else None
    if x.ndim != 1:
        return None
    made = tuple(_form(e) for e in x)
    return None if None in made else made


def _key(given: list[Value]) -> Hashable:
    made = tuple(map(_form, given))
    return None if None in made else made


def _text(key: Any) -> str:
    """Types and shapes as text."""

    def one(form: Any) -> str:
        if isinstance(form[0], str):
            kind = {"?": "bool", "l": "integer", "d": "float"}[form[0]]
            return f"{kind}[{' '.join(map(str, form[1]))}]"
        return f"({' '.join(map(one, form))})"

    return " ".join(map(one, key))


def _as(x: Value, form: Any) -> Value:
    """A value of compiled code with the types that a session gives it: truth values may be numbers there."""
    if isinstance(form[0], str):
        return x if x.dtype.char == form[0] else x.astype(form[0])
    made = np.empty(len(form), object)
    for k, (e, own) in enumerate(zip(x, form)):
        made[k] = _as(e, own)
    return made


def _agree(found: Value, expected: Value) -> bool:
    """Whether a compiled result is that of the session up to the last digits."""
    if found.dtype == object or expected.dtype == object:
        return found.dtype == expected.dtype and found.shape == expected.shape and all(map(_agree, found, expected))
    if found.shape != expected.shape or (found.dtype.kind == "f") != (expected.dtype.kind == "f"):
        return False
    if found.dtype.kind != "f":
        return bool((found == expected).all())
    room = 1e-11 * np.abs(expected) + 1e-14 * np.abs(expected).max()
    return bool(((np.abs(found - expected) <= room) & ((found == 0) == (expected == 0))).all())


_SEEN: Final[dict[int, weakref.ref[NDArray]]] = registered({}, "large arrays that live")


def _is_ordinary(x: Value) -> bool:
    """Whether no number is large, and none is without a value: what `bits.Ranges` takes for granted."""
    if x.dtype == object:
        return all(map(_is_ordinary, x.ravel()))
    if x.dtype.kind not in "if":
        return True
    seen = _SEEN.get(id(x))
    if seen is not None and seen() is x:
        return True
    if x.dtype.kind == "f":
        held = bool(np.abs(x).max(initial=0) <= LARGE)
    else:
        held = bool(x.min(initial=0) >= -WHOLE and x.max(initial=0) <= WHOLE)
    if held and x.size > SMALL:
        key = id(x)
        _SEEN[key] = weakref.ref(x, lambda _: _SEEN.pop(key, None))
    return held

"""The table of caches, registries, context variables and thread locals, which no module goes round."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import source, state
from pullback.apl.errors import Spot
from pullback.apl.functions import placed
from pullback.ir import expr
from pullback.rewrite import fired
from pullback.tracing import active

PACKAGE = Path(pb.__file__).parent
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "state.py")
FILLS = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem",
         "popleft", "remove", "setdefault", "update"}  # fmt: skip
CONTAINERS = {"dict", "list", "set", "OrderedDict", "defaultdict", "deque", "Counter"}
WEAK = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}
BANNED = {"lru_cache": "cached", "cache": "cached, or temporary within a function", "ContextVar": "context_variable",
          "local": "PerThread"}  # fmt: skip
OWNERS = {"functools", "contextvars", "threading"}
HERE, THERE = (Spot("apl", 1, n, n + 1, "⍳3") for n in (1, 2))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _unlisted(text: str) -> Iterator[str]:
    """State of a module that is not in the table: `line: what it is`."""
    module = ast.parse(text)
    imported = {a.asname or a.name: a.name for n in ast.walk(module)
                if isinstance(n, ast.ImportFrom) and n.module in OWNERS for a in n.names}  # fmt: skip
    annotations = {id(x) for n in ast.walk(module) for a in _annotations(n) for x in ast.walk(a)}
    listed = {id(x) for n in ast.walk(module) if isinstance(n, ast.Call) and _last(n.func) == "registered"
              for a in n.args for x in ast.walk(a)}  # fmt: skip
    for n in ast.walk(module):
        match n:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in OWNERS and name in BANNED:
                if id(n) not in annotations:
                    yield f"{n.lineno}: {owner}.{name}; use state.{BANNED[name]}"
            case ast.Name(id=name) if imported.get(name) in BANNED and id(n) not in annotations:
                yield f"{n.lineno}: {name}; use state.{BANNED[imported[name]]}"
            case ast.Call(func=f) if _last(f) in WEAK and id(n) not in listed:
                yield f"{n.lineno}: {_last(f)}; use state.registered"
            case ast.Global(names=names):
                yield f"{n.lineno}: global {', '.join(names)}; use state.registered or state.context_variable"
    yield from _containers(module)
    yield from _within_functions(module)


def _annotations(n: ast.AST) -> Iterator[ast.expr]:
    for name in ("annotation", "returns"):
        if isinstance(found := getattr(n, name, None), ast.expr):
            yield found


def _containers(module: ast.Module) -> Iterator[str]:
    """Variables of a module with containers that are empty, as they wait to be filled, or that its functions change."""
    variables: dict[str, ast.expr] = {}
    for n in module.body:
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                variables[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                variables[name] = value
    functions = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    changed = {name for f in functions for n in ast.walk(f) for name in _changed(n)}
    for name, value in variables.items():
        match value:
            case ast.Dict(keys=content) | ast.List(elts=content) | ast.Set(elts=content):
                empty = not content
            case ast.DictComp() | ast.ListComp() | ast.SetComp():
                empty = False
            case ast.Call(func=f) if _last(f.value if isinstance(f, ast.Subscript) else f) in CONTAINERS:
                empty = not value.args
            case _:
                continue
        if name != "__all__" and (empty or name in changed) and not _holds_registered(value):
            yield f"{value.lineno}: {name}; use state.registered"


def _holds_registered(value: ast.expr) -> bool:
    """Whether the elements of a container are entered themselves."""
    return any(isinstance(n, ast.Call) and _last(n.func) == "registered" for n in ast.walk(value))


def _changed(n: ast.AST) -> Iterator[str]:
    match n:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in FILLS:
            yield name
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            yield from (_root(t) for t in targets if isinstance(t, ast.Subscript))
        case ast.AugAssign(target=ast.Subscript() as target):
            yield _root(target)


def _within_functions(module: ast.Module) -> Iterator[str]:
    """Entries that a function makes: each call of it would add a row, and what it is of would never go."""
    for f in ast.walk(module):
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            body = f.body if isinstance(f.body, list) else [f.body]
            for n in (n for s in body for n in ast.walk(s)):
                if isinstance(n, ast.Call) and _last(n.func) in {"registered", "cached", "context_variable"}:
                    yield f"{n.lineno}: {_last(n.func)} within a function; use state.temporary"


ALL_MODULES = """
import importlib, pkgutil
import pullback
from pullback import state

for found in pkgutil.walk_packages(pullback.__path__, "pullback."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
rows = state.entries()
assert len(rows) > 80
assert len({(e.owner, e.name) for e in rows}) == len(rows)
for e in rows:
    assert e.name != "?" and e.bound and e.cleared, e
    assert not isinstance(e.bound, int) or e.size <= e.bound, e
"""


def test_every_row_says_where_it_is_and_keeps_its_bound() -> None:
    """In a process of its own: tests put other containers in the place of some."""
    done = subprocess.run([sys.executable, "-c", ALL_MODULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_compiler_has_one_context_that_changes_programs() -> None:
    """`in_order`; those of `rewrite.fired` record, and passes do the same with and without a reader."""
    layers = ("ir", "rewrite", "operators", "derivation", "ad", "passes", "loops", "codegen")
    found = {(e.owner, e.name) for e in state.entries() if e.kind in ("context", "thread")
             and e.owner.split(".")[1] in layers}  # fmt: skip
    assert found == {(expr.__name__, "in_order"), (fired.__name__, "fired_rules"), (fired.__name__, "steps")}


def test_results_after_clearing_are_those_before() -> None:
    @pb.function
    def f(x: pb.Array) -> pb.Array:
        return pb.sum(pb.sin(x) * x)

    x = np.arange(3.0)
    before = pb.grad(f)(x)
    assert pb.debug.clear() > 0
    assert all(e.size == 0 for e in pb.debug.caches() if e.cleared == state.CLEARED)
    assert np.array_equal(pb.grad(f)(x), before)
    assert np.array_equal(pb.grad(f)(np.arange(4.0))[:3], before)


def test_a_thread_local_is_one_row_with_values_for_each_thread() -> None:
    class Own(state.PerThread):
        def __init__(self) -> None:
            self.values: list[int] = []

    own, seen = Own(), []
    try:
        own.values.append(1)
        thread = threading.Thread(target=lambda: seen.append(list(own.values)))
        thread.start()
        thread.join()
        assert (own.values, seen) == ([1], [[]])
        assert sum(h.held is own for h in state._HELD) == 1
    finally:
        state._HELD.pop()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_all_state_is_in_the_table(path: Path) -> None:
    assert list(_unlisted(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from functools import lru_cache\n@lru_cache(maxsize=4)\ndef f(): ...", "2: lru_cache; use state.cached"),
        ("import functools\n@functools.cache\ndef f(): ...", "2: functools.cache"),
        ("from functools import cache as c\ng = c(print)", "2: c; use state.cached"),
        ("from contextvars import ContextVar\nx: ContextVar[int] = ContextVar('x')", "2: ContextVar"),
        ("import threading\nclass A(threading.local): ...", "2: threading.local; use state.PerThread"),
        ("from weakref import WeakSet\nx = WeakSet()", "2: WeakSet; use state.registered"),
        ("x: dict[str, int] = {}", "1: x; use state.registered"),
        ("x = [0]\ndef f():\n    x[0] += 1", "1: x; use state.registered"),
        ("x = {1: 2}\ndef f():\n    x.clear()", "1: x; use state.registered"),
        ("x = 0\ndef f():\n    global x\n    x = 1", "3: global x"),
        ("def f():\n    return registered({}, 4)", "2: registered within a function"),
    ],
)
def test_state_beside_the_table_is_found(text: str, said: str) -> None:
    assert any(s.startswith(said) for s in _unlisted(text)), list(_unlisted(text))


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("manager", [
    lambda: source.standing_at(HERE),
    lambda: placed(HERE),
    lambda: source.returning_from(test_a_block_that_is_never_left_changes_nothing_later.__code__),
    lambda: active.tracing("a tracer"),
    active.untraced,
])  # fmt: skip
def test_a_block_that_is_never_left_changes_nothing_later(manager: Callable[[], AbstractContextManager[None]]) -> None:
    """An interrupt between `__enter__` and the block leaves it like that; the block around it has restored all."""
    look = lambda: (source._STANDING.place, source._STANDING.code, active._ACTIVE.stack)
    before = look()
    with source.place_kept(), source.returning_from(None), active.tracing_kept():
        left = manager()
        with source.standing_at(THERE), active.tracing("another tracer"):
            left.__enter__()
    assert look() == before
    del left
    gc.collect()
    assert look() == before

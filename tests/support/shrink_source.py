"""Shrinking of faulty source text: fewer statements, simpler expressions, smaller arguments.

    small = shrink_source(sample, lambda s: bool(Program(s.source, s.arguments).judge(s.queries[0]).faults))

Greedy and deterministic, as `shrink` is for programs of the core. A candidate need not make sense: one that raises in
both meanings shows nothing and is thrown away.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.sources import Sample


def shrink_source(sample: Sample, fails: Callable[[Sample], bool], most: int = 2000) -> Sample:
    """The smallest program found for which `fails` still holds.

    Args:
        sample: a program with one query.
        fails: whether a program shows the bug; candidates that raise do not.
        most: how many candidates are tried.
    """
    left = [most]

    def shows(candidate: Sample) -> bool:
        left[0] -= 1
        try:
            return left[0] > 0 and fails(candidate)
        except Exception:  # it makes no sense
            return False

    before = None
    while before != (sample.source, sample.queries) and left[0] > 0:
        before = sample.source, sample.queries
        for step in (_simpler_queries, _without_parameters, _smaller_arguments, _plainer_arguments):
            sample = _first(sample, step, shows)
        sample = _smaller_source(sample, shows)
    return sample


def _first(sample: Sample, step: Callable[[Sample], Iterator[Sample]], shows: Callable[[Sample], bool]) -> Sample:
    """Repeat the first candidate step that still shows the bug."""
    while True:
        found = next((c for c in step(sample) if shows(c)), None)
        if found is None:
            return sample
        sample = found


# ---------------------------------------------------------------- queries and arguments


def _simpler_queries(sample: Sample) -> Iterator[Sample]:
    """The value, and a gradient, where another derivative was asked for."""
    names = parameters(sample)
    args = ", ".join(names)
    simple = [f"f({args})", *(f'pb.grad(f, wrt="{n}")({args})' for n in names)]
    simple += [f'pb.jacobian(f, wrt="{n}", mode="{m}")({args})' for n in names for m in ("forward", "reverse")]
    if sample.queries[0] not in simple:
        for query in simple:
            yield replace(sample, queries=[query])


def parameters(sample: Sample) -> list[str]:
    """The names of the parameters of f."""
    f = next(n for n in ast.parse(sample.source).body if isinstance(n, ast.FunctionDef) and n.name == "f")
    return [a.arg for a in f.args.args]


def _without_parameters(sample: Sample) -> Iterator[Sample]:
    """One parameter fewer, in the function and in the query."""
    for name in parameters(sample):
        source = ast.parse(sample.source)
        for node in ast.walk(source):
            if isinstance(node, ast.FunctionDef) and node.name == "f":
                node.args.args = [a for a in node.args.args if a.arg != name]
        query = ast.parse(sample.queries[0], mode="eval")
        for n in ast.walk(query):
            if isinstance(n, ast.Call):
                n.args = [a for a in n.args if not _names(a, name)]
            elif isinstance(n, ast.Tuple):
                n.elts = [a for a in n.elts if not _names(a, name)]
            elif isinstance(n, ast.Lambda):
                n.args.args = [a for a in n.args.args if a.arg != name]
        arguments = {k: v for k, v in sample.arguments.items() if k not in (name, f"d{name}")}
        yield Sample(ast.unparse(source) + "\n", arguments, [ast.unparse(query)])


def _names(node: ast.expr, name: str) -> bool:
    """Whether an argument is that parameter, its direction, or its name."""
    if isinstance(node, ast.Name):
        return node.id in (name, f"d{name}")
    if isinstance(node, ast.Constant):
        return bool(node.value == name)
    return isinstance(node, ast.Call) and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)) and (
        ast.unparse(node).startswith("np."))  # fmt: skip


def _smaller_arguments(sample: Sample) -> Iterator[Sample]:
    """All axes of one extent made shorter together."""
    for extent in sorted({n for v in sample.arguments.values() for n in v.shape if n > 1}):
        for smaller in (1, 2, extent - 1):
            if smaller >= extent:
                continue
            made = {}
            for name, v in sample.arguments.items():
                for axis, n in enumerate(v.shape):
                    v = np.take(v, range(smaller), axis) if n == extent else v
                made[name] = v % smaller if v.dtype.kind == "i" else v
            yield replace(sample, arguments=made)
            source = _with_number(sample.source, extent, smaller)
            if source != sample.source:
                yield replace(sample, source=source, arguments=made)


def _with_number(source: str, old: int, new: int) -> str:
    """The source with one integer in the place of another."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value == old:
            node.value = new
    return ast.unparse(tree) + "\n"


def _plainer_arguments(sample: Sample) -> Iterator[Sample]:
    """Arguments of simple numbers."""
    for name, v in sample.arguments.items():
        ramp = (np.arange(v.size).reshape(v.shape) + 1).astype(v.dtype)
        for plain in (np.zeros_like(v), np.ones_like(v), ramp, np.round(v)):
            if v.dtype.kind == "f" and np.abs(plain).sum() != np.abs(v).sum() and _effort(plain) < _effort(v):
                yield replace(sample, arguments={**sample.arguments, name: plain})


def _effort(v: np.ndarray[Any, Any]) -> int:
    return len(str(v.tolist()))


# ---------------------------------------------------------------- source


def _smaller_source(sample: Sample, shows: Callable[[Sample], bool]) -> Sample:
    """Remove statements and replace expressions, largest first, while the bug shows."""
    tree = ast.parse(sample.source)
    at = 0
    while True:
        places = _places(tree)
        if at >= len(places):
            return sample
        for option in _options(tree, at):
            source = ast.unparse(ast.fix_missing_locations(option)) + "\n"
            candidate = replace(sample, source=source)
            if len(source) < len(sample.source) and shows(candidate):
                tree, sample = ast.parse(source), candidate
                break
        else:
            at += 1


def _places(tree: ast.Module) -> list[tuple[ast.AST, str, int | None]]:
    """The parent, field and position of each statement or expression that may be replaced."""
    out: list[tuple[ast.AST, str, int | None]] = []
    queue: list[ast.AST] = [tree]
    while queue:
        node = queue.pop(0)
        for name, value in ast.iter_fields(node):
            if name in ("args", "decorator_list", "func") and not isinstance(node, ast.Call):
                if name == "decorator_list":
                    out += [(node, name, k) for k in range(len(value))]
                continue
            if isinstance(value, list):
                for k, item in enumerate(value):
                    if isinstance(item, ast.expr | ast.stmt):
                        out.append((node, name, k))
                        queue.append(item)
            elif isinstance(value, ast.expr) and name != "func":
                out.append((node, name, None))
                queue.append(value)
            elif isinstance(value, ast.expr):
                queue.append(value)
            elif isinstance(value, ast.keyword):
                queue.append(value.value)
    return out


def _options(tree: ast.Module, at: int) -> Iterator[ast.Module]:
    """The trees with another thing at a place: nothing, a part of what is there, or a number."""
    node, name, k = _places(tree)[at]
    value = getattr(node, name) if k is None else getattr(node, name)[k]
    if name == "decorator_list" or isinstance(value, ast.stmt):
        if not isinstance(value, ast.Return):
            yield _replaced(tree, at, None)
        return
    parts = [p for p in ast.iter_child_nodes(value) if isinstance(p, ast.expr)]
    if isinstance(value, ast.Call):
        parts = [*value.args, *(p for a in value.args for p in ast.iter_child_nodes(a) if isinstance(p, ast.expr))]
    for part in parts:
        if not isinstance(part, ast.Lambda):
            yield _replaced(tree, at, part)
    if isinstance(value, ast.Call) and value.keywords:
        for keyword in value.keywords:
            shorter = copy.copy(value)
            shorter.keywords = [w for w in value.keywords if w is not keyword]
            yield _replaced(tree, at, shorter)
    if isinstance(value, ast.Tuple) and len(value.elts) > 1:
        for item in value.elts:
            yield _replaced(tree, at, ast.Tuple([e for e in value.elts if e is not item], ast.Load()))
    for plain in ("0", "1.0", "x", "y"):
        yield _replaced(tree, at, ast.parse(plain, mode="eval").body)


def _replaced(tree: ast.Module, at: int, new: ast.expr | None) -> ast.Module:
    new = copy.deepcopy(new)
    made = copy.deepcopy(tree)
    node, name, k = _places(made)[at]
    if k is None:
        setattr(node, name, new)
    elif new is None:
        del getattr(node, name)[k]
    else:
        getattr(node, name)[k] = new
    return made


__all__ = ["parameters", "shrink_source"]

"""The page of all public functions, made from the code: `python -m tests.docs.functions_page` writes it anew.

A function is described by the first sentence of its docstring. Cost and derivative come from its primitive, from its
docstring, or from its section. The version that added a function is kept on the page only; a new function gets the
current version.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import numpy as np

import pullback as pb
from pullback import Array
from pullback.ir import expr, types
from pullback.ir.expr import Ref
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.printer import print_scalar
from pullback.passes.operations import operation_count

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "functions.md"
HEAD = """\
# All functions

This page lists all public functions with their cost and derivative. `help(pb.einsum)` gives arguments, result, errors
and an example of one function.

* A cost counts scalar operations, without reading and writing.
* A derivative *by definition* is that of the function's index notation, in every mode and to every order.
* *zero* is the derivative of integers, bools and piecewise constant functions.
* In formulas x and y are the operands, and `out` is the result.

Formulas and settings of `pullback.nn` are on their own pages: [layers](networks_layers.md),
[optimizers](networks_optimizers.md), [models](models.md). `python -m tests.docs.functions_page` generates this page.
"""
DEFINITION = "by definition"
STEPWISE = "zero"


@dataclass(frozen=True)
class Section:
    """The functions of some modules, with defaults for functions that state neither cost nor derivative."""

    title: str
    modules: tuple[str, ...]
    cost: str = ""
    derivative: str = DEFINITION


SECTIONS = (
    Section("Functions and derivatives", ("calls", "derivatives"), "that of the function's expansion", "to any order"),
    Section("Index notation", ("tracing.index",), "that of the body for each index"),
    Section("Loops and conditions", ("tracing.control", "tracing.branches"), "that of the body for each step",
            "of every step, states kept"),
    Section("Elementwise", ("arrays.elementwise",), "1 for each element"),
    Section("Complex numbers", ("arrays.complex", "tracing.complex_array"), "that of both parts"),
    Section("Reductions and functions of them", ("arrays.reduction", "arrays.composed"),
            "a few for each element read"),
    Section("Products", ("arrays.products", "arrays.einsum"), "the product of all sizes"),
    Section("Making arrays", ("arrays.creation",), "none: elements are computed where they are read"),
    Section("Arranging elements", ("arrays.manipulation", "arrays.arrange"), "none: elements are read where they are"),
    Section("Order, search and counts", ("arrays.sorting",)),
    Section("Sampled functions", ("arrays.sampled",), "a few for each element"),
    Section("Rows of different lengths", ("jagged_arrays",), "none: outside of traced functions", "none"),
    Section("Trees", ("arrays.trees",), "that of the leaves"),
    Section("Element types and shapes", ("arrays.dtypes", "arrays.open_shapes"), "none: known before it runs", "none"),
    Section("Equations and minima", ("solvers",)),
    Section("Devices", ("runtime.device",), "none", "none"),
)
SPACES = (
    Section("linalg", ("linalg",), "a few for each element"),
    Section("fft", ("fft",), "about 5 n log₂ n for each row of n elements", "a transform, by linearity"),
    Section("special", ("special",), "as counted, for each element of f64"),
    Section("random", ("random",), "20 rounds of Threefry for 64 bits", "by parameters, none by the key"),
    Section("distributions", ("distributions",), "that of the formula", "by value and parameters"),
    Section("nn", ("nn",), "see `net.describe`", "that of the formula"),
    Section("nn.init", ("nn",), "a few for each element", "none: these are initial parameters"),
    Section("nn.metrics", ("nn",), "a few for each score", "none: metrics are only measured"),
    Section("nn.models", ("nn",), "see `net.describe`", "that of the layers"),
    Section("lazy", ("lazy",), "that of what runs", "by run, through any control flow"),
    Section("data", ("data",), "reading and writing", "none: results are NumPy arrays"),
    Section("apl", ("apl",), "that of the verbs"),
    Section("verbs", ("verbs",), "that of the applied function; otherwise none"),
    Section("debug", ("debug",), "the printed values become results", "none: it prints primal values"),
    Section("operators", ("operators",), "see its documentation", "none: it works on NumPy arrays"),
)


def functions_of(space: ModuleType | Any) -> dict[str, Any]:
    """The public functions of a module, and classes that are named and called like functions."""
    names = space.__all__
    return {n: v for n in names if callable(v := getattr(space, n)) and (n[0].islower() or not inspect.isclass(v))
            and not isinstance(v, types.DType | ModuleType) and get_origin(v) is None}


def sections() -> Iterator[tuple[Section, str, dict[str, Any]]]:
    """Each section with the prefix of its names, and its functions."""
    own = functions_of(pb)
    rest = own
    for section in SECTIONS:
        homes = tuple(f"pullback.{m}." for m in section.modules)
        found = {n: v for n, v in rest.items() if f"{getattr(v, '__module__', '')}.".startswith(homes)}
        rest = {n: v for n, v in rest.items() if n not in found}
        yield section, "pb.", found
    assert not rest, f"in no section: {', '.join(rest)}"
    for section in SPACES:
        space = import_module(f"pullback.{section.title}")
        found = functions_of(space)
        if section.title == "distributions":
            found = {f"{n}.{k}": v for n in space.__all__ for k, v in vars(getattr(space, n)).items()
                     if callable(v) and not k.startswith("_")}
        yield section, f"{'pb.' if section.title in pb.__all__ else 'pullback.'}{section.title}.", found


def _said(doc: str) -> dict[str, str]:
    """The titled parts of a docstring, each on one line."""
    parts = re.split(r"^(\w+):$", doc.partition("\n>>>")[0], flags=re.MULTILINE)
    return {title: " ".join(text.partition("\n\n")[0].split()).rstrip(".")
            for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def _what(f: Any) -> str:
    """Return the first sentence of a function's docstring."""
    text = " ".join((inspect.getdoc(f) or "").partition("\n\n")[0].split())
    return re.split(r"(?<!\beq)\. (?=[A-Z`])", text, maxsplit=1)[0].rstrip(".")


def _primitive(name: str) -> tuple[str, str] | None:
    """Cost and derivative from the table of primitives."""
    name = {"pow": "power"}.get(name, name)
    if name not in PRIMITIVES:
        return None
    row = PRIMITIVES[name]
    if row.partials is None:
        return f"{row.cost}", STEPWISE
    operands = [expr.get(Ref(n, types.f64, ())) for n in "xyz"[: row.arity]]
    parts = row.partials(*operands, out=expr.get(Ref("out", types.f64, ())))
    shown = ("0" if p is None else print_scalar(p).replace("f64(1.0)", "1").replace("{}", "0") for p in parts)
    return f"{row.cost}", ", ".join(f"`{text}`" for text in shown)


def _operations(f: Any) -> str:
    """Count the operations of an elementwise function."""
    needed = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty]
    static = [1] * (needed[0].name == "n")
    x = np.full(100, 0.5)

    def of_arrays(*xs: Any) -> Any:
        return f(*static, *xs)

    program = pb.function(of_arrays).program(*[x] * (len(needed) - len(static)))
    return f"{max(1, round(operation_count(program, {}) / 100))}"


PROBES: tuple[Callable[[Any, Array], Any], ...] = (
    lambda f, x: f(x),
    lambda f, x: f(x, x),
    lambda f, x: f(4, lambda i: x[i]),
    lambda f, x: f(4, lambda i: x[i] > 0.5),
)


def _is_stepwise(f: Any) -> bool:
    """Whether the result of numbers has no floating-point part, so that its derivative is zero."""
    for probe in PROBES:
        for shape in ((4,), (4, 4)):
            try:
                made = pb.function(lambda x: probe(f, x)).program(np.full(shape, 0.5))
            except Exception:  # it takes other arguments
                continue
            return not any(r.dtype.is_floating for r in made.outputs)
    return False


def row(section: Section, name: str, f: Any) -> tuple[str, str, str]:
    """Return description, cost and derivative of a function; empty where the section's default holds."""
    said = _said(inspect.getdoc(f) or "")
    cost, derivative = said.get("Cost", ""), said.get("Derivative", "")
    if section.title == "Elementwise" and (found := _primitive(name)) is not None:
        cost, derivative = found
    if section.title == "special":
        cost = cost or _operations(f)
    if not derivative and section.derivative == DEFINITION and _is_stepwise(f):
        derivative = STEPWISE
    return _what(f), cost, derivative


def known(page: str) -> dict[str, str]:
    """The version that added each function, read from a page."""
    return dict(re.findall(r"^\| `([\w.]+)` .* \| ([\d.]+) \|$", page, re.MULTILINE))


def page(before: str) -> str:
    """Generate the page, keeping versions from the page before."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    now, since = re.split(r"\.dev|rc", project["version"])[0], known(before)
    seen: dict[int, str] = {}
    parts = [HEAD]
    for section, prefix, found in sections():
        again = [n for n, f in sorted(found.items()) if id(inspect.unwrap(f)) in seen and prefix != "pb."]
        lines = [f"## {section.title if prefix == 'pb.' else f'`{prefix[:-1]}`'}", ""]
        said = {"cost": section.cost, "derivative": section.derivative}
        defaults = [f"{what}: {text}" for what, text in said.items() if text]
        lines += [f"Unless stated otherwise, {'; '.join(defaults)}.", "",
                  "| function | what it does | cost | derivative | since |", "|---|---|---|---|---|"]
        for name, f in sorted(found.items()):
            if name in again:
                continue
            seen.setdefault(id(inspect.unwrap(f)), prefix + name)
            cells = " | ".join(c.replace("|", "\\|") for c in row(section, name, f))
            lines.append(f"| `{prefix}{name}` | {cells} | {since.get(prefix + name, now)} |")
        if again:
            lines += ["", "As above: " + ", ".join(f"`{n}`" for n in again) + "."]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""), encoding="utf-8")
    print(PAGE)

"""What `help`, an interactive session and a notebook show of functions, types, tables, derivations and matrices."""

from __future__ import annotations

import html.parser
import inspect
import pydoc
import re
import sys

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def energy(x: Float64[Array, "N"], k: float = 2.0) -> Float64[Array, ""]:
    """Half of the sum of squares, if 0 < k & <b>N</b>.

    Args:
        x: positions.
    """
    return k * pb.sum(x * x) / 2


@pb.function
def untyped(x, y):
    return x + y


MADE = {
    "grad": (pb.grad(energy), "The gradient of `energy` with respect to `x`, shaped like `x`.", "x k"),
    "grad_by_name": (pb.grad(energy, wrt=("k", "x")), "The gradient of `energy` with respect to `k` and `x`", "x k"),
    "value_and_grad": (pb.value_and_grad(energy, wrt=1), "`energy` and its gradient with respect to `k`.", "x k"),
    "jvp": (pb.jvp(energy), "`energy`, and its derivative at `primals`", "primals tangents"),
    "vjp": (pb.vjp(energy), "`energy`, and a cotangent of its result times", "x k cotangent"),
    "jacobian": (pb.jacobian(energy), "The Jacobian of `energy` with respect to `x`", "x k"),
    "hessian": (pb.hessian(energy), "The Hessian of `energy` with respect to `x`", "x k"),
    "hvp": (pb.hvp(energy), "The Hessian of `energy` with respect to `x` times a direction `v`.", "args v"),
    "vmap": (pb.vmap(energy), "`energy` for each element of a batch.", "x k"),
    "sparse": (pb.hessian(energy, sparse=True), "The Hessian of `energy` with respect to `x` as a sparse", "x k"),
}


@pytest.mark.parametrize("name", MADE)
def test_help_is_about_what_was_made(name: str) -> None:
    made, about, parameters = MADE[name]
    assert inspect.getdoc(made).startswith(about)
    assert "About `energy`:\n\nHalf of the sum of squares" in inspect.getdoc(made)
    signature = inspect.signature(made)
    assert list(signature.parameters) == parameters.split()
    assert signature.return_annotation is inspect.Signature.empty  # that of the function is another
    assert made.__name__ == made.name


def test_help_of_a_gradient() -> None:
    lines = [line.rstrip() for line in pydoc.plain(pydoc.render_doc(pb.grad(energy))).splitlines()]
    if sys.version_info >= (3, 14):  # pydoc asks for annotations as text
        lines[2] = lines[2].replace("Float64[Array, 'N']", "\"Float64[Array, 'N']\"").replace(": float", ": 'float'")
    assert "\n".join(lines[1:]) == """
energy_grad(x: "Float64[Array, 'N']", k: 'float' = 2.0)
    The gradient of `energy` with respect to `x`, shaped like `x`.

    About `energy`:

    Half of the sum of squares, if 0 < k & <b>N</b>.

    Args:
        x: positions."""
    assert str(inspect.signature(energy)).endswith("-> \"Float64[Array, '']\"")
    assert inspect.signature(pb.vjp(energy)).parameters["cotangent"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(pb.Function) is not None  # the class has a signature of its own


class Tags(html.parser.HTMLParser):
    """The tags of a text, whether they are closed, and the cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        style = dict(attrs).get("style", "")
        assert "color" not in style.replace("background: none", "")  # any background will do

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


def shown(x: object) -> Tags:
    found = Tags(re.sub("<svg.*?</svg>", "", x._repr_html_(), flags=re.DOTALL))
    assert not found.open
    assert found.seen <= {"div", "code", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary"}
    return found


def test_functions_and_types() -> None:
    assert shown(energy).cells == ["type", "x", "f64[N]", "k", "f64", "→", "f64"]
    assert "if 0 &lt; k &amp; &lt;b&gt;N&lt;/b&gt;." in energy._repr_html_()
    assert shown(energy.type).cells == ["type", "x", "f64[N]", "k", "f64", "→", "f64"]
    assert energy.type == "(x: f64[N], k: f64) -> f64"
    assert "sparse f64[N, N]" in shown(pb.hessian(energy, sparse=True)).cells
    assert shown(untyped).cells == ["argument", "annotation", "x", "y"]
    assert "types are known after the first call" in untyped._repr_html_()


def test_memory() -> None:
    table = energy.memory(N=3)
    assert repr(table) == str(table) and "peak" in table._repr_html_()
    assert {"inputs", "  x", "f64[3]", "24"} <= set(shown(table).cells)
    sizes = energy.memory()
    assert repr(sizes) == str(sizes) and "8 * N" in shown(sizes).cells


def test_derivations_are_formulas() -> None:
    derivation = pb.grad(energy).derivation()
    assert derivation._repr_markdown_() == derivation.markdown() and "$$" in derivation.markdown()
    assert repr(derivation) == derivation.text()
    explanation = pb.grad(energy).explain()
    assert repr(explanation) == explanation.text()


def test_sparse_matrices() -> None:
    matrix = pb.hessian(energy, sparse=True)(np.ones(20))
    found = shown(matrix)
    assert found.cells[:6] == ["row", "column", "value", "0", "0", "2"]
    assert found.cells[-3:] == ["⋮"] * 3 and len(found.cells) == 3 * (1 + 12 + 1)
    assert repr(matrix) == "<SparseMatrix of 20 x 20 elements with 20 entries, float64>"

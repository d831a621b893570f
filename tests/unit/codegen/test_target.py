"""What is behind the interface of targets stays there: layers below hold no text of C."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pullback
from pullback.codegen.c.libm import MATH_NAMES
from pullback.codegen.c.primitives import ROWS
from pullback.codegen.c.vectors.words import VectorWords
from pullback.codegen.target import Target
from pullback.codegen.targets import TARGETS
from pullback.ir.primitive import PRIMITIVES
from pullback.ir.types import f32, f64
from pullback.loops.program.values import Type
from pullback.loops.vectors.lanes import VECTOR_FUNCTIONS

PACKAGE = Path(pullback.__file__).parent
BELOW = ("ir", "rewrite", "ad", "operators", "passes", "loops")
OF_C = re.compile(
    r"\b(?:pb|PB)_|__\w+__\(|\bstatic (?:inline|const|void)\b|\b(?:restrict|sizeof|typedef|memcpy|memset)\b"
    r"|\bu?int(?:8|16|32|64|ptr)_t\b|\bsize_t\b|#\s*(?:include|ifdef|ifndef|define|pragma|endif)\b|[\w)\]];(?:$|\n(?:$|[\s}]))"
    r"|\breturn [^;]*;|\bfor \(int|\b(?:exp|log|sin|cos|sqrt|pow|fabs|floor|ceil|fmod|erf)(?:\{f\}|f)?\(\{"
)
NAMES_OF_C = {"double", "char", "long"}  # as a whole string; NumPy has the others too


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file that are no docstrings, those inside f-strings too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings of constants
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | lone:
            yield node.lineno, node.value


def text_of_c(path: Path) -> list[str]:
    """Strings of a file that are text of C."""
    return [f"{path.name}:{line}: {text!r}" for line, text in strings(path)
            if OF_C.search(text) or text in NAMES_OF_C]


@pytest.mark.parametrize("layer", BELOW)
def test_layers_below_hold_no_text_of_c(layer: str) -> None:
    found = [line for path in sorted((PACKAGE / layer).rglob("*.py")) for line in text_of_c(path)]
    assert found == []


def test_the_scan_sees_text_of_c(tmp_path: Path) -> None:
    """It finds what was once in these layers, and is not blind to C as such: nearly all of it is in `codegen`."""
    file = tmp_path / "f.py"
    once = ['C = {"floating": "pow{f}({0}, {1})"}', 'F = f"pb_{name}_{t}"', 'D = DType("f64", 64, "double")',
            'H = """static inline {c} f({c} a) {{\\n    return a;\\n}}\\n"""']  # fmt: skip
    file.write_text("\n".join(once))
    assert len(text_of_c(file)) == 4
    assert sum(bool(text_of_c(path)) for path in (PACKAGE / "codegen" / "c").rglob("*.py")) > 15


def test_rows_of_the_table() -> None:
    """Each primitive has its C: a row, or a function of libm of the same name and meaning."""
    names = {row.name for row in PRIMITIVES}
    assert set(ROWS) <= names and names - set(ROWS) <= MATH_NAMES
    assert "round" in ROWS  # libm's rounds halves away from zero


def test_vectors_have_the_mathematics_that_loops_rely_on() -> None:
    for name in VECTOR_FUNCTIONS:
        for t in (Type(f32, 16), Type(f64, 2)):
            words = VectorWords()
            assert words.primitive(PRIMITIVES[name], t).startswith(f"pb_{name}_{t}({{0}}")
            assert f"pb_{name}_{t}" in words.vector


def test_targets_are_told_apart() -> None:
    assert len({t.name for t in TARGETS}) == len(TARGETS) == 3
    assert all(callable(getattr(t, name)) for t in TARGETS for name in ("machine", "words", "source", "flags"))
    assert Target.__doc__

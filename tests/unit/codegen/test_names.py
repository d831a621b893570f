"""Names are the user's where C allows, unique among those in scope, and free again after their block."""

from __future__ import annotations

import re

import pytest

from pullback.codegen.c import primitives
from pullback.codegen.c.libm import FUNCTIONS
from pullback.codegen.c.names import Names, identifier, unique
from pullback.ir.parser import parse_program
from pullback.machine import AVX512, SCALAR
from pullback.runtime.emit import lower_program, print_lowered


@pytest.mark.parametrize(("wish", "name"), [
    ("x", "x"), ("w_bar", "w_bar"), ("loss.grad", "loss_grad"), ("θ", "theta"), ("Σ", "Sigma"), ("x′", "x"),
    ("é", "e"), ("2x", "n2x"), ("__x__", "x"), ("", "x"), ("x[0]", "x_0")])
def test_identifiers(wish: str, name: str) -> None:
    assert identifier(wish) == name


@pytest.mark.parametrize(("wish", "name"), [
    ("float", "float_"), ("new", "new_"), ("exp", "exp_"), ("INT_MAX", "INT_MAX_"), ("pb_max", "pb_max_"),
    ("arena", "arena_"), ("expf", "expf_"), ("lgamma", "lgamma_"), ("x", "x3"), ("y1", "y1_2")])
def test_reserved_and_taken(wish: str, name: str) -> None:
    assert unique(wish, {"x", "x2", "y1"}.__contains__) == name


def test_functions_of_libm_are_no_variables() -> None:
    """Each that a primitive is printed as; a variable `expf` hid the function that is called beside it."""
    templates = [t if isinstance(t, str) else t.text for row in primitives.ROWS.values() for t in row.values()]
    called = {name for t in templates for name in re.findall(r"\b(\w+)\{f\}\(", t)}
    assert called and called <= FUNCTIONS
    program = parse_program("f(x: f32[3], expf: f32[3]) { y = build n < 3 { x[n] * exp(expf[n]) } return y }")
    source = print_lowered(lower_program(program, {}, comments=False, machine=SCALAR))
    assert "x[n] * expf(expf_[n])" in source.text


def test_names_are_free_after_their_block() -> None:
    names = Names()
    x, n, m, k = (names(object(), wish) for wish in ("x", "n", "n", "n"))
    text = "\n".join([
        f"(float *{x}) {{", f"    for (int {n} = 0; {n} < 3; ++{n}) {{",
        f"        for (int {m} = 0; {m} < 3; ++{m}) {{", f"            {x}[{n} + {m}] = 0;", "        }", "    }",
        f"    for (int {k} = 0; {k} < 3; ++{k}) {{", f"        {x}[{k}] = 0;", "    }", "}"])
    resolved = names.resolve(text)
    assert "x[n + n2] = 0;" in resolved
    assert "x[n] = 0;" in resolved
    assert "v0[v1 + v2] = 0;" in names.numbered(text)


def test_braces_in_comments_open_and_close_nothing() -> None:
    names = Names()
    x, k, one = (names(thing, wish) for thing, wish in ((1, "x"), (2, "k"), (3, "k")))
    lines = [f"(const float *{x}, const float *{k}) {{", "    /* y = build i < 2 { sum j < 3 {",
             "           } } */", f"    const float {one} = {k}[0] * {x}[0];", "}"]
    resolved = names.resolve("\n".join(lines)).splitlines()
    assert resolved[0] == "(const float *x, const float *k) {"
    assert resolved[3] == "    const float k2 = k[0] * x[0];"


def test_programs_that_differ_in_names_have_one_text() -> None:
    """Canonical text is what the cache knows programs by: fields that threads are handed have no names in it."""
    text = "f(x: f32[N, N], y: f32[N, N]) { z = build i < N, j < N { sum k < N { x[i, k] * y[k, j] } } return z }"
    found = []
    for names in ("xyz", "abc"):
        renamed = text.translate(str.maketrans("xyz", names))
        lowered = lower_program(parse_program(renamed), {"N": 256}, False, AVX512, canonical=True, threaded=True)
        found.append(print_lowered(lowered, names="canonical", comments=False).text)
    assert "struct" in found[0]
    assert found[0] == found[1]

"""Which lines of C come from which lines of the user's file."""

from __future__ import annotations

import numpy as np
import pytest
from jaxtyping import Float32

import pullback as pb
from pullback import Array
from pullback.codegen.marks import Marks
from pullback.nn.models import zhang
from pullback.runtime.emit import lower_program, print_lowered, with_constants

DIMS = {"N": 24, "M": 16, "K": 8}


@pb.function
def loss(x: Float32[Array, "N M"], w: Float32[Array, "M K"], y: Float32[Array, "N K"]):
    p = pb.tanh(x @ w)
    d = p - y
    return pb.sum(d * d)


FIRST = loss.python.__code__.co_firstlineno


@pytest.mark.parametrize("f", [loss, pb.grad(loss, "w")], ids=["function", "gradient"])
@pytest.mark.parametrize("dims", [DIMS, {"N": 24}], ids=["sizes", "some open"])
def test_the_text_stays_as_it_is(f: pb.Function, dims: dict[str, int]) -> None:
    program, known = f.for_dims(dims)
    lowered = with_constants(lower_program(program, known), program)
    plain, marked = print_lowered(lowered), print_lowered(lowered, places=True)
    assert (marked.text, marked.declaration) == (plain.text, plain.declaration)
    assert not plain.places
    lines = {p.line - FIRST for place in marked.places for p in place.positions}
    assert lines <= {2, 3, 4}
    assert lines >= {2, 3}
    text = marked.text.split("\n")
    for place in marked.places:
        assert text[place.first - 1].strip()
        assert text[place.last - 1].strip()


def test_what_is_called_comes_from_the_line_that_says_so() -> None:
    program, known = pb.grad(loss, "w").for_dims(DIMS)
    source = print_lowered(lower_program(program, known), places=True)
    text = source.text.split("\n")
    of_product = [place for place in source.places if "w_bar" in text[place.last - 1]]
    assert [[p.line - FIRST for p in place.positions] for place in of_product] == [[2]]


def test_a_whole_training_pass() -> None:
    own = pb.function(zhang.train.python, donate=("state",))
    state = zhang.Training(zhang.start(), np.float32(0))
    own.program(state, np.zeros((4, 28, 28), np.float32), np.zeros(4, np.uint8), np.float32(0.1))
    program, known = own.for_dims({"N": 4})
    lowered = lower_program(program, known)
    plain, marked = print_lowered(lowered), print_lowered(lowered, places=True)
    assert marked.text == plain.text
    files = {p.file.rpartition("/")[2] for place in marked.places for p in place.positions}
    assert files == {"zhang.py"}


def test_marks_inside_marks() -> None:
    marks = Marks()
    here = [loss.place]
    assert loss.place is not None
    text = "\n".join(["a", marks.begin("outer", here), "b", marks.begin("inner", here), "c", marks.end, "d", marks.end])
    found, places = marks.taken_from(text)
    assert found == "a\nb\nc\nd"
    assert [(p.first, p.last) for p in places] == [(2, 4), (3, 3)]

"""What the parser says about text that is not well formed, and what it accepts beyond what the printer writes."""

import pytest

from pullback.errors import ParseError
from pullback.ir.parser import parse_program, parse_programs
from pullback.ir.printer import print_program


@pytest.mark.parametrize(("text", "code", "line", "column", "words"), [
    ("f(x: f32[N]) { y = build i < N { x[i] @ 2 } return y }", "E301", 1, 39, "unexpected character '@'"),
    ("f(x: f32[N]) {\n  y = build i < N { x[i] }\n  return z }", "E303", 3, 10, "no array is called z"),
    ("f(x: f32[N]) { y = build i < N { x[j] } return y }", "E303", 1, 36, "no index or dim is called j"),
    ("f(x: f32[N]) { y = build i < N { foo(x[i]) } return y }", "E303", 1, 34, "nothing is called foo"),
    ("f(x: f32[N]) { y = build i < N { x } return y }", "E304", 1, 34, "x has rank 1, got 0 indices"),
    ("f(x: f32[N]) { y = build i < N { 1.0 } return y }", "E304", 1, 34, "the dtype of this is not known"),
    ("f(x: f32[N]) { y = build i < N { i } return y }", "E304", 1, 34, "i is an index, not a number"),
    ("f(x: i32[N]) { y = build i < N { x[i] + 1.5 } return y }", "E304", 1, 41, "1.5 is not a number of dtype i32"),
    ("f(x: i32[N]) { y = build i < N { sin(x[i]) } return y }", "E304", 1, 34, "sin does not take i32"),
    ("f(x: f32[N]) { y = build i < N { sin(x[i], x[i]) } return y }", "E304", 1, 34, "sin takes 1 operand, not 2"),
    ("f(x: q32[N]) { return x }", "E302", 1, 6, "expected a dtype"),
    ("f(x: f32[N]) { x = build { f32(1) } return x }", "E303", 1, 16, "x is already defined"),
    ("f(x: f32[N]) { y, z = build { f32(1) } return y }", "E304", 1, 23, "build gives 1 arrays, 2 are named"),
    ("f(x: f32[N]) { y = sum n < N { x[n] } return y }", "E302", 1, 20, "while, if, call or external"),
    ("f(x: f32[N]) { s = scatter n < N { [n] += x[n] } return s }", "E304", 1, 20, "scatter needs the type"),
    ("f(x: f32[N]) { return x", "E302", 1, 24, "expected '}', found the end of the text"),
    ("f(x: f32[N], b: bool) { y = build n < N { x[n] ? 1.0 : x[n] } return y }", "E304", 1, 43, "expected bool"),
])
def test_errors_have_line_and_column(text, code, line, column, words):
    with pytest.raises(ParseError) as caught:
        parse_program(text, "some.pb")
    place = caught.value.position
    assert (caught.value.code, place.line, place.column) == (code, line, column), str(caught.value)
    assert words in str(caught.value) and "some.pb" in str(caught.value)


def test_names_of_a_block_are_free_after_it():
    text = """f(x: f64[N], c: bool) {
      y = if c { a = build i < N { x[i] } yield a } else { a = build i < N { -x[i] } yield a }
      a = build i < N { y[i] }
      return a }"""
    p = parse_program(text)
    assert parse_program(print_program(p)) is not None


def test_comments_and_several_programs():
    programs = parse_programs("# one\nf(x: f64) { return x } # two\ng(y: f32) { return y }\n")
    assert [p.name for p in programs] == ["f", "g"]
    with pytest.raises(ParseError, match="expected one program, found 2"):
        parse_program("f(x: f64) { return x } g(y: f32) { return y }")


def test_conditions_in_every_direction():
    text = "f(x: f64[N]) {{ y = build i < N {{ [{}] x[0] }} return y }}"
    for written, printed in (("i > 0", "i >= 1"), ("i < 3", "2 >= i"), ("i <= 3", "3 >= i"), ("3 == i", "i == 3"),
                             ("i != 0", "i != 0"), ("i >= 0", "")):
        line = print_program(parse_program(text.format(written)))
        assert (f"[{printed}] x[0]" if printed else "{ x[0] }") in line

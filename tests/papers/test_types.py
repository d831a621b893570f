"""Types with symbolic sizes, and messages that show both sides of what does not fit (X03)."""

from __future__ import annotations

import re
from typing import Any

import pytest

import pullback as pb
from pullback.errors import PullbackError
from tests.examples.test_examples import FUNCTIONS

EXTENTS = re.compile(r"\[([^\]]*)\]")


def names_in(text: str) -> set[str]:
    """The dims that a type names."""
    return {n for shape in EXTENTS.findall(text) for n in re.findall(r"[A-Za-z]\w*", shape)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_x03_every_example_has_a_type(name: str) -> None:
    """The type says dtype and sizes of all leaves that go in and come out, by the names of the annotations."""
    function, dims = FUNCTIONS[name]
    text, program = str(function.type), function.program()
    into, _, out = text.partition(") -> ")
    for refs, side in ((program.inputs, into), (program.outputs, out.partition(" where ")[0])):
        for r in refs:
            shown = f"{r.dtype.name}[{', '.join(map(str, r.shape))}]" if r.rank else r.dtype.name
            assert shown in side, (shown, side)
    assert {d for d in names_in(into) if d in dims} == {d for d in dims if d not in program.sizes}


# What does not fit: (the line that asks for it, its columns, both sides and where they are from)
MISFITS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "the inner sizes of a product": (
        "x @ w",
        "x @ w",
        ("columns of x = features", "rows of w = hidden", "x : f32[batch, features]", "w : f32[hidden, classes]"),
    ),
    "the sizes of a sum": (
        "pb.exp(x) + w",
        "pb.exp(x) + w",
        ("axis 0 of exp = batch", "axis 0 of w = hidden", "exp : f32[batch, features]", "w : f32[hidden, classes]"),
    ),
    "an index that leaves its axis": (
        "pb.build(x.shape[0], lambda n: x[n, w.shape[0]])",
        "x[n, w.shape[0]]",
        ("hidden", "features - 1", "x : f32[batch, features]"),
    ),
    "a reshape to another size": (
        "pb.reshape(x, (w.shape[0], 7))",
        "pb.reshape(x, (w.shape[0], 7))",
        ("batch", "features", "hidden", "x : f32[batch, features]"),
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_x03_a_message_shows_both_extents_their_origin_and_the_line(name: str, tmp_path: Any) -> None:
    line, place, facts = MISFITS[name]
    file = tmp_path / "user.py"
    file.write_text(
        "import pullback as pb\nfrom jaxtyping import Float32\nfrom pullback import Array\n\n@pb.function\n"
        'def dense(x: Float32[Array, "batch features"], w: Float32[Array, "hidden classes"]):\n'
        f"    return {line}\n"
    )
    with pytest.raises(PullbackError) as caught:
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": "user", "pb": pb})
    first, where, shown, carets, *rest = str(caught.value).splitlines()
    assert where == f"  --> {file}:7:{12 + line.index(place)}"
    assert shown.endswith(f"    return {line}")
    start = shown.index(line) + line.index(place)
    assert carets.index("^") == start and carets.count("^") == len(place)
    for fact in facts:
        assert fact in "\n".join([first, *rest]), str(caught.value)

"""A reader of APL literals and a comparison of values, which share no code with the package.

The results of `pairs/*.txt` are numbers, characters, strands, and `⍴`, `,` and `⊂` around them. An array is `Cells`:
a shape and its elements in row-major order, where an element is a number, a character, or `Cells` for what is nested.
"""

import cmath
import re
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

_TOKEN = re.compile(
    r"\s*(?:(?P<number>¯?[0-9.]+(?:E¯?[0-9]+)?(?:J¯?[0-9.]+)?)|(?P<text>'(?:[^']|'')*')|(?P<mark>[()⍬⍴,⊂]))"
)


@dataclass(frozen=True)
class Cells:
    """An array: `characters` says what the prototype of an empty one is."""

    shape: tuple[int, ...]
    elements: tuple[Any, ...]
    characters: bool = False


def read(text: str) -> Cells:
    """The array that a literal stands for."""
    tokens = []
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"not a literal: {text!r} from {text[place:]!r}")
        tokens.append((found.lastgroup, found[found.lastgroup or 0]))
        place = found.end()
    value, rest = _expression(tokens)
    if rest:
        raise ValueError(f"not a literal: {text!r}, {rest!r} is left over")
    return value


def _expression(tokens: list[tuple[str | None, str]]) -> tuple[Cells, list[tuple[str | None, str]]]:
    """The first expression of `tokens`, and the tokens behind it."""
    if tokens[0][1] == ",":
        value, rest = _expression(tokens[1:])
        return Cells((len(value.elements),), value.elements, value.characters), rest
    if tokens[0][1] == "⊂":
        value, rest = _expression(tokens[1:])
        return Cells((), (_item(value),)), rest
    items = []
    while tokens and tokens[0][1] not in (")", "⍴"):
        item, tokens = _strand_item(tokens)
        items.append(item)
    value = items[0] if len(items) == 1 else Cells((len(items),), tuple(map(_item, items)))
    if tokens and tokens[0][1] == "⍴":
        source, tokens = _expression(tokens[1:])
        value = _reshape(tuple(map(int, value.elements)), source)
    return value, tokens


def _strand_item(tokens: list[tuple[str | None, str]]) -> tuple[Cells, list[tuple[str | None, str]]]:
    (kind, text), rest = tokens[0], tokens[1:]
    if kind == "number":
        real, _, imaginary = text.replace("¯", "-").partition("J")
        number = (
            complex(float(real), float(imaginary))
            if imaginary
            else float(real)
            if re.search("[.E]", real)
            else int(real)
        )
        return Cells((), (number,)), rest
    if kind == "text":
        characters = text[1:-1].replace("''", "'")
        return Cells(() if len(characters) == 1 else (len(characters),), tuple(characters), True), rest
    if text == "⍬":
        return Cells((0,), ()), rest
    if text != "(":
        raise ValueError(f"not the start of a literal: {text!r}")
    value, rest = _expression(rest)
    if not rest or rest[0][1] != ")":
        raise ValueError("a parenthesis of a literal is not closed")
    return value, rest[1:]


def _item(value: Cells) -> Any:
    """What `value` is as an element: a simple scalar is itself."""
    return value.elements[0] if value.shape == () and not isinstance(value.elements[0], Cells) else value


def _reshape(shape: tuple[int, ...], source: Cells) -> Cells:
    fill = (" " if source.characters else 0,)
    elements = source.elements or fill
    return Cells(shape, tuple(elements[i % len(elements)] for i in range(prod(shape))), source.characters)


def cells(value: Any) -> Cells:
    """A value of the package as `Cells`: arrays of NumPy, of objects where they are nested, and single elements."""
    if isinstance(value, str) and len(value) != 1:
        return Cells((len(value),), tuple(value), True)
    array = np.asarray(value)
    elements = tuple(_element(element) for element in array.reshape(-1))
    characters = array.dtype.kind in "SU" or (bool(elements) and all(isinstance(element, str) for element in elements))
    return Cells(array.shape, elements, characters)


def _element(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _item(cells(value))
    return value.item() if isinstance(value, np.generic) else value


def same(expected: Any, actual: Any) -> bool:
    """Whether two arrays or elements match: shape, nesting, and elements within 1e-12 of their magnitude."""
    if isinstance(expected, Cells) != isinstance(actual, Cells):
        return False
    if isinstance(expected, Cells):
        if expected.shape != actual.shape or (not expected.elements and expected.characters != actual.characters):
            return False
        return all(map(same, expected.elements, actual.elements))
    if isinstance(expected, str) or isinstance(actual, str):
        return bool(expected == actual)
    return cmath.isclose(expected, actual, rel_tol=1e-12, abs_tol=1e-12)


def shown(value: Any) -> str:
    """A value in the form of the literals, for reports."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, complex):
        return f"{shown(value.real)}J{shown(value.imag)}"
    if not isinstance(value, Cells):
        return str(value).upper().replace("E+", "E").replace("-", "¯")
    if value.shape == ():
        return f"⊂{shown(value.elements[0])}" if isinstance(value.elements[0], Cells) else shown(value.elements[0])
    if value.characters and all(isinstance(item, str) for item in value.elements):
        body = "'" + "".join(value.elements).replace("'", "''") + "'"
    elif len(value.elements) == 1 and isinstance(value.elements[0], Cells):
        body = "⊂" + shown(value.elements[0])
    else:
        body = (
            " ".join(f"({shown(item)})" if isinstance(item, Cells) else shown(item) for item in value.elements) or "0"
        )
    return body if len(value.shape) == 1 and len(value.elements) > 1 else f"{' '.join(map(str, value.shape))}⍴{body}"

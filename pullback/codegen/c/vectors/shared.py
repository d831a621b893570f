"""Functions that differ in numbers alone become one, called with these numbers.

Before    multiply_5x16(a, b) {.. r < 5 ..}   multiply_6x16(a, b) {.. r < 6 ..}
After     inline multiply(a, b, n1) {.. r < n1 ..}   multiply_5x16(a, b) {multiply(a, b, 5);}   multiply_6x16(a, b) {..}

Compilers put the one function into each that calls it, where the numbers are constants: the machine code is the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pullback.codegen.c.names import unique
from pullback.codegen.c.text import wrap
from pullback.codegen.c.vectors.text import views

MOST: Final = 8  # numbers of a shared function
TEMPLATE: Final = """\
#ifdef __GNUC__
#define PB_TEMPLATE static inline __attribute__((always_inline)) /* its numbers are constants in each caller */
#else
#define PB_TEMPLATE static inline
#endif
"""
_INTEGER: Final = re.compile(r"(?<![\w.])\d+(?![\w.])")
_HEAD: Final = re.compile(r"^static (.*?)(void|int) (\w+)\(", re.MULTILINE)
_ARRAYS: Final = re.compile(r"^ +(?!return)\w+ \w+\[\d+\](, \w+\[\d+\])*[;,]$")
_CONSTANT: Final = re.compile(r"PB_SHUFFLE|\{\d+, |^#")  # lines whose numbers must be literal


def shared(kernels: Mapping[str, str], numbered: Mapping[str, str]) -> dict[str, str]:
    """The functions by name, with shared ones before the first that calls each.

    Args:
        kernels: functions by name.
        numbered: their texts with numbered names, in which equal functions are equal.
    """
    groups: dict[str, list[str]] = {}
    for name in kernels:
        if name in numbered:
            groups.setdefault(_INTEGER.sub("0", numbered[name]), []).append(name)
    out = dict(kernels)
    for names in groups.values():
        if len(names) > 1:
            out = _replaced(out, names)
    return out


def _replaced(kernels: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The functions with a shared one for these, if it is worth it."""
    comments, heads, bodies = zip(*(_parts(kernels[n]) for n in names), strict=True)
    rows = list(zip(*(_INTEGER.findall(b) for b in bodies), strict=True))
    fixed = _fixed(bodies[0])
    wanted = {row for row, how in zip(rows, fixed, strict=True) if len(set(row)) > 1 and how != "array"}
    if any(len(set(row)) > 1 and how == "literal" for row, how in zip(rows, fixed, strict=True)) or len(wanted) > MOST:
        return dict(kernels)
    taken = set(re.findall(r"\w+", bodies[0] + heads[0]))
    parameters: dict[tuple[str, ...], str] = {}
    for row in rows:
        if row in wanted and row not in parameters:
            parameters[row] = next(f"n{k}" for k in range(1, 99) if f"n{k}" not in taken | set(parameters.values()))
    uses = iter(zip(rows, fixed, strict=True))

    def number(match: re.Match[str]) -> str:
        row, how = next(uses)
        return max(row, key=int) if how == "array" else parameters.get(row, match[0])

    body = _INTEGER.sub(number, bodies[0])
    for p in parameters.values():  # of one form alone
        if any(re.search(rf"\b{p}\b", view) is None for view in views(body)):
            body = f"    (void){p};\n{body}"
    name = _name(names, kernels)
    found = _HEAD.match(heads[0])
    assert found is not None
    given = ", ".join(f"int64_t {p}" for p in parameters.values())
    own = " ".join(heads[0][found.end() - 1 : heads[0].rindex(")")].split())
    made = {name: wrap(f"PB_TEMPLATE {found[2]} {name}", f"{own}, {given}) {{\n{body}")}
    for k, (n, comment, own) in enumerate(zip(names, comments, heads, strict=True)):
        match = _HEAD.match(own)
        assert match is not None
        arguments = re.findall(r"(\w+)(?=[,)])", own[match.end() :])
        call = ", ".join([*arguments, *(row[k] for row in parameters)])
        made[n] = f"{comment}{own}    {'return ' * (match[2] == 'int')}{name}({call});\n}}\n"
    if sum(text.count("\n") for text in made.values()) >= sum(kernels[n].count("\n") for n in names):
        return dict(kernels)
    out: dict[str, str] = {}
    for n, text in kernels.items():
        if n == names[0]:
            out[name] = made[name]
        out[n] = made.get(n, text)
    return out


def _parts(text: str) -> tuple[str, str, str]:
    """The comment, head and body of a function."""
    found = _HEAD.search(text)
    assert found is not None
    start = text.index(") {\n", found.start()) + 4
    return text[: found.start()], text[found.start() : start], text[start:]


def _fixed(body: str) -> list[str]:
    """Return how each integer may change: "array" to a longer length, "literal" not at all, "" freely."""
    return [how for line in body.split("\n") for how in [
        "array" if _ARRAYS.match(line) else "literal" if _CONSTANT.search(line) else ""
    ] for _ in _INTEGER.findall(line)]  # fmt: skip


def _name(names: Sequence[str], kernels: Mapping[str, str]) -> str:
    """A name for what functions share: the words that all their names begin with."""
    words = [name.split("_") for name in names]
    base = [first for first, *others in zip(*words, strict=False) if all(word == first for word in others)]
    return unique("_".join([*base, "any"]), kernels.__contains__)

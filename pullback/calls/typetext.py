"""The type of a traced function as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pullback.calls.arguments import Leaf
from pullback.calls.signature import Parameter, Signature
from pullback.calls.traced import Traced
from pullback.ir import nodes as ir
from pullback.ir.index import cond
from pullback.notebook import Displayed
from pullback.tables import html_table
from pullback.tracing.tree import Structure


class TypeText(str, Displayed):
    """A type that shows as text, and as a table in a notebook."""

    arguments: Sequence[tuple[str, str]]
    result: str
    where: str

    @classmethod
    def of(cls, arguments: Sequence[tuple[str, str]], result: str, where: str) -> TypeText:
        """The type of these arguments, each a name and a type, and of this result."""
        made = cls(f"({', '.join(f'{n}: {t}' for n, t in arguments)}) -> {result}{where}")
        made.arguments, made.result, made.where = arguments, result, where
        return made

    def html(self, caption: str = "") -> str:
        """The table."""
        rows = [("", "type"), *self.arguments, ("→", f"{self.result}{self.where}")]
        return html_table(rows, caption=caption)

    def _repr_html_(self) -> str:
        return self.html()


def program_type(parameters: Sequence[Parameter], signature: Signature, traced: Traced) -> TypeText:
    """`(x: f32[N, M], n: N) -> f32[N] where N >= M`."""
    return arrow(parameters, signature, traced, traced.structure, [ref_type(r) for r in traced.known.outputs])


def arrow(
    parameters: Sequence[Parameter], signature: Signature, traced: Traced, structure: Structure, results: Sequence[str]
) -> TypeText:
    """The type of a function with these parameters and other results, given as text."""
    refs = iter(traced.known.inputs)
    arguments = []
    for p, given, leaves in zip(parameters, signature.structures, signature.leaves):
        arguments.append((p.name, _tree(given, iter([_leaf(leaf, refs) for leaf in leaves]))))
    result = _tree(structure, iter(results))
    own = [
        c
        for c in traced.known.requires
        if c not in {cond(">=", e - 1) for r in traced.known.inputs for e in r.shape}
    ]
    where = " where " + ", ".join(map(str, own)) if own else ""
    return TypeText.of(arguments, result, where)


def ref_type(r: ir.Ref) -> str:
    """`f32[N, M]`; `f32` for rank 0."""
    return f"{r.storage}[{', '.join(map(str, r.shape))}]" if r.shape else str(r.storage)


def _leaf(leaf: Leaf, refs: Iterator[ir.Ref]) -> str:
    if leaf.kind == "static":
        return f"static {leaf.value!r}"
    if leaf.kind == "index":
        return f"index {leaf.value}"
    if leaf.kind == "size":
        return leaf.size
    return ref_type(next(refs))


def _tree(s: Structure, leaves: Iterator[str]) -> str:
    match s.kind:
        case "leaf":
            return next(leaves)
        case "none":
            return "None"
        case "dict":
            return "{" + ", ".join(f"{k}: {_tree(c, leaves)}" for k, c in zip(s.keys, s.children)) + "}"
        case "complex":
            one, other = (_tree(c, leaves) for c in s.children)
            whole = one.replace("f32", "c64").replace("f64", "c128")
            return whole if one == other else f"complex({one}, {other})"
        case "list":
            return "[" + ", ".join(_tree(c, leaves) for c in s.children) + "]"
        case "tuple":
            inner = ", ".join(_tree(c, leaves) for c in s.children)
            return f"({inner}{',' if len(s.children) == 1 else ''})"
        case _:
            inner = ", ".join(f"{k}: {_tree(c, leaves)}" for k, c in zip(s.keys, s.children))
            return f"{s.type.__name__ if s.type else ''}({inner})"

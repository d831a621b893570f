"""Mutants: small wrong changes of a module's functions, each of which some test should notice.

A mutant replaces one expression or statement inside a function by another text. What is not code of a function (tables,
defaults, annotations), what only speaks to people (messages, asserts, notes of rules that fired) and what would not
compile is left alone.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Change = tuple[str, ast.AST, str]
"""A kind of change, the node that it replaces, and the new text."""

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
OPERATORS: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("+",),
    ast.Div: ("*",),
    ast.FloorDiv: ("*",),
    ast.BitOr: ("&",),
    ast.BitAnd: ("|",),
}

NOTES = {"fired", "step"}
"""What is called for people who read a derivation."""

COMMUTATIVE = {"add", "mul", "max", "min", "gcd", "lcm"}


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `end` of the file are replaced by `after`.

    Attributes:
        function: the qualified name of the outermost function around it; a lambda outside functions is `<lambda>`.
        lines: those of what is replaced.   around: those of the statement or lambda that it is in.
    """

    file: str
    function: str
    kind: str
    start: int
    end: int
    before: str
    after: str
    lines: tuple[int, int]
    around: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.file}:{self.lines[0]} {self.function}: {self.kind}: `{self.before}` -> `{self.after}`"

    def apply(self, source: str) -> str:
        """The mutated text of the file."""
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()

    def compiles(self) -> bool:
        """Whether the mutated file is Python."""
        try:
            compile(self.apply((ROOT / self.file).read_text(encoding="utf-8")), self.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True

    def diff(self) -> str:
        """The change as a unified diff."""
        source = (ROOT / self.file).read_text(encoding="utf-8")
        sides = (text.splitlines() for text in (source, self.apply(source)))
        return "\n".join(difflib.unified_diff(*sides, self.file, self.file, n=2, lineterm=""))


def mutants_of(file: str, source: str | None = None) -> list[Mutant]:
    """All mutants of a file, whose name is relative to the root."""
    text = (ROOT / file).read_text(encoding="utf-8") if source is None else source
    tree = ast.parse(text)
    offsets = [0]
    for line in text.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    found: dict[tuple[int, int, str], Mutant] = {}
    for function, body in _functions(tree, ""):
        for around, node in _walk(body):
            for kind, replaced, after in _changes(node):
                start, end = (offsets[line - 1] + column for line, column in _ends(replaced))
                before = text.encode()[start:end].decode()
                if before != after:
                    m = Mutant(file, function, kind, start, end, before, after, _lines(replaced), around)
                    found.setdefault((start, end, after), m)
    return list(found.values())


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Some of them: each function is as likely as another, and in it each kind of change."""
    rng = random.Random(seed)
    functions: dict[tuple[str, str], dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for m in mutants:
        functions[m.file, m.function][m.kind].append(m)
    out: list[Mutant] = []
    while functions and len(out) < count:
        name = rng.choice(sorted(functions))
        kind = rng.choice(sorted(functions[name]))
        rest = functions[name][kind]
        m = rest.pop(rng.randrange(len(rest)))
        if m.compiles():
            out.append(m)
        if not rest:
            del functions[name][kind]
        if not functions[name]:
            del functions[name]
    return out


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, list[ast.AST]]]:
    """The outermost functions and lambdas, with what stands in their bodies."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{prefix}{child.name}", list(child.body)
            case ast.Lambda():
                yield f"{prefix}<lambda>", [child.body]
            case ast.ClassDef():
                yield from _functions(child, f"{prefix}{child.name}.")
            case _:
                yield from _functions(child, prefix)


def _walk(body: Sequence[ast.AST], around: tuple[int, int] = (0, 0)) -> Iterator[tuple[tuple[int, int], ast.AST]]:
    """The nodes that are run and that do more than speak to people, each with the lines of its statement."""
    for node in body:
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":  # an assert
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in NOTES:
            continue
        here = _lines(node) if isinstance(node, ast.stmt) or around == (0, 0) else around
        yield here, node
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
                continue
            children = field if isinstance(field, list) else [field]
            yield from _walk([c for c in children if isinstance(c, ast.AST)], here)


def _lines(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.end_lineno  # type: ignore[attr-defined]


def _changes(node: ast.AST) -> Iterator[Change]:
    """What may be wrong at a node."""
    match node:
        case ast.BinOp():
            yield from _operation(node)
        case ast.UnaryOp(op=ast.USub()):
            yield "sign dropped", node, _text(node.operand)
        case ast.UnaryOp(op=ast.Not()):
            yield "not dropped", node, _text(node.operand)
        case ast.AugAssign():
            for new in OPERATORS.get(type(node.op), ()):
                yield "operator", node, f"{_text(node.target)} {new}= {ast.unparse(node.value)}"
        case ast.Constant(value=bool()):
            yield "flag flipped", node, str(not node.value)
        case ast.Constant(value=int()):
            yield "number", node, f"{node.value + 1}"
            yield "number", node, f"({node.value - 1})" if node.value <= 0 else f"{node.value - 1}"
        case ast.Compare(ops=[op], left=left, comparators=[right]):
            for new in COMPARISONS[type(op)]:
                yield "comparison", node, f"({_text(left)} {new} {_text(right)})"
        case ast.BoolOp():
            new = "or" if isinstance(node.op, ast.And) else "and"
            yield "and/or", node, "(" + f" {new} ".join(map(_text, node.values)) + ")"
            for k in range(len(node.values)):
                rest = [_text(v) for i, v in enumerate(node.values) if i != k]
                old = " and " if new == "or" else " or "
                yield "operand dropped", node, "(" + old.join(rest) + ")"
        case ast.If():
            yield from _condition(node.test)
        case ast.IfExp():
            yield from _condition(node.test)
        case ast.While():
            yield "condition negated", node.test, f"not {_text(node.test)}"
        case ast.comprehension():
            for test in node.ifs:
                yield from _condition(test)
        case ast.match_case():
            if node.guard is not None:
                yield from _condition(node.guard)
        case ast.Call():
            yield from _arguments(node)
        case ast.Expr(value=ast.Call()):
            yield "statement dropped", node, "pass"
        case ast.Continue() | ast.Break():
            yield "jump dropped", node, "pass"


def _operation(node: ast.BinOp) -> Iterator[Change]:
    left, right = _text(node.left), _text(node.right)
    for new in OPERATORS.get(type(node.op), ()):
        yield "operator", node, f"({left} {new} {right})"
    if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.MatMult):
        symbol = {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@"}
        yield "operands swapped", node, f"({right} {symbol[type(node.op)]} {left})"
    yield "operand dropped", node, left
    yield "operand dropped", node, right


def _condition(test: ast.expr) -> Iterator[Change]:
    yield "condition true", test, "True"
    yield "condition false", test, "False"
    yield "condition negated", test, f"(not {_text(test)})"


def _arguments(call: ast.Call) -> Iterator[Change]:
    """Two arguments swapped, one in the place of another, or the first in the place of the result."""
    name = ast.unparse(call.func)
    if any(isinstance(a, ast.Starred) for a in call.args) or name == "isinstance":
        return
    if call.args and not hasattr(builtins, name) and not name.rpartition(".")[2][:1].isupper():
        yield "call dropped", call, _text(call.args[0])
    texts = list(map(ast.unparse, call.args))
    rest = [f"{k.arg}={ast.unparse(k.value)}" if k.arg else f"**{ast.unparse(k.value)}" for k in call.keywords]
    for k in range(len(texts) - 1):
        swapped = [*texts[:k], texts[k + 1], texts[k], *texts[k + 2 :]]
        doubled = [*texts[:k], texts[k + 1], texts[k + 1], *texts[k + 2 :]]
        for kind, new in (("operands swapped", swapped), ("wrong operand", doubled)):
            if kind != "operands swapped" or name.rpartition(".")[2] not in COMMUTATIVE:
                yield kind, call, f"{_text(call.func)}({', '.join([*new, *rest])})"


def _text(node: ast.expr) -> str:
    """An operand's text, in parentheses where it needs some."""
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Lambda) else text


def _ends(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    start = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return start, (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

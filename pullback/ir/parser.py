"""Read the text form that `printer` writes; see there for the language.

Codes: E301 characters, E302 grammar, E303 names, E304 dtypes and ranks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from pullback.ir import nodes as ir
from pullback.ir.foreign import Foreign
from pullback.ir.index import Cond, Index
from pullback.ir.lexer import Source, Token
from pullback.ir.parse_expression import ExpressionParser
from pullback.ir.printer import SORTS
from pullback.ir.types import DType, i64
from pullback.records import dataclass

Bounds = tuple[Index, Index] | None
Target = tuple[Token, Bounds]


def parse_program(text: str, file: str = "<text>") -> ir.Program:
    """The one program in a text.

    Raises:
        ParseError: with line and column.
    """
    programs = parse_programs(text, file)
    if len(programs) != 1:
        source = Source(text, file)
        raise source.error(source.tokens[-1], f"expected one program, found {len(programs)}")
    return programs[0]


def parse_programs(text: str, file: str = "<text>") -> list[ir.Program]:
    """All programs in a text, in order.

    Raises:
        ParseError: with line and column.
    """
    parser = _Parser(Source(text, file))
    out = []
    while parser.token.kind != "end":
        out.append(parser.program())
    return out


@dataclass(frozen=True)
class Arrow:
    """A type in text, such as `spring(x: f64[N], k: f64) -> f64[N]`; the name is optional.

    Attributes:
        results: element type and shape of each.
    """

    name: str
    inputs: tuple[ir.Ref, ...]
    results: tuple[tuple[DType, tuple[Index, ...]], ...]
    is_tuple: bool


def parse_arrow(text: str) -> Arrow:
    """Parse a type.

    Raises:
        ParseError: with the column.
    """
    parser = _Parser(Source(text, "type"))
    found = parser.arrow()
    if parser.token.kind != "end":
        raise parser.source.error(parser.token, f"expected the end, found {parser.token.text!r}")
    return found


class _Parser(ExpressionParser):
    stored: dict[Token, DType]

    def arrow(self) -> Arrow:
        self.dims, self.scope, self.stored = {}, {}, {}
        name = "" if self.sees("(") else self.word("the name of a function").text
        inputs: list[ir.Ref] = []
        sizes: list[str] = []
        results: list[tuple[DType, list[Index]]] = []
        self.open_dims = True
        self.expect("(")
        self.separated(lambda: self.parameter(inputs, sizes), ")")
        if sizes:
            raise self.source.error(self.token, f"the dim {sizes[0]} is given by the shape of no argument", "E304")
        self.open_dims = False
        self.expect("-", ">")
        several = self.take("(")
        if several:
            self.separated(lambda: results.append(self.type()), ")")
        else:
            results.append(self.type())
        return Arrow(name, tuple(inputs), tuple((t, tuple(shape)) for t, shape in results), several)

    def program(self) -> ir.Program:
        self.dims, self.scope, self.stored = {}, {}, {}
        name = self.word("the name of a program").text
        while self.take("."):
            name += "." + self.word("a name").text
        inputs: list[ir.Ref] = []
        sizes: list[str] = []
        self.open_dims = True
        self.expect("(")
        self.separated(lambda: self.parameter(inputs, sizes), ")")
        requires: list[Cond] = []
        if self.take("where"):
            requires.extend(self.conditions())
            while self.take(","):
                requires.extend(self.conditions())
        self.open_dims = False
        self.expect("{")
        statements = self.statements()
        self.expect("return")
        results: list[ir.Ref] = []
        names: list[str] = []
        while self.token.kind == "name":
            token = self.word("an array")
            names.append(token.text)
            results.append(self.ref(self.name("an array") if self.take("=") else token))
            if not self.take(","):
                break
        self.expect("}")
        return ir.Program(
            name,
            tuple(inputs),
            ir.Block(tuple(statements), tuple(results)),
            tuple(names),
            tuple(requires),
            tuple(sizes),
        )

    def parameter(self, inputs: list[ir.Ref], sizes: list[str]) -> None:
        name, bounds = self.marked(self.name("a parameter"))
        self.expect(":")
        if self.take("size"):
            self.dims[name.text] = None
            sizes.append(name.text)
        else:
            dtype, shape = self.type()
            inputs.append(self.define(name, dtype, shape, bounds))

    def type(self) -> tuple[DType, list[Index]]:
        dtype, shape = self.dtype(), list[Index]()
        if self.take("["):
            self.separated(lambda: shape.append(self.index()), "]")
        return dtype, shape

    def marked(self, name: Token) -> tuple[Token, Bounds]:
        """The storage type after an array's name, if any, and its bounds."""
        if self.take("as"):
            self.stored[name] = self.dtype()
        return name, self.bounds()

    def bounds(self) -> Bounds:
        if not self.take("in"):
            return None
        self.expect("[")
        low = self.index()
        self.expect(",")
        high = self.index()
        self.expect(")")
        return low, high

    def define(self, name: Token, dtype: DType, shape: Sequence[Index], bounds: Bounds) -> ir.Ref:
        """Define a new array; each name may be defined once."""
        if name.text in self.scope or name.text in self.dims:
            raise self.source.error(name, f"{name.text} is already defined", "E303")
        ref = ir.Ref(name.text, dtype, shape, bounds, self.stored.get(name))
        self.scope[name.text] = ref
        return ref

    def ref(self, name: Token) -> ir.Ref:
        found = self.scope.get(name.text)
        if not isinstance(found, ir.Ref):
            raise self.source.error(name, f"no array is called {name.text}", "E303")
        return found

    def statements(self) -> list[ir.Statement]:
        out: list[ir.Statement] = []
        while not self.sees("return", "yield"):
            out.append(self.statement())
        return out

    def block(self) -> ir.Block:
        """Parse statements and `yield` up to the closing brace; their definitions end with them."""
        before = set(self.scope)
        statements = self.statements()
        self.expect("yield")
        results: list[ir.Ref] = []
        self.separated(lambda: results.append(self.ref(self.name("an array"))), "}")
        for name in [n for n in self.scope if n not in before]:
            del self.scope[name]
        return ir.Block(tuple(statements), tuple(results))

    def statement(self) -> ir.Statement:
        targets: list[Target] = []
        types: list[tuple[DType, list[Index]]] = []
        while True:
            targets.append(self.marked(self.name("a statement")))
            if self.take(":"):
                types.append(self.type())
            if not self.take(","):
                break
        self.expect("=")
        word = self.token
        if self.take("build"):
            variables = self.binder()
            values: list[ir.Scalar] = []
            self.expect("{")
            names = self.lets()
            while True:
                values.append(self.typed(self.expression()))
                if not self.take(";"):
                    break
            self.expect("}")
            self.leave(variables, names)
            kinds = [(v.dtype, tuple(x.extent for x in variables)) for v in values]
            return ir.Build(self.outs(targets, kinds, word), variables, tuple(values))
        if self.take("scatter"):
            return self.scatter(targets, types[0] if types else None, word)
        if self.take(*SORTS.values()):
            return self.sort(targets, word)
        if self.take("fold"):
            return self.fold(targets, word)
        if self.take("while"):
            return self.loop(targets, word)
        if self.take("if"):
            test = self.ref(self.name("an array"))
            self.expect("{")
            then = self.block()
            self.expect("else", "{")
            otherwise = self.block()
            return ir.Choose(
                self.outs(targets, [(r.dtype, r.shape) for r in then.results], word), test, then, otherwise
            )
        if self.take("call"):
            return self.call(targets, word)
        if self.take("external"):
            return self.external(targets, types, word)
        raise self.source.error(word, f"expected build, scatter, sort, order, fold, while, if, call or "
                                      f"external, found {word.text!r}")

    def outs(self, targets: Sequence[Target],
             kinds: Sequence[tuple[DType, tuple[Index, ...]]], word: Token) -> tuple[ir.Ref, ...]:
        """Define the results of a statement."""
        if len(targets) != len(kinds):
            raise self.source.error(word, f"{word.text} gives {len(kinds)} arrays, {len(targets)} are named", "E304")
        return tuple(self.define(name, dtype, shape, bounds)
                     for (name, bounds), (dtype, shape) in zip(targets, kinds, strict=True))

    def scatter(self, targets: Sequence[Target],
                declared: tuple[DType, list[Index]] | None, word: Token) -> ir.Statement:
        if declared is None:
            raise self.source.error(word, "scatter needs the type of its array", "E304", "`name: f32[N] = scatter …`")
        variables, indices = self.binder(), list[Index]()
        self.expect("{")
        names = self.lets()
        self.expect("[")
        self.separated(lambda: indices.append(self.index()), "]")
        self.expect("+=")
        value = self.built(self.expression(), declared[0])
        self.expect("}")
        self.leave(variables, names)
        (out,) = self.outs(targets, [(declared[0], tuple(declared[1]))], word)
        return ir.Scatter(out, variables, tuple(indices), value)

    def sort(self, targets: Sequence[Target], word: Token) -> ir.Statement:
        variables = self.binder()
        self.expect("{")
        names = self.lets()
        value = self.typed(self.expression())
        self.expect("}")
        self.leave(variables, names)
        what: Literal["values", "positions"] = "values" if word.text == SORTS["values"] else "positions"
        kind = (value.dtype if what == "values" else i64, tuple(v.extent for v in variables))
        (out,) = self.outs(targets, [kind], word)
        return ir.Sort(out, variables, value, what)

    def states(self) -> tuple[tuple[ir.Ref, ...], tuple[ir.Ref, ...]]:
        """Parse `(state = init, …)`; initial values are from the surrounding scope."""
        pairs: list[tuple[Token, Bounds, ir.Ref]] = []

        def state() -> None:
            name, bounds = self.marked(self.name("a state"))
            self.expect("=")
            pairs.append((name, bounds, self.ref(self.name("an array"))))

        self.expect("(")
        self.separated(state, ")")
        return (tuple(self.define(name, init.dtype, init.shape, bounds) for name, bounds, init in pairs),
                tuple(init for *_, init in pairs))

    def fold(self, targets: Sequence[Target], word: Token) -> ir.Statement:
        variables = self.binder()
        if len(variables) != 1:
            raise self.source.error(word, "fold has one index", "E302")
        states, inits = self.states()
        self.expect("{")
        body = self.block()
        self.leave(variables, [r.name for r in states])
        kinds = [(r.dtype, r.shape) for r in states]
        kinds += [(r.dtype, (variables[0].extent, *r.shape)) for r in body.results[len(states):]]
        return ir.Fold(self.outs(targets, kinds, word), variables[0], states, inits, body)

    def call(self, targets: Sequence[Target], word: Token) -> ir.Statement:
        name = "" if self.token.text == "(" else self.name("a name of the call").text
        params, operands = self.states()
        self.expect("{")
        body = self.block()
        floating = [r for r in body.results if r.dtype.is_floating]
        forward = backward = None
        if self.take("forward"):
            forward = self.rule([*body.results, *(p for p in params if p.dtype.is_floating)])
        if self.take("backward"):
            backward = self.rule([*body.results, *floating])
        self.leave((), [p.name for p in params])
        outs = self.outs(targets, [(r.dtype, r.shape) for r in body.results], word)
        return ir.Call(outs, operands, params, body, forward, backward, name=name)

    def external(
        self, targets: Sequence[Target], types: Sequence[tuple[DType, list[Index]]], word: Token
    ) -> ir.Statement:
        name, operands, sizes = self.word("the name of a C function").text, list[ir.Ref](), list[Index]()
        self.expect("(")
        while not self.sees(";", ")"):
            operands.append(self.ref(self.name("an array")))
            self.take(",")
        if self.take(";"):
            self.separated(lambda: sizes.append(self.index()), ")")
        else:
            self.expect(")")
        self.expect("from")
        if self.token.kind != "text":
            raise self.source.error(self.token, "expected C in double quotes")
        source: str = json.loads(self.token.text)
        self.at += 1
        outs = self.outs(targets, [(dtype, tuple(shape)) for dtype, shape in types], word)
        inputs, outputs = (tuple(r.dtype for r in refs) for refs in (operands, outs))
        return ir.External(outs, Foreign(name, source, inputs, outputs, len(sizes)), tuple(operands), tuple(sizes))

    def rule(self, like: Sequence[ir.Ref]) -> ir.Rule:
        """Parse `(names) { block }`, a rule whose params have the types of the arrays in `like`."""
        word, names = self.token, list[Token]()
        self.expect("(")
        self.separated(lambda: names.append(self.name("a parameter")), ")")
        if len(names) != len(like):
            raise self.source.error(word, f"the rule takes {len(like)} arrays, {len(names)} are named", "E304")
        params = tuple(self.define(n, r.dtype, r.shape, None) for n, r in zip(names, like, strict=True))
        self.expect("{")
        block = self.block()
        self.leave((), [p.name for p in params])
        return ir.Rule(params, block)

    def loop(self, targets: Sequence[Target], word: Token) -> ir.Statement:
        states, inits = self.states()
        trips = None
        if self.take("at"):
            self.expect("most")
            trips = self.index()
        self.expect("{")
        test = self.block()
        self.expect("do", "{")
        body = self.block()
        self.leave((), [r.name for r in states])
        outs = self.outs(targets, [(r.dtype, r.shape) for r in states], word)
        return ir.While(outs, states, inits, test, body, trips)

"""Folds, scans, loops, choices, and functions of functions: rules, checkpoints, derivatives, batches."""

from __future__ import annotations

from typing import Any

from tests.support.sources._arrays import Arrays
from tests.support.sources._writer import Dim, IndexVar, Var


class Loops(Arrays):
    """Constructs with a body, and the choice among all constructs."""

    def array(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array of these extents."""
        if depth <= 0:
            same = [v.text for v in self.scope if v.dims == dims]
            if same and self.chance(0.8):
                return self.pick(same)  # type: ignore[no-any-return]
            return self.constant(dims) if self.chance(0.15) else self.build(dims, 1)
        write = self.choose(
            (6, self.build), (2, self.whole), (1.5, self.moved), (3, self.fold), (0.5, self.scan), (0.6, self.loop),
            (0.6, self.cond), (1, self.product), (0.8, self.call), (0.6, self.inner_derivative), (0.5, self.mapped),
            (1, self.rows), (0.4, self.solved), (0.8, self.verb), (1, self.ordered), (0.8, self.written),
            (0.3, self.constant), (1, self.carried), (0.4, self.parts), (0.4, self.transformed), (0.5, self.chances),
        )  # fmt: skip
        return write(dims, depth)  # type: ignore[no-any-return]

    def fold(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A loop over one to four states of these extents, which feed each other in some way."""
        count = self.choose((3, 1), (3, 2), (1.5, 3), (0.7, 4))
        inits = [self.start(dims, depth) for _ in range(count)]
        state, t = self.loop_names()
        size = self.choose((3, 2), (3, 3), (1, 4), (1, 5))
        trips = self.pick(self.dims) if self.chance(0.4) else Dim(str(size), size)
        if dims and self.chance(0.4):
            trips = dims[0]
        extent = self.extent(trips)
        named = count == 2 and self.chance(0.3)  # a tree
        places = [state] if count == 1 else [f"{state}['p']", f"{state}['q'][0]"] if named else [
            f"{state}[{k}]" for k in range(count)]  # fmt: skip
        states = [Var(place, dims) for place in places]
        self.scope += states
        self.indices.append(IndexVar(t, trips))
        results = self.steps(dims, states, IndexVar(t, trips), depth)
        self.indices.pop()
        del self.scope[len(self.scope) - count :]
        self.loops -= 1
        init, result = (r[0] if count == 1 else f"{{'p': {r[0]}, 'q': ({r[1]},)}}" if named else f"({', '.join(r)})"
                        for r in (inits, results))  # fmt: skip
        text = f"pb.fold({extent}, {init}, lambda {state}, {t}: {result})"
        return text + self.pick(places).removeprefix(state)  # type: ignore[no-any-return]

    def start(self, dims: tuple[Dim, ...], depth: int) -> str:
        """The initial state of a loop."""
        return self.constant(dims) if self.chance(0.3) else self.array(dims, depth - 2)

    def carried(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A state that sums of products are added to, beside one that changes otherwise."""
        own = (self.dim(),)
        first, second = self.start(own, depth), self.start(dims, depth)
        state, t = self.loop_names()
        trips = self.pick(self.dims) if self.chance(0.5) else Dim("3", 3)
        extent = self.extent(trips)
        old = Var(f"{state}[0]", own)
        self.scope.append(old)
        self.indices.append(IndexVar(t, trips))
        new = self.step(own, [old], self.indices[-1], depth - 1)
        made = self.under(dims)
        inner = self.pick([v.dims[0] for v in self.scope if v.dims] or self.dims)
        over = self.under((inner,))
        product = f"{self.factor(over[0])} * {self.factor(over[0])}"
        total = f"pb.sum_over({self.extent(inner)}, lambda {over[0].text}: {product})"
        self.leave(over)
        place = f"{state}[1][{', '.join(v.text for v in made)}]" if dims else f"{state}[1]"
        added = f"{place} {self.pick('++++-')} {total}"
        if dims:
            extents = "".join(f"{self.extent(d)}, " for d in dims)
            added = f"pb.build(({extents}), lambda {', '.join(v.text for v in made)}: {added})"
        self.leave(made)
        self.indices.pop()
        self.scope.pop()
        self.loops -= 1
        return f"pb.fold({extent}, ({first}, {second}), lambda {state}, {t}: ({new}, {added}))[1]"

    def factor(self, i: IndexVar) -> str:
        """An element of an array in scope, of those that have an axis for an index if there are any, there."""
        v = self.pick([v for v in self.scope if i.dim in v.dims] or self.scope)
        if not v.dims:
            return v.text  # type: ignore[no-any-return]
        at = [self.pick([w.text for w in self.indices if w.dim.key == d.key] or ["0"]) for d in v.dims]
        return f"{v.text}[{', '.join(at)}]"

    def steps(self, dims: tuple[Dim, ...], states: list[Var], t: IndexVar, depth: int) -> list[str]:
        """The next value of each state: the old one of another, or something new."""
        count = len(states)
        step = self.pointwise if self.chance(0.35) else self.step
        how = self.choose((3, "new"), (2, "chain"), (1, "rotate"), (1, "swap"), (2, "any")) if count > 1 else "new"
        if how == "rotate":
            turned = [states[(k + 1) % count].text for k in range(count)]
            turned[-1] = step(dims, states, t, depth)
            return turned
        if how == "chain":
            return [step(dims, states, t, depth), *(s.text for s in states[:-1])]
        if how == "swap":
            rest = [step(dims, states, t, depth - 1) for _ in states[2:]]
            return [states[1].text, step(dims, states, t, depth), *rest]
        if how == "any":
            return [self.pick(states).text if self.chance(0.4) else step(dims, states, t, depth - 1) for _ in states]
        return [step(dims, states, t, depth if k == 0 else depth - 1) for k in range(count)]

    def pointwise(self, dims: tuple[Dim, ...], states: list[Var], t: IndexVar, depth: int) -> str:
        """A new state, each element of which is made of the same elements of others."""
        same = [*states, *(v for v in self.scope if v.dims == dims)]
        a, b = self.pick(states).text, self.pick(same).text
        new = self.choose((3, f"{a} + {b}"), (2, f"{a} * {b}"), (1, f"{a} - 0.5 * {b}"), (1, f"0.9 * {a}"))
        return new if self.chance(0.3) else f"pb.{self.pick(('sin', 'tanh', 'atan'))}({new})"

    def step(self, dims: tuple[Dim, ...], states: list[Var], t: IndexVar, depth: int) -> str:
        """A new state."""
        old = self.pick(states)
        if len(dims) == 1 and dims[0].key == t.dim.key and self.chance(0.5):  # one element a step
            made = self.under(dims)
            inner = self.scalar(max(depth - 1, 1))
            self.leave(made)
            i = made[0].text
            return (f"pb.build({self.extent(dims[0])}, lambda {i}: "
                    f"pb.where({i} == {t.text}, pb.sin({inner}), {old.text}[{i}]))")  # fmt: skip
        if self.chance(0.3):
            return f"pb.tanh({self.array(dims, depth - 1)} + 0.5 * {old.text})"
        if self.chance(0.15):
            return self.accumulated(old.text, self.array(dims, depth - 1))
        if not dims:
            return f"pb.sin({self.scalar(depth)} + 0.5 * {old.text})"
        extents = ", ".join(self.extent(d) for d in dims)
        made = self.under(dims)
        inner = self.scalar(max(depth - 1, 1))
        names = ", ".join(v.text for v in made)
        self.leave(made)
        wrap = self.choose((2, "pb.sin({} + 0.5 * {})"), (1, "({} * 0.5 + {})"), (1, "pb.tanh({} - {})"))
        body = wrap.format(inner, f"{old.text}[{names}]")
        return f"pb.build({f'({extents})' if len(dims) > 1 else extents}, lambda {names}: {body})"

    def scan(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Rows of a loop."""
        if not dims:
            return self.fold(dims, depth)
        rest = dims[1:]
        init = self.start(rest, depth)
        state, t = self.loop_names()
        extent = self.extent(dims[0])
        self.scope.append(Var(state, rest))
        self.indices.append(IndexVar(t, dims[0]))
        new = self.step(rest, [self.scope[-1]], self.indices[-1], depth - 1)
        row = state if self.chance(0.4) else self.step(rest, [self.scope[-1]], self.indices[-1], depth - 1)
        self.indices.pop()
        self.scope.pop()
        self.loops -= 1
        return f"pb.scan({extent}, {init} * 1.0, lambda {state}, {t}: ({new}, {row}))[1]"

    def loop(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A while loop, whose number of steps a counter or an argument decides."""
        if self.indices:
            return self.build(dims, depth)
        init = self.array(dims, depth - 2)
        state, t = self.loop_names()
        old = Var(f"{state}[0]", dims)
        self.scope.append(old)
        new = self.step(dims, [old], IndexVar(t, Dim("never", 0)), depth)
        self.scope.pop()
        self.loops -= 1
        steps = int(self.rng.integers(0, 4))
        test = f"{state}[1] < {steps}"
        if self.chance(0.3):
            limit = self.choose((1, "0.5"), (1, "2.5"))
            amount = self.reduction(1, "max")
            test = f"({state}[1] < {steps}) & ({amount} < {limit})"
        return (f"pb.while_loop(lambda {state}: {test}, lambda {state}: ({new}, {state}[1] + 1), "
                f"({init} * 1.0, 0), max_trips={steps + int(self.rng.integers(0, 3)) or 1})[0]")  # fmt: skip

    def cond(self, dims: tuple[Dim, ...], depth: int) -> str:
        given = self.array(dims, depth - 2)
        test = self.condition(1) if self.chance(0.4) else f"({self.element(self.pick(self.inputs))} > {self.number()})"
        name = f"a{len(self.scope)}"
        self.scope.append(Var(name, dims))
        then, otherwise = self.array(dims, depth - 1), self.array(dims, depth - 2)
        self.scope.pop()
        return f"pb.cond({test} & True, lambda {name}: {then} * 1.0, lambda {name}: {otherwise} * 1.0, {given})"

    # Functions ----------------------------------------------------------------------------------------------

    def apart(self, f: Any) -> Any:
        """Write with only inputs' shapes in scope: the body of a separate function."""
        saved = self.scope, self.indices, self.integers, self.inputs, self.loops, self.dims
        self.scope, self.indices, self.integers, self.inputs, self.loops = [], [], [], [], 0
        try:
            return f()
        finally:
            self.scope, self.indices, self.integers, self.inputs, self.loops, self.dims = saved

    def call(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A function of its own of two arrays: plain, a checkpoint, or with a rule."""
        if self.indices or len(self.helpers) > 3:
            return self.build(dims, depth)
        given = [self.typed(dims, depth - 2) for _ in range(2)]
        name = f"g{len(self.helpers)}"
        self.helpers.append("")
        at = len(self.helpers) - 1

        def body() -> str:
            self.inputs = [Var("a", dims), Var("b", dims)]
            self.scope, self.dims = list(self.inputs), list(dims) or [Dim("2", 2)]
            return self.array(dims, depth - 1)

        inner = self.apart(body)
        how = self.choose((1, "plain"), (1, "checkpoint"), (1.2, "jvp"), (1.2, "vjp"), (0.7, "tree"), (0.7, "static"))
        lines = [f"def {name}(a, b):", f"    return {inner} * 1.0", ""]
        if how == "checkpoint":
            lines = ["@pb.checkpoint", *lines]
        elif how == "jvp":
            weights = "(pb.cos(p[0]) + out)", "(p[1] * 0.5)"
            lines += [f"{name} = pb.custom_derivative({name}, "
                      f"jvp=lambda p, out, t: t[0] * {weights[0]} + t[1] * {weights[1]})", ""]  # fmt: skip
        elif how == "vjp":
            lines += [f"{name} = pb.custom_derivative({name}, vjp=lambda p, out, c: (c * pb.sin(p[1]), c * out))", ""]
        elif how == "tree":
            lines = [f"def {name}(t):", "    a, b = t['first'], t['rest'][0]", *lines[1:]]
        elif how == "static":
            lines = ["@pb.function", f"def {name}(a, b, n: pb.Static):", f"    return {inner} * n", ""]
        self.helpers[at] = "\n".join(lines)
        first, second = given
        if how == "tree":
            return f"{name}({{'first': {first}, 'rest': ({second},)}})"
        return f"{name}({first}, {second}{', 2' if how == 'static' else ''})"

    def inner_derivative(self, dims: tuple[Dim, ...], depth: int) -> str:
        """The derivative of a closure."""
        if self.indices:
            return self.build(dims, depth)
        given = self.typed(dims, depth - 2)
        name = f"v{len(self.scope)}"
        self.scope.append(Var(name, dims))
        inner = self.array(dims, depth - 1)
        self.scope.pop()
        how = self.choose((2, "grad"), (1, "jvp"), (1, "vjp"), (0.5, "hvp"))
        if how == "grad":
            return f"pb.grad(lambda {name}: pb.sum({inner} * 0.5))({given})"
        if how == "jvp":
            return f"pb.jvp(lambda {name}: {inner} * 1.0)(({given},), ({self.typed(dims, 0)},))[1]"
        if how == "vjp":
            return f"pb.vjp(lambda {name}: {inner} * 1.0)({given}, {self.typed(dims, 0)})[1][0]"
        return f"pb.hvp(lambda {name}: pb.sum({inner}))(({given},), {self.typed(dims, 0)})"

    def mapped(self, dims: tuple[Dim, ...], depth: int) -> str:
        if not dims or self.indices:
            return self.build(dims, depth)
        a = self.array(dims, depth - 1)
        name = f"r{len(self.scope)}"
        self.scope.append(Var(name, dims[1:]))
        inner = self.array(dims[1:], depth - 1)
        self.scope.pop()
        return f"pb.vmap(lambda {name}: {inner} + 0.5 * {name})({a})"


__all__ = ["Loops"]

"""Whole programs: inputs, the lines of a function, and what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support.sources._loops import Loops
from tests.support.sources._writer import ANYWHERE, FOLDED, SMALL, Dim, Sample, Var


class Programs(Loops):
    """A program with queries."""

    def sample(self) -> Sample:
        names = ["N", "M"][: 1 + self.chance(0.3 if self.brief else 0.6)]
        for name in names:
            size = 0 if self.symbolic and self.extents is SMALL and self.chance(0.03) else self.pick(self.extents)
            self.dims.append(Dim(name if self.symbolic else str(size), size))
        for k, d in enumerate(self.dims):
            self.input("xy"[k], (d,))
        for name in "zw"[: int(self.rng.integers(0, 2 if self.brief else 3))]:
            self.input(name, tuple(self.dim() for _ in range(int(self.rng.integers(0, 3)))))
        if self.chance(0.3):
            self.integer_input()
        scalar = self.chance(0.7)
        body = self.body(scalar)
        parameters = ", ".join(self.parameter(name) for name in self.names)
        source = "\n".join([*self.helpers, "@pb.function", f"def f({parameters}):", *body, ""])
        queries = self.queries(scalar)
        return Sample(source, self.arguments, [self.pick(queries)] if self.brief else queries)

    def body(self, scalar: bool) -> list[str]:
        """The lines of the function."""
        if self.brief and scalar and self.chance(0.5):
            return [f"    return {self.array((), int(self.rng.integers(1, 3)))}"]
        count = 1 if self.brief else int(self.rng.integers(1, 4))
        lines = [f"    {name} = {self.statement(name, whole=False)}" for name in ("z0",) if self.chance(0.2)]
        lines += [f"    u{k} = {self.statement(f'u{k}')}" for k in range(count)]
        return [*lines, f"    return {self.total() if scalar else self.results()}"]

    def parameter(self, name: str) -> str:
        if not self.symbolic:
            return name
        kind = {"float64": "Float64", "float32": "Float32", "int64": "Int64"}[self.arguments[name].dtype.name]
        dims = next(v.dims for v in (*self.inputs, *(v for v, _ in self.integers)) if v.text == name)
        return f'{name}: {kind}[pb.Array, "{" ".join(d.key for d in dims)}"]'

    def statement(self, name: str, *, whole: bool = True) -> str:
        """An array by this name from here on; else only a constant one."""
        dims = tuple(self.dim() for _ in range(self.choose((1, 0), (5, 1), (2.5, 2), (0.4, 3))))
        text = self.array(dims, int(self.rng.integers(1, 3 if self.brief else 4))) if whole else self.constant(dims)
        self.scope.append(Var(name, dims))
        return text

    def total(self) -> str:
        """A number that depends on what was made."""
        last = self.scope[-1]
        if not last.dims and self.chance(0.5):
            return last.text
        parts = [last, *(v for v in self.scope[:-1] if self.chance(0.1 if self.brief else 0.25))]
        return " + ".join(self.reduced_whole(v) for v in parts)

    def reduced_whole(self, v: Var) -> str:
        if not v.dims:
            return self.scalar(1) if self.chance(0.3) else f"pb.sin({v.text})"
        how = self.choose((4, "sum"), (1, "mean"), (1, "max"), (1, "min"), (0.5, "prod"), (1, "logsumexp"), (3, "over"))
        if how == "over":
            return self.reduction(2, self.pick(FOLDED))
        inner = v.text if self.chance(0.5) else f"pb.{self.pick(ANYWHERE)}({v.text})"
        return f"pb.{how}({inner})"

    def results(self) -> str:
        made = self.scope[len(self.inputs) :]
        if len(made) > 1 and self.chance(0.3):
            return f"({made[-1].text}, {made[-2].text})"
        return made[-1].text

    # Queries ------------------------------------------------------------------------------------------------

    def queries(self, scalar: bool) -> list[str]:
        """Expressions that ask for derivatives."""
        names = self.names
        args = ", ".join(names)
        floats = [v for v in self.inputs if v.text in names]
        wanted = [v for v in floats if self.chance(0.7)] or floats[:1]
        wrt = tuple(v.text for v in wanted)
        first = wanted[0]
        tangents = ", ".join(self.direction(n) if self.arguments[n].dtype.kind == "f" else "None" for n in names)
        tangents = f"({tangents},)"
        one = f"wrt={wrt[0]!r}"
        if not scalar:
            return self.array_queries(args, wrt, one, tangents)
        reverse = f"pb.grad(f, wrt={wrt})"
        turned = (f"pb.grad(lambda {args}: pb.sum(pb.sin(pb.grad(f, {one})({args}))), wrt={wrt})({args})")
        halves = f"pb.forward_backward(f, wrt={wrt})"
        opened = ", ".join(f"t[{n!r}][0]" if n in wrt else n for n in names)
        tree = ", ".join(f"{n!r}: ({n},)" for n in wrt)
        options: list[tuple[float, str]] = [
            (3, f"pb.jvp({reverse})(({args},), {tangents})"),
            (2, turned),
            (1.5, f"pb.hvp(f, {one})(({args},), {self.direction(first.text)})"),
            (1, f"pb.hessian(f, {one})({args})"),
            (0.5, f"pb.hessian(f, {one}, sparse=True)({args})"),
            (0.4, f'pb.hessian(f, {one}, sparse="colored")({args})'),
            (1, f'pb.jacobian(pb.grad(f, {one}), {one}, mode="{self.pick(("reverse", "mixed", "auto"))}")({args})'),
            (1, f"pb.jvp(f)(({args},), {tangents})"),
            (0.7, f"pb.vjp(f, wrt={wrt})({args}, cotangent={self.literal()})"),
            (0.4, f"{halves}[1]({halves}[0]({args})[1], {self.literal()})"),
            (0.7, self.batched(reverse, names)),
            (0.4, f"pb.jvp(pb.jvp(f))((({args},), {tangents}), ({tangents}, None))"),
            (0.4, f"pb.grad(lambda {args}: pb.sum(pb.jvp(pb.grad(f, {one}))(({args},), {tangents})[1]))({args})"),
            (0.5, f"pb.grad(lambda t, {args}: f({opened}), wrt='t')({{{tree}}}, {args})"),
        ]  # fmt: skip
        return [f"pb.value_and_grad(f, wrt={wrt})({args})", self.choose(*options)]

    def array_queries(self, args: str, wrt: tuple[str, ...], one: str, tangents: str) -> list[str]:
        names = self.names
        mode = self.pick(("forward", "reverse", "mixed", "auto"))
        options: list[tuple[float, str]] = [
            (3, f'pb.jacobian(f, wrt={wrt}, mode="{mode}")({args})'),
            (0.8, f"pb.jacobian(f, {one}, sparse=True)({args})"),
            (0.7, f'pb.jacobian(f, {one}, sparse="colored")({args})'),
            (1, f"pb.jvp(f)(({args},), {tangents})"),
            (1, f"pb.jvp(pb.jacobian(f, {one}))(({args},), {tangents})"),
            (1, f'pb.jacobian(pb.jacobian(f, {one}, mode="reverse"), {one}, mode="{mode}")({args})'),
            (0.7, self.batched("f", names)),
        ]
        return [f"f({args})", self.choose(*options)]

    def direction(self, name: str) -> str:
        """A direction in which an argument moves, as an argument of its own."""
        shape = self.arguments[name].shape
        self.arguments[f"d{name}"] = np.round(self.rng.uniform(-1.5, 1.5, shape), 1).astype(self.dtype)
        return f"d{name}"

    def literal(self) -> str:
        return f"np.{self.dtype}(0.7)"

    def batched(self, f: str, names: Sequence[str]) -> str:
        moved = [n for n in names if self.arguments[n].dtype.kind == "f" and self.chance(0.6)] or [names[0]]
        axes = tuple(0 if n in moved else None for n in names)
        args = ", ".join(f"np.stack([{n}, {n} * {n}.dtype.type(0.5)])" if n in moved else n for n in names)
        return f"pb.vmap({f}, in_axes={axes})({args})"


__all__ = ["Programs"]

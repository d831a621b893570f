"""Whole arrays: built, moved, cut, sorted, written to, multiplied; complex numbers and transforms."""

from __future__ import annotations

from tests.support.sources._scalars import Scalars
from tests.support.sources._writer import ANYWHERE, TAMED, Dim


class Arrays(Scalars):
    """Arrays of extents asked for."""

    def build(self, dims: tuple[Dim, ...], depth: int) -> str:
        if not dims:
            return self.reduction(depth + 1) if self.chance(0.7) else f"({self.scalar(depth)} + 0.0)"
        if len(dims) == 2 and self.chance(0.15):  # rows
            extent = self.extent(dims[0])
            made = self.under(dims[:1])
            inner = self.build(dims[1:], depth)
            self.leave(made)
            return f"pb.build({extent}, lambda {made[0].text}: {inner})"
        extents = ", ".join(self.extent(d) for d in dims)
        made = self.under(dims)
        inner = self.scalar(depth)
        self.leave(made)
        names = ", ".join(v.text for v in made)
        return f"pb.build({f'({extents})' if len(dims) > 1 else extents}, lambda {names}: {inner})"

    def constant(self, dims: tuple[Dim, ...], depth: int = 0) -> str:
        """Zeros, ones, or a number everywhere."""
        extents = f"({''.join(f'{self.extent(d)}, ' for d in dims)})"
        same = [v.text for v in self.scope if v.dims == dims]
        how = self.choose((3, "zeros"), (1, "ones"), (0.5, "full"))
        if same and how != "full" and self.chance(0.3):
            return f"pb.{how}_like({self.pick(same)})"
        number = f"{self.number()}, " if how == "full" else ""
        return f"pb.{how}({extents}, {number}dtype=pb.{self.dtype})"

    def whole(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Elementwise functions of whole arrays."""
        a = self.array(dims, depth - 1)
        how = self.choose((3, "unary"), (3, "binary"), (1, "where"), (1, "axis"))
        if how == "unary":
            name = self.pick(list(TAMED))
            return f"pb.{self.pick(ANYWHERE)}({a})" if self.chance(0.6) else f"pb.{name}({TAMED[name].format(a)})"
        if how == "axis" and dims:
            k = int(self.rng.integers(len(dims)))
            return self.choose(  # type: ignore[no-any-return]
                (1, f"pb.softmax({a}, axis={k})"), (1, f"pb.cumulative_sum({a}, axis={k})"),
                (0.5, f"pb.cumulative_prod({a}, axis={k})"), (1, f"({a} - pb.mean({a}, axis={k}, keepdims=True))"),
                (0.5, f"({a} / pb.sqrt(0.5 + pb.var({a}, axis={k}, keepdims=True)))"),
                (0.5, f"pb.broadcast_to(pb.max({a}, axis={k}, keepdims=True), ({', '.join(map(self.extent, dims))},))"),
            )  # fmt: skip
        b = self.array(dims, depth - 2)
        if how == "where":
            test = self.element_test(dims) or f"({a} > {self.number()})"
            return f"pb.where({test}, {a}, {b})"
        operator = self.pick(("+", "-", "*"))
        return f"({a} {operator} {b})" if self.chance(0.7) else f"({a} / (1.5 + pb.square({b})))"

    def element_test(self, dims: tuple[Dim, ...]) -> str:
        same = [v.text for v in self.inputs if v.dims == dims]
        return f"({self.pick(same)} > {self.number()})" if same else ""

    def moved(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Elements at other places."""
        if not dims:
            return f"pb.reshape({self.array((Dim('1', 1),), depth - 1)}, ())"
        a = self.array(dims, depth - 1)
        k = int(self.rng.integers(len(dims)))
        options: list[tuple[float, str]] = [
            (1, f"pb.flip({a}, axis={k})"),
            (1, f"pb.roll({a}, {int(self.rng.integers(-2, 3))}, axis={k})"),
            (0.5, f"{a}[{', '.join(':' for _ in range(k))}{', ' if k else ''}::-1]"),
        ]
        options.append((0.7, f"pb.concat([{a}[:1], {a}[1:]], axis=0)"))
        options += self.cut(dims, k, depth)
        if len(dims) == 2:
            turned = self.array((dims[1], dims[0]), depth - 1)
            options += [(2, f"pb.matrix_transpose({turned})"), (1, f"pb.permute_dims({turned}, (1, 0))")]
            options += [(1, f"pb.tril({a})"), (1, f"pb.triu({a}, k={int(self.rng.integers(-1, 2))})")]
            flat = "-1" if self.chance(0.5) else " * ".join(map(self.extent, dims))
            options.append((1, f"pb.reshape(pb.reshape({a}, ({flat},)), ({', '.join(map(self.extent, dims))}))"))
        gathers = [v for v, below in self.integers if v.dims[0].key == dims[k].key and below.key == dims[k].key]
        if gathers:
            options.append((2, f"pb.take({a}, {gathers[0].text}, axis={k})"))
        return self.choose(*options)  # type: ignore[no-any-return]

    def cut(self, dims: tuple[Dim, ...], k: int, depth: int) -> list[tuple[float, str]]:
        """Pieces of larger arrays, arrays of smaller ones."""
        n = dims[k].size
        if not dims[k].key.isdigit():
            return []
        lead = ":, " * k
        longer, double = ((*dims[:k], Dim(str(m), m), *dims[k + 1 :]) for m in (n + 1, 2 * n))
        slices = [(longer, "1:"), (longer, ":-1"), *((double, s) for s in ("::2", "1::2", "::-2", f"{n}:"))]
        source, piece = self.pick(slices)
        out = [(2.0, f"{self.array(source, depth - 2)}[{lead}{piece}]")]
        out.append((1.0, f"pb.diff({self.array(longer, depth - 2)}, axis={k})"))
        if n % 2 == 0:
            half = (*dims[:k], Dim(str(n // 2), n // 2), *dims[k + 1 :])
            a, b = self.array(half, depth - 2), self.array(half, depth - 2)
            out += [(1.0, f"pb.concat([{a}, {b}], axis={k})"), (0.7, f"pb.repeat({a}, 2, axis={k})")]
            if k == 0:
                out.append((0.7, f"pb.tile({a}, (2,{' 1,' * (len(dims) - 1)}))"))
        if n == 2:
            rest = (*dims[:k], *dims[k + 1 :])
            out.append((1.5, f"pb.stack([{self.array(rest, depth - 2)}, {self.array(rest, depth - 2)}], axis={k})"))
        return out

    def ordered(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Elements in order, or where others belong among them."""
        d = self.dim()
        row = f"pb.sort({self.array((d,), depth - 1)})"
        if not dims:
            if not d.size:
                return self.build(dims, depth)
            largest = f"pb.top_k({self.array((d,), depth - 1)}, 1, largest={self.chance(0.5)})"
            return self.choose(  # type: ignore[no-any-return]
                (1, f"{row}[0]"), (1, f"{row}[{self.extent(d)} // 2]"), (1, f"{largest}[0][0]"),
                (1, f"pb.astype({largest}[1][0], pb.{self.dtype})"),
            )  # fmt: skip
        k = int(self.rng.integers(len(dims)))
        a, along = self.array(dims, depth - 1), f"axis={k}"
        turned = f"{along}, descending=True" if self.chance(0.3) else along
        options: list[tuple[float, str]] = [
            (3, f"pb.sort({a}, {turned})"), (0.7, f"pb.astype(pb.argsort({a}, {turned}), pb.{self.dtype})"),
            (1.5, f"pb.take_along_axis({a}, pb.argsort({self.array(dims, depth - 2)}, {turned}), {along})"),
            (0.7, f"pb.astype(pb.searchsorted({row}, {a}, side='{self.pick(('left', 'right'))}'), pb.{self.dtype})"),
        ]  # fmt: skip
        n, lead = dims[k].size, ":, " * k
        if dims[k].key.isdigit() and n:
            longer = tuple(Dim(str(n + 2), n + 2) if j == k else e for j, e in enumerate(dims))
            b, largest = self.array(longer, depth - 1), f"{along}, largest={self.chance(0.5)}"
            options += [
                (1.5, f"pb.top_k({b}, {n}, {largest})[0]"),
                (1.5, f"pb.top_k({b}, {n + 1}, {largest})[0][{lead}{self.pick(('1:', f':{n}'))}]"),
                (0.7, f"pb.astype(pb.top_k({b}, {n}, {largest})[1], pb.{self.dtype})"),
                (1.5, f"pb.sort({b}, {turned})[{lead}{self.pick(('2:', f':{n}', '1:-1', '-2:0:-1'))}]"),
            ]
        return self.choose(*options)  # type: ignore[no-any-return]

    def written(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array with some elements set, or added to."""
        if not dims or not all(d.size for d in dims):
            return self.build(dims, depth)
        a, how = f"({self.array(dims, depth - 1)})", self.pick(("set", "add"))
        row = self.array(dims[1:], depth - 2)
        k = int(self.rng.integers(len(dims)))
        lead = "slice(None), " * k
        options: list[tuple[float, str]] = [
            (1, f"{a}.{how}(0, {row})"), (1, f"{a}.{how}(-1, {row})"),
            (1, f"{a}.{how}(({lead}slice({self.pick(('None, None, 2', '1, None', 'None, -1', 'None, None, -1'))})), "
                f"{self.number()})"),
            (1, f"{a}.{how}(({lead}{self.extent(dims[k])} // 2), {self.array((), depth - 2)})"),
        ]  # fmt: skip
        for v, below in self.integers:
            if below.key == dims[0].key and v.dims[0].size:
                options.append((3, f"{a}.{how}({v.text}, {self.array((v.dims[0], *dims[1:]), depth - 2)})"))
        return self.choose(*options)  # type: ignore[no-any-return]

    def rows(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array of one axis more, reduced."""
        extra = self.dim()
        k = int(self.rng.integers(len(dims) + 1))
        a = self.array((*dims[:k], extra, *dims[k:]), depth - 1) if len(dims) < 2 else self.build(dims, depth)
        if len(dims) >= 2:
            return a
        op = self.choose((4, "sum"), (1, "max"), (1, "min"), (0.7, "prod"), (1, "mean"), (1, "logsumexp"), (0.5, "var"),
                         (0.4, "std"))  # fmt: skip
        return f"pb.{op}({a}, axis={k})"

    def product(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A product of matrices and vectors."""
        inner = self.dim()
        if len(dims) > 2:
            return self.build(dims, depth)
        if len(dims) == 2 and self.chance(0.15):
            a, b = self.array((inner, dims[0]), depth - 1), self.array((inner, dims[1]), depth - 2)
            return f"pb.tensordot({a}, {b}, axes=((0,), (0,)))"
        if len(dims) == 1 and self.chance(0.15):
            if self.chance(0.5):
                return f"pb.diagonal({self.array((dims[0], dims[0]), depth - 1)})"
            return f"pb.vecdot({self.array((dims[0], inner), depth - 1)}, {self.array((dims[0], inner), depth - 2)})"
        if not dims:
            return f"({self.array((inner,), depth - 1)} @ {self.array((inner,), depth - 1)})"
        if len(dims) == 1:
            if self.chance(0.5):
                return f"({self.array((dims[0], inner), depth - 1)} @ {self.array((inner,), depth - 2)})"
            return f"({self.array((inner,), depth - 2)} @ {self.array((inner, dims[0]), depth - 1)})"
        if self.chance(0.3):
            return f"pb.outer({self.array(dims[:1], depth - 1)}, {self.array(dims[1:], depth - 2)})"
        return f"({self.array((dims[0], inner), depth - 1)} @ {self.array((inner, dims[1]), depth - 2)})"

    def solved(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Linear algebra of matrices whose diagonal is large."""
        if len(dims) > 2 or (len(dims) == 2 and dims[0] != dims[1]):
            return self.product(dims, depth)
        d = dims[0] if dims else self.dim()
        matrix = (f"({2 + 0.5 * d.size} * pb.eye({self.extent(d)}, dtype=pb.{self.dtype}) "
                  f"+ 0.4 * pb.tanh({self.array((d, d), depth - 1)}))")  # fmt: skip
        if not dims:
            return f"(pb.linalg.det({matrix}) * 0.1)"
        if len(dims) == 1:
            return f"pb.linalg.solve({matrix}, {self.array(dims, depth - 2)})"
        if self.chance(0.3):
            return f"pb.linalg.solve({matrix}, {self.array(dims, depth - 2)})"
        return f"pb.linalg.{self.pick(('inv', 'cholesky'))}({matrix})"

    def verb(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A rank verb."""
        if not dims:
            return f"pb.verbs.reduce(lambda a, b: pb.sin(a) - 0.5 * b, {self.array((self.dim(),), depth - 1)})"
        if len(dims) > 2:
            return self.build(dims, depth)
        extra, n = self.dim(), dims[-1]
        each = f"pb.verbs.each(lambda e: pb.{self.pick(ANYWHERE)}(e) * e)"
        window = self.pick(("pb.sum", "pb.max", "lambda w: pb.sum(w * w) * w[0]"))
        if len(dims) == 1:
            options = [(1.0, f"{each}({self.array(dims, depth - 1)})"),
                       (1.0, f"pb.verbs.reduce(lambda a, b: a - b * 0.5, {self.array((extra, n), depth - 1)}, axis=0)"),
                       (1.0, f"pb.verbs.stencil({window}, 3)({self.array(dims, depth - 1)})"),
                       (1.0, f"pb.verbs.power(lambda v: pb.tanh(v) + 0.1, 2)({self.array(dims, depth - 1)})")]
            if n.key.isdigit():
                given = self.array((extra,), depth - 1)
                options.append((2.0, f"pb.verbs.{self.pick(('take', 'reshape'))}({n.key}, {given})"))
                options.append((0.5, f"pb.verbs.take(-{n.key}, {given})"))
            return self.choose(*options)  # type: ignore[no-any-return]
        a = self.array(dims, depth - 1)
        weighed = self.pick(("r / (1.5 + pb.sum(pb.square(r)))", "r * pb.max(r)", "pb.verbs.reduce(pb.add, r) * r"))
        return self.choose(  # type: ignore[no-any-return]
            (1, f"pb.verbs.table({self.pick(('pb.multiply', 'pb.subtract', 'lambda a, b: pb.sin(a * b)'))})"
                f"({self.array(dims[:1], depth - 1)}, {self.array(dims[1:], depth - 2)})"),
            (1, f"pb.verbs.rank(lambda r: {weighed}, 1)({a})"),
            (1, f"pb.verbs.rank(pb.multiply, (0, 1))({self.array(dims[:1], depth - 2)}, {a})"),
            (0.5, f"pb.verbs.transpose({self.array((dims[1], dims[0]), depth - 1)})"),
            (0.5, f"{each}({a})"), (0.7, f"pb.verbs.stencil(pb.sum, (3, 1))({a})"),
        )  # fmt: skip

    def parts(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A part of complex numbers."""
        z, w = (f"pb.complex({self.typed(dims, depth - 1 - k)}, {self.typed(dims, depth - 2)})" for k in range(2))
        part = self.pick(("real", "imag"))
        return self.choose(  # type: ignore[no-any-return]
            (2, f"pb.{part}({z} * pb.conj({w}))"), (1, f"pb.{part}(0.7j - {z} * {self.number()})"),
            (1, f"pb.abs({z} + 2.5)"), (1, f"pb.{part}(pb.{self.pick(('sin', 'cos', 'exp'))}(0.3 * {z}) * {w})"),
            (1, f"pb.{part}({z} / (2.5 + pb.square(pb.real({w}))))"), (1, f"pb.{part}({w} / ({z} + (4.0 + 1.5j)))"),
            (0.7, f"pb.{part}(pb.where({self.element_test(dims) or 'True'}, {z}, {w}) * {w})"),
            (0.7, f"pb.{part}(pb.sum({z}) * {w})"), (0.7, f"pb.{part}(pb.sqrt(4.0 + pb.square(pb.real({z})) + 0.5j))"),
        )  # fmt: skip

    def transformed(self, dims: tuple[Dim, ...], depth: int) -> str:
        """A part of a Fourier transform."""
        axes = [k for k, d in enumerate(dims) if d.key.isdigit() and d.size]
        if not axes:
            return self.parts(dims, depth)
        k = self.pick(axes)
        n, along = dims[k].size, f"axis={k}{self.pick(('', ', norm=' + repr('ortho'), ', norm=' + repr('forward')))}"
        x, part = self.typed(dims, depth - 1), self.pick(("real", "imag"))
        z = f"pb.complex({x}, {self.typed(dims, depth - 2)})"
        return self.choose(  # type: ignore[no-any-return]
            (2, f"pb.{part}(pb.fft.{self.pick(('fft', 'ifft'))}({z}, {along}) * (0.5 - 0.25j))"),
            (1, f"pb.{part}(pb.fft.fft({x}, {along}))"), (1, f"pb.fft.hfft({z}, n={n}, {along})"),
            (1, f"pb.fft.irfft(pb.fft.rfft({x}, {along}) * (0.5 + 1j), n={n}, {along})"),
            (0.7, f"pb.{part}(pb.fft.fft(pb.fft.fft({z}, {along}) * {x}, n={n}, {along}))"),
            (0.5, f"pb.fft.fftshift({x}, axes={k})"),
        )  # fmt: skip

    def chances(self, dims: tuple[Dim, ...], depth: int) -> str:
        """Random numbers of a key, beside an array."""
        key = f"pb.random.key({int(self.rng.integers(0, 100))})"
        key = self.choose((3, key), (1, f"pb.random.split({key}, 2)[1]"), (1, f"pb.random.fold_in({key}, 7)"))
        a, extents = self.array(dims, depth - 1), f"({''.join(f'{self.extent(d)}, ' for d in dims)})"
        given = f"{key}, {extents}"
        typed = f"{given}, dtype=pb.{self.dtype}"
        ends = f"low={a}, high={a} + {self.array(dims, depth - 2)}"
        return self.choose(  # type: ignore[no-any-return]
            (3, f"(pb.random.uniform({typed}) * {a})"), (1, f"({a} - pb.random.uniform({typed}, low=-1.0))"),
            (1, f"pb.random.uniform({given}, {ends}, dtype=pb.{self.dtype})"),
            (1, f"pb.where(pb.random.bernoulli({given}, p=0.4), {a}, {self.array(dims, depth - 2)})"),
            (1, f"(pb.random.{self.pick(('exponential', 'gumbel', 'laplace', 'normal'))}({typed}) * {a})"),
            (0.5, f"pb.take({a}, pb.random.permutation({key}, {self.extent(dims[0])}), axis=0)" if dims else a),
        )  # fmt: skip

    def typed(self, dims: tuple[Dim, ...], depth: int) -> str:
        """An array of the program's dtype; single values may be bare numbers with other operands' dtype."""
        return f"{self.array(dims, depth)} * " + ("1.0" if dims else f"pb.ones((), dtype=pb.{self.dtype})")


__all__ = ["Arrays"]

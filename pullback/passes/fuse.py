"""Fusion: inline a statement into its readers where that pays.

Before    s = build n < N { sum m < M { x[n, m] } }     y = build n < N { exp(s[n]) }
After     y = build n < N { exp(sum m < M { x[n, m] }) }

The table lists what is inlined, with the conditions under which that pays:

    movement            a transpose, slice or broadcast goes into every reader, contractions included
    reduction           goes into its one elementwise reader over the same index space, as its epilogue
    elementwise         goes into its one elementwise reader, when no element is evaluated more often than before;
                        into several readers or larger ones only when it is cheap and has no transcendental
    into a contraction  movement, and a product that the sum reads each element of once; a bracket, a gather or a
                        transcendental inside a product would be evaluated for every term
    into a reduction    cheap arithmetic that is its whole term, each element once: squares, distances, comparisons
    into a slice        a reduction that only the slice reads: less of it is evaluated
    stage of a stencil  an elementwise array too large for a near cache goes into readers over the same space that read
                        it at a few constant distances: computing it again costs less than storing and loading it.
                        Shorter vectors are left to `loops.strategies.staggered`, which does neither

It does not cross into loop bodies, and does not inline the results of a block. Source locations of both statements are
kept.
"""

from __future__ import annotations

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import ONE_INDEX, ZERO_INDEX, Index, Var, as_index
from pullback.ir.program import statement_reads, with_fields
from pullback.ir.traverse import Substitution, walk
from pullback.ir.walks import each_block
from pullback.passes.cost import (
    cuts,
    has_data_index,
    has_guard,
    has_reduction,
    has_transcendental,
    is_movement,
    operations,
    size,
)
from pullback.records import dataclass, field, replace
from pullback.rewrite.fired import fired

LARGE = 200  # operations from which a statement is not inlined, so that a chain of n of them takes time linear in n
FULL = 1000  # operations from which a reader takes no more, so that a sum of n of them is linear too
FAR = 128 * 1024  # bytes of an array that exceeds the nearest cache
STAGGERED = 1024 * 1024  # bytes of a vector whose stages need no memory, because they are one loop (`loops.strategies`)
AGAIN = 24  # most operations per element of a reader that recomputes a stage of a stencil
CHEAP = 6  # operations up to which recomputing an element beats storing and loading it


def fuse(program: ir.Program) -> ir.Program:
    """The program with statements inlined as the table above says, in rounds from first to last."""
    return each_block(program, _block)


@dataclass
class _Uses:
    """The readers of an array."""

    readers: list[int] = field(default_factory=list)
    opaque: bool = False  # read by a loop, a scatter or as a result


def _block(block: ir.Block) -> ir.Block:
    statements: list[ir.Statement | None] = list(block.statements)
    uses = _uses(statements, block.results)
    weights = [sum(map(operations, s.values)) if isinstance(s, ir.Build) else 0 for s in statements]
    # inputs skip the elements that a slice skips; merged readers may take more than several could
    for decide in (_decide_slice, _decide_term, fusion, fusion):
        for k in range(len(statements)):
            s = statements[k]
            if not isinstance(s, ir.Build) or len(s.outs) != 1:
                continue
            out = s.outs[0]
            use = uses.get(out)
            if use is None or use.opaque or not use.readers:
                continue
            readers = [statements[j] for j in use.readers]
            builds = [r for r in readers if isinstance(r, ir.Build)]
            is_full = not is_movement(s.values[0]) and any(weights[j] > FULL for j in use.readers)
            rule = decide(s, builds) if len(builds) == len(readers) and not is_full else None
            if rule is None:
                continue
            fired("fuse." + rule)
            for j in list(use.readers):
                reader = statements[j]
                assert isinstance(reader, ir.Build)
                statements[j] = merged = inline(s, reader)
                weights[j] += weights[k]
                _recount(uses, j, reader, merged)
            statements[k] = None
            for r in statement_reads(s):
                uses[r].readers.remove(k)
    return with_fields(block, statements=tuple(s for s in statements if s is not None))


def _uses(statements: list[ir.Statement | None], results: tuple[ir.Ref, ...]) -> dict[ir.Ref, _Uses]:
    uses: dict[ir.Ref, _Uses] = {}
    for r in results:
        uses.setdefault(r, _Uses()).opaque = True
    for k, s in enumerate(statements):
        if s is None:
            continue
        for r in statement_reads(s):
            use = uses.setdefault(r, _Uses())
            use.readers.append(k)
            use.opaque |= not isinstance(s, ir.Build)
    return uses


def _recount(uses: dict[ir.Ref, _Uses], k: int, before: ir.Build, after: ir.Build) -> None:
    """Bring the use table up to date after statement k changed."""
    old, new = statement_reads(before), statement_reads(after)
    for r in new:
        use = uses.setdefault(r, _Uses())
        if r not in old:
            use.readers.append(k)
    for r in old:
        if r not in new:
            uses[r].readers.remove(k)


def _gets_in(readers: list[ir.Build], out: ir.Ref) -> set[ir.Get]:
    return {n for r in readers for v in r.values for n in walk(v) if isinstance(n, ir.Get) and n.ref is out}


def fusion(s: ir.Build, readers: list[ir.Build]) -> str | None:
    """The name of the rule by which s goes into all its readers, or None."""
    value, out = s.values[0], s.outs[0]
    if is_movement(value) or isinstance(value, expr.Const | expr.Zero):
        return "movement"
    if has_data_index(value) or operations(value) > LARGE:
        return None
    gets = _gets_in(readers, out)
    elementwise = not any(has_reduction(v) for r in readers for v in r.values)
    if has_reduction(value):
        if len(readers) == 1 and elementwise and len(gets) == 1 and _same_space(readers[0], next(iter(gets))):
            return "reduction_into_reader"
        return None
    if not elementwise:
        return _decide_term(s, readers)
    evaluations = [size(tuple(v.extent for v in r.vars)) for r in readers]
    own = size(out.shape)
    if own is None or any(n is None for n in evaluations):
        return (
            "elementwise"
            if len(readers) == 1 and len(gets) == 1 and _same_space(readers[0], next(iter(gets)))
            else None
        )
    total = sum(n for n in evaluations if n is not None) * max(1, len(gets) // len(readers))
    if len(readers) == 1 and total <= own:
        return "elementwise"
    if operations(value) <= CHEAP and not has_transcendental(value) and not has_guard(value):
        return "cheap"
    return "stage" if _is_stage(s, readers, gets) else None


def _is_stage(s: ir.Build, readers: list[ir.Build], gets: set[ir.Get]) -> bool:
    """Whether s is large, and cheap to recompute at the few constant offsets where it is read.

    Its conditions are borders of one axis; on the stretches of that axis readers have none.
    """
    value, out = s.values[0], s.outs[0]
    again = (len(gets) - 1) * operations(value)
    return (
        (size(out.shape) or 0) * out.dtype.size >= (STAGGERED if out.rank == 1 else FAR)
        and again <= AGAIN
        and not has_transcendental(value)
        and (not has_guard(value) or cuts(s) is not None)
        and all(any(_is_shifted(r, g) for r in readers) for g in gets)
    )


def _is_shifted(reader: ir.Build, g: ir.Get) -> bool:
    """Whether an element is the reader's own or one at a constant distance."""
    shifts = [i - as_index(v) for i, v in zip(g.indices, reader.vars)]
    return (len(g.indices) == len(reader.vars) and all(d.constant is not None for d in shifts)
            and all(v.extent is d for v, d in zip(reader.vars, g.ref.shape)))


def _decide_slice(s: ir.Build, readers: list[ir.Build]) -> str | None:
    """Put a reduction into a slice if the slice is its only reader."""
    value = s.values[0]
    if len(readers) != 1 or not has_reduction(value) or has_data_index(value) or not is_movement(readers[0].values[0]):
        return None
    (g,) = _gets_in(readers, s.outs[0])
    return "reduction_into_slice" if _reads_once(readers[0], g) else None


def _decide_term(s: ir.Build, readers: list[ir.Build]) -> str | None:
    """Put an elementwise statement into the one reduction that reads each of its elements once."""
    value = s.values[0]
    if has_data_index(value) or has_reduction(value) or operations(value) > LARGE:
        return None
    gets = _gets_in(readers, s.outs[0])
    if _completes_sum(s, readers, gets):
        return "product_into_sum"
    return "term_into_reduction" if _is_term(s, readers, gets) else None


def _completes_sum(s: ir.Build, readers: list[ir.Build], gets: set[ir.Get]) -> bool:
    """Whether s is a product whose one reader sums it, each element once and without conditions."""
    if len(readers) != 1 or len(gets) != 1 or len(readers[0].values) != 1:
        return False
    (reader,), (g,) = readers, gets
    value = reader.values[0]
    if not isinstance(value, ir.Reduce) or value.op != "sum" or has_reduction(value.arg) or has_guard(value):
        return False
    product = all(isinstance(n, ir.Mul | ir.Get | ir.Bracket) for n in walk(s.values[0]))
    return product and _reads_once(reader, g) and not has_guard(inline(s, reader).values[0])


def _is_term(s: ir.Build, readers: list[ir.Build], gets: set[ir.Get]) -> bool:
    """Whether s is cheap arithmetic whose one reader reduces its elements, each once, and nothing else."""
    if len(readers) != 1 or len(gets) != 1 or len(readers[0].values) != 1:
        return False
    (reader,), (g,) = readers, gets
    value, term = reader.values[0], s.values[0]
    return (
        isinstance(value, ir.Reduce)
        and all(n is g for n in walk(value.arg) if isinstance(n, ir.Get))
        and not has_transcendental(term)
        and _reads_once(reader, g)
    )


def _reads_once(reader: ir.Build, g: ir.Get) -> bool:
    """Whether the reader reads each element of g's array at most once: indices are shifted variables."""
    value = reader.values[0]
    bound = (*reader.vars, *value.vars) if isinstance(value, ir.Reduce) else reader.vars
    left = [v for v in bound if v.extent is not ONE_INDEX]
    for i in g.indices:
        found = next((v for v in left if not (i - as_index(v)).free), None)
        if found is not None:
            left.remove(found)
    return not left


def _same_space(reader: ir.Build, g: ir.Get) -> bool:
    """Whether g reads the reader's own element: each variable once, over the whole array."""
    read = [(i.single, d) for i, d in zip(g.indices, g.ref.shape, strict=True) if i is not ZERO_INDEX]
    wide = {v: v.extent for v in reader.vars if v.extent is not ONE_INDEX}
    return len(read) == len(wide) and dict(read) == wide


def inline(s: ir.Build, reader: ir.Build) -> ir.Build:
    """The reader with every element of s's array replaced by the expression that defines it."""
    by_out = dict(zip(s.outs, s.values, strict=True))

    def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
        value = by_out.get(ref)
        if value is None:
            return expr.get(ref, *indices)
        variables: dict[Var, Index] = dict(zip(s.vars, indices, strict=True))
        return Substitution(variables=variables).scalar(value)

    m = Substitution(get=element)
    positions = tuple(dict.fromkeys((*reader.positions, *s.positions)))
    return replace(reader, values=tuple(m.scalar(v) for v in reader.values), positions=positions)

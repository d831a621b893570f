"""Parts of a parallel kernel, and the earlier definitions that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pullback.ir.index import ZERO_INDEX, Atom, Var, as_index
from pullback.loops.memory.plan import mentioned
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Assign, Call, For, If, Let, LetIndex, Stmt
from pullback.loops.program.values import Buffer, Temp
from pullback.records import dataclass


@dataclass(frozen=True)
class Piece:
    """A part of a kernel: statements that run per value of `chunk`, or once; `whole` is all of it."""

    body: tuple[Stmt, ...]
    whole: tuple[Stmt, ...]
    chunk: Var | None = None
    private: frozenset[Buffer] = frozenset()  # parameters that are private to the worker

    @property
    def only_call(self) -> Call | None:
        """The call that is all of the piece, on whole parameters; None if there is anything else."""
        first = self.body[0] if len(self.body) == 1 and not self.chunk else None
        if not isinstance(first, Call) or first.indices is not None:
            return None
        return first if all(a.offset is ZERO_INDEX for a in first.arguments) else None


@dataclass(frozen=True)
class Region:
    """Pieces that are independent."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Around:
    """A loop or test around parts; `lets` define its bounds' inputs."""

    outside: For | If
    inside: tuple[Part, ...]
    otherwise: tuple[Part, ...] = ()
    lets: tuple[Stmt, ...] = ()


Part = Piece | Region | Around


def pieces_of(p: Region | Piece) -> tuple[Piece, ...]:
    """The pieces of a region, or the single piece."""
    return p.pieces if isinstance(p, Region) else (p,)


def all_pieces(parts: Iterable[Part]) -> list[Piece]:
    """The pieces of all parts, including those inside loops and tests."""
    out: list[Piece] = []
    for p in parts:
        match p:
            case Piece():
                out.append(p)
            case Region():
                out += p.pieces
            case Around():
                out += all_pieces((*p.inside, *p.otherwise))
    return out


def joined(parts: Iterable[Part], apart: Callable[[Part, Part], bool]) -> tuple[Part, ...]:
    """Join consecutive pieces, and a part to the first region that it may run with."""
    out: list[Part] = []
    for p in _merged(parts):
        k = len(out)  # it may run before the parts from k on
        while k and not isinstance(p, Around) and apart(out[k - 1], p):
            k -= 1
        others = [(n, other) for n, other in enumerate(out[k:], k) if not isinstance(other, Around)]
        regions = [(n, other) for n, other in others if isinstance(other, Region)]
        if not isinstance(p, Around) and (regions or (others and isinstance(p, Region))):
            n, other = (regions or others)[0]
            out[n] = Region((*pieces_of(other), *pieces_of(p)))
        else:
            out = _merged((*out, p))
    return tuple(out)


def _merged(parts: Iterable[Part]) -> list[Part]:
    """The parts with consecutive pieces as one."""
    out: list[Part] = []
    for p in parts:
        last = out[-1] if out else None
        if isinstance(last, Piece) and isinstance(p, Piece):
            out[-1] = Piece(following(last.body, p.body), (*last.whole, *p.whole))
        else:
            out.append(p)
    return out


def needed(body: tuple[Stmt, ...], before: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements after the definitions that they use, directly or not."""
    if not before:
        return body
    uses = names_in(body)
    found: list[Stmt] = []
    for d in reversed(before):
        assert isinstance(d, Let | LetIndex)
        if (d.temp if isinstance(d, Let) else d.var) in uses:
            found.append(d)
            uses |= names_in((d,))
    return (*reversed(found), *body)


def following(first: tuple[Stmt, ...], then: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of both lists, with shared definitions only once."""
    known = {id(s) for s in first}
    return (*first, *(s for s in then if id(s) not in known))


def scoped(lets: tuple[Stmt, ...], s: Stmt) -> list[Stmt]:
    """A statement in a block with its definitions, which may be repeated elsewhere."""
    return [For(Var("block", 1), ZERO_INDEX, as_index(1), (*lets, s))] if lets else [s]


def names_in(body: tuple[Stmt, ...]) -> set[Temp | Atom]:
    """Temporaries and atoms that statements mention."""
    out: set[Temp | Atom] = set()
    for s in nodes.walk(body):
        for i in nodes.statement_indices(s):
            out.update(i.every_atom)
        out |= nodes.temps_read(s)
        if isinstance(s, Assign):
            out.add(s.temp)
    return out


def buffers_in(body: tuple[Stmt, ...]) -> set[Buffer]:
    """Buffers that statements mention."""
    return {b for s in nodes.walk(body) for b in (*mentioned(s), *_passed(s))}


def _passed(s: Stmt) -> list[Buffer]:
    return [a.buffer for a in s.arguments] if isinstance(s, Call) else []

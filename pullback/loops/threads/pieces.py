"""Parts of a parallel kernel, and the earlier definitions that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pullback.ir.index import Atom, Var
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

"""Memory with sizes known at run time: buffers with symbolic sizes, several to a slot.

A slot is as large as the largest of its buffers, which live at different times. Slots follow each other in the arena,
behind the buffers with static offsets. The head of the function computes where each begins. A buffer goes to a free
slot that is at least as large for all dims, else to one that is no larger, else to any.

    a: f32[N, M], b: f32[N], c: f32[K]  -->  slot 0: max(4 N M, 4 K) bytes for a, then c; slot 1: 4 N bytes for b
"""

from __future__ import annotations

from collections.abc import Mapping

from pullback.ir.dims import evaluate
from pullback.ir.index import Cond, Index, prove_nonnegative
from pullback.loops.program.values import Bound, Buffer, largest
from pullback.records import dataclass

ALIGNMENT = 64

Life = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Slot:
    """Memory for buffers of one type with disjoint lifetimes; `sizes` are the candidates for the largest."""

    buffers: tuple[Buffer, ...]
    sizes: tuple[Index, ...]

    @property
    def bytes(self) -> Bound:
        """The size of the slot in bytes."""
        return largest(*self.sizes)

    def aligned_bytes(self, dims: Mapping[str, int]) -> int:
        """The size of the slot in the arena for these dims."""
        return -(-max(evaluate(n, dims) for n in self.sizes) // ALIGNMENT) * ALIGNMENT


def share_slots(lives: Mapping[Buffer, Life], known: tuple[Cond, ...] = ()) -> tuple[Slot, ...]:
    """Assign slots to buffers of symbolic size with first and last moments; `known` holds for the dims."""
    slots: list[Slot] = []
    order = sorted(lives, key=lambda b: (-_degree(b.elements), lives[b]))
    for b in order:
        free = [s for s in slots if _fits(s, b, lives)]
        size = b.elements * b.dtype.size
        best = next((s for s in free if any(prove_nonnegative(n - size, known) for n in s.sizes)), None)
        best = best or next((s for s in free if all(prove_nonnegative(size - n, known) for n in s.sizes)), None)
        best = best or next(iter(free), None)
        if best is None:
            slots.append(Slot((b,), (size,)))
        else:
            slots[slots.index(best)] = Slot((*best.buffers, b), _largest((*best.sizes, size), known))
    return tuple(slots)


def _degree(size: Index) -> int:
    return max((len(m) for m, _ in size.terms), default=0)


def _fits(slot: Slot, b: Buffer, lives: Mapping[Buffer, Life]) -> bool:
    first, last = lives[b]
    return slot.buffers[0].dtype is b.dtype and all(lives[o][1] < first or last < lives[o][0] for o in slot.buffers)


def _largest(sizes: tuple[Index, ...], known: tuple[Cond, ...]) -> tuple[Index, ...]:
    """The sizes that no other size bounds."""
    kept: list[Index] = []
    for n in dict.fromkeys(sizes):
        if not any(prove_nonnegative(k - n, known) for k in kept):
            kept = [k for k in kept if not prove_nonnegative(n - k, known)] + [n]
    return tuple(kept)

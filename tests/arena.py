"""The part of its arena that a program must use."""

from __future__ import annotations

from pullback.loops.program import nodes
from pullback.runtime.emit import Lowered


def arrays_end(lowered: Lowered) -> int:
    """Return where the last array of the arena ends that is not the working memory of a kernel.

    How much of its working memory a kernel touches depends on the data and on the sizes of tiles.
    """
    calls = (s for s in nodes.walk(lowered.function.body) if isinstance(s, nodes.Call))
    working = {a.buffer for s in calls for p, a in zip(s.kernel.params, s.arguments) if p in s.kernel.scratch}
    return max((offset + b.bytes for b, offset in lowered.memory.offsets.items() if b not in working), default=0)

"""Memory that arrays share: an array that is written in place, and its views.

The elements of a node stay. `x[0] = 1.0` gives the *memory* of x another node. From then on, the object x stands for
two things. In the operands of nodes built earlier, it is the node with the old elements. For the user, it is the array
with the new ones: its class is now `Written`, whose methods take `x.leaf`, the node of the elements at that time.

A view, such as `x[1:3]` or `x.T`, knows its memory and the *path* to it, the view operations. After a write to the
memory, the node of a view is built again when it is used next. This is functionalization, as in PyTorch.

Only programs that write pay for it. The first write of a process starts `Array.__init__` recording which nodes are
views, and one pass over the live objects finds the views that exist.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from time import sleep
from typing import Any, ClassVar, Final
from weakref import ref

import numpy as np

from pullback.errors import TraceError
from pullback.lazy.leaving import OPEN
from pullback.lazy.node import BUSY, LOCK, Array, leaf_of
from pullback.lazy.operation import Application, Operation, apply
from pullback.lazy.types import ArrayType
from pullback.lazy.views import View
from pullback.lazy.weight import INSTALLED, of_leaf
from pullback.source import user_position
from pullback.state import registered

__all__ = ["Memory", "Share", "Step", "Written", "again", "fixed", "opened", "written_weight"]

_WATCHING: Final[list[bool]] = registered([], "one mark: the process writes arrays", stays="as their views are watched")
PATIENCE: Final = 1000  # looks at an array that is not complete, a tenth of a second in all
_plain: Final = Array.__init__


class Step:
    """A view operation on the way from a memory to an array."""

    __slots__ = ("application", "parent", "rest", "view")

    def __init__(self, parent: Step | None, application: Application, rest: tuple[Array, ...]) -> None:
        self.parent = parent
        self.application = application
        self.view: View = application.view  # type: ignore[assignment]
        self.rest = rest

    def look(self, a: Any) -> Any:
        """NumPy's view of an array that stands for the operand."""
        numbers = [int(x.value) for x in self.rest]
        return self.view.look(a, *numbers)


def steps(path: Step | None) -> list[Step]:
    """The steps from the memory to an array."""
    found = []
    while path is not None:
        found.append(path)
        path = path.parent
    found.reverse()
    return found


class Share:
    """An array's part in a memory.

    Attributes:
        path: the last view operation; None for the array that has all elements.
        seen: the version of the memory that the elements are of.
        node: the node of these elements; None if that is the array's object itself.
    """

    __slots__ = ("memory", "node", "path", "seen")

    def __init__(self, memory: Memory, path: Step | None, seen: int = 0) -> None:
        self.memory = memory
        self.path = path
        self.seen = seen
        self.node: Array | None = None

    def look(self, a: Any) -> Any:
        """NumPy's view of an array that stands for the memory."""
        for step in steps(self.path):
            a = step.look(a)
        return a

    @property
    def part(self) -> str:
        """The part of complex elements that the array shows; "" for whole elements."""
        return next((s.view.part for s in steps(self.path) if s.view.part), "")

    def update(self, x: Array) -> Array:
        """The node of the elements now, of the array with this part."""
        memory = self.memory
        if memory.pending:
            memory.flush()
        if self.seen != memory.version:
            assert memory.node is not None
            node = memory.node
            for step in steps(self.path):
                node = _built(step.application, (node, *step.rest))
            self.know(node)
        return x if self.node is None else self.node

    def know(self, node: Array) -> None:
        """Take a node as the elements of this version; views built from it are views of this array."""
        self.node = node
        self.seen = self.memory.version
        node._share = Mark(self.memory, self.path)


class Mark:
    """The part of a node that an array stands for: it does not keep the memory, which keeps the node."""

    __slots__ = ("_memory", "path", "seen")
    node = None

    def __init__(self, memory: Memory, path: Step | None) -> None:
        self._memory = ref(memory)
        self.path = path
        self.seen = memory.version

    @property
    def memory(self) -> Memory | None:
        """The memory; None if no array has it."""
        return self._memory()


def _built(application: Application, operands: tuple[Array, ...]) -> Array:
    """A node that is not watched."""
    made: Array = object.__new__(Array)
    _plain(made, application, operands, any(x.tracked for x in operands))
    if application.type is None:  # of several results, the step after it takes one
        made.origin = ()
    elif application.item >= 0:
        operands[0].origin = (ref(made),)
    return made


class Memory:
    """Elements that several arrays may show.

    Attributes:
        type: the type of all elements.
        root: the array that has them all, as a weak reference.   members: its views, as weak references.
        node: the elements, without the pending writes; None before the first write.
        version: the number of writes.
        pending: values by block number, of writes at integers that were not applied yet.
        depth: the number of integers that select a block.
    """

    __slots__ = ("__weakref__", "_limit", "depth", "members", "node", "pending", "root", "type", "version")
    applied: ClassVar[Callable[[Array, int, dict[int, Any]], Array]]  # applies writes of blocks; `lazy.writing` sets it
    whole: ClassVar[Callable[[ArrayType, list[tuple[Array, Share]]], Array]]  # the elements of views; the same

    def __init__(self, root: Array) -> None:
        self.root = ref(root)
        self.type: ArrayType = root.type
        self.members: list[ref[Array]] = []
        self.node: Array | None = None
        self.version = 0
        self.pending: dict[int, Any] = {}
        self.depth = 0
        self._limit = 64

    def live(self) -> Iterator[Array]:
        """The views that exist."""
        return (x for member in self.members if (x := member()) is not None and x.type is not None)

    def add(self, x: Array, path: Step) -> None:
        """Record a view."""
        x._share = Share(self, path, self.version)
        self.members.append(ref(x))
        if self.node is not None and x.type is not None:
            x.__class__ = Written
        if len(self.members) > self._limit:
            self.members = [member for member in self.members if member() is not None]
            self._limit = 2 * len(self.members) + 64

    def open(self, by: Array) -> None:
        """Make the elements writable: their arrays become handles."""
        root = self.root()
        views = list(self.live())
        if root is None and views == [by]:
            by._share = Share(self, None)
            self.members.clear()
            self.type, root, views = by.type, by, []
            self.root = ref(by)
        if root is not None:
            _check_root(root)
            root.__class__ = Written
            self.node = root
        else:
            self.node = Memory.whole(self.type, [(x, x._share) for x in views])
        for x in views:
            x.__class__ = Written

    def replace(self, node: Array) -> None:
        """Take a node as the elements."""
        self.node = node
        self.version += 1
        node._share = Mark(self, None)

    def flush(self) -> None:
        """Apply the pending writes."""
        assert self.node is not None
        pending, self.pending = self.pending, {}
        self.replace(Memory.applied(fixed(self.node), self.depth, pending))


def fixed(x: Array) -> Array:
    """A node as an operand of `apply`, which would take the elements that a handle has by now."""
    if x.__class__ is not Written:
        return x
    if x.value is not None:
        return leaf_of(x.value, x.type, x.tracked, x.origin)
    return again(x)


def again(x: Array) -> Array:
    """Another node with the elements of a node."""
    application = _SAMES.get(x.type)
    if application is None:
        one = leaf_of(None, x.type, False, None)  # type: ignore[arg-type]
        application = _SAMES[x.type] = apply(_SAME, (one,), {}).application
    return _built(application, (x,))


_SAME: Final = Operation("memory.same", lambda x: +x)
_SAMES: Final[dict[ArrayType, Application]] = registered({}, "array types", stays="with the types")


def _check_root(root: Array) -> None:
    """Refuse to write arrays that derivatives are taken by, and weights."""
    if root in OPEN:
        raise TraceError(
            "E147", "the argument of a gradient is written in place, but its derivative is by the value that it had",
            position=user_position(), remedy="write a copy: `x = +x`",
        )  # fmt: skip
    if root.application is None and root.origin is not None and root.origin.__class__ is not tuple:
        raise written_weight(root.origin.name)


def written_weight(name: str) -> TraceError:
    """The error for a write to a weight."""
    return TraceError(
        "E147", f"{name} is a weight, whose array changes as a whole", position=user_position(),
        remedy="`w.set_value(w.set(index, value))`, `w.set_value(w - step)`; `x = +w` is an array that can be written",
    )  # fmt: skip


# Views ----------------------------------------------------------------------------------------------------------------


def share_of(x: Array) -> Share | Mark | None:
    """An array's part in a memory, if it was recorded."""
    found: Share | Mark | None = getattr(x, "_share", None)
    return None if found is None or found.memory is None else found


def watch(x: Array) -> None:
    """Record what a view is a view of."""
    if share_of(x) is not None:
        return
    chain = [x]
    base = x.operands[0]
    if (share := share_of(base)) is None and base.application is not None:
        with LOCK, BUSY:
            while share is None and base.application is not None and base.application.view is not None:
                chain.append(base)
                base = base.operands[0]
                share = share_of(base)
    if share is None and not base.type.shape:
        return  # a number, as NumPy has it: its elements cannot be shared
    if share is None:
        share = base._share = Share(Memory(base), None)
    memory = share.memory
    assert memory is not None
    if memory.node is not None and (share.node is not None or share.seen != memory.version):
        return  # an old node of a handle: what reads it keeps the old elements
    for y in reversed(chain):
        path = Step(share.path, y.application, y.operands[1:])
        if _shares(memory.type, path):
            memory.add(y, path)
        else:
            memory = Memory(y)
            y._share = Share(memory, None)
        share = y._share


def _shares(type: ArrayType, path: Step) -> bool:
    """Whether NumPy's result is a view: a reshape of a transposed array, for instance, is a copy."""
    if path.parent is None or path.application.item >= 0:
        return True
    probe = np.empty(type.shape, np.int8)
    found: Any = probe
    for step in steps(path):
        found = step.look(found)
    parts = found if isinstance(found, tuple | list) else (found,)
    return all(np.may_share_memory(p, probe) for p in parts if p.size)


def _watching(self: Array, application: Any, operands: tuple[Array, ...], tracked: bool) -> None:
    """Create a node, and record what it is a view of."""
    _plain(self, application, operands, tracked)
    self._share = None  # sooner found than a slot that is not set
    if application.view is not None:
        watch(self)


def _start() -> None:
    """Begin to record views, those that exist included."""
    if _WATCHING:
        return
    _WATCHING.append(True)
    setattr(Array, "__init__", _watching)  # noqa: B010
    frozen = gc.get_freeze_count()
    if frozen:  # what was set aside is not listed
        gc.unfreeze()
    found = [x for x in gc.get_objects() if isinstance(x, Array) and _is_made(x)]
    if frozen:
        gc.freeze()
    with LOCK, BUSY:  # nothing is computed meanwhile
        views = [x for x in found if x.application is not None and x.application.view is not None]
        for x in sorted(views, key=lambda x: x.serial):
            if share_of(x) is None:
                watch(x)


def _is_made(x: Array) -> bool:
    """Whether an array is complete. Another thread may be making it, and then ends that soon."""
    for _ in range(PATIENCE):
        try:
            object.__getattribute__(x, "origin")  # set last
            return True
        except AttributeError:
            sleep(1e-4)
    return False


def opened(x: Array) -> Share:
    """The part of an array in its memory, which can be written from now on.

    Raises:
        TraceError: [E147] the array is a weight, or the argument of a gradient.
    """
    if x.__class__ is not Written:
        with LOCK, BUSY:
            _start()
            share = share_of(x)
            if not isinstance(share, Share):
                share = x._share = Share(Memory(x), None)
            share.memory.open(x)
    found: Share = x._share
    return found


Array.watched = staticmethod(watch)


class Written(Array):
    """An array whose memory was written: as an operand, the node of its elements at that time."""

    __slots__ = ()
    written = True

    @property
    def leaf(self) -> Array:
        """The node of the elements."""
        return self._share.update(self)  # type: ignore[no-any-return]

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """Copy the array to another device; the array itself, if it is on this one."""
        own = self.leaf
        found = Array.moved(own, device)
        return self if found is own else found


_VALUES: Final = (
    "numpy", "item", "tolist", "__await__", "__array__", "__float__", "__complex__", "__dlpack__", "__device_array__",
    "__reduce__", "__bool__", "__int__", "__trunc__", "__floor__", "__ceil__", "__index__", "__format__", "__repr__",
    "__str__", "__copy__", "__deepcopy__",
)  # fmt: skip

for _name in (*INSTALLED, *_VALUES):
    if _name not in vars(Written):
        setattr(Written, _name, of_leaf(_name))

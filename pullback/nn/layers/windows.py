"""Sliding windows over an image: their number, and the positions that they read.

Along an axis of size h with window k, stride s, dilation d and borders before and after, window i reads the elements
i s + u d - before for u = 0 … k - 1, and there are ⌊(h + before + after - d (k - 1) - 1) / s⌋ + 1 windows.

An image has the shape (N, C, *space), "NCHW", or (N, *space, C), "NHWC", for any number of spatial axes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import pullback as pb
from pullback.errors import ShapeError, TraceError, counted
from pullback.source import user_position
from pullback.tracing.array import shape_text
from pullback.tracing.making import extent_of

__all__ = [
    "ELEMENTS",
    "PLACES",
    "Layout",
    "Numbers",
    "Padding",
    "Windows",
    "image",
    "join",
    "named",
    "number",
    "numbers",
    "setting",
    "share_of_group",
    "split",
    "windows",
]

Layout = Literal["NCHW", "NHWC"]
PLACES: Final = "ijklm"  # index names for the position of a window
ELEMENTS: Final = "uvtrs"  # index names for the position in a window
Numbers = int | tuple[int, ...]
Padding = int | tuple[int, ...] | tuple[tuple[int, int], ...] | Literal["same"]


# Layouts ----------------------------------------------------------------------------------------------------------


def split(layout: str, shape: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Split a shape or index of an image into batch, channel and spatial parts.

    >>> split("NHWC", (2, 28, 30, 3))
    (2, 3, (28, 30))
    """
    n, *rest = shape
    return (n, rest[0], tuple(rest[1:])) if layout == "NCHW" else (n, rest[-1], tuple(rest[:-1]))


def join(layout: str, n: Any, c: Any, space: Any) -> tuple[Any, ...]:
    """Join batch, channel and spatial parts to an image's shape or index; the inverse of `split`."""
    return (n, c, *space) if layout == "NCHW" else (n, *space, c)


def named(names: Iterable[str], f: Callable[..., Any]) -> Callable[..., Any]:
    """Name the indices that `f` receives as `*place`. Programs and C show these names."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    f.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return f


def image(kind: str, layout: str, rank: int, *, channels: str = "C") -> str:
    """The shape of an image as an annotation.

    Raises:
        TraceError: [E163] the layout is unknown.

    >>> image("conv", "NHWC", 2)
    'N H W C'
    """
    if layout not in ("NCHW", "NHWC"):
        raise setting(kind, f"layout is {layout!r}", '"NCHW" or "NHWC", for any number of axes')
    space = {1: "L", 2: "H W", 3: "D H W"}.get(rank) or " ".join(f"X{k}" for k in range(rank))
    return " ".join(join(layout, "N", channels, (space,)))


# Windows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """Windows over the spatial axes of an image. Each tuple has one number per axis.

    Attributes:
        kind: the name of the layer, for errors.
        size: the size of a window along each axis.
        stride: the distance between adjacent windows.
        before: the number of padding elements before the image.
        after: the number of padding elements after the image.
        dilation: the distance between adjacent elements of a window.
        ceil_mode: whether to include an incomplete last window that starts in the image or the padding before it.
    """

    kind: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    def counts(self, space: tuple[Any, ...]) -> tuple[Any, ...]:
        """The number of windows along each axis.

        Raises:
            ShapeError: [E167] an image is smaller than a window.
        """
        out = []
        for axis, extent in enumerate(space):
            stride, before, after, reach = self.stride[axis], self.before[axis], self.after[axis], self._reach(axis)
            room = extent + before + after - reach  # where the last window may start
            if (number(room) or 0) < 0:
                raise self._too_small(space)
            if not self.ceil_mode:
                out.append(room // stride + 1)
            elif stride <= reach - after:  # an incomplete window starts in the image
                out.append((room + stride - 1) // stride + 1)
            else:
                out.append((extent + before - 1) // stride + 1)
        return tuple(out)

    def bordered(self, counts: tuple[Any, ...]) -> tuple[Any, ...]:
        """The sizes of the padded image that these numbers of windows cover."""
        return tuple((n - 1) * s + self._reach(axis) for axis, (n, s) in enumerate(zip(counts, self.stride)))

    def spread(self, space: tuple[Any, ...], extra: tuple[int, ...]) -> tuple[Any, ...]:
        """The sizes of an image with these numbers of windows, and `extra` elements after the last window.

        Raises:
            ShapeError: [E167] the padding removes the whole image.
        """
        out = tuple(
            (n - 1) * s + self._reach(axis) - self.before[axis] - self.after[axis] + e
            for axis, (n, s, e) in enumerate(zip(space, self.stride, extra, strict=True))
        )
        if any((number(extent - 1) or 0) < 0 for extent in out):
            raise self._too_small(space)
        return out

    def places(self, window: Any, element: Any, *, bordered: bool = False) -> tuple[Any, ...]:
        """The position of a window's element in the image, or in the padded image."""
        before = (0,) * len(self.size) if bordered else self.before
        return tuple(
            i * s + u * d - p for i, u, s, d, p in zip(window, element, self.stride, self.dilation, before, strict=True)
        )

    def read(self, x: Any, place: tuple[Any, ...]) -> Any:
        """The image element at a position that a window reads; 0 in the padding."""
        return x[place] if self.inside else x.at(*place)

    def along(self, axis: int) -> Windows:
        """The windows along one axis of a padded image, of size 1 along the other axes."""

        def only(values: tuple[int, ...], other: int) -> tuple[int, ...]:
            return tuple(value if k == axis else other for k, value in enumerate(values))

        none = (0,) * len(self.size)
        return Windows(self.kind, only(self.size, 1), only(self.stride, 1), none, none, only(self.dilation, 1))

    def phases(self, x: Any, batch: Any, channels: Any, counts: tuple[Any, ...]) -> Any:
        """The padded image N C *space, split by stride phase: (N, C, s, …, columns).

        Neighboring windows then read neighboring elements. This speeds up sums of few terms, which are not packed.
        """
        *_, step = self.stride
        *rows, _ = self.bordered(counts)
        columns = counts[-1] + (self._reach(len(self.size) - 1) - 1) // step

        def at(n: Any, c: Any, phase: Any, *i: Any) -> Any:
            place = (*i[:-1], i[-1] * step + phase)
            return x.at(n, c, *(a - b for a, b in zip(place, self.before, strict=True)))

        return pb.build((batch, channels, step, *rows, columns), at)

    def phase(self, window: Any, element: Any) -> tuple[Any, ...]:
        """The position of a window's element in the image of `phases`."""
        *rows, _ = self.places(window, element, bordered=True)
        offset = element[-1] * self.dilation[-1]
        return (offset % self.stride[-1], *rows, window[-1] + offset // self.stride[-1])

    @property
    def inside(self) -> bool:
        """Whether every window is inside the image."""
        return not (self.ceil_mode or any(self.before) or any(self.after))

    def _reach(self, axis: int) -> int:
        return self.dilation[axis] * (self.size[axis] - 1) + 1

    def _too_small(self, space: tuple[Any, ...]) -> ShapeError:
        found = shape_text([extent_of(e, "size") for e in space])
        reach = " × ".join(str(self._reach(axis)) for axis in range(len(self.size)))
        border = f" with borders of {_pairs(self.before, self.after)}" if any((*self.before, *self.after)) else ""
        return ShapeError(
            "E167",
            f"{self.kind}: windows that reach over {reach} do not fit {found}{border}",
            position=user_position(),
            remedy="larger images, or fewer layers that make them smaller",
        )


def windows(
    kind: str,
    kernel_size: Numbers,
    *,
    stride: Numbers | None = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Windows:
    """Windows from layer settings: a number applies to all axes, to two if the number of axes is open.

    Raises:
        TraceError: [E163] settings are out of range or differ in the number of axes.
    """
    rank = next((len(x) for x in (kernel_size, stride, padding, dilation) if isinstance(x, tuple | list)), 2)
    size = numbers(kind, "kernel_size", kernel_size, rank, least=1)
    steps = size if stride is None else numbers(kind, "stride", stride, rank, least=1)
    gaps = numbers(kind, "dilation", dilation, rank, least=1)
    if padding == "same":
        if any(s != 1 for s in steps):
            raise setting(kind, 'padding "same" keeps the sizes, which a stride does not', "a number as padding")
        border = tuple(d * (k - 1) for k, d in zip(size, gaps))
        before = tuple(b // 2 for b in border)
        after = tuple(b - f for b, f in zip(border, before))
    elif isinstance(padding, tuple | list) and all(isinstance(p, tuple | list) for p in padding):
        pairs = [numbers(kind, "padding", tuple(p), 2, least=0) for p in padding if isinstance(p, tuple | list)]
        _check_rank(kind, "padding", pairs, rank)
        before, after = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    else:
        before = after = numbers(kind, "padding", padding, rank, least=0)
    return Windows(kind, size, steps, before, after, gaps, ceil_mode)


def numbers(kind: str, name: str, given: Any, rank: int, *, least: int) -> tuple[int, ...]:
    """A setting as a number for each axis.

    Raises:
        TraceError: [E163] the setting is neither a number nor one number per axis, or is too small.
    """
    each = tuple(given) if isinstance(given, tuple | list) else (given,) * rank
    _check_rank(kind, name, each, rank)
    if any(isinstance(x, bool) or not isinstance(x, int) or x < least for x in each):
        raise setting(kind, f"{name} is {given!r}", f"whole numbers from {least}, one for all axes or one for each")
    return each


def _check_rank(kind: str, name: str, each: Any, rank: int) -> None:
    if len(each) != rank:
        what = f"{name} has {counted(len(each), 'number')} instead of {rank}"
        raise setting(kind, what, f"{counted(rank, 'number')}, or one for all")


def setting(kind: str, what: str, remedy: str) -> TraceError:
    """The error for an invalid setting of a layer."""
    return TraceError("E163", f"{kind}: {what}", position=user_position(), remedy=remedy)


def share_of_group(inputs: Any, groups: int, kind: str) -> Any:
    """The number of an image's channels in each group.

    Raises:
        ShapeError: [E167] the groups do not divide the channels.
    """
    own = inputs // groups
    if number(own * groups - inputs) != 0:
        raise ShapeError(
            "E167",
            f"{kind}: {groups} groups do not divide {inputs} channels of the image",
            position=user_position(),
            remedy="a divisor of the channels",
        )
    return own


def number(extent: Any) -> int | None:
    """A size if it is a number, else None."""
    return extent_of(extent, "size").constant


def _pairs(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    return " × ".join(str(b) if b == a else f"{b} and {a}" for b, a in zip(before, after))

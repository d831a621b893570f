"""The layout of images, N C H W or N H W C, as far as sizes show it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["layout_remedy"]

CHANNELS = (1, 3, 4)  # gray, RGB, RGBA
SPACE = 4  # rows and columns of an image are more than this


def layout_remedy(shape: Sequence[int], wanted: Sequence[str]) -> str | None:
    """The remedy for images whose channels are on another axis than the network's; None otherwise.

    Args:
        shape: the shape of a batch of images.
        wanted: the sizes that the network takes, as in `net.on`: numbers and names.

    >>> from pullback.nn.training.layout import layout_remedy
    >>> layout_remedy((32, 28, 28, 1), ["N", "1", "28", "28"])
    'the sizes are those of N H W C: `np.moveaxis(images, -1, 1)` gives N C H W'
    """
    if len(shape) != 4 or len(wanted) != 4:
        return None
    last, first = (shape[0], shape[3], *shape[1:3]), (shape[0], *shape[2:], shape[1])
    if any(w.isdigit() for w in wanted[1:]):
        found = [_fits(sizes, wanted) and not _fits(shape, wanted) for sizes in (last, first)]
    else:
        found = [wanted[1] == "C" and _is_image(last), wanted[3] == "C" and _is_image(shape)]
    if found[0]:
        return "the sizes are those of N H W C: `np.moveaxis(images, -1, 1)` gives N C H W"
    return "the sizes are those of N C H W: `np.moveaxis(images, 1, -1)` gives N H W C" if found[1] else None


def _fits(shape: Sequence[int], wanted: Sequence[str]) -> bool:
    return all(not w.isdigit() or int(w) == n for w, n in zip(wanted[1:], shape[1:], strict=True))


def _is_image(shape: Sequence[int]) -> bool:
    """Whether sizes N C H W are those of images, with few channels and more rows and columns."""
    return shape[1] in CHANNELS and min(shape[2:]) > SPACE

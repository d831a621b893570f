"""Functions of the array API with data-dependent result shapes: errors with remedies."""

from __future__ import annotations

from typing import Any, NoReturn

from pullback.errors import ShapeError
from pullback.source import user_position


def _refuse(name: str, what: str, remedy: str) -> NoReturn:
    raise ShapeError("E106", f"{name}: {what} depends on the elements, and shapes are known before a program runs",
                     position=user_position(), remedy=remedy)


def nonzero(x: Any, /) -> NoReturn:
    """Raise ShapeError [E106]: the number of nonzero elements is unknown at the definition.

    Use this instead:

    >>> import numpy as np, pullback as pb
    >>> places, count = pb.function(lambda x: (pb.argsort(x == 0), pb.count_nonzero(x)))(np.array([3, 0, 5]))
    >>> places[:count].tolist()
    [0, 2]
    """
    _refuse("nonzero", "how many elements are not zero",
            "`pb.where(x != 0, x, 0)` keeps the shape; `pb.argsort(x == 0)` has the places of the others first, "
            "`pb.count_nonzero(x)` of them")


def unique_all(x: Any, /) -> NoReturn:
    """Raise ShapeError [E106]: the number of distinct elements is unknown at the definition.

    Use this instead:

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.sort(x))(np.array([3, 1, 3])).tolist()
    [1, 3, 3]
    """
    _refuse("unique_all", _DIFFERENT, _SORTED)


def unique_counts(x: Any, /) -> NoReturn:
    """Raise ShapeError [E106]: the number of distinct elements is unknown at the definition.

    Use this instead:

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.bincount(x, 4))(np.array([3, 1, 3])).tolist()
    [0, 1, 0, 2]
    """
    _refuse("unique_counts", _DIFFERENT, "`pb.bincount(x, n)` counts each of the integers below n; " + _SORTED)


def unique_inverse(x: Any, /) -> NoReturn:
    """Raise ShapeError [E106]: the number of distinct elements is unknown at the definition.

    Use this instead:

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda x: pb.searchsorted(pb.sort(x), x))(np.array([3, 1, 3])).tolist()
    [1, 0, 1]
    """
    _refuse("unique_inverse", _DIFFERENT, "`pb.searchsorted(pb.sort(x), x)` numbers equal elements alike; " + _SORTED)


def unique_values(x: Any, /) -> NoReturn:
    """Raise ShapeError [E106]: the number of distinct elements is unknown at the definition.

    Use this instead:

    >>> import numpy as np, pullback as pb
    >>> pb.function(lambda s: s[1:] != s[:-1])(np.array([1, 3, 3])).tolist()
    [True, False]
    """
    _refuse("unique_values", _DIFFERENT, _SORTED)


_DIFFERENT = "how many different elements there are"
_SORTED = "`s = pb.sort(x)` has equal elements side by side: `s[1:] != s[:-1]` is where a new one begins"

"""Batches of data: ordered, stacked for one call, and prefetched while the previous call runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

import pullback.arrays.complex  # noqa: F401  registers complex arrays with trees
from pullback.data.dataset import Dataset
from pullback.data.fingerprint import described, fingerprint
from pullback.data.order import permutation
from pullback.errors import DataError, UsageError, counted
from pullback.tracing import tree
from pullback.tracing.making import unmasked

__all__ = ["Batches", "Samples", "Stream", "batches_of", "first_batch", "prefetch"]

T = TypeVar("T")
Request = tuple[int, int, int]  # epoch, first batch, number of batches
Check = Callable[[Any, str], None]
ORDER = 1 << 32  # the first random-number counter of transformations
QUICK = 1 << 18  # bytes that are copied in less time than another thread takes to begin


class Batches(Protocol):
    """A source of batches.

    Attributes:
        name: the name in messages.
        steps: the number of batches per epoch; None if unknown before the end of an epoch.
        whole: the number of full batches.
        items: the number of samples in a full batch; 0 if unknown.
        check: a function of a batch and its position that refuses an invalid batch of an iterable.
    """

    name: str
    steps: int | None
    whole: int | None
    items: int
    check: Check | None

    def stacked(self, epoch: int, first: int, count: int) -> Any:
        """Return `count` batches of an epoch, from number `first`, as a tree of arrays (count, B, ...)."""

    def is_quick(self, epoch: int, first: int, count: int) -> bool:
        """Whether these batches load in less time than it takes to hand them to a thread."""

    def fingerprint(self, batch: Any) -> tuple[str, str]:
        """Return a description of the arrays, and a digest of their values; `batch` is the first batch."""


class Samples:
    """Batches of a data set, or of a tree of arrays with a common first size.

    Args:
        data: a Dataset, or arrays.
        batch_size: the number of samples per batch, or all samples if there are fewer.
        seed: the seed of the order and of random transformations.
        shuffle: whether to shuffle the samples in every epoch.
        drop_last: whether to drop the last, smaller batch of an epoch.
    Raises:
        DataError: [E512] there are no samples, or the arrays differ in the number of samples.
    """

    def __init__(
        self, data: Any, batch_size: int, *, seed: int = 0, shuffle: bool = True, drop_last: bool = True
    ) -> None:
        self.data = data
        self.name = data.name if isinstance(data, Dataset) else "data"
        self.count = len(data) if isinstance(data, Dataset) else _extent(data)
        if not self.count:
            raise DataError("E512", f"{self.name}: no samples", remedy="at least one")
        self.items = min(batch_size, self.count)
        self.seed = seed
        self.shuffle = shuffle
        whole = self.count // self.items
        self.whole: int | None = whole
        self.steps: int | None = whole + (not drop_last and self.count % self.items > 0)
        self.check: Check | None = None
        self._order: tuple[int, NDArray[np.intp]] | None = None

    def stacked(self, epoch: int, first: int, count: int) -> Any:
        """Return `count` batches of an epoch, from number `first`."""
        start, end = first * self.items, min((first + count) * self.items, self.count)
        size = (end - start) // count
        return tree.map_leaves(lambda x: x.reshape(count, size, *x.shape[1:]), self.rows(epoch, start, end))

    def rows(self, epoch: int, start: int, end: int) -> Any:
        """Return the samples from `start` to `end` in the order of an epoch, as contiguous arrays."""
        return tree.map_leaves(_contiguous, self._read(self.samples(epoch, start, end), epoch))

    def is_quick(self, epoch: int, first: int, count: int) -> bool:
        """Whether the batches are views of arrays in memory, or small copies."""
        data: Any = self.data
        if isinstance(data, Dataset):
            if data.transforms:
                return False
            data = data.arrays
        arrays = tree.flatten(data)[0]
        if any(type(x) is not np.ndarray for x in arrays):  # a file that is mapped to memory has a class of its own
            return False
        copied = (x for x in arrays if self.shuffle or not x.flags.c_contiguous)
        return sum(int(x[:1].nbytes) for x in copied) * self.items * count <= QUICK

    def fingerprint(self, batch: Any) -> tuple[str, str]:
        """Return a description of the arrays, and a digest of their values and of the first transformed batch."""
        if isinstance(self.data, Dataset):
            arrays = self.data.arrays
            if self.data.weights is not None:
                arrays["weights"] = self.data.weights
            made: list[Any] = tree.flatten(self.data.batch(slice(0, 4)))[0]
        else:
            arrays, made = _paths(self.data), []
        return f"{self.name} with {described(arrays)}", fingerprint(*arrays.values(), *made)

    def samples(self, epoch: int, start: int, end: int) -> Any:
        """The indices of the samples from `start` to `end` in the order of an epoch."""
        if not self.shuffle:
            return slice(start, end)
        order = self._order  # another thread may load another epoch
        if order is None or order[0] != epoch:
            counters = self.seed, epoch, ORDER
            own = self.data if isinstance(self.data, Dataset) else None
            order = self._order = epoch, permutation(self.count, *counters) if own is None else own.order(*counters)
        return order[1][start:end]

    def _read(self, samples: Any, epoch: int) -> Any:
        if isinstance(self.data, Dataset):
            return self.data.batch(samples, self.seed, epoch)
        return tree.map_leaves(lambda x: np.asarray(x[samples]), self.data)


def _contiguous(x: NDArray[Any]) -> NDArray[Any]:
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def _paths(data: Any) -> dict[str, Any]:
    """The arrays of a tree by their paths."""
    leaves, structure = tree.flatten(data)
    found = dict(zip(tree.leaf_paths(structure, "data"), leaves, strict=True))
    return {path: unmasked(x, path) for path, x in found.items()}


def _extent(data: Any) -> int:
    """The common first size of a tree's arrays."""
    counts = {path: len(x) for path, x in _paths(data).items()}
    if len(set(counts.values())) > 1:
        raise DataError(
            "E512",
            "the arrays of the data differ in how many samples they have",
            facts=tuple(f"{path} : {count}" for path, count in counts.items()),
            remedy="arrays with the same first size",
        )
    return next(iter(counts.values()), 0)


class Stream:
    """Batches from a user's iterable, one epoch at a time.

    Args:
        batches: an iterable of trees of arrays; every epoch requests a new iterator.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = batches
        self.name = type(batches).__name__
        self.steps: int | None = None
        self.whole: int | None = None
        self.items = 0
        self._iterator: Iterator[Any] | None = None
        self._at = (0, 0)
        self._last: Any = None
        self._length = 0  # batches of this epoch so far, or else of the last one
        self.check: Check | None = None

    def stacked(self, epoch: int, first: int, count: int) -> Any:
        """Return the next batch as a stack of one; None at the end of the epoch."""
        if self._iterator is None or self._at[0] != epoch or self._at[1] > first + 1:
            self._start(epoch)
        assert self._iterator is not None
        while self._at[1] <= first:
            self._last = next(self._iterator, None)
            self._at = (epoch, self._at[1] + 1)
            if self._last is None:
                if self._at[1] == 1:
                    raise self._ended(epoch)
                return None
            self._length = self._at[1]
        if self.check is not None:
            self.check(self._last, f" in batch {first + 1} of epoch {epoch + 1}")
        return tree.map_leaves(lambda x: np.asarray(x)[None], self._last)

    def is_quick(self, epoch: int, first: int, count: int) -> bool:
        """False: an iterable runs the user's code."""
        return False

    def fingerprint(self, batch: Any) -> tuple[str, str]:
        """Return a description of the arrays, without values and sizes, which may change between epochs."""
        kinds = ", ".join(f"{path} {x.dtype} of {x.ndim} axes" for path, x in _paths(batch).items())
        return f"{self.name} with {kinds}", ""

    def _start(self, epoch: int) -> None:
        again = iter(self.batches)
        if again is self._iterator or (again is self.batches and epoch > 0):
            raise self._ended(epoch)
        self._iterator, self._at = again, (epoch, 0)

    def _ended(self, epoch: int) -> DataError:
        facts = (f"the epoch before had {counted(self._length, 'batch', 'batches')}",) if self._length else ()
        remedy = "a list of batches, or an object whose __iter__ starts again; a generator serves one epoch"
        return DataError("E512", f"{self.name}: no batches in epoch {epoch + 1}", facts=facts, remedy=remedy)


def batches_of(data: Any, batch_size: int | None, **order: Any) -> Batches:
    """Batches of a data set, a tree of arrays, or an iterable of batches.

    Raises:
        UsageError: [E518] the batch size is below 1, or is set for an iterable of batches.
    """
    if isinstance(data, Dataset) or _is_arrays(data):
        if batch_size is not None and batch_size < 1:
            raise UsageError("E518", f"batch_size={batch_size}", remedy="the number of samples in a batch, at least 1")
        return Samples(data, batch_size or 32, **order)
    if isinstance(data, tuple) and any(isinstance(x, list) and x and not hasattr(x[0], "shape") for x in data):
        part = "inputs" if isinstance(data[0], list) else "targets"
        remedy = "`np.array(x)` makes an array of a list, `pb.jagged(x)` of rows of different lengths"
        raise DataError("E508", f"the {part} of the data are a list", remedy=remedy)
    if batch_size is not None:
        raise UsageError(
            "E518",
            f"batch_size={batch_size} for {type(data).__name__}, which gives batches itself",
            remedy="leave `batch_size` out, or pass arrays",
        )
    if not isinstance(data, Iterable):
        name = getattr(data, "__name__", type(data).__name__)
        raise DataError(
            "E512",
            f"the data is {'the function ' if callable(data) else ''}{name}, which gives no batches",
            remedy=f"`list({name}())`, or an object whose __iter__ calls it" if callable(data) else "a pair of arrays",
        )
    return Stream(data)


def _is_arrays(data: Any) -> bool:
    """Whether the data is a tree of arrays, and not an iterable of batches."""
    if isinstance(data, list) or (tree.open_node(data) is None and not hasattr(data, "shape")):
        return False
    return all(hasattr(leaf, "shape") for leaf in tree.flatten(data)[0])


def first_batch(source: Batches) -> Any:
    """The first batch of the first epoch."""
    return tree.map_leaves(lambda x: x[0], source.stacked(0, 0, 1))


def _never(*request: int) -> bool:
    return False


def prefetch(
    load: Callable[..., T], requests: Iterable[Request], is_quick: Callable[..., bool] = _never
) -> Generator[tuple[Request, T], None, None]:
    """Load each request on a thread while the previous result is in use; yield requests with results.

    Loading errors are raised at the position of the failed request. Only one request is loaded in advance. Requests for
    which `is_quick` holds are loaded by the caller, without a thread.
    """
    with ThreadPoolExecutor(1, "pullback-load") as pool:  # starts its thread with the first request
        waiting: tuple[Request, Future[T] | None] | None = None
        following: tuple[Request, Future[T] | None] | None = None

        def result(request: Request, future: Future[T] | None) -> tuple[Request, T]:
            return request, load(*request) if future is None else future.result()

        try:
            for request in requests:
                following = request, None if is_quick(*request) else pool.submit(load, *request)
                if waiting is not None:
                    yield result(*waiting)
                waiting = following
            if waiting is not None:
                yield result(*waiting)
        finally:
            if following is not None and following[1] is not None:
                following[1].cancel()

"""Tables into data sets, columns by their names: pandas, Arrow, Parquet files, and dicts of columns.

Tables are recognized by their methods, so neither pandas nor Arrow need be installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pullback import reading
from pullback.data.dataset import Dataset
from pullback.errors import DataError, counted
from pullback.tracing.elsewhere import one_of

__all__ = ["from_table", "load_parquet"]

Columns = str | Sequence[str] | Mapping[str, str | Sequence[str]]
SHOWN = 6  # values in a message


def from_table(
    table: Any, inputs: Columns, targets: Columns, *, categories: Mapping[str, Sequence[Any]] | None = None,
    dtype: DTypeLike = np.float32, name: str = "table",
) -> Dataset:  # fmt: skip
    """Make a data set of the columns of a table.

    Args:
        table: a pandas DataFrame, an Arrow table, or a dict of columns.
        inputs: a list of columns becomes one array (N, M) of numbers, the name of a column an array (N,), and a dict of
            these a dict of arrays.
        targets: the same.
        categories: for columns of texts, all their values in order: a text becomes its position. A column of pandas'
            categories has its own.
        dtype: the element type of floating-point columns, and of several columns together.
        name: the name in messages.
    Returns:
        The data set. `classes` are the categories of the target, if it is one column that has some.
    Raises:
        DataError: [E508] a column does not exist, is no column of numbers or texts, lacks values, or has a text that is
            no category.
    Cost:
        A copy of the columns.

    >>> from pullback import data
    >>> table = {"age": [20, 30], "height": [1.5, 2.0], "pet": ["dog", "cat"]}
    >>> pets = data.from_table(table, ["age", "height"], "pet", categories={"pet": ["cat", "dog"]})
    >>> pets.inputs.tolist(), pets.targets.tolist(), pets.classes
    ([[20.0, 1.5], [30.0, 2.0]], [1, 0], ('cat', 'dog'))
    """
    reader = _Reader(table, dict(categories or {}), np.dtype(dtype), name)
    made = [reader.arrays(columns) for columns in (inputs, targets)]
    classes = reader.categories.get(targets) if isinstance(targets, str) else None
    return Dataset(made[0], made[1], name, classes=None if classes is None else tuple(map(str, classes)))


def load_parquet(
    path: str | os.PathLike[str], inputs: Columns, targets: Columns, *,
    categories: Mapping[str, Sequence[Any]] | None = None, dtype: DTypeLike = np.float32,
) -> Dataset:  # fmt: skip
    """Read columns of a Parquet file, or of a folder of them; other columns are not read.

    Args:
        path: the file.
        inputs, targets, categories, dtype: as for `from_table`.
    Raises:
        DataError: [E506] pyarrow is not installed. [E501] There is no such file. [E503] It is damaged, or no Parquet
            file, or [E527] larger than the limit. [E508] as for `from_table`.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DataError("E506", "load_parquet: pyarrow, which reads Parquet files, is not installed",
                        facts=(str(error),), remedy="pip install 'pullback[parquet]'") from error  # fmt: skip
    if not os.path.exists(path):
        raise DataError("E501", f"{os.fspath(path)}: no such file", remedy="check the path")
    wanted = [*_names(inputs), *_names(targets)]
    with reading.parsing(path, "a Parquet file", "write it again"):
        data = parquet.ParquetDataset(path)
        known = list(data.schema.names)
        for column in wanted:
            _check_there(os.fspath(path), column, known)
        sizes = [_unpacked(fragment, set(wanted)) for fragment in data.fragments]
        reading.check_bytes(path, sum(sizes), "its columns have")
        table = data.read(columns=list(dict.fromkeys(wanted)))
    name = os.path.basename(os.fspath(path))
    return from_table(table, inputs, targets, categories=categories, dtype=dtype, name=name)


def _unpacked(fragment: Any, wanted: set[str]) -> int:
    """The bytes of some columns of a file, as its metadata promises them."""
    about = fragment.metadata
    groups = (about.row_group(k) for k in range(about.num_row_groups))
    chunks = (group.column(k) for group in groups for k in range(group.num_columns))
    return sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.partition(".")[0] in wanted)


def _names(columns: Columns) -> list[str]:
    """All columns that are named."""
    if isinstance(columns, str):
        return [columns]
    return [n for c in (columns.values() if isinstance(columns, Mapping) else columns) for n in _names(c)]


def _check_there(table: str, column: str, known: Sequence[str]) -> None:
    if column not in known:
        raise DataError("E508", f"{table}: there is no column {column!r}", remedy=one_of(column, list(known)))


class _Reader:
    """The columns of a table as arrays.

    Args:
        table: the table.
        categories: the categories of columns of texts; those of pandas' categories are added.
        dtype: the element type of floating-point columns.
        name: the name in messages.
    """

    def __init__(self, table: Any, categories: dict[str, Sequence[Any]], dtype: np.dtype[Any], name: str) -> None:
        found = getattr(table, "column_names", None)
        found = getattr(table, "columns", table) if found is None else found
        if isinstance(table, np.ndarray) or not hasattr(found, "__iter__") or isinstance(table, str):
            raise DataError("E508", f"from_table: {type(table).__name__} is no table",
                            remedy="a pandas DataFrame, an Arrow table, or a dict of columns")  # fmt: skip
        self.table, self.categories, self.dtype, self.name = table, categories, dtype, name
        self.known = [str(column) for column in found]
        for column in categories:
            _check_there(name, column, self.known)

    def arrays(self, columns: Columns) -> Any:
        """The array of a column, or of several side by side; or a dict of these."""
        if isinstance(columns, Mapping):
            return {key: self.arrays(own) for key, own in columns.items()}
        if isinstance(columns, str):
            return self.column(columns)
        if not columns:
            raise DataError("E508", f"{self.name}: a list of no columns", remedy=one_of("", self.known))
        return np.stack([self.column(column, alone=False).astype(self.dtype) for column in columns], axis=1)

    def column(self, column: str, alone: bool = True) -> NDArray[Any]:
        """A column as numbers; texts by their positions among the categories."""
        _check_there(self.name, column, self.known)
        values, missing = self._values(column)
        if missing.any():
            raise DataError(
                "E508",
                f"{self.name}: the column {column!r} lacks {counted(int(missing.sum()), 'value')}",
                facts=(f"the first one in row {int(np.argmax(missing))} of {len(missing)}",),
                remedy="`table.dropna()`, or a value in their place",
            )
        if column in self.categories:
            if not alone:
                raise DataError("E508", f"{self.name}: categories of {column!r} among numbers",
                                remedy=f"a dict of arrays, with {column!r} alone, for `nn.embedding`")  # fmt: skip
            return self._positions(column, values)
        if values.dtype.kind in "OUST":
            values = self._numbers(column, values)
        if values.dtype.kind not in "fiub":
            raise DataError("E508", f"{self.name}: the column {column!r} is of {values.dtype}",
                            remedy="a column of numbers or texts")  # fmt: skip
        return values.astype(self.dtype) if values.dtype.kind == "f" else values

    def _values(self, column: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The values of a column, and which of them are missing."""
        if hasattr(self.table, "column_names"):  # Arrow
            chunked = self.table.column(column)
            values = np.asarray(chunked.to_numpy())
            missing = np.asarray(chunked.is_null().to_numpy(), np.bool_)
        else:
            series = self.table[column]
            own = getattr(series, "cat", None)
            if own is not None and column not in self.categories:
                self.categories[column] = list(own.categories)
            values = np.asarray(series)
            missing = np.asarray(series.isna() if hasattr(series, "isna") else np.zeros(len(values)), np.bool_)
        if values.ndim != 1:
            raise DataError("E508", f"{self.name}: the column {column!r} has shape {values.shape}",
                            remedy="a column of one value for each row")  # fmt: skip
        if values.dtype.kind == "f":
            missing = missing | np.isnan(values)
        elif values.dtype.kind == "O":
            missing = np.array([known or v is None or v != v for known, v in zip(missing, values)], np.bool_)
        return values, missing

    def _numbers(self, column: str, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers that are kept as objects, as in pandas' columns that may lack values."""
        found = np.array(values.tolist()) if len(values) else np.zeros(0)
        if found.dtype.kind in "fiub":
            return found
        kinds = sorted({str(v) for v in values.tolist()})
        listed = ", ".join(map(repr, kinds[:SHOWN])) + (" …" if len(kinds) > SHOWN else "")
        raise DataError(
            "E508",
            f"{self.name}: the column {column!r} holds texts, and their order is not known",
            facts=(f"{counted(len(kinds), 'value')}: {listed}",),
            remedy=f"`categories={{{column!r}: […]}}` with all values, the same for every table",
        )

    def _positions(self, column: str, values: NDArray[Any]) -> NDArray[np.int64]:
        """The positions of texts among the categories."""
        places = {value: k for k, value in enumerate(self.categories[column])}
        unknown = next((k for k, value in enumerate(values.tolist()) if value not in places), None)
        if unknown is not None:
            raise DataError(
                "E508",
                f"{self.name}: {values.tolist()[unknown]!r} in the column {column!r} is none of its categories",
                facts=(f"row {unknown}", f"categories: {', '.join(map(repr, list(places)[:SHOWN]))}"),
                remedy="all values of the column among its categories",
            )
        return np.array([places[value] for value in values.tolist()], np.int64)

"""Tables into data sets: columns by name, of dicts, pandas, Arrow and Parquet; and images that threads decode."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import data, nn
from pullback.errors import PullbackError

AGES, HEIGHTS = [20, 30, 40, 50], [1.5, 2.0, 1.75, 1.25]
PETS, SICK = ["dog", "cat", "dog", "eel"], [True, False, True, False]
TABLE = {"age": AGES, "height": HEIGHTS, "pet": PETS, "sick": SICK}
KINDS = ["cat", "dog", "eel"]


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


def as_pandas(table: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(table)


def as_arrow(table: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow").table(table)


def as_nullable(table: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(table).convert_dtypes()


FORMS = pytest.mark.parametrize("form", [dict, as_pandas, as_nullable, as_arrow])


@FORMS
def test_columns_by_name(form: Any) -> None:
    table = form(TABLE)
    rows = data.from_table(table, ["age", "height", "sick"], "height")
    assert rows.inputs.dtype == np.float32
    assert rows.inputs.tolist() == [[20, 1.5, 1], [30, 2.0, 0], [40, 1.75, 1], [50, 1.25, 0]]
    assert rows.targets.dtype == np.float32 and rows.targets.tolist() == HEIGHTS
    pets = data.from_table(table, {"numbers": ["age", "height"], "pet": "pet"}, {"sick": "sick", "tall": ["height"]},
                           categories={"pet": KINDS})  # fmt: skip
    assert {n: x.shape for n, x in pets.inputs.items()} == {"numbers": (4, 2), "pet": (4,)}
    assert pets.inputs["pet"].tolist() == [1, 0, 1, 2] and pets.inputs["pet"].dtype == np.int64
    assert pets.targets["sick"].dtype == np.bool_ and pets.targets["tall"].shape == (4, 1)
    labels = data.from_table(table, "age", "pet", categories={"pet": KINDS})
    assert (labels.inputs.tolist(), labels.targets.tolist(), labels.classes) == (AGES, [1, 0, 1, 2], tuple(KINDS))
    wide = data.from_table(table, ["height"], "age", dtype=np.float64)
    assert wide.inputs.dtype == np.float64 and wide.targets.dtype == np.int64


@FORMS
def test_columns_that_do_not_fit(form: Any) -> None:
    table = form(TABLE)
    assert message(lambda: data.from_table(table, ["age", "hight"], "pet")) == (
        "E508 table: there is no column 'hight' |  | did you mean `height`? There are age, height, pet, sick"
    )
    assert message(lambda: data.from_table(table, ["age"], "pet", name="mine")) == (
        "E508 mine: the column 'pet' holds texts, and their order is not known | 3 values: 'cat', 'dog', 'eel' | "
        "`categories={'pet': […]}` with all values, the same for every table"
    )
    assert message(lambda: data.from_table(table, ["age"], "pet", categories={"pet": ["cat", "dog"]})) == (
        "E508 table: 'eel' in the column 'pet' is none of its categories | row 3; categories: 'cat', 'dog' | "
        "all values of the column among its categories"
    )
    assert message(lambda: data.from_table(table, ["age", "pet"], "age", categories={"pet": KINDS})) == (
        "E508 table: categories of 'pet' among numbers |  | a dict of arrays, with 'pet' alone, for `nn.embedding`"
    )
    assert message(lambda: data.from_table(table, [], "age")).startswith("E508 table: a list of no columns | ")
    assert message(lambda: data.from_table(table, ["age"], "age", categories={"cats": KINDS})).startswith(
        "E508 table: there is no column 'cats' | "
    )


def test_what_is_no_table() -> None:
    for x, kind in ((np.zeros((2, 2)), "ndarray"), ("people.csv", "str"), (3, "int")):
        assert message(lambda x=x: data.from_table(x, ["a"], "b")) == (
            f"E508 from_table: {kind} is no table |  | a pandas DataFrame, an Arrow table, or a dict of columns"
        )
    times = {"t": np.array(["2026-01-01"], "datetime64[D]"), "y": [1]}
    assert message(lambda: data.from_table(times, "t", "y")) == (
        "E508 table: the column 't' is of datetime64[D] |  | a column of numbers or texts"
    )
    assert message(lambda: data.from_table({"x": np.zeros((2, 2)), "y": [1, 2]}, "x", "y")) == (
        "E508 table: the column 'x' has shape (2, 2) |  | a column of one value for each row"
    )
    assert message(lambda: data.from_table({"x": [1, 2, 3], "y": [1, 2]}, "x", "y")) == (
        "E507 table: 3 inputs and 2 targets |  | one target for each input"
    )


LACKS = {"age": [20, None, 40, None], "height": [1.5, 2.0, float("nan"), 1.0], "pet": ["cat", None, "dog", "cat"],
         "y": [1, 2, 3, 4]}  # fmt: skip


@FORMS
@pytest.mark.parametrize(("column", "count", "row"), [("age", "2 values", 1), ("height", "1 value", 2),
                                                      ("pet", "1 value", 1)])  # fmt: skip
def test_missing_values(form: Any, column: str, count: str, row: int) -> None:
    for columns in (column, [column]):
        assert message(lambda columns=columns: data.from_table(form(LACKS), columns, "y")) == (
            f"E508 table: the column {column!r} lacks {count} | the first one in row {row} of 4 | "
            "`table.dropna()`, or a value in their place"
        )


def test_categories_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": AGES, "pet": pandas.Categorical(PETS, ["eel", "dog", "cat"])})
    pets = data.from_table(table, ["x"], "pet")
    assert (pets.targets.tolist(), pets.classes) == ([1, 2, 1, 0], ("eel", "dog", "cat"))
    again = data.from_table(table[2:], ["x"], "pet")  # the same positions, though no cat is left
    assert again.targets.tolist() == [1, 0]


def test_a_table_trains() -> None:
    random = np.random.default_rng(0)
    table = {"a": random.normal(size=60), "b": random.normal(size=60), "city": random.choice(["Bern", "Rome"], 60)}
    table["y"] = table["a"] - 2 * table["b"] + (table["city"] == "Rome")
    cities = data.from_table(table, {"x": ["a", "b"], "city": "city"}, ["y"], categories={"city": ["Bern", "Rome"]})
    net = nn.layer({"x": "N 2", "city": "i64[N]"})(lambda scope, x: scope.call(nn.dense(1), x["x"]) + scope.call(
        nn.embedding(2, 1), x["city"]))()  # fmt: skip
    run = nn.fit(net, nn.mse_loss, cities, optimizer=nn.adam(0.1), epochs=60, batch_size=20, progress=False)
    w = run.parameters["dense1"]["w"]
    np.testing.assert_allclose(w, [[1, -2]], atol=1e-2)


# Parquet ----------------------------------------------------------------------------------------------------------


def test_parquet_files(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "people.parquet"
    parquet.write_table(pyarrow.table(TABLE), path, row_group_size=3)
    found = data.load_parquet(path, ["age", "height"], "pet", categories={"pet": KINDS})
    assert found.inputs.tolist() == [[20, 1.5], [30, 2.0], [40, 1.75], [50, 1.25]]
    assert repr(found) == "Dataset(people.parquet: inputs float32[4, 2], targets int64[4])"
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(2):
        parquet.write_table(pyarrow.table({n: c[2 * k : 2 * k + 2] for n, c in TABLE.items()}), folder / f"{k}.parquet")
    assert data.load_parquet(folder, "age", "height").inputs.tolist() == AGES


def test_parquet_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    assert message(lambda: data.load_parquet(path, "x", "y")) == f"E501 {path}: no such file |  | check the path"
    parquet.write_table(pyarrow.table(TABLE), path)
    assert message(lambda: data.load_parquet(path, "agee", "pet")) == (
        f"E508 {path}: there is no column 'agee' |  | did you mean `age`? There are age, height, pet, sick"
    )
    monkeypatch.setenv("PULLBACK_READ_LIMIT", "50")
    assert message(lambda: data.load_parquet(path, "age", "height")).startswith(f"E527 {path}: its columns have ")
    monkeypatch.delenv("PULLBACK_READ_LIMIT")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-9], b"PAR1" + bytes(40) + b"PAR1", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        assert message(lambda: data.load_parquet(path, "age", "height")).startswith(
            f"E503 {path}: not a Parquet file, or damaged | "
        )


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = message(lambda: data.load_parquet(tmp_path / "a.parquet", "x", "y")).split(" | ")
    assert (said[0], said[2]) == (
        "E506 load_parquet: pyarrow, which reads Parquet files, is not installed", "pip install 'pullback[parquet]'",
    )  # fmt: skip


# Images -----------------------------------------------------------------------------------------------------------


def test_threads_decode_what_one_decodes(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for k in range(9):
            pixels = np.random.default_rng(k).integers(0, 256, (6, 5, 3), np.uint8)
            image.fromarray(pixels).save(tmp_path / name / f"{k}.png")
    one, many = (data.load_images(tmp_path, threads=threads) for threads in (1, 4))
    order = np.random.default_rng(0).permutation(18)
    np.testing.assert_array_equal(one.batch(order)[0], many.batch(order)[0])
    (tmp_path / "dog" / "3.png").write_bytes(b"no image")
    assert message(lambda: many.batch(order)).startswith(f"E503 {tmp_path / 'dog' / '3.png'}: not an image, or damaged")
    assert message(lambda: data.load_images(tmp_path, threads=0)) == (
        "E508 load_images: threads=0 |  | a number from 1, or None"
    )

"""Databases of Caffe: records written by Google's Protocol Buffers are read back, and damaged ones are refused."""

import io
import multiprocessing
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback import data
from pullback.errors import DataError

lmdb = pytest.importorskip("lmdb")
rng = np.random.default_rng(0)
BYTES = rng.integers(0, 256, (7, 3, 4, 5), dtype=np.uint8)
FLOATS = rng.normal(size=(4, 2, 3, 3)).astype(np.float32)


def message() -> Any:
    """The class of `Datum`, from its definition in caffe.proto."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"channels": field.TYPE_INT32, "height": field.TYPE_INT32, "width": field.TYPE_INT32,
             "data": field.TYPE_BYTES, "label": field.TYPE_INT32, "float_data": field.TYPE_FLOAT,
             "encoded": field.TYPE_BOOL}  # fmt: skip
    file = descriptor_pb2.FileDescriptorProto(name="datum.proto", package="caffe")
    datum = file.message_type.add(name="Datum")
    for number, (name, kind) in enumerate(kinds.items(), 1):
        label = field.LABEL_REPEATED if name == "float_data" else field.LABEL_OPTIONAL
        datum.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe.Datum"))


def record(image: Any, label: int, **fields: Any) -> bytes:
    channels, height, width = image.shape
    content = {"float_data": image.ravel()} if image.dtype == np.float32 else {"data": image.tobytes()}
    sizes = {"channels": channels, "height": height, "width": width}
    made: bytes = message()(**{**sizes, **content, **fields}, label=label).SerializeToString()
    return made


def written(path: Path, records: list[bytes]) -> Path:
    database = lmdb.open(str(path), map_size=1 << 24)
    with database.begin(write=True) as change:
        for k, content in enumerate(records):
            change.put(f"{k:08d}_name".encode(), content)
    database.close()
    return path


@pytest.mark.parametrize("images", [BYTES, FLOATS], ids=["bytes", "numbers"])
def test_records_are_read(images: Any, tmp_path: Path) -> None:
    labels = [3, 0, 2**31 - 1, -1, 5, 6, 7][: len(images)]
    made = data.load_lmdb(written(tmp_path / "train_lmdb", [record(x, n) for x, n in zip(images, labels)]))
    assert repr(made) == f"Dataset(train_lmdb: inputs {images.dtype}{list(images.shape)}, targets int64[{len(images)}])"
    assert made.targets.tolist() == labels
    inputs, targets = made.batch(np.array([2, 0, 3]))
    np.testing.assert_array_equal(inputs, images[[2, 0, 3]])
    assert targets.tolist() == [labels[2], labels[0], labels[3]]
    np.testing.assert_array_equal(made.batch(slice(1, 3))[0], images[1:3])
    np.testing.assert_array_equal(np.asarray(made.inputs), images)
    first, second = made.split(0.5)
    np.testing.assert_array_equal(np.concatenate([np.asarray(first.inputs), np.asarray(second.inputs)]), images)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(made.inputs))), images)


def test_compressed_images(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    records = []
    for image in BYTES:  # stored as blue, green, red
        file = io.BytesIO()
        pillow.fromarray(np.ascontiguousarray(image[::-1].transpose(1, 2, 0))).save(file, "png")
        records.append(record(image, 1, data=file.getvalue(), encoded=True))
    np.testing.assert_array_equal(np.asarray(data.load_lmdb(written(tmp_path / "d", records)).inputs), BYTES)


@pytest.mark.skipif(sys.platform == "win32", reason="processes do not fork")
def test_a_forked_process_opens_the_database_again(tmp_path: Path) -> None:
    made = data.load_lmdb(written(tmp_path / "d", [record(x, 0) for x in BYTES]))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(np.asarray, (made.inputs,)), BYTES)


def test_transforms_and_crops(tmp_path: Path) -> None:
    made = data.load_lmdb(written(tmp_path / "d", [record(x, 0) for x in BYTES])).transformed(data.scale())
    np.testing.assert_array_equal(made.batch([1])[0], BYTES[1:2].astype(np.float32) / 255)


WHOLE = record(BYTES[0], 3)
DAMAGED = {
    "no message": b"\xff" * 20,
    "cut off": WHOLE[:-20],
    "too few pixels": record(BYTES[0], 3, height=9),
    "no pixels": record(BYTES[0], 3, data=b""),
    "another kind of field": b"\x0b",
    "no image": record(BYTES[0], 3, encoded=True),
    "no bytes": b"",
    "a number as data": WHOLE + b"\x20\x05",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_records(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path / "d", [DAMAGED[kind]])
    with pytest.raises(DataError) as caught:
        data.load_lmdb(path)
    text = str(caught.value)
    assert text.startswith(f"DataError [E503] {path}: not a database of images, or damaged\n")
    assert "try: a database of `convert_imageset`, or of other tools of Caffe" in text


def test_every_record_cut_off_anywhere(tmp_path: Path) -> None:
    """No cut is read as an image: what is left has too few pixels, or ends within a field."""
    for length in range(len(WHOLE)):
        path = written(tmp_path / f"{length}", [WHOLE[:length]])
        if length == len(WHOLE) - len(b"\x28\x03"):  # only the label is missing
            assert data.load_lmdb(path).targets.tolist() == [0]
            continue
        with pytest.raises(DataError, match="E503"):
            data.load_lmdb(path)


def test_images_of_different_sizes(tmp_path: Path) -> None:
    made = data.load_lmdb(written(tmp_path / "d", [record(BYTES[0], 0), record(BYTES[0][:, :2], 0)]))
    with pytest.raises(DataError) as caught:
        made.batch(np.array([0, 1]))
    assert str(caught.value) == (
        f"DataError [E507] {tmp_path / 'd'}: images differ in size\n"
        "   | b'00000001_name' : uint8[3, 2, 5]      b'00000000_name' : uint8[3, 4, 5]\n"
        "  try: resize them when the database is written, as `convert_imageset -resize_height` does"
        "      See `pullback explain-error E507`"
    )


def test_what_is_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^DataError \[E501\] .*nowhere: no such database"):
        data.load_lmdb(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"^DataError \[E503\] .*: not a database of images, or damaged"):
        data.load_lmdb(tmp_path)
    with pytest.raises(
        DataError, match=r"^DataError \[E503\] .*: not a database of images, or damaged\n   \| it has no records"
    ):
        data.load_lmdb(written(tmp_path / "empty", []))
    path = written(tmp_path / "d", [WHOLE])
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(
        DataError, match=r"^DataError \[E506\] load_lmdb: lmdb, which reads these databases, is not installed"
    ):
        data.load_lmdb(path)

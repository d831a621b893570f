"""Parameter files: whole or not at all, checked when read."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from pullback.errors import DataError
from pullback.ir.halves import to_half
from pullback.ir.types import bf16, f16
from pullback.nn.parameters import check_writable, load_parameters, named, save_parameters

pytestmark = pytest.mark.filterwarnings("ignore:.* has no digest:RuntimeWarning")  # files of other programs


class Parameters(NamedTuple):
    k: Any
    b: Any


@dataclass
class Layer:
    w: Any


def some(dtype: str = "float32") -> Parameters:
    random = np.random.default_rng(0)
    return Parameters(random.random((2, 3)).astype(dtype), random.random(2).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_save_then_load(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "p.safetensors"
    save_parameters(path, some(dtype))
    again = load_parameters(path, some(dtype))
    assert isinstance(again, Parameters)
    for new, old in zip(again, some(dtype), strict=True):
        assert new.dtype == old.dtype
        assert np.array_equal(new, old)
        new[...] = 0  # writable, to be trained on
    assert [p.name for p in tmp_path.iterdir()] == ["p.safetensors"]
    with safe_open(path, "numpy") as file:
        assert file.metadata().keys() == {"program", "pullback digest"}
    other = load_parameters(path, some("float64" if dtype == "float32" else "float32"))
    assert other.k.dtype != some(dtype).k.dtype


def test_names_are_paths(tmp_path: Path) -> None:
    whole = {"conv1": {"w": np.ones((2, 1))}, "layers": [Layer(np.zeros(3)), (np.ones(1), np.zeros(()))], "none": None}
    assert list(named(whole)) == ["conv1/w", "layers/0/w", "layers/1/0", "layers/1/1"]
    save_parameters(tmp_path / "p", whole)
    again = load_parameters(tmp_path / "p", whole)
    assert isinstance(again["layers"][0], Layer)
    assert again["layers"][1][1].shape == ()
    nested = load_parameters(tmp_path / "p")
    assert nested["layers"]["0"]["w"].tolist() == [0, 0, 0]
    save_parameters(tmp_path / "p", np.arange(3.0))
    assert load_parameters(tmp_path / "p", np.zeros(3)).tolist() == [0, 1, 2]


def test_names_of_other_programs(tmp_path: Path) -> None:
    save_file({"fc.weight": np.ones((2, 3), "f4"), "fc.bias": np.zeros(2, "f4")}, tmp_path / "p")
    like = {"dense1": {"w": np.zeros((2, 3), "f4"), "b": np.zeros(2, "f4")}}
    theirs = {"dense1/w": "fc.weight", "dense1/b": "fc.bias"}
    assert load_parameters(tmp_path / "p", like, names=theirs)["dense1"]["w"].sum() == 6
    assert load_parameters(tmp_path / "p", like, names=lambda n: theirs[n])["dense1"]["w"].sum() == 6
    with pytest.raises(DataError, match="E510") as caught:
        load_parameters(tmp_path / "p", like, names={"dense1/w": "fc.weight"})
    assert "dense1/b : (2,) is missing" in str(caught.value)
    assert "fc.bias : (2,) is not known" in str(caught.value)


def test_what_is_ignored_is_not_read(tmp_path: Path) -> None:
    held = {"bn": {"w": np.ones(2), "tracked": np.array([np.nan])}}
    save_parameters(tmp_path / "p", held)
    like = {"bn": {"w": np.zeros(2)}}
    assert load_parameters(tmp_path / "p", like, ignore=("*/tracked",))["bn"]["w"].sum() == 2
    assert load_parameters(tmp_path / "p", ignore=("bn/tr*",)).keys() == {"bn"}
    with pytest.raises(DataError, match="E510"):
        load_parameters(tmp_path / "p", {"bn": {"w": np.zeros(2)}}, ignore=("*/w", "*/tracked"))


def test_the_order_in_memory_does_not_matter(tmp_path: Path) -> None:
    columns = Parameters(np.asfortranarray(some().k), some().b[::-1][::-1])
    save_parameters(tmp_path / "p", columns)
    assert np.array_equal(load_parameters(tmp_path / "p", some()).k, some().k)


def test_file_permissions_follow_the_mask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_parameters(tmp_path / "p", some())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o640


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p"
    save_parameters(path, some())
    old = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"E511.*No space left"):
        save_parameters(path, some("float64"))
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["p"]


def test_unwritable_places_are_found_beforehand(tmp_path: Path) -> None:
    check_writable(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    for path in (tmp_path, tmp_path / "missing" / "p"):
        with pytest.raises(DataError, match="E511"):
            check_writable(path)
        with pytest.raises(DataError, match="E511"):
            save_parameters(path, some())


@pytest.mark.parametrize(
    ("arrays", "fact"),
    [
        ({"k": np.zeros((2, 3), "f4")}, "b : (2,) is missing"),
        ({"k": np.zeros((3, 3), "f4"), "b": np.zeros(2, "f4")}, "k : (3, 3) in the file, (2, 3) in the network"),
        ({"k": np.zeros((2, 3), "i4"), "b": np.zeros(2, "f4")}, "k : int32 in the file, float32 in the network"),
        ({"k": np.zeros((2, 3), "f4"), "b": np.zeros(2, "f4"), "z": np.zeros(5, "f4")}, "z : (5,) is not known"),
    ],
)
def test_parameters_of_another_network(tmp_path: Path, arrays: dict[str, Any], fact: str) -> None:
    save_file(arrays, tmp_path / "p")
    with pytest.raises(DataError, match="E510") as caught:
        load_parameters(tmp_path / "p", some())
    assert "not the parameters of this network" in str(caught.value)
    assert fact in str(caught.value)


def test_many_differences_are_counted(tmp_path: Path) -> None:
    save_parameters(tmp_path / "p", {f"a{k}": np.zeros(1) for k in range(20)})
    with pytest.raises(DataError, match="and 12 more"):
        load_parameters(tmp_path / "p", {})


def test_truncated_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "p"
    save_parameters(path, some())
    whole = path.read_bytes()
    for content in (b"", b"not a parameter file", whole[:7], whole[:40], whole[:-1], b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(DataError, match="E509"):
            load_parameters(path, some())
    with pytest.raises(DataError, match="E501"):
        load_parameters(tmp_path / "missing", some())
    with pytest.raises(DataError, match="E501"):
        load_parameters(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"E501.*step-\*"):
        load_parameters(tmp_path / "empty", some())


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    broken = some()
    broken.k[0, 0] = np.nan
    save_parameters(tmp_path / "p", broken)
    with pytest.raises(DataError, match=r"E509.*k holds values that are not finite"):
        load_parameters(tmp_path / "p", some())


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_arrays_of_16_bits_are_converted(tmp_path: Path, kind: str) -> None:
    stored = {name: to_half(a, f16 if kind == "F16" else bf16) for name, a in some()._asdict().items()}
    header, content = {}, b""
    for name, bits in stored.items():
        end = len(content) + bits.nbytes
        header[name] = {"dtype": kind, "shape": bits.shape, "data_offsets": [len(content), end]}
        content += bits.tobytes()
    text = json.dumps(header).encode()
    (tmp_path / "p").write_bytes(len(text).to_bytes(8, "little") + text + content)
    again = load_parameters(tmp_path / "p", some())
    for new, old in zip(again, some(), strict=True):
        np.testing.assert_allclose(new, old, rtol=2**-11 if kind == "F16" else 2**-8)

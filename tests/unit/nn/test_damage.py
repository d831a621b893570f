"""Damaged files: never other values, never an error without a code; and files that were made to be misread."""

from __future__ import annotations

import json
import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from pullback import nn
from pullback.errors import DataError
from pullback.nn.safetensors_file import DamagedError, unpack
from pullback.nn.training import checkpoint
from tests.unit.nn.test_fit import fit

FILES = 400_000 if os.environ.get("PULLBACK_NIGHTLY") else 20_000
NUMBERS = (-1, 0, 1, 2, 3, 7, 8, 24, 1 << 31, 1 << 62, 1 << 64, 10**30, 1.5, True, None, "3", [], {})


def parameters() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"conv": {"w": rng.normal(size=(3, 4)).astype(np.float32), "b": np.zeros(4, np.float32)},
            "k": rng.integers(0, 99, 5), "on": np.array([True, False]), "none": np.zeros((0, 2))}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_silence() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # files without a digest
        yield


# Damage ---------------------------------------------------------------------------------------------------------


def flipped(content: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def shortened(content: bytearray, rng: random.Random) -> None:
    del content[rng.randrange(len(content)) :]


def zeroed(content: bytearray, rng: random.Random) -> None:
    at, size = rng.randrange(len(content)), rng.choice((1, 4, 16, 64, 512))
    content[at : at + size] = bytes(len(content[at : at + size]))


def doubled(content: bytearray, rng: random.Random) -> None:
    """A block stands where another one was."""
    size = rng.choice((1, 4, 16, 64, 512))
    a, b = rng.randrange(len(content)), rng.randrange(len(content))
    block = content[a : a + size]
    content[b : b + len(block)] = block


def inserted(content: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(content))
    content[at:at] = rng.randbytes(rng.choice((1, 8, 64)))


def removed(content: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(content))
    del content[at : at + rng.choice((1, 8, 64))]


def edited(content: bytearray, rng: random.Random) -> None:
    """The header says something else, and its length is right."""
    size = int.from_bytes(content[:8], "little")
    table = json.loads(content[8 : 8 + size])
    name = rng.choice([n for n in table if n != "__metadata__"])
    about = table[name]
    kind = rng.randrange(6)
    if kind == 0:
        about["dtype"] = rng.choice(("F64", "F16", "I32", "U32", "BOOL", "F8_E4M3", "nothing", 3))
    elif kind == 1:
        about["shape"] = [rng.choice(NUMBERS) for _ in range(rng.randrange(4))]
    elif kind == 2:
        about["data_offsets"][rng.randrange(2)] = rng.choice(NUMBERS)
    elif kind == 3:
        del about[rng.choice(list(about))]
    elif kind == 4:
        other = rng.choice([n for n in table if n != "__metadata__"])
        table[name], table[other] = table[other], table[name]
    else:
        table[rng.choice(("k/k", "", "conv", "__metadata__"))] = table.pop(name)
    text = json.dumps(table, separators=(",", ":")).encode()
    content[: 8 + size] = len(text).to_bytes(8, "little") + text


DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flipped, flipped, flipped, shortened, zeroed, doubled, inserted, removed, edited,
)  # fmt: skip


def same(a: Any, b: Any) -> bool:
    one, two = (list(_leaves(x)) for x in (a, b))
    return [p for p, _ in one] == [p for p, _ in two] and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for (_, x), (_, y) in zip(one, two)
    )


def _leaves(x: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in sorted(x.items()):
        yield from _leaves(value, f"{path}/{key}") if isinstance(value, dict) else [(f"{path}/{key}", value)]


def outcome(load: Callable[[], Any], right: Any) -> str:
    try:
        found = load()
    except DataError as error:
        return error.code
    except Exception as error:
        return f"fault: {type(error).__name__}: {error}"
    return "right" if same(found, right) else "fault: other values"


def outcomes(path: Path, load: Callable[[], Any], count: int, seed: int) -> Counter[str]:
    """Count the outcomes of loading damaged forms of a file; reads are patched, which saves the time of writing."""
    content, right = path.read_bytes(), load()
    found: Counter[str] = Counter()
    read = Path.read_bytes
    with pytest.MonkeyPatch.context() as patch:
        for k in range(count):
            rng = random.Random(seed + k)
            other = bytearray(content)
            rng.choice(DAMAGE)(other, rng)
            patch.setattr(Path, "read_bytes", lambda self, other=other: bytes(other) if self == path else read(self))
            what = outcome(load, right)
            found[what if other != content or what != "right" else "not damaged"] += 1
    return found


@pytest.mark.slow
def test_damaged_parameters(tmp_path: Path) -> None:
    path = tmp_path / "p"
    nn.save_parameters(path, parameters())
    found = outcomes(path, lambda: nn.load_parameters(path), FILES // 2, 0)
    found += outcomes(path, lambda: nn.load_parameters(path, parameters()), FILES // 4, 10**6)
    print(found)
    assert found.keys() <= {"E509", "E510", "not damaged", "right"}
    assert found["right"] == 0


def test_damaged_checkpoints(tmp_path: Path) -> None:
    """Damage is noticed by readers of a folder of checkpoints, and by runs that continue from it."""
    run = fit(epochs=1, batch_size=25, save=tmp_path)
    (path,) = tmp_path.glob("step-*")
    like = checkpoint.Carry(run.parameters, run.state, run.optimizer_state)
    folder = checkpoint.Folder(nn.Checkpoints(str(tmp_path)), {})

    def resumed() -> Any:
        carry, position = folder.load(like, "anyway") or ({}, {})
        return {**carry._asdict(), "position": np.array(json.dumps(vars(position)))}

    found = outcomes(path, lambda: nn.load_parameters(tmp_path), FILES // 8, 2 * 10**6)
    found += outcomes(path, resumed, FILES // 8, 3 * 10**6)
    folder.release()
    print(found)
    assert found.keys() <= {"E509", "not damaged"}


def test_every_bit(tmp_path: Path) -> None:
    """Each single bit of a small file is flipped."""
    nn.save_parameters(tmp_path / "p", {"a": np.ones(2, np.float32)})
    content = (tmp_path / "p").read_bytes()
    for at, bit in product(range(len(content)), range(8)):
        other = bytearray(content)
        other[at] ^= 1 << bit
        with pytest.raises(DamagedError):
            unpack(bytes(other))


# Files that were made to be misread -----------------------------------------------------------------------------


def made(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def one(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


CRAFTED: list[tuple[str, bytes, str]] = [
    ("no header", b"", "E509"),
    ("a header of 2^64 - 1 bytes", made({}, length=2**64 - 1), "E509"),
    ("a header longer than the file", made({}, length=3), "E509"),
    ("a header of no bytes", made(b""), "E509"),
    ("a list", made([1, 2]), "E509"),
    ("a number", made(b"3"), "E509"),
    ("a nest", made(b"[" * 100_000), "E509"),
    ("a nest of mappings", made(b'{"a":' * 100_000), "E509"),
    ("no UTF-8", made(b'{"\xff":1}'), "E509"),
    ("a name twice", made(b'{"a":%s,"a":%s}' % ((json.dumps(one()).encode(),) * 2), bytes(8)), "E509"),
    ("a field twice", made(b'{"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}}', bytes(8)), "E509"),
    ("NaN as a size", made(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', bytes(8)), "E509"),
    ("an array that is a number", made({"a": 3}), "E509"),
    ("an array that is null", made({"a": None}), "E509"),
    ("an array that is a list", made({"a": [1]}), "E509"),
    ("no dtype", made({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "E509"),
    ("a field too many", made({"a": {**one(), "more": 1}}, bytes(8)), "E509"),
    ("a dtype that is a number", made({"a": one(3)}, bytes(8)), "E509"),
    ("a dtype that is a list", made({"a": one(["F32"])}, bytes(8)), "E509"),
    ("a dtype that there is none of", made({"a": one("F33")}, bytes(8)), "E509"),
    ("a dtype in small letters", made({"a": one("f32")}, bytes(8)), "E509"),
    ("a dtype of other libraries", made({"a": one("F8_E4M3", [8])}, bytes(8)), "E533"),
    ("complex numbers", made({"a": one("C64", [1])}, bytes(8)), "E533"),
    ("a shape that is null", made({"a": one(shape=None)}, bytes(8)), "E509"),
    ("a shape that is a number", made({"a": one(shape=2)}, bytes(8)), "E509"),
    ("a negative size", made({"a": one(shape=[-2, -1])}, bytes(8)), "E509"),
    ("a fraction as a size", made({"a": one(shape=[2.0])}, bytes(8)), "E509"),
    ("true as a size", made({"a": one("F64", [True])}, bytes(8)), "E509"),
    ("a huge size", made({"a": one(shape=[1 << 80])}, bytes(8)), "E509"),
    ("sizes whose product wraps to 2", made({"a": one(shape=[2**33 + 2, 2**63])}, bytes(8)), "E509"),
    ("a huge size beside 0", made({"a": one(shape=[1 << 80, 0], offsets=[0, 0])}), "E509"),
    ("100 axes", made({"a": one(shape=[2] + [1] * 99)}, bytes(8)), "E509"),
    ("another size", made({"a": one(shape=[3])}, bytes(8)), "E509"),
    ("offsets that are null", made({"a": one(offsets=None)}, bytes(8)), "E509"),
    ("one offset", made({"a": one(offsets=[0])}, bytes(8)), "E509"),
    ("offsets the wrong way round", made({"a": one(offsets=[8, 0])}, bytes(8)), "E509"),
    ("negative offsets", made({"a": one(offsets=[-8, 0])}, bytes(8)), "E509"),
    ("offsets behind the file", made({"a": one(offsets=[8, 16])}, bytes(8)), "E509"),
    ("text as offsets", made({"a": one(offsets=["0", "8"])}, bytes(8)), "E509"),
    ("arrays that overlap", made({"a": one(), "b": one(offsets=[4, 12])}, bytes(12)), "E509"),
    ("arrays in one place", made({"a": one(), "b": one()}, bytes(8)), "E509"),
    ("a gap", made({"a": one(), "b": one(offsets=[12, 20])}, bytes(20)), "E509"),
    ("bytes in front", made({"a": one(offsets=[4, 12])}, bytes(12)), "E509"),
    ("bytes behind", made({"a": one()}, bytes(12)), "E509"),
    ("a bool of 2", made({"a": one("BOOL", [1], [0, 1])}, b"\x02"), "E509"),
    ("words that are a list", made({"__metadata__": [], "a": one()}, bytes(8)), "E509"),
    ("words that are null", made({"__metadata__": None, "a": one()}, bytes(8)), "E509"),
    ("a word that is a number", made({"__metadata__": {"a": 1}, "a": one()}, bytes(8)), "E509"),
    ("a and a/b", made({"a": one(), "a/b": one(offsets=[8, 16])}, bytes(16)), "E533"),
    ("a/b and a", made({"a/b": one(), "a": one(offsets=[8, 16])}, bytes(16)), "E533"),
    ("a/b/c and a", made({"a/b/c": one(), "a": one(offsets=[8, 16])}, bytes(16)), "E533"),
    ("a and a/b/c", made({"a": one(), "a/b/c": one(offsets=[8, 16])}, bytes(16)), "E533"),
]


@pytest.mark.parametrize(("content", "code"), [c[1:] for c in CRAFTED], ids=[c[0] for c in CRAFTED])
def test_crafted_files(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(DataError, match=code):
        nn.load_parameters(tmp_path / "p")


PLACE = {"step": 1, "epoch": 0, "batch": 1, "loss": 0.5, "seconds": 1.0}
WORDS = {"format": checkpoint.FORMAT, "shared": {}, "position": PLACE}


@pytest.mark.parametrize("about", [
    "", "[", "3", "[1]", "null", '"text"', "{}", "[" * 100_000,
    json.dumps({"format": checkpoint.FORMAT}), json.dumps({"format": 1}),
    json.dumps({**WORDS, "shared": 3}), json.dumps({**WORDS, "position": None}), json.dumps({**WORDS, "position": [1]}),
    *(json.dumps({**WORDS, "position": {**WORDS["position"], k: v}}) for k, v in (  # type: ignore[dict-item]
        ("step", "1"), ("step", -1), ("step", 1.5), ("step", None), ("epoch", True), ("batch", -3), ("loss", "x"),
        ("loss", None), ("history", 3), ("history", [3]), ("history", [{"loss": "x"}]), ("other", 1))),
])  # fmt: skip
def test_crafted_checkpoints(tmp_path: Path, about: str) -> None:
    run = fit(epochs=1, batch_size=25, save=tmp_path)
    arrays = {f"{part}/{n}": np.asarray(x) for part, tree in (
        ("parameters", run.parameters), ("state", run.state), ("optimizer", run.optimizer_state))
        for n, x in tree.items()}  # fmt: skip
    save_file(arrays, max(tmp_path.glob("step-*")), {"training": about})
    with pytest.raises(DataError, match="E509"):
        fit(epochs=2, batch_size=25, save=tmp_path, resume="anyway")


# Whole files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [
    *(np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">f4", ">i8")),
    np.dtype(ml_dtypes.bfloat16),
])  # fmt: skip
def test_elements_of_every_type_come_back(
    tmp_path: Path, dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "bfloat16", ml_dtypes.bfloat16, raising=False)  # where older safetensors look for it
    bits = np.random.default_rng(0).integers(0, 2 if dtype.kind == "b" else 120, (2, 5 * dtype.itemsize), np.uint8)
    given = {"a": bits.view(dtype), "one": np.array(bits.view(dtype)[0, 0], dtype), "none": np.zeros((3, 0), dtype)}
    nn.save_parameters(tmp_path / "p", given)
    again = nn.load_parameters(tmp_path / "p", given)
    for name, array in given.items():
        assert again[name].dtype == dtype
        assert again[name].tobytes() == np.asarray(array).tobytes()
        assert again[name].shape == array.shape
    theirs = load_file(tmp_path / "p")  # the library reads it
    assert {n: (x.shape, x.tobytes()) for n, x in theirs.items()} == {
        n: (x.shape, np.asarray(x, dtype.newbyteorder("=")).tobytes()) for n, x in given.items()
    }
    with safe_open(tmp_path / "p", "numpy") as file:
        assert file.metadata()["program"] == "pullback"


def test_complex_parameters_come_back(tmp_path: Path) -> None:
    given = {"a": np.array([1 + 2j, -3j])}
    nn.save_parameters(tmp_path / "p", given)
    assert nn.load_parameters(tmp_path / "p", given)["a"].tolist() == given["a"].tolist()


@pytest.mark.parametrize("array", [
    np.array(["a"]), np.array([None]), np.array([b"a"]), np.array([1], "M8[s]"), np.zeros(1, [("x", "f4")]),
    np.zeros(1, ml_dtypes.float8_e4m3fn), np.zeros(1, ml_dtypes.int4),
])  # fmt: skip
def test_elements_that_no_file_holds(tmp_path: Path, array: Any) -> None:
    with pytest.raises(DataError, match=r"E533.*w : .*\[1\] cannot be saved"):
        nn.save_parameters(tmp_path / "p", {"w": array})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tree", [
    {"a/b": np.zeros(1), "a": {"b": np.ones(1)}}, {"0": np.zeros(1), 0: np.ones(1)}, {"__metadata__": np.zeros(1)},
    {"\ud800": np.zeros(1)},
])  # fmt: skip
def test_names_that_no_file_holds(tmp_path: Path, tree: Any) -> None:
    """Two arrays of one name were one in the file, and the other was lost."""
    with pytest.raises(DataError, match="E533"):
        nn.save_parameters(tmp_path / "p", tree)


def test_values_are_rounded_and_nothing_else(tmp_path: Path) -> None:
    nn.save_parameters(tmp_path / "p", {"k": np.array([5_000_000_000]), "x": np.array([1e300]), "h": np.array([7e4])})
    load = lambda **like: nn.load_parameters(tmp_path / "p", like, ignore=tuple({"k", "x", "h"} - set(like)))
    assert load(k=np.zeros(1, np.int64))["k"] == 5_000_000_000
    for like in ({"k": np.zeros(1, np.int32)}, {"x": np.zeros(1, np.float32)}, {"h": np.zeros(1, np.float16)},
                 {"x": np.zeros(1, ml_dtypes.bfloat16)}):  # fmt: skip
        with pytest.raises(DataError, match=r"E510.*values too large for"):
            load(**like)


def test_files_of_others_are_read_with_a_word(tmp_path: Path) -> None:
    save_file({"w": np.ones(2, np.float32)}, tmp_path / "theirs", {"format": "pt"})
    with pytest.warns(RuntimeWarning, match="theirs has no digest, so damage to its values would not be noticed"):
        assert nn.load_parameters(tmp_path / "theirs")["w"].tolist() == [1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.load_parameters(tmp_path / "theirs")  # once
        nn.save_parameters(tmp_path / "ours", {"w": np.ones(2)})
        nn.load_parameters(tmp_path / "ours")


def test_a_file_that_another_program_wrote_anew_is_theirs(tmp_path: Path) -> None:
    nn.save_parameters(tmp_path / "p", {"w": np.ones(2)})
    with safe_open(tmp_path / "p", "numpy") as file:
        words = file.metadata()
    save_file({"w": np.zeros(2)}, tmp_path / "p", {"format": "pt", **words})
    text = (tmp_path / "p").read_bytes()[8:].decode(errors="replace")
    head, _ = json.JSONDecoder().raw_decode(text)
    words = {k: head["__metadata__"][k] for k in ("format", "program", "pullback digest")}  # the library has no order
    new = json.dumps({"__metadata__": words, "w": head["w"]}).encode()
    (tmp_path / "p").write_bytes(made(new, bytes(16)))
    assert nn.load_parameters(tmp_path / "p")["w"].tolist() == [0, 0]
    words["pullback digest"] = words["pullback digest"].replace("file", "fire")
    (tmp_path / "p").write_bytes(made({"__metadata__": words, "w": head["w"]}, bytes(16)))
    with pytest.raises(DataError, match=r"E509.*\n.*its digest was changed"):
        nn.load_parameters(tmp_path / "p")

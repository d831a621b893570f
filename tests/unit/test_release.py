"""A release's files: wheels that are the same wherever they are built, their hashes, their bill of materials."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="hatchling, which builds wheels, is not installed")
WHEEL_LINES = 139_676
"""Lines of Python in the wheel: a bound that only a feature raises, by what it needs (kernels for devices: 7,900, calls
on devices: 1,900, writes in place: 1,450, several inputs of networks and averages: 1,300, tables: 350, NumPy's rules on
lazy arrays: 650, elimination of any elements: 170, files and adapters for fine-tuning, and models: 1,220, operators of
ONNX: 1,370, jagged arrays and least squares: 440, steps of calls: 340, ownership, first runs and nested awaits of lazy
arrays: 430, definitions and control structures of APL: 1,300, workers that add gradients among themselves: 1,100, calls
of lazy arrays in C: 500, types of lazy arrays and calls: 550, swapping: 330, databases of images: 220, sessions of APL
that compile: 1,350, exported C in loops over registers: 850, plugins: 430, sequences in networks: 300, counts of steps
and sparse least squares: 200, two vectors side by side: 120, verbs of sessions in few passes: 440, what
hand-written C did better: 390, stages of a stencil in one loop and reciprocals of roots: 445, causal attention in
blocks and products of tables: 415, first calls in NumPy: 520, eigenvalues by divide and conquer: 909, loops of open
sizes on threads: 373, sums without borders of zeros: 142, strips of components and halves of products: 235, training
on several devices: 537, eigenvalues by many shifts at a time: 320, eigenvalues and singular values alone: 131, a tuner
of device schedules, and products by cuBLASLt: 1,355, convolutions by cuDNN: 591, products that skip zeros of unit
vectors' derivatives, and neighboring scatters: 360)."""
WHEEL_BYTES = 2_223_000  # 2,000,000 before calls of lazy arrays in C, compiled APL, plugins, several devices, a tuner
ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("pullback", "docs/reference/errors.md", "pyproject.toml", "README.md", "LICENSE", "build_shim.py")
HAS_HEADERS = Path(sysconfig.get_paths()["include"], "Python.h").is_file() and shutil.which("cc") is not None


def built(folder: Path, when: int) -> Path:
    """A wheel with the extension, from a copy of the sources with other times and another zone."""
    for name in NEEDED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / name, folder / name)
    for path in folder.rglob("*"):
        os.utime(path, (when, when))
    environment = {**os.environ, "PULLBACK_PREBUILT": "1" if HAS_HEADERS else "", "TZ": f"XXX{when % 9}"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def bill(folder: Path) -> dict[str, Any]:
    """The bill of materials of the wheels in a folder."""
    spec = importlib.util.spec_from_file_location("sbom", ROOT / ".ci" / "sbom.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(folder)
    (path,) = folder.glob("*.cdx.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    places = (("one", 10**9), ("two-longer", 10**9 + 12345))
    return [built(tmp_path_factory.mktemp(name), when) for name, when in places]


def test_no_built_file_lies_beside_the_sources() -> None:
    assert not [p.name for p in ROOT.iterdir() if p.suffix in (".whl", ".onnx", ".o", ".so", ".npz")]


@pytest.mark.slow
def test_two_builds_are_the_same(wheels: list[Path]) -> None:
    one, two = wheels
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


def test_the_wheel_holds_the_product_alone(wheels: list[Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as wheel:
        sizes = {n: len(wheel.read(n).splitlines()) for n in wheel.namelist()}
    assert {n.partition("/")[0] for n in sizes if ".dist-info/" not in n} == {"pullback"}
    there = {p.relative_to(ROOT).as_posix() for p in (ROOT / "pullback").rglob("*.py")}
    assert {n for n in sizes if n.endswith(".py")} == there
    assert sum(n for name, n in sizes.items() if name.endswith(".py")) <= WHEEL_LINES
    assert wheels[0].stat().st_size <= WHEEL_BYTES


@pytest.mark.slow
def test_the_sdist_holds_tests_and_benchmarks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as sdist:
        names = {n.partition("/")[2] for n in sdist.getnames()}
    folders = ("pullback", "tests", "benchmarks", "examples")
    there = {p.relative_to(ROOT).as_posix() for folder in folders for p in (ROOT / folder).rglob("*.py")}
    assert there <= names
    assert {"build_shim.py", "pyproject.toml", "LICENSE", "benchmarks/reference/zhang.c"} <= names


def test_the_bill_of_materials(wheels: list[Path]) -> None:
    folder = wheels[0].parent
    found = bill(folder)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    own = found["metadata"]["component"]
    (file,) = own["externalReferences"]
    wheel = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    assert (file["url"], file["hashes"][0]["content"]) == (wheels[0].name, wheel)
    required = {c["name"] for c in found["components"] if c["scope"] == "required"}
    assert required == {"numpy", "jaxtyping", "platformdirs", "safetensors"}
    assert {"onnx", "ray", "hypothesis"} <= {c["name"] for c in found["components"] if c["scope"] == "optional"}
    refs = [own["bom-ref"], *(c["bom-ref"] for c in found["components"])]
    assert len(set(refs)) == len(refs)
    assert [d["ref"] for d in found["dependencies"]] == refs
    sums = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("*-*")}
    assert bill(wheels[1].parent) == found

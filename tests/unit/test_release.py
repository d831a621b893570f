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
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="hatchling, which builds wheels, is not installed")
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


def test_two_builds_are_the_same(wheels: list[Path]) -> None:
    one, two = wheels
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


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

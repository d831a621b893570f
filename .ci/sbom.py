#!/usr/bin/env python3
"""Writes what a release's files are made of, beside them.

.ci/sbom.py dist        `SHA256SUMS`, which `sha256sum --check` reads, and `NAME-VERSION.cdx.json`, a bill of materials

The bill is CycloneDX 1.6, made from the metadata of a wheel: the package with the hashes of its files, and what it
requires, optional where an extra asks for it. A wheel names ranges of versions, so its requirements have no version:
the range is a property. The same files give the same bill.
"""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


def main(folder: Path) -> None:
    """Write both files."""
    files = sorted(p for pattern in ("*.whl", "*.tar.gz") for p in folder.glob(pattern))
    sums = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    about = metadata(next(p for p in files if p.suffix == ".whl"))
    bill = folder / f"{about['Name']}-{about['Version']}.cdx.json"
    bill.write_text(json.dumps(materials(about, sums), indent=2) + "\n", encoding="utf-8")
    sums[bill.name] = hashlib.sha256(bill.read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text("".join(f"{s}  {name}\n" for name, s in sums.items()), encoding="utf-8")


def metadata(wheel: Path) -> Message:
    """The metadata in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def materials(about: Message, sums: dict[str, str]) -> dict[str, Any]:
    """The bill of materials."""
    own = f"pkg:pypi/{about['Name']}@{about['Version']}"
    needed = components([Requirement(line) for line in about.get_all("Requires-Dist", [])], about["Name"])
    files = [{"type": "distribution", "url": name, "hashes": [{"alg": "SHA-256", "content": s}]}
             for name, s in sums.items()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, sums]))}",
        "version": 1,
        "metadata": {"component": {
            "type": "library", "bom-ref": own, "name": about["Name"], "version": about["Version"], "purl": own,
            "licenses": [{"license": {"id": about["License-Expression"]}}], "externalReferences": files,
        }},
        "components": needed,
        "dependencies": [
            {"ref": own, "dependsOn": [c["bom-ref"] for c in needed]}, *({"ref": c["bom-ref"]} for c in needed)
        ],
    }  # fmt: skip


def components(needed: list[Requirement], own: str) -> list[dict[str, Any]]:
    """What a package requires, each once: required if any line requires it without an extra."""
    found: dict[str, dict[str, Any]] = {}
    for r in sorted(needed, key=lambda r: (r.name, r.marker is not None)):
        if r.name != own:  # an extra that is made of others
            range_ = {"name": "pullback:version-range", "value": str(r.specifier)}
            found.setdefault(r.name, {
                "type": "library", "bom-ref": f"pkg:pypi/{r.name}", "name": r.name, "purl": f"pkg:pypi/{r.name}",
                "scope": "required" if r.marker is None else "optional", "properties": [range_],
            })  # fmt: skip
    return list(found.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The sessions in APL in the documents print what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pullback.apl.session import Session
from tests.docs.test_documents import DOCUMENTS, blocks, name

INDENT = " " * 6
WITH_APL = [path for path in DOCUMENTS if blocks(path, "apl")]


@pytest.mark.parametrize("path", WITH_APL, ids=name)
def test_sessions_print_what_they_say(path: Path) -> None:
    written: list[str] = []
    session = Session(written.append)
    for block in blocks(path, "apl"):
        said: list[str] = []
        for line in block.splitlines():
            if line.startswith(INDENT):
                assert "".join(written).split() == " ".join(said).split()
                written.clear()
                said.clear()
                session.line(line)
            else:
                said.append(line)
        assert "".join(written).split() == " ".join(said).split()
        written.clear()

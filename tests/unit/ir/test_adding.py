"""A primitive added to a copy by the edits that CONTRIBUTING.md names works everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pullback

PACKAGE = Path(pullback.__file__).parent
TABLE_TESTS = Path(__file__).parents[2] / "table" / "test_primitives.py"

ROW = '''
ERFC: Final = _row("erfc", "1 - erf(x), accurate where erf is near 1.",
                   lambda x: np.array([math.erfc(v) for v in np.ravel(x).tolist()], x.dtype).reshape(x.shape),
                   lambda x, out: (number(-2 / math.sqrt(math.pi), x) * exp(-(x * x)),), cost=30)
SQRT1PM1: Final = _row("sqrt1pm1", "sqrt(1 + x) - 1, accurate near 0.", lambda x: x / (1 + np.sqrt(1 + x)),
                       lambda x, out: (0.5 / (1 + out),), domain=(-0.8, 4.0))
'''
C = '''"sqrt1pm1": {"*": Body("""\\
    return a / (1 + sqrt{f}(1 + a));
""")},
'''
FUNCTION = '''
erfc = unary("erfc")
sqrt1pm1 = unary("sqrt1pm1")
'''
USED = """
import json, math
import numpy as np
import pullback as pb
from jaxtyping import Float64

def both(x: Float64[pb.Array, "N"]):
    return pb.sum(pb.erfc(x) * pb.sqrt1pm1(x))

both = pb.function(both)
x = np.array([0.5, 1.0])
print(json.dumps({
    "c": float(both(x)), "interpreter": float(both.interpret(x)), "gradient": pb.grad(both)(x).tolist(),
    "text": both.c_source(N=2), "doc": pb.sqrt1pm1.__doc__, "where": pb.__file__,
}))
"""


def _run(copy: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=copy,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with two primitives more: libm has one under its name, the other has C of its own."""
    home = tmp_path_factory.mktemp("copy")
    copied = home / "pullback"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, added in (
        ("ir/primitives/transcendental.py", "", ROW),
        ("codegen/c/primitives.py", "ROWS: Final[dict[str, Mapping[str, str | Body]]] = {\n", C),
        ("arrays/elementwise.py", "", FUNCTION),
        ("__init__.pyi", "from pullback.arrays.elementwise import (\n", "    erfc,\n    sqrt1pm1,\n"),
        ("__init__.pyi", "__all__ = [\n", '    "erfc",\n    "sqrt1pm1",\n'),
    ):
        path = copied / file
        text = path.read_text(encoding="utf-8")
        assert before in text
        at = text.index(before) + len(before) if before else len(text)
        path.write_text(text[:at] + added + text[at:], encoding="utf-8")
    return home


@pytest.mark.slow
def test_interpreter_c_and_gradients_have_it(copy: Path) -> None:
    found = json.loads(_run(copy, "-c", USED))
    assert found["where"].startswith(str(copy))
    assert found["c"] == pytest.approx(found["interpreter"]) == pytest.approx(0.17292066, rel=1e-6)
    assert found["gradient"] == pytest.approx([-0.00174677, -0.11632949], abs=1e-7)
    assert "erfc(" in found["text"] and "pb_sqrt1pm1_f64(" in found["text"]
    assert found["doc"].startswith("sqrt(1 + x) - 1, accurate near 0.")


def test_the_command_line_lists_it(copy: Path) -> None:
    listed = json.loads(_run(copy, "-m", "pullback", "primitives", "--json").splitlines()[-1])["primitives"]
    assert {"erfc", "sqrt1pm1"} <= {row["name"] for row in listed if row["derivative"]}


@pytest.mark.slow
def test_the_table_tests_try_it(copy: Path) -> None:
    shutil.copy(TABLE_TESTS, copy)  # beside the package, so that it imports this one
    (copy / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    said = _run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", TABLE_TESTS.name, "-k", "erfc or sqrt1pm1")
    assert re.search(r"\b[1-9]\d* passed", said) and "skipped" not in said, said

"""What `import pullback` brings along, and that every public name is found."""

import subprocess
import sys
from pathlib import Path

import pytest

import pullback as pb
from pullback.names import homes, public

LISTED = "import sys; before = set(sys.modules); {}; print(*sorted(m for m in set(sys.modules) - before if {}))"
OWN = "m.partition('.')[0] == 'pullback'"


def modules(statement: str, which: str = OWN) -> list[str]:
    """The modules that a statement brings into a fresh interpreter."""
    code = LISTED.format(statement, which)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_package_alone() -> None:
    """Names bring what they need; the package brings nothing, NumPy neither."""
    assert modules("import pullback") == ["pullback"]
    assert modules("import pullback", "m.partition('.')[0] in ('numpy', 'jaxtyping', 'safetensors')") == []


WITHOUT_LOCK = """
import sys, warnings
sys._is_gil_enabled = lambda: {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import pullback
print(*((w.category.__name__, w.filename == __file__, w.message) for w in caught))
"""


@pytest.mark.parametrize("locked", [True, False])
def test_an_interpreter_without_its_lock(locked: bool, tmp_path: Path) -> None:
    (script := tmp_path / "script.py").write_text(WITHOUT_LOCK.format(locked))
    shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    warning = RuntimeWarning(
        "pullback is little tried without the interpreter lock, as this interpreter runs: where calls from several "
        "threads give wrong results, start it with PYTHON_GIL=1 or -X gil=1, and report it"
    )
    assert shown == ("\n" if locked else f"{('RuntimeWarning', True, warning)}\n")


def test_a_function_brings_no_passes() -> None:
    """Defining a function traces it; derivatives, passes and all else come when they are asked for."""
    found = modules("import pullback as pb; pb.function(lambda x: pb.sin(x))")
    layers = {m.split(".")[1] for m in found if "." in m}
    assert "pullback.tracing.tracer" in found
    later = {"ad", "passes", "operators", "derivation", "nn", "cli", "testing", "random", "linalg"}
    assert layers.isdisjoint(later)


def test_a_first_function_brings_few_modules() -> None:
    """Beside NumPy's: time follows from their number, about 0.4 ms for each (55 ms on a processor of 4 GHz)."""
    code = LISTED.format("import pullback as pb; pb.function(lambda x: x * 2)", "True")
    shown = subprocess.run([sys.executable, "-c", f"import numpy; {code}"], capture_output=True, text=True, check=True)
    found = shown.stdout.split()
    own = [m for m in found if m.partition(".")[0] == "pullback"]
    assert len(own) <= 113
    assert len(found) - len(own) <= 51  # a tenth of them for the folder of the cache, where none is named
    assert {"html", "asyncio", "argparse", "concurrent.futures", "unittest"}.isdisjoint(found)


def test_every_name_is_there() -> None:
    assert set(public()) <= homes().keys() | {"__version__"}
    assert all(hasattr(pb, name) for name in public())
    assert set(public()) <= set(dir(pb))
    assert list(pb.__all__) == list(public())
    assert pb.sin is pb.sin and pb.linalg.__name__ == "pullback.linalg"
    with pytest.raises(AttributeError, match="E146"):
        pb.sinn  # noqa: B018


CALLS = ("exp(np.ones(3))", "maximum(1.0, 2.0)", "where(True, 1.0, 2.0)", "concat([np.ones(2)])")


@pytest.mark.parametrize("call", CALLS)
def test_whatever_is_called_first_outside_of_a_function_says_so(call: str) -> None:
    attempt = f"try: pb.{call}\nexcept pb.TraceError as error: print(error.code, error.what)"
    code = f"import numpy as np, pullback as pb\n{attempt}"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == f"E132 pb.{call.partition('(')[0]} is part of the language, and no function is being traced\n"


def test_the_primitives_are_there_for_whoever_asks() -> None:
    """The parser alone knows them: no other module has to be imported first."""
    text = "f(x: f64) { y = build { exp(x) } return y }"
    assert "pullback.ir.primitives" in modules(f"from pullback.ir.parser import parse_program; parse_program({text!r})")

"""Functions as modules for browsers, run by node, and the complete messages of what cannot be made."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Bool, Float32, Float64, Int64

import pullback as pb
from pullback import Array
from pullback.cli.main import main
from pullback.errors import CompilerError, TraceError
from pullback.wasm import compilers

RUN = """
const made = require(process.argv[2]);
const given = JSON.parse(process.argv[3], (key, value) => typeof value === "string" ? BigInt(value) : value);
made.load().then(wasm => {
  const flat = value => ArrayBuffer.isView(value) ? [...value] : value;
  const show = (key, value) => typeof value === "bigint" ? String(value) : flat(value);
  try {
    console.log(JSON.stringify(Object.values(wasm)[0](given), show));
  } catch (error) {
    console.log(JSON.stringify(`${error.name}: ${error.message}`));
  }
});
"""


@pb.function
def scores(x: Float32[Array, "N M"], w: Float32[Array, "M"]):
    """Scores </script> of ${x} {{name}} rows."""
    p = pb.tanh(x @ w)
    return p, pb.sum(pb.exp(x) * pb.log(1 + x * x))


@pb.function
def chosen(x: Float64[Array, "N"], at: Int64[Array, "K"], flags: Bool[Array, "K"]):
    return pb.build(at.shape[0], lambda k: pb.where(flags[k], x[at[k]], 0.0)), at + 1, ~flags


def module(f: pb.Function, folder: Path, **dims: int) -> Path:
    """The file of a function's module; skipped where nothing compiles it."""
    try:
        return Path(f.export_wasm(folder, **dims)["files"][0])
    except CompilerError as error:
        if "[E415]" in str(error):
            pytest.skip(f"no compiler for wasm: {error}")
        raise


def run(file: Path, **given: Any) -> Any:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = file.with_name("run.cjs")
    script.write_text(RUN)
    own = file.rename(file.with_suffix(".cjs")) if file.suffix == ".js" else file
    numbers = {k: [str(v) if isinstance(v, np.int64) else v.item() for v in np.ravel(a)] for k, a in given.items()}
    done = subprocess.run(
        ["node", str(script), str(own), json.dumps(numbers)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_results_are_the_interpreter_s(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    x, w = draw.standard_normal((7, 5), np.float32), draw.standard_normal(5, np.float32)
    found = list(run(module(scores, tmp_path, N=7, M=5), x=x, w=w).values())
    for ours, wanted in zip(found, scores.interpret(x, w), strict=True):
        np.testing.assert_allclose(ours, np.ravel(wanted), rtol=2e-6, atol=2e-6)


def test_the_gradient_by_itself(tmp_path: Path) -> None:
    @pb.function
    def value(x: Float64[Array, "4 3"], w: Float64[Array, "3"]):
        return pb.sum(pb.tanh(x @ w) ** 2)

    draw = np.random.default_rng(1)
    x, w = draw.standard_normal((4, 3)), draw.standard_normal(3)
    gradient = pb.grad(value, "w")
    (found,) = run(module(gradient, tmp_path), x=x, w=w).values()
    step = 1e-6
    for k in range(3):
        move = step * np.eye(3)[k]
        slope = (value.interpret(x, w + move) - value.interpret(x, w - move)) / (2 * step)
        assert found[k] == pytest.approx(float(slope), rel=1e-6)


def test_integers_flags_and_what_the_loader_refuses(tmp_path: Path) -> None:
    file = module(chosen, tmp_path, N=4, K=3)
    x, flags = np.arange(4.0), np.array([True, False, True])
    at = np.array([3, 1, 2])
    results = run(file, x=x, at=at, flags=flags)
    assert list(results.values()) == [[3.0, 0.0, 2.0], ["4", "2", "3"], [0, 1, 0]]
    file = file.with_suffix(".cjs")
    refused = run(file, x=x, at=np.array([3, 9, 2]), flags=np.ones(3, bool))
    assert refused.startswith("RangeError: chosen: an index left the range of x")
    assert refused.endswith("9 of 4")
    assert run(file, x=x, at=at) == "TypeError: chosen: flags is missing"
    assert run(file, x=x[:2], at=at, flags=flags) == "RangeError: chosen: x has 2 elements, and its shape is [4]"
    assert run(file, x=x, at=at, flags=flags, y=x) == "TypeError: chosen: there is no argument y"


def test_a_loader_in_a_page_ends_no_script(tmp_path: Path) -> None:
    text = module(scores, tmp_path, N=2, M=2).read_text()
    assert "</script" not in text


def without_place(text: str) -> str:
    """Return a message without the lines that show the call."""
    first, place, line, carets, *rest = text.splitlines()
    assert place.startswith("  --> ") and "export_wasm" in line and carets.endswith("^")
    return "\n".join([first, *rest])


def test_open_sizes(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        scores.export_wasm(tmp_path, N=3)
    assert without_place(str(caught.value)) == (
        "TraceError [E531] scores: a module for browsers is for fixed sizes, and elements that JavaScript has arrays of"
        "\n   | x: f32[3, M]      w: f32[M]      p: f32[3]      out_1: f32[]\n"
        "  try: a number for each dim      See `pullback explain-error E531`"
    )


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "zig", lambda: ())
    monkeypatch.setattr(compilers, "found", lambda name: None)
    with pytest.raises(CompilerError) as caught:
        scores.export_wasm(tmp_path, N=2, M=2)
    assert without_place(str(caught.value)) == (
        "CompilerError [E415] no C compiler for wasm\n"
        "   | tried zig (PULLBACK_ZIG, the path, ziglang) and clang\n"
        "  try: `pip install 'pullback[cc]'`, which brings zig; or Debian's clang, lld and wasi-libc"
        "      See `pullback explain-error E415`"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "zig", lambda: (str(tmp_path / "zig"),))
    monkeypatch.setattr(compilers, "found", lambda name: None)
    with pytest.raises(CompilerError, match=r"\[E415\]") as caught:
        scores.export_wasm(tmp_path, N=2, M=2)
    assert f"{tmp_path}/zig: [Errno 2] No such file or directory" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["f.py:f"], "--out DIR or --wasm DIR"),
        ([], "--out DIR or --wasm DIR"),
        (["--out", "x"], "FILE.py:FUNCTION, MODEL.onnx or --wasm DIR"),
    ],
)
def test_what_the_command_line_lacks(arguments: list[str], missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *arguments]) == 1
    assert capsys.readouterr().err == (
        f"UsageError [E601] pullback export: {missing} is missing\n"
        "  try: pullback export --help      See `pullback explain-error E601`\n"
    )

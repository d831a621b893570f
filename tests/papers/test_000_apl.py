"""Šinkarovs, Bernecky and Scholz, Convolutional Neural Networks in APL (2019): its lines as they are printed.

What is printed here stands in the paper, whose ⎕IO is 0. The blocks are those of `examples/zhang.apl`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.apl import AplError, Workspace, display
from pullback.apl.compiled import function_of
from pullback.apl.hot import Hot
from pullback.apl.table import Settings
from pullback.cli.main import main
from pullback.nn.models import zhang
from pullback.runtime.compile import compiler_command

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "zhang.apl"
NAMES = ["blog", "backbias", "logistic", "maxpos", "backavgpool", "meansqerr", "avgpool", "conv", "backin", "multiconv"]
RANDOM = np.random.default_rng(5)
CONV_STENCIL = "{t←⌊÷∘2⊢(⍴⍺)-~2|⍴⍺ ⋄ w←⍺ ⋄ (-t)↓t↓({+/,w×⍵}⌺(⍴⍺)⊢⍵)}"
AVG_RESHAPE = "{(x y)←⍴⍵ ⋄ (+/÷≢)∘,⍤2⊢(x÷2)(y÷2)2 2⍴⍉⍤2⊢(x÷2)2 y⍴⍵}⍤2"


@cache
def work() -> Workspace:
    """The names of the example, without its training."""
    made = Workspace(Settings(io=0, ct=0.0))
    text = EXAMPLE.read_text(encoding="utf-8")
    made.evaluate(text[: text.index("⎕FR←")], str(EXAMPLE))
    made.evaluate("w←3 3⍴⍳9")
    return made


def line(text: str, boxed: bool = False) -> str:
    """What a line prints."""
    return display(work().evaluate(text), boxed)


def value(text: str) -> Any:
    """The value of a line."""
    return work().evaluate(text)


def test_a01_shapes_and_ranks() -> None:
    assert [line(t) for t in ("w", "⍴w", "⍴⍴w", "⍴5", "⍴⍴5")] == ["0 1 2\n3 4 5\n6 7 8", "3 3", "2", "", "0"]


def test_a02_right_to_left_with_scalar_extension() -> None:
    assert line("2×2+2") == "8"
    assert line("2 3 4 5 + 2 3 4 5") == "4 6 8 10"
    assert line("1 + 2 3 4 5") == line("2 3 4 5 + 1") == "3 4 5 6"


def test_a03_negate_reciprocal_exponential_power() -> None:
    assert line("2*3") == "8"
    for text, f in (("-", np.negative), ("÷", np.reciprocal), ("*", np.exp)):
        x = RANDOM.random(3) + 0.5
        np.testing.assert_allclose(function_of(value(f"{{{text}⍵}}"), "f")(x), f(x))


def test_a04_ravel_and_catenate() -> None:
    assert line("(,w)(w,w)", True).splitlines()[1] == "│0 1 2 3 4 5 6 7 8│0 1 2 0 1 2│"


def test_a05_reshape() -> None:
    found = line("(2 2⍴w)(3 3⍴1 2)(9⍴w)", True).splitlines()
    assert found[1:4] == [
        "│0 1│1 2 1│0 1 2 3 4 5 6 7 8│",
        "│2 3│2 1 2│                 │",
        "│   │1 2 1│                 │",
    ]


def test_a06_indices() -> None:
    assert line("⍳5") == "0 1 2 3 4"
    assert line("⍳2 2", True) == "┌───┬───┐\n│0 0│0 1│\n├───┼───┤\n│1 0│1 1│\n└───┴───┘"
    assert line("⍴⍳2 1 1") == "2 1 1"
    assert line("⊃1 0 0⌷⍳2 1 1") == "1 0 0"


def test_a07_index_of_is_the_first() -> None:
    assert line("maxpos 1 7 3 7") == "1"


def test_a08_reductions() -> None:
    assert line("(+/w)(×/1 2 3)(+/1 2 3)", True).splitlines()[1] == "│3 12 21│6│6│"
    assert line("(+/⍬)(×/⍬)") == "0 1"
    with pytest.raises(AplError, match="DOMAIN ERROR"):
        value("{⍺+⍵}/⍬")


def test_a09_each_and_nested_arrays() -> None:
    assert line("1 1⌷⊃1⌷(2 3)w") == "4"
    assert line("(⍳¨2 3)", True).splitlines()[1] == "│0 1│0 1 2│"
    assert line("⊂w", True).splitlines()[1] == "│0 1 2│"
    x, k = RANDOM.random((5, 6)), RANDOM.random((2, 3))
    by_each = function_of(value("conv"), "conv")(k, x)
    np.testing.assert_allclose(by_each, function_of(value(CONV_STENCIL), "f")(k, x))


def test_a10_rank() -> None:
    assert line("⍴2 2∘⍴⍤0⊢2 3") == "2 2 2"
    assert line("(2 2⍴2)⍴⍤(1 0)⊢2 3") == "2 2\n2 2\n\n3 3\n3 3"


def test_a11_composition_and_binding() -> None:
    assert line("((÷∘4)2)((⍴∘1)2 2)", True).splitlines()[1] == "│0.5│1 1│"
    assert line("+∘3⊢4") == "7"
    assert line("÷∘4,w+3×2") == line("(,w+3×2)÷4")


def test_a12_take_beyond_the_end() -> None:
    assert line("5↑1 2 3") == "1 2 3 0 0"
    assert line("¯5↑1 2 3") == "0 0 1 2 3"
    found = line("d←3 3⍴1+⍳9 ⋄ in←4 4⍴0 ⋄ ,(2 2⍴1+⍳4){(⍴in)↑(-⍵+⍴d)↑d}¨⍳2 2", True).splitlines()
    assert found[1:5] == [
        "│1 2 3 0│0 1 2 3│0 0 0 0│0 0 0 0│", "│4 5 6 0│0 4 5 6│1 2 3 0│0 1 2 3│",
        "│7 8 9 0│0 7 8 9│4 5 6 0│0 4 5 6│", "│0 0 0 0│0 0 0 0│7 8 9 0│0 7 8 9│",
    ]  # fmt: skip


def test_a13_transpose_replicate_power() -> None:
    assert line("⍉w") == "0 3 6\n1 4 7\n2 5 8"
    assert line("⍴⍉⍤2⊢2 3 4⍴0") == "2 4 3"
    assert line("2⌿2/2 2⍴1 2 3 4") == "1 1 2 2\n1 1 2 2\n3 3 4 4\n3 3 4 4"
    assert line("{⍵×2}⍣5⊢1") == "32"


def test_a14_stencil() -> None:
    found = line("{⊂⍵}⌺(3 3)⊢3 3⍴1", True).splitlines()
    assert found[1:4] == ["│0 0 0│0 0 0│0 0 0│", "│0 1 1│1 1 1│1 1 0│", "│0 1 1│1 1 1│1 1 0│"]
    assert len(found) == 13


def test_a15_functions_and_trains() -> None:
    assert line("{s←⍴⍵ ⋄ p←×/s ⋄ p}w") == "9"
    assert line("{⍵+1}5") == "6"
    assert line("avg←(+/÷≢), ⋄ avg w") == "4"


def test_a16_no_index_and_no_state_in_the_blocks() -> None:
    for text in blocks().values():
        assert not re.search(r"[\[\]⎕⍣]|:", text)


def blocks() -> dict[str, str]:
    """The lines of the ten blocks."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    start = lines.index("⍝ The ten blocks") + 1
    return {text.partition("←")[0]: text for text in lines[start : start + 10]}


def test_a17_ten_blocks_in_ten_lines() -> None:
    assert list(blocks()) == NAMES
    for x, k in (((9,), (3,)), ((6, 7), (3, 2)), ((3, 6, 5), (3, 2, 4))):
        image, window = RANDOM.random(x), RANDOM.random(k)
        seen = np.lib.stride_tricks.sliding_window_view(image, k)
        np.testing.assert_allclose(
            function_of(value("conv"), "conv")(window, image), np.tensordot(seen, window, len(k))
        )


def by_index(w: Any, x: Any) -> Any:
    """The convolution in index notation, of any rank."""
    places = tuple(n - m + 1 for m, n in zip(w.shape, x.shape))
    return pb.build(places, lambda *i: pb.sum_over(w.shape, lambda *k: w[k] * x[tuple(a + b for a, b in zip(i, k))]))


def same_c(functions: list[Any], *arguments: Any) -> str:
    """The canonical C that all functions have for arguments of these sizes."""
    texts = []
    for f in functions:
        f.program(*arguments)
        texts.append(f.c_source(names="canonical", comments=False))
    assert texts[1:] == texts[:-1]
    return str(texts[0])


@pytest.mark.parametrize(("w", "x"), [((3,), (9,)), ((3, 3), (8, 8)), ((3, 3, 3), (6, 6, 6))])
def test_a18_a25_x01_both_convolutions_are_the_loop_nest_of_index_notation(
    w: tuple[int, ...], x: tuple[int, ...]
) -> None:
    window, image = RANDOM.random(w), RANDOM.random(x)
    shifts, windows = (function_of(value(text), "conv") for text in ("conv", CONV_STENCIL))
    direct = pb.function(lambda alpha, omega: by_index(alpha, omega))
    functions = [direct, shifts, windows]
    text = same_c(functions, window, image)
    assert "(void)arena;" in text  # no buffers
    np.testing.assert_allclose(direct(window, image), shifts.interpret(window, image), rtol=1e-12)

    def loss(f: Any) -> Any:
        return pb.function(lambda alpha, omega: pb.sum(f(alpha, omega) ** 2))

    same_c([pb.vjp(f) for f in functions], window, image, np.ones(direct(window, image).shape))
    for wrt in ("alpha", "omega"):  # of a sum the gradient has no border to keep either
        same_c([pb.grad(loss(f), wrt=wrt) for f in functions], window, image)


def test_a19_x01_both_poolings_are_the_loop_nest_of_index_notation() -> None:
    x = RANDOM.random((2, 6, 4))
    windows = function_of(value("avgpool"), "f")

    def direct(omega: Any) -> Any:
        n, h, w = omega.shape
        pooled = lambda k, i, j: pb.sum_over((2, 2), lambda p, q: omega[k, 2 * i + p, 2 * j + q]) / 4
        return pb.build((n, h // 2, w // 2), pooled)

    functions = [pb.function(direct), windows]
    same_c(functions, x)
    same_c([pb.vjp(f) for f in functions], x, np.ones((2, 3, 2)))
    pooled = windows(x)
    np.testing.assert_allclose(pooled, x.reshape(2, 3, 2, 2, 2).mean(axis=(2, 4)))
    blocks_of_two = function_of(value(AVG_RESHAPE), "f")  # adds by columns, so that its C is another
    np.testing.assert_allclose(pooled, blocks_of_two(x))
    spread = function_of(value("{2 3{(x y)←⍺ ⋄ {x⌿y/⍵÷x×y}⍤2⊢⍵}⍵}"), "f")(x)
    np.testing.assert_allclose(spread, np.kron(x, np.full((1, 2, 3), 1 / 6)))


def example() -> tuple[Any, ...]:
    """Parameters, an image and its label."""
    return zhang.start("uniform", seed=2, dtype=np.float64), RANDOM.random((28, 28)), np.int64(4)


def test_a20_the_layers_of_the_network() -> None:
    p, image, _ = example()
    layers = function_of(value("layers"), "layers")
    found = layers.interpret((image, *p))
    assert [x.shape for x in found] == [(6, 24, 24), (6, 12, 12), (12, 1, 8, 8), (12, 1, 4, 4), (10, 1, 1, 1, 1)]
    for a, b in zip(found, zhang.layers(p, image)):
        np.testing.assert_allclose(a, b)


def test_a21_a33_the_gradient_by_hand_is_the_derived_one() -> None:
    p, image, label = example()
    arguments = ((image, label), tuple(p))
    by_hand = function_of(value("gradient"), "gradient").interpret(*arguments)
    derived = pb.grad(function_of(value("loss"), "loss"), wrt="omega").interpret(*arguments)
    for a, b in zip(by_hand, derived):
        np.testing.assert_allclose(a, b, atol=1e-12)


def write_idx(folder: Path, count: int) -> None:
    """Images and labels in the format of MNIST."""
    images = RANDOM.integers(0, 256, (count, 28, 28)).astype(np.uint8)
    labels = (np.arange(count) % 10).astype(np.uint8)
    for name, data in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
        head = bytes([0, 0, 8, data.ndim]) + b"".join(n.to_bytes(4, "big") for n in data.shape)
        (folder / name).write_bytes(head + data.tobytes())


@pytest.mark.slow
def test_a22_a23_a24_the_network_is_trained_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_idx(tmp_path, 20)
    assert main(["apl", str(EXAMPLE), str(tmp_path), "20", "2", "0.05"]) == 0
    losses = [float(t) for t in capsys.readouterr().out.split()]
    assert len(losses) == 2
    assert losses[1] < losses[0] < 1.0


def test_a29_a31_no_line_is_rewritten_and_nests_cost_nothing() -> None:
    by_rank = function_of(value("{+/{⍵×2}⍤0⊢⍵}"), "f")
    by_each = function_of(value("{+/{⍵×2}¨⍵}"), "f")
    x = RANDOM.random(5)
    assert by_rank(x) == by_each(x)
    assert str(by_rank.ir) == str(by_each.ir)


def test_a34_shapes_are_checked_before_anything_runs() -> None:
    f = function_of(value("{⍺+.×⍵}"), "f")
    with pytest.raises(
        AplError, match=r"LENGTH ERROR: an inner product takes as many columns as rows: 3 and 4"
    ) as caught:
        f.program(np.zeros((2, 3)), np.zeros((4, 2)))
    assert caught.value.message.splitlines()[3].endswith("^")


# Omissions -----------------------------------------------------------------------------------------------------------

POOLS = {
    "four elements": "{c←⍵ ⋄ avg←(+/÷≢), ⋄ {avg c[(2×⍵)(0 1+2×⍵)(1 0+2×⍵)(1 1+2×⍵)]}¨⍳÷∘2⊢⍴c}",
    "a square of indices": "{c←⍵ ⋄ avg←(+/÷≢), ⋄ {avg c[(⊂2×⍵)+⍳2 2]}¨⍳÷∘2⊢⍴c}",
    "all at once": "{i←2×⍳÷∘2⊢⍴⍵ ⋄ (⍵[i]+⍵[(⊂0 1)+i]+⍵[(⊂1 0)+i]+⍵[(⊂1 1)+i])÷4}",
}


@pytest.mark.parametrize("text", POOLS.values(), ids=POOLS)
def test_f03_pooling_by_indexing_is_compiled(text: str) -> None:
    """Section 3 rejects these as slow in an interpreter; compiled they are loops without index vectors."""
    c = RANDOM.normal(size=(6, 4))
    expected = c.reshape(3, 2, 2, 2).mean((1, 3))
    session = Workspace(Settings(io=0))
    session["c"] = c
    np.testing.assert_allclose(session.evaluate(f"({text})c"), expected, rtol=1e-12)
    f = pb.apl(text, io=0)
    np.testing.assert_allclose(f(c), expected, rtol=1e-12)
    gradient = pb.grad(pb.function(lambda c: pb.sum(f(c) ** 2)))(c)
    np.testing.assert_allclose(gradient, np.repeat(np.repeat(expected / 2, 2, 0), 2, 1), rtol=1e-12)


def test_f03_points_out_of_range_are_refused() -> None:
    square = RANDOM.normal(size=(4, 4))
    np.testing.assert_array_equal(pb.apl("{⎕IO←0 ⋄ ⍵[(⊂1 1)+⍳2 2]}")(square), square[1:3, 1:3])
    with pytest.raises(pb.ShapeError, match="E103"):
        pb.apl("{⍵[(⊂3 3)+⍳2 2]}", io=0)(square)
    with pytest.raises(AplError, match="RANK ERROR"):
        pb.apl("{⍵[(⊂1 1 1)+⍳2 2 2]}", io=0)(square)


CONSTRUCTS = """
⎕io←0 ⋄ ⎕ml←3
∇ logistic←{
  ÷1+*-⍵
}
∇
∇ conv ← { s←1+(⍴⍵)-⍴⍺ ⋄ ⊃+/,⍺×(⍳⍴⍺){s↑⍺↓⍵}¨⊂⍵ }
∇
∇ (w∂ e)←train(x ŷ w rate);i;p;d
  e←⍬ ⋄ w∂←w
  :For i :In ⍳4
    p←logistic w∂ conv x
    d←(p-ŷ)×p×1-p
    e←e,(+/,(p-ŷ)*2)÷2
    w∂←w∂-rate×d conv x
  :EndFor
∇
∇ {r}←check e;k
  k←1
 next:→(k=⍴,e)/done
  :If e[k]≥e[k-1]
    r←'grows' ⋄ →0
  :EndIf
  k←k+1 ⋄ →next
 done:r←'falls'
∇
start←⎕ai
result←train image target weights 0.1
elapsed←⎕AI[2]-start[2]
"""


def test_f01_the_constructs_of_the_published_file() -> None:
    """Small quad names, ⎕ML 3 (⊃ is mix there), ∇ around braces, and ∇-definitions with structures and branches."""
    image, target, weights = RANDOM.random((6, 6)), RANDOM.random((4, 4)), RANDOM.random((3, 3))
    session = Workspace()
    session.update({"image": image, "target": target, "weights": weights})
    session.run(CONSTRUCTS)

    def conv(w: Any, x: Any) -> Any:
        return np.einsum("ijkl,kl->ij", np.lib.stride_tricks.sliding_window_view(x, w.shape), w)

    losses = []
    for _ in range(4):
        p = 1 / (1 + np.exp(-conv(weights, image)))
        losses.append(((p - target) ** 2).sum() / 2)
        weights = weights - 0.1 * conv((p - target) * p * (1 - p), image)
    np.testing.assert_allclose(session.evaluate("0⊃result"), weights, rtol=1e-12)
    np.testing.assert_allclose(session.evaluate("1⊃result"), losses, rtol=1e-12)
    assert display(session.evaluate("check 1⊃result")) == "falls"
    assert int(session.evaluate("elapsed")) >= 0


@pytest.mark.slow
@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_f02_an_interactive_session_compiles_the_training() -> None:
    """The second call of the fold over all images is one call of compiled code; errors are those of a session."""
    text = EXAMPLE.read_text(encoding="utf-8")
    session = Workspace()
    session.evaluate(text[: text.index("⎕FR←")], str(EXAMPLE))
    session.update({"images": RANDOM.random((3, 28, 28)), "labels": np.array([3, 1, 4])})
    cold = session.evaluate("images labels 0.05 epoch start")
    session.hot = Hot(0.0, background=False)
    session.evaluate("images labels 0.05 epoch start")
    hot = session.evaluate("images labels 0.05 epoch start")
    (epoch,) = (r for r in session.hot.records.values() if r.name == "epoch")
    (version,) = epoch.versions.values()
    assert (version.state, version.misses) == ("compiled", 0)
    assert version.calls == 1
    for one, two in zip((*cold[0], cold[1]), (*hot[0], hot[1]), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-15)
    with pytest.raises(AplError, match="INDEX ERROR"):
        session.evaluate("images(2↑labels)0.05 epoch start")


CHARACTERS = {
    "{⍵×'abc'⍳'b'}": lambda x: x, "{⍵×'a'='abca'}": lambda x: x * [1, 0, 0, 1], "{⍵+≢'hello'}": lambda x: x + 5,
    "{k←'tanh' ⋄ k≡'tanh': ⍵÷1+⍵ ⋄ ⍵}": lambda x: x / (1 + x), "{⍵+⍴⍴'a'}": lambda x: x,
    "{⍵×⎕UCS'a'}": lambda x: 97 * x,
}  # fmt: skip


@pytest.mark.parametrize("text", CHARACTERS)
def test_f04_constant_characters_are_compiled(text: str) -> None:
    x = RANDOM.random(4)
    np.testing.assert_allclose(pb.apl(text, io=0)(x), CHARACTERS[text](x), rtol=1e-12)


@pytest.mark.parametrize("text", ["{⍵+'a'}", "{'a'}", "{⍵ 'a'}"])
def test_f04_other_characters_are_refused(text: str) -> None:
    with pytest.raises(AplError, match=r"E804.*characters"):
        pb.apl(text)(RANDOM.random(4))

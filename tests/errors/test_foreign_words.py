"""Words of NumPy, PyTorch, JAX, Keras, TensorFlow, CasADi and APL, each with the complete message that answers it.

The table is `foreign_words.txt`: an expression after `>>>`, and below it the message. `t` is a traced array; the other
names are those of `GIVEN`. `python -m tests.errors.test_foreign_words` writes the messages anew: read the difference.
"""

from __future__ import annotations

import linecache
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import data, distributions, interop, lazy, nn, onnx
from pullback.errors import PullbackError, TraceError

TABLE = Path(__file__).with_name("foreign_words.txt")
ROOT = Path(pb.__file__).parent
WORDS = tomllib.loads((ROOT / "words.toml").read_text(encoding="utf-8"))


def rows() -> dict[str, str]:
    """The message of each expression."""
    blocks = TABLE.read_text(encoding="utf-8").split(">>> ")[1:]
    return {first: rest.rstrip("\n") for first, _, rest in (block.partition("\n") for block in blocks)}


def given() -> dict[str, Any]:
    """The names that expressions use."""
    net = nn.sequential(nn.dense(10)).on("N 4")
    parameters, state = net.init(seed=0)
    x = np.ones((2, 4), np.float32)
    run = nn.Run(parameters, state, {}, nn.History(()), 0, 0.0, "finished")
    return {
        "pb": pb, "np": np, "nn": nn, "data": data, "lazy": lazy, "onnx": onnx, "interop": interop, "net": net,
        "distributions": distributions, "parameters": parameters, "state": state, "x": x, "run": run,
        "optimizer": nn.adam(0.001), "dataset": data.Dataset(x, np.zeros(2, np.int64)),
        "f": pb.function(lambda y: y * y), "w": lazy.Weight(np.ones(3)),
    }  # fmt: skip


def answer(expression: str, names: dict[str, Any], folder: Path) -> str:
    """The message for an expression, written in a file of the user's."""
    traced = re.search(r"\bt\b", expression) is not None
    text = f"pb.function(lambda t: {expression})(x)" if traced else expression
    file = folder / "user.py"
    file.write_text(text + "\n", encoding="utf-8")
    linecache.checkcache(str(file))
    with pytest.raises(PullbackError) as caught:
        exec(compile(text, str(file), "exec"), dict(names))
    return str(caught.value).replace(str(file), "user.py")


@pytest.mark.parametrize("expression", rows())
def test_a_word_is_answered(expression: str, tmp_path: Path) -> None:
    assert answer(expression, given(), tmp_path) == rows()[expression]


def test_there_are_many() -> None:
    """Each message says what to write: none only lists what there is."""
    assert len(rows()) >= 120
    assert not [e for e, text in rows().items() if "`dir(" in text or "  try: " not in text]


def _members(section: str) -> set[str]:
    known: dict[str, Any] = {
        "Layer": nn.Layer, "Optimizer": nn.Optimizer, "Run": nn.Run, "History": nn.History, "Dataset": data.Dataset,
        "Function": pb.Function, "pullback": pb, "nn": nn, "random": pb.random, "data": data, "onnx": onnx,
        "lazy": lazy,
    }  # fmt: skip
    found = known[section]
    return {*getattr(found, "__all__", dir(found)), *getattr(found, "__dataclass_fields__", ())}


@pytest.mark.parametrize("section", WORDS["instead"])
def test_words_are_none_of_ours(section: str) -> None:
    """No row stands for something that exists by now, and code in remedies names functions that exist."""
    table: dict[str, str] = WORDS["instead"][section]
    assert section == "lazy" or not set(table) & _members(section)  # that of `lazy` is for attributes of arrays, too
    for text in table.values():
        for module, name in re.findall(r"\b(pb|nn|data|lazy|onnx)\.(\w+)", text):
            found = {"pb": pb, "nn": nn, "data": data, "lazy": lazy, "onnx": onnx}[module]
            assert name in _members({"pb": "pullback"}.get(module, module)) or hasattr(found, name), text


def test_a_call_of_the_users_own_stays_his() -> None:
    """Only a wrong call of the public function itself is explained, not one inside of a function given to it."""

    def loss(y: Any) -> Any:
        return y

    with pytest.raises(TypeError, match=r"loss\(\) takes 1 positional argument but 2 were given") as caught:
        pb.tree_map(lambda y: loss(y, y), [1.0])
    assert not isinstance(caught.value, PullbackError)
    with pytest.raises(TraceError, match=r"nn\.fit\(\) missing"):
        nn.fit()  # type: ignore[call-arg]


if __name__ == "__main__":
    names = given()
    wanted = list(rows()) + [line.strip() for line in sys.stdin if line.strip()] if not sys.stdin.isatty() else rows()
    made = {e: answer(e, names, Path(tempfile.mkdtemp())) for e in wanted}
    TABLE.write_text("".join(f">>> {e}\n{text}\n\n" for e, text in made.items()).rstrip("\n") + "\n", encoding="utf-8")

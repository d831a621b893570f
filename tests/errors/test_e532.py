"""E532 and E533: names that cannot be those of files, and arrays that files cannot hold; E711 of `fit`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import cluster, nn
from pullback.cluster import LostError
from pullback.errors import DataError, UsageError
from pullback.interop import bindings, casadi
from pullback.lazy.remote import Expert

NAMES = ["../../../escape", "/escape", "a/b", "a\\b", "", ".", "..", "a\0b", "C:a", "a\nb", "n" * 300, "end.", "a*"]


def test_the_message_of_an_expert(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import nn
from pullback.lazy.remote import Expert
Expert("../../../escape", nn.dense(2).on("N 3"), checkpoint="d")
""")
        == """\
UsageError [E532] the expert '../../../escape' cannot have a checkpoint of this name: '/' in it
  --> user.py:3:1
   | Expert("../../../escape", nn.dense(2).on("N 3"), checkpoint="d")
   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: a `name=` of letters and digits      See `pullback explain-error E532`
"""
    )


def test_the_message_of_an_array(message: Callable[[str], str]) -> None:
    assert (
        message("""
from pullback import nn
nn.save_parameters("p", {"a/b": np.zeros(1), "a": {"b": np.ones(1)}})
""")
        == """\
DataError [E533] two arrays of a tree are called a/b
  try: keys that differ as text and have no /      See `pullback explain-error E533`
"""
    )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_written_outside_of_a_folder(tmp_path: Path, name: str) -> None:
    """The name of an expert, and that of a function wherever it names a file."""
    folder = tmp_path / "a" / "b" / "c" / "d"
    folder.mkdir(parents=True)
    net = nn.dense(2).on("N 3")
    with pytest.raises(UsageError, match="E532"):
        Expert(name, net, optimizer=nn.sgd(0.1), checkpoint=str(folder))

    def square(x: Float64[pb.Array, "3"]) -> Any:
        return pb.sum(x * x)

    square.__name__ = name
    writers: list[Callable[[Any, str], Any]] = [
        casadi.export, lambda f, d: f.export(d),
        *(lambda f, d, language=language: bindings.bind(f, language, d) for language in bindings.LANGUAGES),
    ]  # fmt: skip
    for write in writers:
        try:
            write(pb.function(square), str(folder))
        except UsageError as error:
            assert error.code == "E532"
    outside = [p for p in tmp_path.rglob("*") if p.is_file() and folder not in p.parents]
    assert outside == []


def test_an_expert_comes_back_from_its_checkpoint(tmp_path: Path) -> None:
    net = nn.dense(2).on("N 3")
    make = lambda name, **more: Expert(name, net, optimizer=nn.adam(0.1), checkpoint=str(tmp_path), **more)
    first = make("Größe 1")
    first.forward(0, (True,), np.ones((4, 3), np.float32))
    first.backward(0, np.ones((4, 2), np.float32))
    first.update()
    (path,) = tmp_path.iterdir()
    again = make("Größe 1", load=True, seed=3)
    for key, value in first.held().items():
        one, two = (dict(nn.parameters.named({"x": v})) for v in (value, again.held()[key]))
        assert {n: a.tobytes() for n, a in one.items()} == {n: a.tobytes() for n, a in two.items()}
    with pytest.raises(DataError, match="E510"):
        Expert("Größe 1", nn.dense(3).on("N 3"), optimizer=nn.adam(0.1), checkpoint=str(tmp_path), load=True)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="E509"):
        make("Größe 1", load=True)


class Gone(Exception):
    """What Ray raises of an actor that is lost."""


def test_advice_for_lost_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def lost(promised: Any) -> Any:
        raise Gone("The actor died unexpectedly before finishing this task.")

    method = SimpleNamespace(remote=lambda *arguments: "promised")
    actor = SimpleNamespace(ask=method, __ray_ready__=method)
    ray = SimpleNamespace(
        put=lambda value: value, get=lost, kill=lambda actor: None,
        remote=lambda kind: SimpleNamespace(remote=lambda *arguments: actor),
        exceptions=SimpleNamespace(RayTaskError=KeyError, RayActorError=Gone, ObjectLostError=Gone),
    )  # fmt: skip
    monkeypatch.setattr(cluster, "library", lambda: ray)
    x = np.ones((8, 3), np.float32)
    with pytest.raises(LostError) as caught:
        nn.fit(nn.dense(1), nn.mse_loss, (x, x[:, :1]), optimizer=nn.sgd(0.1), epochs=1, progress=False,
               workers=nn.Workers(1, restarts=0))
    assert str(caught.value) == """\
LostError [E711] worker 0 of fit: its process is lost
   | The actor died unexpectedly before finishing this task.
  try: `fit(…, save="folder")`: called again, it goes on from the last checkpoint there      \
See `pullback explain-error E711`"""

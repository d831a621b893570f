"""The page of names that have changed, made from `pullback/renamed.toml`: `python -m tests.docs.names_page`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "names.md"
TABLE: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "pullback" / "renamed.toml").read_text(encoding="utf-8"))
HEAD = """\
# Names

Names and parameters are those that readers know from elsewhere. Authorities, in this order:

1. NumPy and the array API for arrays;
2. PyTorch for networks and training;
3. optax and Keras where PyTorch has no such thing;
4. SciPy for solvers and statistics;
5. jaxtyping for shapes.

Version 0.2 renamed what differed. There are no aliases: an old name is an error that says the new one.
Other libraries' words are answered likewise: `nn.adam(lr=0.1)` says that `lr` is `learning_rate` here.

## Kept on purpose

| name | reason |
|---|---|
| `build`, `fold`, `sum_over`, `scan` | They are the language's own, from the papers that it builds on. |
| `nn.dense(units)` | Keras, too, infers the size of the input. PyTorch's `Linear` is told both sizes. |
| `get`, `pb.logistic` | The array part of the package had them first; `nn.sigmoid` is the activation. |
| `w`, `b`, `scale`, `shift` | They are keys of parameter trees and files, not words that anybody types in a call. |
| `fit(save=, resume=, memory=, threads=, workers=)` | No other library's training has the same meanings. |
| `Layer.on` | It gives a network the shape of its input, for which others have no one name. |
| `weight_decay`, `freeze` | PyTorch and its users have these words. |
| `max_steps` of solvers | It counts steps of the method. SciPy's `maxiter` differs from solver to solver. |

"""


def tables() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A title with rows (old, new, whose); callables of a module with one parameter table each stand together."""
    names = {s: rows for s, rows in TABLE.items() if "." not in s or s in MODULES or " of " in s}
    for section, rows in names.items():
        what, _, name = section.partition(" of ")
        title = f"{what.capitalize()} of `{name}`" if name else f"Names of `{_written(section)}`"
        found = [(old, new, whose) for old, (new, whose) in rows.items()]
        yield "Options of the command line" if section == "command line" else title, found
    rooms = sorted({section.partition(".")[0] for section in TABLE if section not in names})
    for room in rooms:
        own = {s: rows for s, rows in TABLE.items() if s not in names and s.partition(".")[0] == room}
        found = [
            (f"{s.partition('.')[2]}({old}=)", new, whose) for s, t in own.items() for old, (new, whose) in t.items()
        ]
        yield f"Parameters and attributes in `{_written(room)}`", found


MODULES = ("nn.metrics", "nn.init", "nn.models")


def _written(section: str) -> str:
    own = ("nn", "data", "lazy", "onnx")
    return "pb" if section == "pullback" else section if section.partition(".")[0] in own else f"pb.{section}"


def page() -> str:
    """The whole page."""
    parts = [HEAD.rstrip("\n")]
    for title, rows in tables():
        lines = [f"## {title}", "", "| old | new | who else calls it so |", "|---|---|---|"]
        parts.append("\n".join([*lines, *(f"| `{old}` | `{new}` | {whose} |" for old, new, whose in rows)]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)

"""The stages of a function as one self-contained page: light, dark, keyboard accessible.

Stages are side by side. Lines of the source link to their C, and lines of C back, by the source locations of statements
(`codegen.marks`). Templates are files beside this one; all text is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from pullback.explanation.difference import Changed, changes
from pullback.explanation.sources import Sources
from pullback.explanation.stages import Backend, Explained, Explanation
from pullback.explanation.text_of_c import c_blocks
from pullback.tables import html_text
from pullback.templates import filled
from pullback.writing import write_file

__all__ = ["filled", "page", "save_page"]

TEMPLATES: Final = Path(__file__).parent / "template"
BACK: Final = ("kernels", "C")  # stages after the passes


def save_page(explanation: Explanation, path: str | os.PathLike[str]) -> None:
    """Write the page of a function to a file, whole or not at all.

    Raises:
        UsageError: [E607] the file cannot be written.
    """
    write_file(path, page(explanation).encode())


def page(explanation: Explanation) -> str:
    """The page of a function as HTML."""
    about = explanation.about
    sources = Sources(about, explanation.backend)
    behind = list(_panels(explanation, sources))  # first: it determines the links between lines
    panels = [*([("Source", "as it was written", sources.html())] if sources.files else []), *behind]
    return filled(
        _template("page.html"),
        {
            "title": escape(f"{about.name}, stage by stage"),
            "name": escape(about.name),
            "type": escape(about.type),
            "doc": f'<p class="doc">{html_text(about.doc.partition(chr(10) + chr(10))[0])}</p>' if about.doc else "",
            "sizes": _how_to_give_sizes(explanation),
            "switches": "\n".join(_switch(k, title) for k, (title, _, _) in enumerate(panels, 1)),
            "panels": "\n".join(_panel(*p) for p in panels),
            "count": str(len(panels)),
            "style": _template("page.css"),
            "script": _template("page.js"),
        },
    )


def _how_to_give_sizes(e: Explanation) -> str:
    """A note that kernels, memory and C need sizes, if these are missing."""
    if e.backend is not None:
        return ""
    given = "".join(f", {name}=64" for name in e.dims)
    options = "".join(f" --dim {name}=64" for name in e.dims)
    words = (f"Kernels, memory and C need sizes. Give them: `{e.about.name}.explain(html=…{given})`, "
             f"or on the command line `pullback explain …{options}`.")  # fmt: skip
    return f'<p class="note">{html_text(words)}</p>'


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _panels(e: Explanation, sources: Sources) -> Iterator[tuple[str, str, str]]:
    """The title, short description, and HTML of each stage after the source."""
    first, *others = [s for s in e.stages if s.name not in BACK]
    yield "Core", first.purpose, f'<pre class="program">{_lines(first.text)}</pre>'
    if e.derivation is not None:
        yield "Derivation", "the derivative, step by step", _derivation(e)
    if e.graph is not None:
        note = "Arrays, and on each edge the operator by which one changes with the other: d y = L d x."
        yield "Graph", "local derivatives", f'<p class="note">{note}</p><div class="scroll">{e.graph.svg}</div>'
    yield "Passes", "what each of them changed", _passes(first, others)
    if e.backend is not None:
        yield "Kernels", f"chosen for {e.backend.machine}", _kernels(e.backend, sources)
        yield "Memory", "over time", e.backend.memory._repr_html_()
        yield "C", e.stages[-1].purpose, c_blocks(e.stages[-1].text, e.backend.places, sources)


def _switch(k: int, title: str) -> str:
    words = f"<i>{k}</i>{escape(title)}"
    return f'<button type="button" aria-pressed="true" aria-controls="stage-{title.lower()}">{words}</button>'


def _panel(title: str, words: str, body: str) -> str:
    k = title.lower()
    wide = ' class="wide"' if title in ("C", "Kernels", "Memory") else ""
    head = f'<h2 id="{k}-title">{escape(title)} <small>{html_text(words)}</small></h2>'
    named = f'aria-labelledby="{k}-title"'
    inside = f'<div class="body" tabindex="0" role="region" {named}>\n{body}\n</div>'
    return f'<section{wide} id="stage-{k}" {named}>{head}\n{inside}</section>'


def _lines(text: str) -> str:
    """Lines, folded if they are long."""
    return "".join(f'<span class="line wrap">{escape(line)}\n</span>' for line in text.rstrip("\n").split("\n"))


# Derivation -----------------------------------------------------------------------------------------------------


def _derivation(e: Explanation) -> str:
    from pullback.derivation.document import Document
    from pullback.derivation.style import TEXT
    from pullback.rewrite.rules import rules_of

    assert e.derivation is not None
    parts = []
    for section in Document(e.derivation.program, e.derivation.steps, TEXT).sections:
        steps = "\n".join(
            f'<div class="step{" on" * bool(line.relation)}">'
            f'<span class="code wrap">{escape(f"{line.relation} {line.formula}".strip())}</span>'
            f'<span class="rules">{escape(line.cited)}</span></div>'
            for line in section.lines
        )
        parts.append(f'<div class="part"><h3>{escape(section.title)}</h3>\n{steps}</div>')
    rows = [(r.source if r.source != "Pullback" else "own", r.number or r.id, r.name, r.text)
            for r in rules_of(e.derivation.rules)]  # fmt: skip
    note = "002: Zhao and Huang, DeepDSL. 003: Shaikhha et al., dF~. The others are Pullback's own."
    used = _table(("", "rule", "what it does", ""), rows, "Rules that were applied", code=(3,))
    return f'<p class="note">{note}</p>{"".join(parts)}<div class="part">{used}</div>'


# Passes ---------------------------------------------------------------------------------------------------------


def _passes(first: Explained, others: list[Explained]) -> str:
    parts, idle = [], []
    before = first
    for s in others:
        if s.text == before.text:
            idle.append(s.name)
        else:
            parts += [_idle(idle), _pass(before, s)]
            idle = []
        before = s
    return "".join([*parts, _idle(idle)])


def _idle(names: list[str]) -> str:
    return f'<p class="note">no change: {escape(", ".join(names))}</p>' if names else ""


def _pass(before: Explained, s: Explained) -> str:
    chips = "".join(f'<span class="chip">{escape(n)}{f" × {k}" if k > 1 else ""}</span>' for n, k in s.rules.items())
    diff = "".join(map(_changed, changes(before.text, s.text)))
    whole = f"<details><summary><span>the whole program after it</span></summary><pre>{_lines(s.text)}</pre></details>"
    head = f"<summary><b>{escape(s.name)}</b> <span>{html_text(s.purpose)}</span></summary>"
    return (f'<details open>{head}{f"""<div class="chips">{chips}</div>""" if chips else ""}'
            f'<pre class="diff">{diff}</pre>{whole}</details>')  # fmt: skip


def _changed(c: Changed) -> str:
    inside = "".join(escape(t) if same else f"<mark>{escape(t)}</mark>" for t, same in c.pieces)
    return f'<span class="{c.kind}">{inside}\n</span>'


# Kernels --------------------------------------------------------------------------------------------------------


def _kernels(backend: Backend, sources: Sources) -> str:
    total = sum(k.chosen.cycles for k in backend.kernels) or 1.0
    most = max((k.chosen.cycles for k in backend.kernels), default=0.0)
    rows = []
    for k in backend.kernels:
        others = ", ".join(f"{name} {cycles:,.0f}" for name, cycles in k.chosen.others)
        bar = f'<span class="bar" style="width: {100 * k.chosen.cycles / (most or 1):.1f}%"></span>'
        schedule = f'<span class="said">{escape(str(k.chosen.schedule))}</span>'
        rows.append(f'<tr><td class="code">{escape(k.name)}<br>{sources.links(k.positions)}</td>'
                    f'<td class="code">{escape(k.chosen.name)}<br>{schedule}</td>'
                    f'<td class="number">{k.chosen.cycles:,.0f}{bar}</td><td>{escape(others)}</td></tr>')  # fmt: skip
    head = '<tr><th>kernel</th><th>by, and its schedule</th><th class="number">cycles</th><th>others</th></tr>'
    note = (
        f"Estimates in cycles, {total:,.0f} in all; of the ways to compute a statement the one with the least is "
        "taken. The C beside is for any processor, with choices of its own."
    )
    return f'<p class="note">{note}</p><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, code: Collection[int] = ()) -> str:
    top = "".join(f"<th>{escape(h)}</th>" for h in head)
    cells = [[f"<td class=code>{escape(c)}</td>" if k in code else f"<td>{html_text(c)}</td>"
              for k, c in enumerate(row)] for row in rows]  # fmt: skip
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"

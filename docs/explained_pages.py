"""Pages that explain the functions of tutorials: every stage of the compiler for each, linked from the tutorial."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from docs.programs import ROOT, results, scratch, share

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# what is run after a page, to make functions of its networks
AFTER = {
    "docs/tutorials/first_network": """
network = pb.function(lambda parameters, x: net(parameters, x))
network(run.parameters, test[0][:32])
""",
    "docs/tutorials/dynamic_networks": """
layers = pb.function(lambda parameters, x: stem(parameters, x))
layers(stem.init(0)[0], x_test[:64])
""",
}
# for each page its functions, by the name that its last block leaves them under, and their sizes
FUNCTIONS: dict[str, dict[str, dict[str, int]]] = {
    "docs/index": {"gradient": {"N": 64, "M": 8}},
    "docs/tutorials/first_hour": {
        name: {"N": 500, "M": 784, "K": 10} for name in ("dense", "loss", "gradient")
    },
    "docs/tutorials/first_network": {"network": {}},
    "docs/tutorials/dynamic_networks": {"layers": {}},
    "docs/guides/robotics": {"tool": {}, "jacobian": {}, "reach": {}},
}  # fmt: skip


def explain(source: Path, folder: Path) -> None:
    """Run the Python blocks of a page as one program, and write a page for each of its functions."""
    name = source.relative_to(ROOT).with_suffix("").as_posix()
    with scratch() as here:
        program = here / f"{source.stem}.py"
        blocks = [*PYTHON.findall(source.read_text(encoding="utf-8")), AFTER.get(name, "")]
        program.write_text("\n".join(blocks), encoding="utf-8")
        made = runpy.run_path(str(program), run_name="__main__")
        for function, sizes in FUNCTIONS[name].items():
            made[function].explain(html=folder / f"{source.stem}.{function}.html", **sizes)


def links() -> dict[str, dict[str, Path]]:
    """Make the pages of this run. Return the file of each function, for each page of the documentation."""
    always = ROOT / "docs" / "index.md"  # shows its page
    chosen = [always, *(source for source in share([ROOT / f"{name}.md" for name in FUNCTIONS]) if source != always)]
    found = {}
    for source, folder in zip(chosen, results(explain, chosen)):
        name = source.relative_to(ROOT).with_suffix("").as_posix()
        found[name] = {function: folder / f"{source.stem}.{function}.html" for function in FUNCTIONS[name]}
    return found


def with_links(page: str, text: str, files: dict[str, Path]) -> str:
    """Return a page with links to the pages of its functions; the landing page shows its picture alive."""
    up = "../" * page.count("/")
    places = {function: f"{up}explained/{file.name}" for function, file in files.items()}
    if page == "docs/index":
        picture = re.compile(r"^!\[.*\]\(pictures/explain_page\.png\)$", re.MULTILINE)
        assert picture.search(text), "the landing page has no picture of the explain page"
        frame = f'<iframe class="explained" src="{places["gradient"]}" title="Every stage of a gradient"></iframe>'
        return picture.sub(frame, text)
    linked = ", ".join(f'<a href="{place}"><code>{function}</code></a>' for function, place in places.items())
    return f"{text}\n## See every stage\n\n<p>Every stage of the compiler on one page, for {linked}.</p>\n"

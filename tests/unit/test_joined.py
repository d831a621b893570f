"""Programs whose C is compiled together mean what each means alone."""

from __future__ import annotations

import pytest

from pullback.errors import CompilerError
from pullback.runtime.compile import compiled_library as make
from pullback.runtime.compile import compiler_command
from tests.joined import compiled, joined
from tests.strict import WARNINGS

HELPER = "static int helper(int x) {\n    return x + %d;\n}\n"
TWICE = "static int twice(int x) { return 2 * helper(x); } /* mentions `helper` */\n"
ENTRY = "int program(int x) {\n    const int helper_of = twice(x); /* { */\n    return helper_of;\n}\n"
CHOSEN = """\
#ifdef PB_CHOSEN
static int helper(int x) {
    return x - 1;
}
#else
static int helper(int x) {
    return x + 7;
}
#endif
"""
MACRO = "#define STEP %d\nstatic int twice(int x) {\n    return x + STEP;\n}\n"
TABLE = "static const int table[2] = {%d, %d};\nstatic int twice(int x) {\n    return table[x & 1];\n}\n"
TYPED = "typedef struct %s pair;\nstruct %s {\n    int a;\n    int b;\n};\n"
TEXTS = {
    "first": (HELPER % 1 + TWICE + ENTRY, 8),
    "the same": (HELPER % 1 + TWICE + ENTRY, 8),
    "another helper": (HELPER % 2 + TWICE + ENTRY, 10),
    "declared before": ("static int helper(int x);\n" + TWICE + HELPER % 3 + ENTRY, 12),
    "under a condition": (CHOSEN + TWICE + ENTRY, 20),
    "macro": (MACRO % 5 + ENTRY, 8),
    "another macro": (MACRO % 6 + ENTRY, 9),
    "table": (TABLE % (1, 2) + ENTRY, 2),
    "another table": (TABLE % (3, 4) + ENTRY, 4),
    "types": (TYPED % ("pair", "pair") + HELPER % 1 + TWICE + ENTRY, 8),
}


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_each_means_what_it_means_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("tests.joined.compiled_library", lambda text, flags: asked.append(text) or make(text, flags))
    texts = [(text, "program") for text, _ in TEXTS.values()] * 3
    assert [f(3) for f in compiled(texts, WARNINGS)] == [value for _, value in TEXTS.values()] * 3
    assert [asked.count(text) for text, _ in TEXTS.values()] == [3, 3, *[0] * (len(TEXTS) - 2)]
    assert len(asked) == 4  # each tenth, which is the first here, and the others together


def test_what_is_shared_is_there_once() -> None:
    texts = [(TEXTS[name][0], "program") for name in ("first", "the same", "another helper")]
    text = joined(texts, ["a", "b", "c"])
    assert [text.count(f"int {name}(int x)") for name in ("helper", "twice", "a", "b", "c")] == [1, 1, 1, 1, 1]


@pytest.mark.skipif(compiler_command() is None, reason="no C compiler")
def test_the_error_is_that_of_the_text_that_is_wrong() -> None:
    wrong = "int program(int x) {\n    return unheard_of(x) +;\n}\n"
    with pytest.raises(CompilerError) as caught:
        compiled([(TEXTS["first"][0], "program"), (wrong, "program"), (TEXTS["macro"][0], "program")], ())
    assert "unheard_of" in str(caught.value)

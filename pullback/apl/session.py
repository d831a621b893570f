"""The interactive session: input lines, boxed output, and glyphs by a prefix key."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from platformdirs import user_state_path

from pullback.apl.compiled import floating, function_of, to_python
from pullback.apl.definitions import is_open, tokens
from pullback.apl.display import display
from pullback.apl.evaluate import evaluate
from pullback.apl.functions import Verb
from pullback.apl.hot import compile_by_itself
from pullback.apl.limits import Limits
from pullback.apl.parser import parse, statements
from pullback.apl.tree import Dyadic, Monadic
from pullback.apl.workspace import Workspace
from pullback.derivatives import grad
from pullback.errors import PullbackError

KEYS: Final = {
    **dict(zip("`1234567890-=", "⋄¨¯<≤=≥>≠∨∧×÷")),
    **dict(zip("qwertyuiop[]", "?⍵∊⍴~↑↓⍳○*←→")),
    **dict(zip("asdfghjkl;'", "⍺⌈⌊_∇∆∘'⎕⍎⍕")),
    **dict(zip("zxcvbnm,./\\", "⊂⊃∩∪⊥⊤|⍝⍀⌿⊢")),
    **dict(zip("~!@#$%^&*()_+", "⌺⌶⍫⍒⍋⌽⍉⊖⍟⍱⍲!⌹")),
    **dict(zip("ETIOPJKLZ<:'|}", "⍷⍨⍸⍥⍣⍤⌸⌷⊆⍪≡≢⊣⍬")),
}  # the keyboard layout of most APLs
HELP: Final = """\
]type f x  the type of a verb, for its arguments       ]ir f x    its program
]c f x     its C                                       ]grad f x  its gradient, as a program
]box on    boxes around the elements of nests, or off  ]keys      how glyphs are typed
)vars )fns the names there are                         )compiled  the dfns that it has compiled
)off       the end"""


class Session:
    """A workspace and the commands of a session.

    Args:
        write: the function that prints text.
        limits: the limits of time per line and of memory.
    """

    def __init__(self, write: Callable[[str], Any] = sys.stdout.write, limits: Limits | None = None) -> None:
        self.write = write
        self.work = Workspace(boxed=True, show=self.print, limits=limits)
        compile_by_itself(self.work)
        self._definition: list[str] = []  # the lines of a ∇-definition that is not closed

    def print(self, value: Any) -> None:
        """Print a value."""
        self.write(display(value, self.work.boxed, self.work.scope.settings.pp) + "\n")

    def line(self, text: str) -> bool:
        """Evaluate one line or command; False at the end of the session.

        The lines of a ∇-definition are evaluated together when it is closed.
        """
        self._definition.append(text.rstrip())
        if is_open(self._definition):
            return True
        text = "\n".join(self._definition).strip()
        self._definition.clear()
        try:
            if text.startswith((")", "]")):
                with self.work.limits.guarded():
                    return self._command(text[1:])
            self.work.within_limits(text)
        except PullbackError as error:
            self.write(f"{error}\n")
        return True

    def close(self) -> None:
        """End what runs in the background."""
        if self.work.hot is not None:
            self.work.hot.close()

    def _command(self, text: str) -> bool:
        name, _, rest = text.partition(" ")
        match name.lower():
            case "off":
                return False
            case "vars" | "fns":
                wanted = name.lower() == "fns"
                names = [n for n, v in self.work.scope.names.items() if isinstance(v, Verb) == wanted]
                self.write(" ".join(sorted(names)) + "\n")
            case "compiled":
                lines = self.work.hot.report() if self.work.hot is not None else ["PULLBACK_APL_COMPILE is off"]
                self.write("".join(f"{line}\n" for line in lines))
            case "box":
                self.work.boxed = rest.strip() != "off"
            case "keys":
                pairs = [f"`{key} {glyph}" for key, glyph in KEYS.items()]
                self.write("\n".join("   ".join(pairs[k : k + 10]) for k in range(0, len(pairs), 10)) + "\n")
            case "type" | "ir" | "c" | "grad":
                self.write(f"{self._shown(name.lower(), rest.strip())}\n")
            case _:
                self.write(HELP + "\n")
        return True

    def _shown(self, what: str, text: str) -> str:
        """Return the compiled form of a verb for its arguments, as text."""
        found = statements(tokens(text))
        scope = self.work.scope
        node = parse(found[0].items, scope.class_of).node if found else None
        if not isinstance(node, Monadic | Dyadic):
            return f"]{what} takes a verb with its arguments, as in ]{what} {{+/⍵}}1 2 3"
        nodes = [node.omega] if isinstance(node, Monadic) else [node.alpha, node.omega]
        arguments = [to_python(evaluate(n, scope)) for n in nodes]
        f = function_of(evaluate(node.verb, scope), "f", left=isinstance(node, Dyadic))
        if what == "grad":
            f, arguments = grad(f, wrt="omega"), [floating(a) for a in arguments]
        f(*arguments)
        return str(f.type if what == "type" else f.c_source() if what == "c" else f.ir)


def typed(text: str) -> str:
    """Replace the prefixed keys of a line by glyphs: "`r" is ⍴."""
    made, at = "", 0
    while at < len(text):
        key = text[at + 1 : at + 2]
        if text[at] == "`" and key in KEYS:
            made, at = made + KEYS[key], at + 2
        else:
            made, at = made + text[at], at + 1
    return made


def plain_lines() -> Iterator[str]:
    """Yield lines of the standard input, with ` and a key replaced by a glyph."""
    while True:
        try:
            yield typed(input("      "))
        except KeyboardInterrupt:
            yield ""
        except EOFError:
            return


def lines_typed(folder: Path) -> Iterator[str]:
    """Yield lines from the terminal, with history and glyphs by ` if prompt_toolkit is installed."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings
    except ImportError:
        yield from plain_lines()
        return
    bindings = KeyBindings()
    for key, glyph in KEYS.items():
        bindings.add("`", key)(lambda event, glyph=glyph: event.current_buffer.insert_text(glyph))
    folder.mkdir(parents=True, exist_ok=True)
    prompt: Any = PromptSession(history=FileHistory(str(folder / "apl_history")), key_bindings=bindings)
    while True:
        try:
            yield prompt.prompt("      ")
        except KeyboardInterrupt:
            yield ""
        except EOFError:
            return


def run_session(limits: Limits | None = None) -> None:
    """Run a session on the terminal, until `)off` or the end of the input."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, TextIOWrapper):  # characters that the terminal lacks must not end the session
            stream.reconfigure(errors="backslashreplace")
    session = Session(limits=limits)
    session.write("APL of Pullback; ] for commands, )off ends it\n")
    try:
        for text in lines_typed(user_state_path("pullback")) if sys.stdin.isatty() else plain_lines():
            if not session.line(text):
                return
    finally:
        session.close()

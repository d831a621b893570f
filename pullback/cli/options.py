"""Options that several commands share, and the lookup of a function in a user's file."""

from __future__ import annotations

import argparse
import importlib.util
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final, NoReturn

from pullback.calls import policy
from pullback.errors import PullbackError, UsageError
from pullback.source import Position, working_on
from pullback.tracing.elsewhere import nearest, renamed_to

__all__ = [
    "HelpWithDefaults",
    "Parser",
    "add_dims",
    "add_json",
    "at_least",
    "bytes_of_memory",
    "device_name",
    "dims_of",
    "find_function",
    "import_file",
    "last_place",
    "positive",
    "share",
]  # fmt: skip


FOREIGN: Final = {"--lr": "--learning-rate", "--wrt": "--grad"}  # options of other programs
WORDED: Final = (  # what argparse says, and what is said instead
    (r"argument (.+?): expected .+", r"\1: a value is missing"),
    (r"argument (.+?): not allowed with argument (.+)", r"\1 and \2 exclude each other"),
    (r"argument (.+?): ignored explicit argument .+", r"\1 takes no value"),
    (r"argument (.+?): (.+)", r"\1 \2"),
    (r"the following arguments are required: (.+)", r"\1 is missing"),
)


class HelpWithDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Help that adds the defaults which the text does not say, and keeps examples as they are written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        said = action.default is None or action.default is False or "default" in (action.help or "")
        return action.help if said else super()._get_help_string(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line like every other error, and shows examples below its help.

    Args:
        examples: command lines.
        settings: as of argparse.
    """

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        shown = "\n  ".join(["examples:", *examples]) if examples else None
        super().__init__(formatter_class=HelpWithDefaults, epilog=shown, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        for pattern, words in WORDED:
            if found := re.fullmatch(pattern, message):
                message = found.expand(words)
                break
        raise UsageError("E601", f"{self.prog}: {message}", remedy=f"{self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line, and refuse what no argument takes: here, where the command is known."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            flag = rest[0].partition("=")[0]
            known, meant, now = self._option_string_actions, FOREIGN.get(flag), renamed_to("command line", flag)
            if not flag.startswith("-"):
                self._refuse(f"one argument too many: {flag}", ())
            if now in known:
                raise UsageError("E601", f"{self.prog}: there is no option {flag}", remedy=f"`{flag}` is now `{now}`")
            self._refuse(f"there is no option {flag}", [meant] if meant in known else nearest(flag, known))
        return options, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is no choice, and name the nearest choices."""
        if action.choices is not None and value not in action.choices:
            name = action.option_strings[0] if action.option_strings else action.metavar or action.dest
            words = [str(choice) for choice in action.choices]
            self._refuse(f"{name} {value} is not known", nearest(str(value), words), words)

    def _refuse(self, what: str, close: Sequence[str], words: Sequence[str] = ()) -> NoReturn:
        meant = f"did you mean {' or '.join(close)}? " if close else f"one of {', '.join(words)}. " if words else ""
        raise UsageError("E601", f"{self.prog}: {what}", remedy=f"{meant}`{self.prog} --help` lists all")


def add_json(command: argparse.ArgumentParser) -> None:
    """`--json`."""
    command.add_argument("--json", action="store_true", help="print the result as JSON, on the last line")


def add_dims(command: argparse.ArgumentParser) -> None:
    """`--dim N=500`, any number of times."""
    command.add_argument(
        "--dim", action="append", metavar="NAME=VALUE", help="the size of a dimension, as in N=500; repeat for others"
    )


def dims_of(options: argparse.Namespace) -> dict[str, int]:
    """The dims given with `--dim`.

    Raises:
        UsageError: [E603] a dim is not of the form NAME=VALUE, or is given twice.
    """
    dims: dict[str, int] = {}
    for text in options.dim or ():
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier() and value.isdecimal()):
            raise UsageError("E603", f"--dim {text}: not a dimension and its value", remedy="--dim N=500")
        if name in dims:
            raise UsageError("E603", f"--dim {text}: {name} is already {dims[name]}", remedy=f"give {name} once")
        dims[name] = int(value)
    return dims


def at_least(least: int) -> Callable[[str], int]:
    """An argument type: integers from `least` up."""

    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: a whole number of at least {least} is needed")
        return value

    return whole


def positive(text: str) -> float:
    """An argument type: finite numbers above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text}: a number above 0 is needed")
    return value


def share(text: str) -> float:
    """An argument type: numbers from 0 to below 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text}: a number from 0 to below 1 is needed")
    return value


def device_name(text: str) -> str:
    """An argument type: the name of a device."""
    try:
        return policy.device(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: cpu, cuda, cuda:1 or opencl is needed") from None


def bytes_of_memory(text: str) -> int:
    """An argument type: a number of bytes, as in `1000000`, `512M` or `2G`."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    number = text if unit == 1 else text[:-1]
    if not (number.isascii() and number.isdigit() and int(number)):
        raise argparse.ArgumentTypeError(f"{text}: a number of bytes is needed, as in 512M or 2G")
    return int(number) * unit


class _Script(SourceFileLoader):
    """The loader of a file that is run: as for `python FILE`, no byte code is written beside it."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write nothing."""


def import_file(path: Path) -> ModuleType:
    """Import a Python file under its own name, with its folder on the path as when it is run.

    Raises:
        UsageError: [E602] there is no such file, or it fails to import. Errors of Pullback pass through.
    """
    if not path.is_file():
        raise UsageError("E602", f"{path}: no such file", remedy="the path of a Python file")
    loader = _Script(path.stem, str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=loader) if path.suffix == ".py" else None
    if spec is None:
        raise UsageError("E602", f"{path}: not a Python file", remedy="a file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        loader.exec_module(module)
    except PullbackError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        facts = (f"line {error.lineno}",) if isinstance(error, SyntaxError) and error.lineno is not None else ()
        raise UsageError(
            "E602",
            f"{path} could not be imported: {type(error).__name__}: {error}; what is below was not looked at",
            position=last_place(error, str(path)),
            facts=facts,
            remedy=f"python {path}",
        ) from error
    finally:
        sys.path.pop(0)
        if before is not None:
            sys.modules[path.stem] = before
    return module


def last_place(error: BaseException, file: str) -> Position | None:
    """The last line of the user's file that was running."""
    own = (file, str(Path(file).resolve()))
    places = [Position(f.f_code, at) for f, at in _frames(error.__traceback__) if f.f_code.co_filename in own]
    return places[-1] if places else None


def _frames(tb: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Frames with the instruction that was running."""
    while tb is not None:
        yield tb.tb_frame, tb.tb_lasti
        tb = tb.tb_next


def find_function(target: str) -> Any:
    """The traced function that FILE.py:FUNCTION names.

    Raises:
        UsageError: [E602] the file cannot be imported, [E604] it has no such traced function.
    """
    file, colon, name = target.rpartition(":")
    if not colon:
        raise UsageError("E604", f"{target}: no function named", remedy=f"{target}:FUNCTION")
    module = import_file(Path(file))
    names = traced_functions(module)
    if name not in names:
        known = ", ".join(names) or "none"
        what = "is not a traced function" if hasattr(module, name) else "does not exist"
        raise UsageError(
            "E604",
            f"{file}: {name} {what}",
            facts=(f"traced functions: {known}",),
            remedy=f"{file}:{next(iter(names))}" if names else "decorate the function with @pb.function",
        )
    found = names[name]
    working_on(getattr(found, "place", None))
    return found


def traced_functions(module: ModuleType) -> dict[str, Any]:
    """The functions of a module that Pullback traces, by name."""
    return {name: value for name, value in vars(module).items() if is_traced(value)}


def is_traced(value: Any) -> bool:
    """Whether a value is a traced function."""
    import pullback

    kind = getattr(pullback, "Function", None)
    return isinstance(value, kind) if isinstance(kind, type) else all(hasattr(value, a) for a in ("ir", "c_source"))

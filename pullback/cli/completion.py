"""`pullback completion`: a script that completes this command line in a shell, made from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pullback.cli.explain_error import sections
from pullback.nn.models import NETWORKS
from pullback.templates import filled

__all__ = ["register", "run"]

Commands = Mapping[str, tuple[str, list[argparse.Action]]]  # help and arguments by name


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script that completes commands, options, values and files. In bash and zsh, put the line "
        "below into ~/.bashrc or ~/.zshrc.",
        examples=(
            'eval "$(pullback completion bash)"',
            'eval "$(pullback completion zsh)"',
            "pullback completion fish > ~/.config/fish/completions/pullback.fish",
        ),
    )
    command.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help=f"one of {', '.join(SCRIPTS)}")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script of a shell."""
    root: argparse.ArgumentParser = options.root
    below = next(a for a in root._actions if isinstance(a, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in below._choices_actions}
    commands = {name: (helps[name], parser._actions) for name, parser in below.choices.items()}
    print(SCRIPTS[options.shell](commands, [a for a in root._actions if a is not below]), end="")
    return 0


def _quoted(words: Iterable[str]) -> str:
    """Join words with spaces and quote the result as one shell word."""
    return "'" + " ".join(words).replace("'", "'\\''") + "'"


def _choices(actions: Iterable[argparse.Action]) -> list[str]:
    """The words that arguments take: their choices, or those that the command itself checks."""
    checked: dict[str, Iterable[str]] = {"network": NETWORKS, "code": sections()}
    return [str(choice) for action in actions for choice in action.choices or checked.get(action.dest, ())]


def _flags(actions: Iterable[argparse.Action]) -> list[str]:
    return [flag for action in actions for flag in action.option_strings]


def _kind(action: argparse.Action) -> str:
    """The kind of a value's completions: "words", "files", "folders", or empty for none."""
    name = str(action.metavar or "")
    if _choices([action]):
        return "words"
    return "folders" if name == "DIR" else "files" if name.startswith(("FILE", "PATH", "ARGUMENT")) else ""


BASH: Final = """\
# Completion of pullback in bash: eval "$(pullback completion bash)"
_pullback() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words= kind=words k
    if [[ $word == = ]]; then word=; fi
    if [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi  # --option=value is three words
    if ((COMP_CWORD == 1)); then
        words={{commands}}
    else
        case "${COMP_WORDS[1]} $before" in
{{values}}
        *)
            case "${COMP_WORDS[1]} $word" in
{{options}}
            esac
            for ((k = 2; k < COMP_CWORD; k++)); do  # a word that is there needs no other
                if [[ $word != -* && " $words " == *" ${COMP_WORDS[k]} "* ]]; then words=; fi
            done ;;
        esac
    fi
    case $kind in
    files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    esac
}
complete -F _pullback pullback
"""


def _bash(commands: Commands, own: list[argparse.Action]) -> str:
    values, options = [], []
    for name, (_, actions) in commands.items():
        values += [f"        '{name} {flag}') words={_quoted(_choices([action]))} kind={_kind(action)} ;;"
                   for action in actions if action.nargs != 0 for flag in action.option_strings]  # fmt: skip
        places = [action for action in actions if not action.option_strings]
        kind = next(map(_kind, places), "")
        options += [f"            '{name} -'*) words={_quoted(_flags(actions))} ;;",
                    f"            '{name} '*) words={_quoted(_choices(places))} kind={kind} ;;"]  # fmt: skip
    parts = {"values": "\n".join(values), "options": "\n".join(options)}
    return filled(BASH, {"commands": _quoted([*commands, *_flags(own)]), **parts})


ZSH: Final = """\
#compdef pullback
# Completion of pullback in zsh: eval "$(pullback completion zsh)" after compinit
_pullback() {
    local -a commands=({{commands}})
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
{{cases}}
    esac
}
if [[ $funcstack[1] == _pullback ]]; then _pullback "$@"; else compdef _pullback pullback; fi
"""


def _zsh(commands: Commands, own: list[argparse.Action]) -> str:
    cases = []
    for name, (_, actions) in commands.items():
        words = [_quoted([spec]) for action in actions for spec in _zsh_specs(action)]
        cases.append(" \\\n        ".join([f"    {name}) _arguments", *words]) + " ;;")
    described = " ".join(_quoted([f"{name}:{about}"]) for name, (about, _) in commands.items())
    return filled(ZSH, {"commands": described, "cases": "\n".join(cases)})


def _zsh_specs(action: argparse.Action) -> list[str]:
    """Specifications for `_arguments`, one for each flag."""
    done = {"words": f"({' '.join(_choices([action]))})", "files": "_files", "folders": "_files -/", "": " "}
    value = "" if action.nargs == 0 else f":{action.dest}:{done[_kind(action)]}"
    about = _about(action)
    for character in "\\[]:":
        about = about.replace(character, "\\" + character)
    flags = [f"{flag}{'=' * (action.nargs != 0 and flag.startswith('--'))}" for flag in action.option_strings]
    return [f"*{flag}[{about}]{value}" for flag in flags] or [f"*{value}" if action.nargs == "*" else value]


def _about(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _fish(commands: Commands, own: list[argparse.Action]) -> str:
    start = "complete -c pullback -n __fish_use_subcommand -f"
    lines = ["# Completion of pullback in fish: pullback completion fish > ~/.config/fish/completions/pullback.fish"]
    lines += [f"{start} -a {name} -d {_quoted([about])}" for name, (about, _) in commands.items()]
    lines += [start + _fish_argument(action) for action in own]
    for name, (_, actions) in commands.items():
        start = f"complete -c pullback -n '__fish_seen_subcommand_from {name}'"
        lines += [start + _fish_argument(action) for action in actions if action.option_strings or _choices([action])]
        if not any(_kind(action) == "files" for action in actions if not action.option_strings):
            lines.append(f"{start} -f")  # no file completion if no argument is a file
    return "\n".join(lines) + "\n"


def _fish_argument(action: argparse.Action) -> str:
    words = [f" -{'l' if flag.startswith('--') else 's'} {flag.lstrip('-')}" for flag in action.option_strings]
    if words and action.nargs != 0:
        words.append({"words": " -x", "files": " -r -F", "folders": " -x -a '(__fish_complete_directories)'"}.get(
            _kind(action), " -x"))  # fmt: skip
    words += [f" -f -a {_quoted(_choices([action]))}"] if _kind(action) == "words" else []
    return "".join(words) + f" -d {_quoted([_about(action) if action.option_strings else str(action.metavar).lower()])}"


SCRIPTS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}

"""`pullback explain`: print a function from source to C, its derivation, the rules and the time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pullback.cli.options import add_dims, add_json, dims_of, find_function
from pullback.cli.output import print_json, table
from pullback.device import KINDS
from pullback.errors import UsageError

if TYPE_CHECKING:
    from pullback.explanation import Explanation
    from pullback.ir import nodes as ir

__all__ = ["register", "run"]


def register(commands: Any) -> None:
    """Add the subcommand."""
    command = commands.add_parser(
        "explain",
        help="show a function at every stage of compilation",
        description="Show a function at every stage of compilation, from source to C, with the rules that were "
        "applied. With --grad, show its gradient, and how that is derived step by step. Kernels, memory and C need "
        "sizes of the dimensions (--dim).",
        examples=(
            "pullback explain model.py:loss --grad w",
            "pullback explain model.py:loss --grad w --dim N=64 --dim M=32 --html loss.html",
            "pullback explain model.py:loss --dim N=64 --time",
            "pullback explain model.py:loss --dim N=64 --device cuda",
            "pullback explain --rules",
        ),
    )
    marked = "a function marked @pb.function"
    command.add_argument("function", metavar="FILE.py:FUNCTION", nargs="?", help=marked)
    command.add_argument("--grad", metavar="PARAMETER", help="explain the gradient with respect to this parameter")
    command.add_argument("--format", choices=("text", "markdown"), default="text", help="text, or Markdown with LaTeX")
    command.add_argument("--plain", action="store_true", help="show C without vector instructions")
    command.add_argument("--device", choices=KINDS, help="show launches and kernels of a device, not C")
    command.add_argument("--html", metavar="FILE", help="write an HTML page with the stages side by side")
    command.add_argument("--graph", metavar="FILE", help="write the graph of local derivatives as SVG")
    command.add_argument("--rules", action="store_true", help="list all rewrite rules")
    command.add_argument("--passes", action="store_true", help="list all compiler passes")
    command.add_argument("--time", action="store_true",
                         help="show the time of each stage of compilation, and of each kernel")
    add_dims(command)
    add_json(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the stages, the rules or the passes."""
    if options.rules:
        return _rules(options)
    if options.passes:
        from pullback.passes.pipeline import as_markdown

        print(as_markdown(), end="")
        return 0
    if options.function is None:
        raise UsageError("E601", "pullback explain: no function", remedy="FILE.py:FUNCTION, --rules or --passes")
    if options.time:
        return _time(options)
    function = _function(options)
    if options.html or options.graph:
        return _files(options, function)
    explanation = function.explain(format=options.format, plain=options.plain, device=options.device,
                                   **dims_of(options))
    print(explanation, flush=True)
    _say_how_to_give_sizes(explanation)
    if options.json:
        stages = [{"name": s.name, "text": s.text, "rules": list(s.rules)} for s in explanation.stages]
        derivation = explanation.derivation
        steps = [] if derivation is None else derivation.described()
        print_json({"stages": stages, "derivation": steps})
    return 0


def _files(options: argparse.Namespace, function: Any) -> int:
    """Write the page, the graph, or both."""
    if options.graph:
        picture = function.drawn()
        if picture is None:
            raise UsageError(
                "E612",
                f"{function.name} has no graph to draw",
                facts=["it has no floating-point arguments, or more arrays than a picture can show"],
                remedy="--html, whose derivation says the same in formulas",
            )
        picture.save(options.graph)
    if options.html:
        explanation = function.explain(html=options.html, plain=options.plain, device=options.device,
                                       **dims_of(options))
    files = [file for file in (options.graph, options.html) if file]
    print("\n".join(files), flush=True)
    if options.html:
        _say_how_to_give_sizes(explanation)
    if options.json:
        print_json({"files": files})
    return 0


def _say_how_to_give_sizes(explanation: Explanation) -> None:
    """Print the options that give sizes, if kernels, memory and C are left out without them."""
    if explanation.backend is None:
        dims = " ".join(f"--dim {name}=64" for name in explanation.dims)
        print(f"kernels, memory and C need sizes: give some or all with {dims}", file=sys.stderr)


def _function(options: argparse.Namespace) -> Any:
    """The requested function, or its gradient."""
    function = find_function(options.function)
    if options.grad is None:
        return function
    from pullback.derivatives.derivative import grad

    return grad(function, options.grad)


def _time(options: argparse.Namespace) -> int:
    """A table of the time that each stage takes, from the definition to machine code."""
    from pullback.clock import record_time
    from pullback.explanation import compile_times
    from pullback.runtime.shim import extension

    extension()  # made once per process, not per function
    with record_time() as stages:
        function = _function(options)
        warm, cached = compile_times(*function.known_for_dims(dims_of(options)))
    rows = [("stage", "seconds", ""), *((s.name, f"{s.seconds:.3f}", "at once" if s.inside else "")
                                        for s in stages.values())]
    total = sum(s.seconds for s in stages.values() if not s.inside)
    rows += [("total", f"{total:.3f}", ""), ("again, from the cache", f"{warm:.3f}", "")]
    print(table(rows, right=[False, True, False]))
    print("the cache has it" if cached else "the cache does not have it yet")
    kernels = _kernels(*function.for_dims(dims_of(options)))
    if kernels:
        head = ("kernel", "by", "cycles estimated", "µs alone", "others", "schedule")
        cells = [(k["kernel"], k["by"], f"{k['cycles']:,.0f}", f"{1e6 * k['seconds']:.3g}",
                  ", ".join(f"{name} {cycles:,.0f}" for name, cycles in k["others"].items()), k["schedule"])
                 for k in kernels]
        print("\n" + table([head, *cells], right=[False, False, True, True, False, False]))
    if options.json:
        found = [{"stage": s.name.strip(), "seconds": s.seconds, "at_once": s.inside} for s in stages.values()]
        print_json({"stages": found, "total": total, "warm": warm, "cached": cached, "kernels": kernels})
    return 0


def _kernels(program: ir.Program, dims: Mapping[str, int]) -> list[dict[str, Any]]:
    """The kernels of a program: the chosen candidate, the estimates of all candidates, and its time."""
    from pullback.loops.program.nodes import kernels_of
    from pullback.machine import native
    from pullback.runtime.cache import another_cache
    from pullback.runtime.emit import lower_program
    from pullback.runtime.timing import kernel_seconds

    machine = native()
    function = lower_program(program, dims, False, machine).function
    if function.dims:
        return []
    with another_cache():
        return [
            {"kernel": k.name, "by": k.choice.name, "cycles": k.choice.cycles, "others": dict(k.choice.others),
             "schedule": str(k.choice.schedule), "seconds": kernel_seconds(k, machine)}
            for k in kernels_of(function.body) if k.choice is not None
        ]  # fmt: skip


def _rules(options: argparse.Namespace) -> int:
    """The table of rules."""
    from dataclasses import asdict

    from pullback.derivation.listing import as_markdown, as_text
    from pullback.rewrite.rules import RULES

    print(as_markdown(RULES) if options.format == "markdown" else as_text(RULES), end="")
    if options.json:
        print_json({"rules": [asdict(r) for r in RULES]})
    return 0

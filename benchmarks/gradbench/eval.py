"""An eval of our own: sends every module's functions to a tool and holds its answers to a reference.

python -m benchmarks.gradbench.eval                            all modules at small sizes, with our tool
python -m benchmarks.gradbench.eval gmm ode --full             the sizes of the suite
python -m benchmarks.gradbench.eval --tool "docker run ..."    another tool

It speaks the suite's protocol, makes its inputs itself from fixed seeds, and exits with 1 if an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from itertools import count
from statistics import median
from typing import Any

from benchmarks.gradbench.inputs import SMALL, full
from benchmarks.gradbench.references import differences, expected
from benchmarks.gradbench.workloads import MODULES

TOLERANCE = 1e-9


class Tool:
    """A tool as a process, spoken to line by line."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ids = count()

    def send(self, **message: Any) -> dict[str, Any]:
        """The answer to a message; RuntimeError where it is not one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = {"id": next(self.ids), **message}
        print(json.dumps(message), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"error": "the tool has ended"}')
        if answer.get("id") != message["id"]:
            raise RuntimeError(f"message {message['id']} was answered with {answer}")
        return answer

    def close(self) -> None:
        """Let the tool end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def check(tool: Tool, module: str, size: str, given: Any, seconds: float) -> list[str]:
    """Evaluate all functions of a module at one input; print a line for each, and return what was wrong."""
    wrong = []
    if isinstance(given, dict):
        given = given | {"min_runs": 1, "min_seconds": seconds}
    for function in MODULES[module][1]:
        answer = tool.send(kind="evaluate", module=module, function=function, input=given, description=size)
        if answer["success"]:
            found = differences(answer["output"], expected(module, function, given), TOLERANCE)
        else:
            found = [answer.get("error", "no reason given")]
        valid = {"valid": not found} | ({"error": "; ".join(found)} if found else {})
        tool.send(kind="analysis", of=answer["id"], **valid)
        times = [t["nanoseconds"] for t in answer.get("timings", ()) if t["name"] == "evaluate"]
        spent = f"{median(times) / 1e3:12.2f} µs" if times else " " * 15
        print(f"{module:9}{function:10}{size:24}{spent}  {'; '.join(found) or 'right'}", flush=True)
        wrong += [f"{module} {function} {size}: {line}" for line in found]
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """The number of wrong answers, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", choices=[[], *MODULES], metavar="module")
    parser.add_argument("--tool", default=f"{sys.executable} -m benchmarks.gradbench.tool", help="the command to run")
    parser.add_argument("--full", action="store_true", help="the sizes of the suite")
    parser.add_argument("--seconds", type=float, default=0.0, help="run each function at least so long")
    options = parser.parse_args(arguments)
    tool, wrong = Tool(shlex.split(options.tool)), []
    tool.send(kind="start", eval="pullback")
    for module, sizes in (full() if options.full else SMALL).items():
        if module in (options.modules or MODULES) and tool.send(kind="define", module=module)["success"]:
            for size, given in sizes:
                wrong += check(tool, module, size, given, options.seconds)
    tool.close()
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

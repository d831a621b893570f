"""The tool: answers GradBench's messages with Pullback, one JSON object a line.

python -m benchmarks.gradbench.tool

The suite asks for many sizes of each function, one after the other, and does not count compiling: each size gets C of
its own, unless PULLBACK_SPECIALIZE is set. Only timings called `evaluate` count. Reading the input (`convert`) and the
first call (`compile`, which compiles unless the cache has it) have timings of their own. What goes wrong is answered,
with the reason, and the tool goes on.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, TextIO

from benchmarks.gradbench.fields import BadInput
from benchmarks.gradbench.workloads import Workload, program_of, workload
from pullback.errors import PullbackError

Answer = dict[str, Any]


class Timings(list[dict[str, Any]]):
    """The recorded timings."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure what is done inside."""
        start = perf_counter_ns()
        yield
        self.append({"name": name, "nanoseconds": perf_counter_ns() - start})


def respond(line: str) -> Answer:
    """The answer to one message; it never raises."""
    try:
        message = json.loads(line)
    except ValueError as error:
        return {"id": None, "success": False, "error": f"not a JSON object: {error}"}
    if not isinstance(message, dict):
        return {"id": None, "success": False, "error": f"not a JSON object: {line.strip()[:80]}"}
    answer: Answer = {"id": message.get("id")}
    try:
        match message.get("kind"):
            case "start":
                return answer | {"tool": "pullback"}
            case "define":
                return answer | define(message)
            case "evaluate":
                return answer | evaluate(message)
            case _:
                return answer
    except (BadInput, PullbackError, IndexError) as error:
        return answer | {"success": False, "error": str(error)}
    except Exception as error:  # whatever it is, the next message is another's
        return answer | {"success": False, "error": f"{type(error).__name__}: {error}"}


def define(message: Answer) -> Answer:
    """Trace and check the functions of a module."""
    timings = Timings()
    with timings.of("trace"):
        program_of(text(message, "module"))
    return {"success": True, "timings": timings}


def evaluate(message: Answer) -> Answer:
    """Run one function as often as the input wants."""
    if "input" not in message:
        raise BadInput("the message has no field 'input'")
    timings = Timings()
    with timings.of("convert"):
        work = workload(text(message, "module"), text(message, "function"), message["input"])
        runs, seconds = repetitions(message["input"])
    with timings.of("compile"):
        result = work.run()
    result = repeat(work, runs, seconds, timings)
    output = work.answer(result)
    if not finite(output):
        raise BadInput("the result is not finite, and JSON has no number for that")
    return {"success": True, "output": output, "timings": timings}


def repetitions(given: Any) -> tuple[int, float]:
    """The least number of runs and of seconds that an input asks for; one run where it says nothing."""
    if not isinstance(given, dict):
        return 1, 0.0
    runs, seconds = given.get("min_runs", 1), given.get("min_seconds", 0.0)
    for name, value in (("min_runs", runs), ("min_seconds", seconds)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise BadInput(f"input.{name} is {value!r}, not a number of at least 0")
    return max(1, math.ceil(runs)), float(seconds)


def repeat(work: Workload, runs: int, seconds: float, timings: Timings) -> Any:
    """The result of the last run; one timing for each."""
    run, elapsed, result = work.run, 0, None
    while runs > 0 or elapsed < seconds * 1e9:
        del result  # its memory serves the next run
        start = perf_counter_ns()
        result = run()
        took = perf_counter_ns() - start
        timings.append({"name": "evaluate", "nanoseconds": took})
        runs, elapsed = runs - 1, elapsed + took
    return result


def text(message: Answer, name: str) -> str:
    """A field of a message that is a text."""
    value = message.get(name)
    if not isinstance(value, str):
        raise BadInput(f"the message has no text in the field {name!r}")
    return value


def finite(output: Any) -> bool:
    """Whether all numbers of an answer are."""
    match output:
        case dict():
            return all(map(finite, output.values()))
        case list():
            return all(map(finite, output))
        case _:
            return math.isfinite(output)


def serve(messages: TextIO, answers: TextIO) -> None:
    """Answer every line until there are no more."""
    for line in messages:
        if line.strip():
            print(json.dumps(respond(line)), file=answers, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PULLBACK_SPECIALIZE", "always")
    serve(sys.stdin, sys.stdout)

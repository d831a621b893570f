"""Ctrl-C ends a compiled call, and what is called afterwards is right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pullback.runtime.shim import extension

ROOT = Path(__file__).parents[3]

START = """
import os, signal, threading
import numpy as np, pullback as pb
from jaxtyping import Float64, Int64
from pullback import Array

signal.signal(signal.SIGINT, signal.default_int_handler)

@pb.function
def spin(x: Float64[Array, ""], n: Int64[Array, ""]):
    return pb.while_loop(lambda s: s[1] < n, lambda s: (pb.sin(s[0]) + 1.0, s[1] + 1), (x, 0))[0]

@pb.function
def tree(x: Float64[Array, ""], n: Int64[Array, ""]):
    return {"a": spin(x, n)}

@pb.function
def product(x: Float64[Array, "N N"]):
    return pb.fold(100000, x, lambda y, i: y @ x)

def interrupted(f, *arguments):
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        f(*arguments)
    except KeyboardInterrupt:
        return True
    return False

few, many = np.array(3), np.array(10**12)
x = np.array(0.5)
"""

PROGRAMS = {
    "a call that goes straight to compiled code": """
right = spin(x, few)
print(interrupted(spin, x, many), interrupted(spin, x, many), spin(x, few) == right)
""",
    "a call that gives a tree": """
right = tree(x, few)
print(interrupted(tree, x, many), interrupted(tree, x, many), tree(x, few) == right)
""",
    "two copies of the extension": """
import shutil, tempfile, time
from pullback.runtime import shim
spin(x, few)
with tempfile.TemporaryDirectory() as folder:
    copy = shim._module(shutil.copy(shim.extension().__file__, folder))
copy.main_thread(threading.main_thread().ident)
shim._found[:] = [copy]
shim._quick.clear()
other = pb.function(spin.python)
for _ in range(3):  # each looks now and then who handles the signal
    spin(x, few), other(x, few), time.sleep(0.12)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print(interrupted(spin, x, many), interrupted(other, x, many), spin(x, few) == other(x, few))
""",
    "threads": """
with pb.threads(2):
    x = np.eye(400)
    print(interrupted(product, x), interrupted(product, x), bool((pb.function(lambda x: x @ x)(x) == x).all()))
""",
    "a process that was forked": """
right = spin(x, few)
child = os.fork()
if child == 0:
    ok = interrupted(spin, x, many) and spin(x, few) == right
    os._exit(0 if ok else 1)
print(os.waitpid(child, 0)[1] == 0, interrupted(spin, x, many), True)
""",
    "a handler of one's own is not touched": """
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
right = spin(x, few)
print(not interrupted(spin, x, np.array(30_000_000)), seen == [signal.SIGINT], spin(x, few) == right)
""",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals as on POSIX")
@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c(name: str) -> None:
    if extension() is None:
        pytest.skip("calls go through ctypes")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", START + PROGRAMS[name]]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("True True True\n", 0), done.stderr[-2000:]


LONG_CHUNKS = """
import os, signal, threading, time
import numpy as np, pullback as pb
from jaxtyping import Float64, Int64
from pullback import Array

signal.signal(signal.SIGINT, signal.default_int_handler)

@pb.function(threads=2)
def rows(x: Float64[Array, "2 4000"]):
    n = x.shape[1]
    row = lambda b: pb.sum_over(n, lambda i: pb.sum_over(n, lambda j: pb.tan(x[b, i] * x[b, j])))
    return pb.build(x.shape[0], row)

x = np.random.default_rng(0).normal(size=(2, 4000))
right = rows(x)
late = []
for k in range(6):
    sent = []
    def interrupt():
        time.sleep(0.02 + 0.02 * k)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        while True:
            rows(x)
    except KeyboardInterrupt:
        late.append(time.perf_counter() - sent[0])
    thread.join()
    assert (rows(x) == right).all()
print(sorted(late)[len(late) // 2] < 0.05)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals as on POSIX")
@pytest.mark.skipif(extension() is None, reason="no extension")
def test_chunks_that_run_long_are_left_too():
    """Each thread leaves its own chunk, though it would go on for a tenth of a second and more."""
    done = subprocess.run([sys.executable, "-c", LONG_CHUNKS], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True"], done.stderr

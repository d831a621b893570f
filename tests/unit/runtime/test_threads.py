"""Calls that use several threads: the pool, policies, and what happens around them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.errors import IndexRangeError, UsageError
from pullback.runtime.pool import pool_address

NDArray = np.ndarray[Any, Any]
needs_threads = pytest.mark.skipif(not pool_address(2), reason="the system has no threads of this kind")


def product() -> tuple[Callable[..., NDArray], NDArray]:
    return pb.function(lambda x, y: pb.exp(x @ y)), np.random.default_rng(0).normal(size=(160, 160)) / 16


@needs_threads
def test_results_are_the_same_bits_for_any_number_of_threads() -> None:
    f, x = product()
    wanted = f(x, x).tobytes()
    for n in (1, 2, 3, 5):
        with pb.threads(n):
            assert f(x, x).tobytes() == wanted
    assert pb.function(lambda x, y: pb.exp(x @ y), threads=2)(x, x).tobytes() == wanted


@needs_threads
def test_a_block_around_a_call_decides_also_for_calls_that_were_quick_before() -> None:
    f, x = product()
    runs = []
    for n in (1, 3, 1, 3):
        with pb.threads(n):
            f(x, x)
            runs.append(len(f._table.kept.items()))  # type: ignore[attr-defined]
    assert runs == [1, 2, 2, 2]
    workers = {r.executable.workers for _, r in f._table.kept.items()}  # type: ignore[attr-defined]
    assert workers == {1, 3}


@needs_threads
def test_each_worker_has_its_own_memory() -> None:
    def arena(threads: int) -> int:
        f = pb.function(lambda x: pb.sort(x), threads=threads)  # rows take turns in working memory on every machine
        f(np.ones((400, 300)))
        ((_, runner),) = f._table.kept.items()
        table = runner.executable.memory
        assert table.arena_bytes == runner.executable.arena_bytes
        assert (f"{threads} threads: " in str(table)) == (threads > 1)
        return int(runner.executable.arena_bytes)

    assert arena(3) - arena(2) == arena(2) - arena(1) >= 2 * 300 * 8


@needs_threads
def test_a_memory_limit_also_limits_threads() -> None:
    x = np.ones((400, 300))
    free = pb.function(lambda x: pb.sort(x), threads=4)
    free(x)
    ((_, runner),) = free._table.kept.items()
    record = runner.executable.record
    limit = record.arena_bytes + record.worker_bytes
    f = pb.function(lambda x: pb.sort(x), threads=4, memory_limit=limit)
    f(x)
    ((_, runner),) = f._table.kept.items()
    assert runner.executable.workers == 2
    assert runner.executable.arena_bytes <= limit


@needs_threads
def test_several_python_threads_call_at_once() -> None:
    f, x = product()
    inputs = [x * k for k in range(1, 7)]
    wanted = [f(a, x).tobytes() for a in inputs]
    wrong: list[int] = []

    def work(k: int) -> None:
        with pb.threads(2):
            wrong.extend(k for _ in range(30) if f(inputs[k], x).tobytes() != wanted[k])

    running = [threading.Thread(target=work, args=(k,)) for k in range(len(inputs))]
    for t in running:
        t.start()
    for t in running:
        t.join()
    assert not wrong


@needs_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_process_starts_its_own_threads(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
import os, numpy as np, pullback as pb
f = pb.function(lambda x, y: pb.exp(x @ y), threads=3)
x = np.random.default_rng(0).normal(size=(160, 160)) / 16
wanted = f(x, x).tobytes()
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if all(f(x, x).tobytes() == wanted for _ in range(5)) else 1)
    assert os.waitpid(child, 0)[1] == 0
assert f(x, x).tobytes() == wanted
""")
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


@needs_threads
def test_the_first_element_that_fails_is_reported() -> None:
    @pb.function(threads=3)
    def pick(x: Any, at: Any) -> Any:
        return pb.build(at.shape[0], lambda i: pb.exp(x[at[i]]))

    x, at = np.ones(10), np.zeros(100_000, np.int64)
    np.testing.assert_array_equal(pick(x, at), np.exp(np.ones(100_000)))
    at[[70_000, 40_000, 99_999]] = 11, 12, 13
    for _ in range(5):
        with pytest.raises(IndexRangeError, match=r"the index 12 on axis 0 of x is outside 0 … 9"):
            pick(x, at)


@needs_threads
def test_exact_functions_too() -> None:
    with pb.exact():
        f = pb.function(lambda x, y: pb.sum(pb.exp(x @ y)))
        x = np.random.default_rng(0).normal(size=(120, 120)) / 16
        wanted = f(x, x)
        with pb.threads(2):
            assert f(x, x).tobytes() == wanted.tobytes()


def test_numbers_of_threads_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (0, -1, 1.0, "2", True):
        with (
            pytest.raises(ValueError, match=r"threads\(.*\): the number of threads is an int of at least 1"),
            pb.threads(wrong),  # type: ignore[arg-type]
        ):
            pass
        with pytest.raises(ValueError, match=r"threads=.*: the number of threads is an int of at least 1"):
            pb.function(lambda x: x, threads=wrong)  # type: ignore[arg-type]
    monkeypatch.setenv("PULLBACK_THREADS", "many")
    with pytest.raises(UsageError) as caught:
        pb.function(lambda x: x + 1)(np.ones(3))
    assert str(caught.value).startswith("UsageError [E601] PULLBACK_THREADS=many is not a number of threads")


RACES = r"""
#include "pool.c"
#include <stdio.h>
static int64_t squares[5000];
static int64_t seen[4];
static void task(void *context, int64_t chunk, int64_t worker) {
    squares[chunk] = chunk * chunk + *(int64_t *)context;
    ++seen[worker];
}
static void other_task(void *context, int64_t chunk, int64_t worker) {
    (void)worker;
    ((int64_t *)context)[chunk] += chunk;
}
static void *caller(void *pool) {
    int64_t sums[8] = {0};
    for (int k = 0; k < 200; ++k) ((pb_pool *)pool)->run(pool, other_task, sums, 8);
    return sums[7] == 1400 ? NULL : pool;
}
int main(void) {
    pb_pool *pool = pb_pool_of(4);
    pthread_t other;
    Guard calls = {.thread = pthread_self()};
    pb_pool_guard(&calls);
    for (int64_t k = 0; k < 300; ++k) {
        calls.active = k & 1; /* every other call is one that Ctrl-C may end */
        if (k % 100 == 0) usleep(1000); /* the threads fall asleep */
        if (k == 50) pthread_create(&other, NULL, caller, pool);
        pool->run(pool, task, &k, k * 16);
        for (int64_t j = 0; j < k * 16; ++j)
            if (squares[j] != j * j + k) return 1;
    }
    void *failed;
    pthread_join(other, &failed);
    if (failed) return 3;
    return pb_pool_of(4) == pool && pb_pool_of(2) != pool ? 0 : 2;
}
"""


STALLED = r"""
#include "pool.c"
#include <stdio.h>
enum { CHUNKS = 40 };
static int64_t times[CHUNKS], seen[2];
static void task(void *context, int64_t chunk, int64_t worker) {
    ++seen[worker];
    ++times[chunk];
    for (int k = 0; worker && k < 500 && !__atomic_load_n((int64_t *)context, __ATOMIC_ACQUIRE); ++k) usleep(1000);
    if (!worker) usleep(100);
    if (!worker && seen[0] == CHUNKS - 1) __atomic_store_n((int64_t *)context, 1, __ATOMIC_RELEASE);
}
int main(void) {
    pb_pool *pool = pb_pool_of(2);
    for (int round = 0; round < 5; ++round) {
        int64_t finished = 0;
        seen[0] = seen[1] = 0;
        pool->run(pool, task, &finished, CHUNKS);
        for (int k = 0; k < CHUNKS; ++k)
            if (times[k] != round + 1) return 1;
        if (seen[1] > 1) return printf("%d chunks of a worker that stands still\n", (int)seen[1]), 2;
    }
    return 0;
}
"""

DELAYS = r"""
#include "pool.c"
#include <stdio.h>
enum { CHUNKS = 70, RUNS = 400 };
static int64_t times[CHUNKS];
static pthread_t known[WORKERS];
static int64_t open_to[WORKERS], over;
static void stand_still(int number) {
    struct timespec some = {0, 300000};
    (void)number;
    nanosleep(&some, NULL);
}
static void task(void *context, int64_t chunk, int64_t worker) {
    sigset_t set;
    if (!open_to[worker]) {
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        known[worker] = pthread_self();
        __atomic_store_n(&open_to[worker], 1, __ATOMIC_RELEASE);
    }
    times[chunk] += *(int64_t *)context;
}
static void *stop_some(void *none) {
    for (unsigned k = 1; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); k = k * 1103515245u + 12345u) {
        int64_t worker = (k >> 16) % WORKERS;
        if (__atomic_load_n(&open_to[worker], __ATOMIC_ACQUIRE)) pthread_kill(known[worker], SIGUSR1);
        usleep((k >> 20) % 50);
    }
    return none;
}
int main(void) {
    pb_pool *pool = pb_pool_of(WORKERS);
    pthread_t other;
    struct sigaction still = {.sa_handler = stand_still, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &still, NULL);
    pthread_create(&other, NULL, stop_some, NULL);
    for (int64_t run = 0; run < RUNS; ++run) {
        int64_t chunks = 2 + run * 7 % (CHUNKS - 1), context = run + 1;
        for (int64_t k = 0; k < CHUNKS; ++k) times[k] = 0;
        pool->run(pool, task, &context, chunks);
        for (int64_t k = 0; k < CHUNKS; ++k)
            if (times[k] != (k < chunks ? context : 0)) return printf("run %d chunk %d\n", (int)run, (int)k), 1;
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    return pthread_join(other, NULL);
}
"""


def run_c(text: str, folder: Path, sanitized: bool, workers: int = 2) -> None:
    """Compile a program that includes the pool, and run it; it gives 0."""
    (folder / "program.c").write_text(text)
    flags = f"-DWORKERS={workers} " + ("-fsanitize=thread" if sanitized else "-O2")
    words = f"cc -std=gnu99 -O1 -g {flags} -pthread -I{Path(pb.__file__).parent / 'runtime' / 'c'} program.c -o program"
    built = subprocess.run(words.split(), cwd=folder, capture_output=True, text=True, check=False)
    if sanitized and built.returncode:
        pytest.skip("the compiler has no thread sanitiser")
    assert not built.returncode, built.stderr[:4000]
    result = subprocess.run([folder / "program"], capture_output=True, text=True, timeout=120, check=False)
    if sanitized and "unexpected memory mapping" in result.stderr:
        pytest.skip("the thread sanitiser does not run here")
    assert result.returncode == 0, (result.stdout + result.stderr)[:4000]


@needs_threads
def test_the_pool_has_no_races(tmp_path: Path) -> None:
    run_c(RACES, tmp_path, sanitized=True)


@needs_threads
def test_a_worker_that_stands_still_holds_one_chunk(tmp_path: Path) -> None:
    """Its other chunks are stolen: until it has waited for them, all but one are done."""
    run_c(STALLED, tmp_path, sanitized=False)


@needs_threads
@pytest.mark.parametrize("sanitized", [False, True])
@pytest.mark.parametrize("workers", [2, 9])
def test_workers_that_are_stopped_anywhere(tmp_path: Path, sanitized: bool, workers: int) -> None:
    """Workers, also more than processors, are stopped at any instruction of the pool: each chunk still runs once."""
    run_c(DELAYS, tmp_path, sanitized, workers)

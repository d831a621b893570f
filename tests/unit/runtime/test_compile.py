"""The compiler is found, called once, and its failures are told; the cache survives what happens to folders."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pullback.errors import CompilerError
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.runtime import cache as caching
from pullback.runtime import compile as compiling
from pullback.runtime import executor
from pullback.runtime.compile import Units
from pullback.runtime.executor import compile_program
from pullback.runtime.load import compiled_entry
from pullback.runtime.record import ROOT, CacheEntry, sources

pytestmark = pytest.mark.slow

TEXT = "int answer(void *arena) {\n    return arena ? 0 : 42;\n}\n"
TWICE = "twice(x: f64[N]) { y = build n < N { 2.0 * x[n] } return y }"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(folder))
    for known in ("_spare_folders", "_UNWRITABLE", "_said"):
        monkeypatch.setattr(caching, known, type(getattr(caching, known))())
    monkeypatch.setattr(executor, "_warned", set())
    compiling._version.cache_clear()
    return folder


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_compiles_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled_entry(TEXT, "answer", 1)(0) == 42
    monkeypatch.setattr(compiling, "build_library", None)
    assert compiled_entry(TEXT, "answer", 1)(0) == 42
    assert len(list(cache.rglob("*.so"))) == 1
    assert not list(cache.rglob("*build-*"))


def test_a_damaged_library_is_made_anew(cache: Path) -> None:
    path = compiling.compiled_library(TEXT)
    path.write_bytes(b"not a library")
    assert compiled_entry(TEXT, "answer", 1)(0) == 42


def test_the_version_is_asked_once_per_compiler(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "calls"
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'echo "$@" >> "{log}"; exec cc "$@"')))
    for _ in range(2):
        compiling._version.cache_clear()
        assert compiling.find_compiler().version
    assert log.read_text().count("--version") == 1


def test_no_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler")
    with pytest.raises(CompilerError, match=r"E410.*CC=/no/such/compiler"):
        compiling.find_compiler()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompilerError, match=r"E410.*tried CC, cc, gcc, clang and ziglang"):
        compiling.compiled_library(TEXT)


def test_a_failing_compiler_is_quoted(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompilerError, match=r"(?s)E411.*status 1.*nonsense"):
        compiling.compiled_library("nonsense(;\n")
    crash = script(tmp_path / "crash", "kill -SEGV $$")
    monkeypatch.setenv("CC", str(crash))
    with pytest.raises(CompilerError) as caught:
        compiling.compiled_library(TEXT)
    assert str(caught.value) == f"""\
CompilerError [E411] the C compiler was killed by signal 11: {crash}
   | it said nothing
  try: report this with the text of `c_source`; meanwhile set PULLBACK_BACKEND=interpreter      \
See `pullback explain-error E411`"""


UNITS = tuple(
    f"int part{k}(void);\nint part{k}(void) {{\n    return {k};\n}}\n" for k in range(1, 4)
)
MAIN = """int part1(void), part2(void), part3(void);
int answer(void *arena);
int answer(void *arena) {
    return arena ? 0 : part1() + part2() + part3();
}
"""


def test_units_are_compiled_apart_and_found_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "calls"
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'echo "$@" >> "{log}"; exec cc "$@"')))
    assert compiled_entry(Units(MAIN, UNITS), "answer", 1)(0) == 6
    changed = UNITS[1].replace("return 2", "return 20")
    assert compiled_entry(Units(MAIN, (UNITS[0], changed, UNITS[2])), "answer", 1)(0) == 24
    assert log.read_text().count(" -c ") == 5
    assert log.read_text().count("-shared") == 2
    assert len(list(cache.rglob("*.o"))) == 5
    assert not list(cache.rglob("*build-*"))


def logged(folder: Path, monkeypatch: pytest.MonkeyPatch, before: str = "") -> Path:
    """The file of the arguments of all compilers that are started from now on."""
    log = folder / "calls"
    monkeypatch.setenv("CC", str(script(folder / "mycc", f'echo "$@" >> "{log}"; {before} exec cc "$@"')))
    return log


def test_units_compiled_ahead_are_compiled_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "processors", lambda: 2)
    log = logged(tmp_path, monkeypatch, 'case "$*" in *-c*) sleep 0.2 ;; esac;')
    with compiling.Ahead() as ahead:
        for unit in UNITS:
            ahead.unit(unit)
        ahead.shared_library(TEXT)
    assert compiled_entry(Units(MAIN, UNITS), "answer", 1)(0) == 6  # some are under way, the others were dropped
    assert log.read_text().count(" -c ") == 4
    assert compiled_entry(TEXT, "answer", 1)(0) == 42
    assert log.read_text().count("-shared") == 2
    assert not list(cache.rglob("*build-*"))


def test_units_under_way_are_waited_for_last(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that waits for another one's unit compiles nothing. Unoptimized units are quick."""
    begun: list[str] = []
    make = compiling._object

    def noted(name: str, unit: str, *more: object) -> tuple[Path, float]:
        begun.append(unit)
        return make(name, unit, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "processors", lambda: 1)
    monkeypatch.setattr(compiling, "_object", noted)
    monkeypatch.setattr(compiling, "is_under_way", lambda key: key[1] == digests[1])
    compiler = compiling.find_compiler()
    texts = [UNITS[0], UNITS[1] + " " * 900, UNITS[2] + " " * 300]
    digests = [compiling._digest(u, compiler, compiler.flags) for u in texts]
    main = MAIN + " " * 500
    assert compiled_entry(Units(main, tuple(texts), straight=True), "answer", 1)(0) == 6
    assert begun == [texts[2], main, texts[0], texts[1]]


def test_what_is_dropped_or_fails_ahead_is_met_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "processors", lambda: 2)
    with pytest.raises(ZeroDivisionError), compiling.Ahead() as ahead:
        for unit in UNITS:
            ahead.unit(unit)
        raise ZeroDivisionError
    assert compiled_entry(Units(MAIN, UNITS), "answer", 1)(0) == 6
    broken = UNITS[0].replace("return", "nonsense(")
    with compiling.Ahead() as ahead:
        ahead.unit(broken)
    with pytest.raises(CompilerError, match=r"(?s)E411.*status 1.*nonsense"):
        compiled_entry(Units(MAIN, (broken, *UNITS[1:])), "answer", 1)


def test_without_threads_units_are_compiled_in_turn(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of a program, and where the system has no more."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(compiling, "processors", lambda: 2)
    monkeypatch.setattr(threading.Thread, "start", start)
    with compiling.Ahead() as ahead:
        ahead.unit(UNITS[0])
    assert not list(cache.rglob("*.o"))
    assert compiled_entry(Units(MAIN, UNITS), "answer", 1)(0) == 6


def test_one_processor_compiles_nothing_ahead(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "processors", lambda: 1)
    log = logged(tmp_path, monkeypatch)
    with compiling.Ahead() as ahead:
        ahead.unit(UNITS[0])
    assert not log.exists()


VECTORS = "dot(x: f32[512], y: f32[512]) { s = build { sum n < 512 { exp(x[n]) * y[n] } } return s }"


def dot_agrees() -> None:
    program = parse_program(VECTORS)
    x, y = np.linspace(-1, 1, 512, dtype=np.float32), np.ones(512, np.float32)
    executable = compile_program(program, {})
    np.testing.assert_allclose(executable.run([x, y])[0], interpret(program, [x, y])[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ('case "$*" in *PB_NO_VECTORS*) ;; *--version*) ;; *) kill -SEGV $$ ;; esac', "was killed by signal 11"),
        (
            'case "$*" in *-march=native*) echo "unknown option -march=native" >&2; exit 3 ;; esac',
            "failed with status 3",
        ),
    ],
    ids=["crash", "unknown option"],
)
def test_plain_c_where_the_compiler_fails(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, how: str
) -> None:
    cc = script(tmp_path / "mycc", f'{text}\nexec cc "$@"')
    monkeypatch.setenv("CC", str(cc))
    with pytest.warns(RuntimeWarning) as caught:
        dot_agrees()
    assert [str(w.message) for w in caught] == [
        f"the C compiler {how}: {cc}: functions are compiled as plain C, which is slower; CC names another compiler"
    ]
    dot_agrees()  # said once


def test_what_a_compiler_refuses_is_not_tried_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    cc = refusing(tmp_path / "mycc", log)
    monkeypatch.setenv("CC", str(cc))
    with pytest.warns(RuntimeWarning, match="failed with status 1"):
        dot_agrees()
    before = log.read_text()
    executor._warned.clear()
    monkeypatch.setattr(executor, "_made", None)
    with pytest.warns(RuntimeWarning, match=re.escape(f"the C compiler failed before: {cc}: functions are compiled")):
        dot_agrees()
    assert log.read_text() == before
    monkeypatch.undo()
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(cache))
    assert not compile_program(parse_program(VECTORS), {}).record.flags  # another compiler is given everything


BAD_DAYS = {
    "status": "exit 3",
    "status 1": 'echo "cc1: out of memory allocating 65536 bytes" >&2; exit 1',
    "signal": "kill -SEGV $$",
    "internal error": 'echo "program.c:1:1: internal compiler error: Segmentation fault" >&2; exit 1',
    "no header": 'echo "program.c:1:10: fatal error: math.h: No such file or directory" >&2; exit 1',
    "no folder": 'echo "cc1: fatal error: program.c: No such file or directory" >&2; exit 1',
    "no library": 'echo "/usr/bin/ld: cannot find -lm" >&2; exit 1',
    "no output": "exit 0",
}


@pytest.mark.parametrize("day", BAD_DAYS.values(), ids=BAD_DAYS.keys())
def test_a_bad_day_of_a_compiler_is_forgotten(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, day: str
) -> None:
    """It is the same compiler on the next day, and is given everything."""
    bad = tmp_path / "bad"
    bad.touch()
    fails = f'[ -e "{bad}" ] && case "$*" in *PB_NO_VECTORS*|*--version*) ;; *) {day} ;; esac'
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'{fails}\nexec cc "$@"')))
    with pytest.warns(RuntimeWarning, match="functions are compiled as plain C"):
        dot_agrees()
    bad.unlink()
    assert not compile_program(parse_program(VECTORS), {}).record.flags
    dot_agrees()


def refusing(path: Path, log: Path) -> Path:
    """A compiler that takes plain C only, and says so of the text."""
    said = "program.c:7:3: error: unknown type name 'pb_vector'"
    return script(path, f'echo "$*" >> "{log}"\ncase "$*" in *PB_NO_VECTORS*|*--version*) ;; '
                  f'*) echo "{said}" >&2; exit 1 ;; esac\nexec cc "$@"')


def asked_again(log: Path) -> bool:
    """Whether a process that comes now gives the compiler the text again."""
    compiling._version.cache_clear()
    executor._warned.clear()
    before = log.read_text().count("-shared")
    with pytest.warns(RuntimeWarning, match="functions are compiled as plain C"):
        dot_agrees()
    return log.read_text().count("-shared") > before


def test_a_refusal_is_remembered_for_a_time_and_for_one_compiler(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cc = refusing(tmp_path / "mycc", log := tmp_path / "log")
    monkeypatch.setenv("CC", str(cc))
    with pytest.warns(RuntimeWarning, match="failed with status 1"):
        dot_agrees()
    assert not asked_again(log)
    (entry,) = (cache / "refused").rglob("*.json")
    now = time.time()
    for age in (2 * 86400, -3600):  # long ago, or written by a clock that was wrong
        os.utime(entry, (now - age, now - age))
        assert asked_again(log)
        assert not asked_again(log)
    assert [p.name for p in (cache / "refused").rglob("*.json")] == [entry.name]
    os.utime(cc, (now - 5, now - 5))  # changed, though it says that its version is the same
    assert asked_again(log)
    assert not asked_again(log)


def test_a_version_that_was_not_said_is_asked_for_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad"
    bad.touch()
    fails = f'[ -e "{bad}" ] && exit 1'
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'{fails}\nexec cc "$@"')))
    assert compiling.find_compiler().version == "unknown"
    bad.unlink()
    compiling._version.cache_clear()
    assert compiling.find_compiler().version != "unknown"


LIMITED = f"""
import resource, sys
from pullback.runtime.load import compiled_entry
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
compiled_entry({TEXT!r}, "answer", 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the words of the compiler here")
@pytest.mark.parametrize("limit", [64, 8192], ids=["the text", "the library"])
def test_a_limit_of_files_is_the_disks_error(cache: Path, tmp_path: Path, limit: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", LIMITED, str(limit)], env=environment,
                           capture_output=True, text=True, check=False, timeout=300)
    last = ended.stderr.rpartition("pullback.errors.")[2]
    assert re.sub(rf"{tmp_path}/pullback-\w+", f"{tmp_path}/pullback-x", last) == f"""\
CompilerError: [E412] a library needs a place, and the folder {tmp_path}/pullback-x takes no file so large
   | the cache folder {cache} did not serve either
  try: set PULLBACK_CACHE_DIR or TMPDIR to a folder with room, or raise the limit of a file's size (`ulimit -f`)      \
See `pullback explain-error E412`
"""


BACKGROUND = {
    "lazy": """
from pullback import lazy
import numpy as np
w = lazy.asarray(np.ones(1000))
for _ in range(3):
    (lazy.exp(w) * 3.0).numpy()
""",
    "daemon": f"""
import threading
from pullback.runtime.load import compiled_entry
threading.Thread(target=compiled_entry, args=({TEXT!r}, "answer", 1), daemon=True).start()
""",
}


@pytest.mark.parametrize("place", ["cache", "spare"])
@pytest.mark.parametrize("code", BACKGROUND.values(), ids=BACKGROUND.keys())
def test_the_end_waits_for_compilers_under_way(cache: Path, tmp_path: Path, code: str, place: str) -> None:
    begun, log = tmp_path / "begun", tmp_path / "log"
    slow = f'case "$*" in *-shared*) : > "{begun}"; sleep 1; ls program.c > /dev/null 2>> "{log}" ;; esac'
    cc = script(tmp_path / "mycc", f'{slow}\nexec cc "$@" 2>> "{log}"')
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    if place == "spare":
        cache.write_text("a file where the folder should be")
    end = f"\nimport os, time\nwhile not os.path.exists({str(begun)!r}): time.sleep(0.01)\n"
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "CC": str(cc), "TMPDIR": str(temporary)}
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code + end],
                           env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert log.read_text() == ""
    assert not list(temporary.iterdir())
    assert not list(cache.rglob("*build-*"))
    assert place == "spare" or list(cache.rglob("*.so"))


def test_a_compiler_without_vectors(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_MACHINE", "sse2")
    known = 'grep -sq __attribute__ *.c && { echo "unknown word __attribute__" >&2; exit 1; }'
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'{known}\nexec cc "$@"')))
    with pytest.warns(RuntimeWarning, match="functions are compiled as plain C"):
        dot_agrees()


def test_a_compiler_that_always_crashes(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", "kill -ABRT $$")))
    with pytest.raises(CompilerError, match="was killed by signal 6"):
        compile_program(parse_program(TWICE), {"N": 2})


def test_a_full_disk(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = f'case "$PWD" in "{cache}"/*) echo "as: a.o: No space left on device" >&2; exit 1 ;; esac'
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'{full}\nexec cc "$@"')))
    with pytest.warns(RuntimeWarning) as caught:
        assert compiled_entry(TEXT, "answer", 1)(0) == 42
    assert [str(w.message) for w in caught] == [
        f"the cache folder {cache} is full: compiled functions are kept for this process only "
        "(set PULLBACK_CACHE_DIR to a folder with room)"
    ]
    assert not list(cache.rglob("*.so"))
    assert compiled_entry(TEXT.replace("42", "43"), "answer", 1)(0) == 43  # no second warning


def test_no_room_anywhere(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = 'case "$*" in *-shared*) echo "ld: No space left on device" >&2; exit 1 ;; esac'
    monkeypatch.setenv("CC", str(script(tmp_path / "mycc", f'{full}\nexec cc "$@"')))
    with pytest.warns(RuntimeWarning, match="is full"), pytest.raises(CompilerError) as caught:
        compiling.compiled_library(TEXT)
    spare = caching._spare_folders[-1]
    assert str(caught.value) == f"""\
CompilerError [E412] a library needs a place, and the folder {spare} is full
   | the cache folder {cache} did not serve either
  try: set PULLBACK_CACHE_DIR or TMPDIR to a folder with room      See `pullback explain-error E412`"""


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.warns(RuntimeWarning, match="is no folder"):
        assert compiled_entry(TEXT, "answer", 1)(0) == 42
    assert compiled_entry(TEXT.replace("42", "43"), "answer", 1)(0) == 43  # no second warning
    executable = compile_program(parse_program(TWICE), {"N": 2})
    np.testing.assert_array_equal(executable.run([np.ones(2)])[0], [2, 2])


def test_a_damaged_record_is_no_harm(cache: Path) -> None:
    program = parse_program(TWICE)
    compile_program(program, {"N": 3})
    entry = CacheEntry(program, {"N": 3})
    assert entry.record is not None
    (path,) = cache.rglob(f"{entry.key}*")
    path.write_text("{")
    np.testing.assert_array_equal(compile_program(program, {"N": 3}).run([np.ones(3)])[0], [2, 2, 2])
    assert CacheEntry(program, {"N": 3}).record is not None


def test_a_warm_start_imports_no_compiler(cache: Path) -> None:
    code = f"""
import sys
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.runtime.executor import compile_program
import numpy as np
print(compile_program(parse_program({TWICE!r}), {{"N": 4}}).run([np.ones(4)])[0].sum())
flags = {{"pullback.codegen", "pullback.codegen.c", "pullback.codegen.c.build"}}  # of the compiler
late = ("pullback.loops", "pullback.codegen", "pullback.passes")
print(any(m.startswith(late) for m in sys.modules.keys() - flags))
"""
    def run() -> list[str]:
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                             env={**os.environ, "PYTHONPATH": os.getcwd()})
        return out.stdout.split()

    assert run() == ["8.0", "True"]
    assert run() == ["8.0", "False"]


def test_text_and_keys_are_the_same_in_every_process(cache: Path) -> None:
    code = """
from tests.unit.runtime.programs import CASES
from pullback.ir.interpret import interpret
from pullback.ir.parser import parse_program
from pullback.runtime.emit import c_source
from pullback.runtime.record import record_key
for text, dims in CASES.values():
    print(record_key(parse_program(text), dims))
    print(c_source(parse_program(text), dims))
"""
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONHASHSEED": seed}).stdout
               for seed in ("1", "2")}
    assert len(outputs) == 1


def test_the_fingerprint_covers_folders_in_folders() -> None:
    found = {os.path.relpath(path, ROOT).replace(os.sep, "/") for path in sources()}
    deep = "codegen/c/vectors/functions/exponentials.py"
    assert {"ir/index/proofs.py", deep, "ad/reverse.py", "calls/traced.py"} <= found

"""Programs of these pages that run when the site is built. Their results are kept for the next build."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE = ROOT / "out" / "made"

Job = Callable[[Path, Path], None]  # runs a source file; writes results into a folder


@contextmanager
def scratch() -> Iterator[Path]:
    """Work in an empty folder that is removed afterwards, and print nothing."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def results(job: Job, sources: Sequence[Path], workers: int = 2) -> list[Path]:
    """Return the folder with the results of each source. A job runs only if its source has changed since."""
    folders = [MADE / f"{source.stem}-{job.__name__}-{_key(source)}" for source in sources]
    missing = [(source, folder) for source, folder in zip(sources, folders) if not folder.exists()]
    if missing:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            list(pool.map(_run, [job] * len(missing), *zip(*missing)))
    return folders


def share(given: list[Path]) -> list[Path]:
    """Return the sources that this build runs: all, or two of the share that `PULLBACK_TESTS_TURN` names, such as 1/16.

    The tests run the programs, a share at a time, so such a build only shows that pictures appear on pages.
    """
    turn = os.environ.get("PULLBACK_TESTS_TURN")
    if not turn:
        return given
    number, of = map(int, turn.split("/"))
    return given[number::of][:2]


def _key(source: Path) -> str:
    """A digest of a source."""
    return hashlib.sha256(source.read_bytes()).hexdigest()[:12]


def _run(job: Job, source: Path, folder: Path) -> None:
    """Run a job; its folder appears only when it is complete."""
    part = folder.with_name(f"{folder.name}.part{os.getpid()}")
    part.mkdir(parents=True)
    try:
        job(source, part)
        part.rename(folder)
    except BaseException as error:
        error.add_note(f"in {source.relative_to(ROOT)}")
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)

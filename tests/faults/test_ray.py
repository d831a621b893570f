"""Training whose gradients other processes compute, when a worker, the driver or what connects them is lost.

Where Ray is not installed nothing is run. With PULLBACK_NIGHTLY=1 each is lost; ordinarily none, as Ray takes seconds
to start.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback.nn.parameters import read
from tests.faults.harness import ROOT

pytest.importorskip("ray", reason="Ray is not installed: pip install 'pullback[ray]'")
pytestmark = pytest.mark.skipif(not os.environ.get("PULLBACK_NIGHTLY"), reason="takes minutes: PULLBACK_NIGHTLY=1")

EPOCHS, SAVED = 12, 4  # and the update after which something is lost
DRIVER = """
import os, signal, sys
from pathlib import Path
import numpy as np, ray
import pullback as pb
from pullback import nn
from pullback.errors import PullbackError
from pullback.nn.training import shared

folder, lost = sys.argv[1:]

class Replica(shared.Replica):
    def _step(self, sizes, own, step):
        once = Path(folder) / "killed"
        if step == SAVED and (lost == "workers" or (lost == "worker" and 0 in own and not once.exists())):
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._step(sizes, own, step)

def loss(parameters, state, batch):
    x, y = batch
    return pb.mean((parameters["a"] * x + parameters["b"] - y) ** 2)

def child(name):
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = entry.read_text().split(" (", 1)
        except OSError:
            continue
        comm, _, fields = rest.rpartition(") ")
        if comm.startswith(name) and int(fields.split()[1]) == os.getpid():
            return int(number)
    raise AssertionError(name)

def after(progress):
    if progress.step > SAVED:
        if lost == "driver":
            os.kill(os.getpid(), signal.SIGKILL)
        elif lost in ("raylet", "gcs_server"):
            os.kill(child(lost), signal.SIGKILL)

shared.Replica = Replica
ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
x = np.random.default_rng(0).normal(size=16)
start = {"a": np.zeros(()), "b": np.zeros(())}
try:
    nn.fit(loss, (x, 3 * x + 1), parameters=start, optimizer=nn.adam(0.1), epochs=EPOCHS, batch_size=16,
           workers=nn.Workers(2, restarts=int(lost == "worker")),
           save=nn.Checkpoints(folder, every_steps=1), progress=after)
except PullbackError as error:
    print(error.code, flush=True)
    ray.shutdown()
    sys.exit(3)
""".replace("SAVED", str(SAVED)).replace("EPOCHS", str(EPOCHS))  # fmt: skip


def run(folder: Path, lost: str) -> tuple[int, str]:
    """A training run in which something is lost: its status, and what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder), lost], cwd=ROOT, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, _ = driver.communicate(timeout=180)
    finally:
        driver.kill()
    return driver.returncode, out.strip()


def checkpoints(folder: Path) -> dict[int, str]:
    """The checkpoints, each of which is whole: a digest of the parameters at each step."""
    found = {}
    for path in folder.glob("step-*"):
        arrays, words = read(path)
        assert json.loads(words["training"])["position"]["step"] == int(path.stem.partition("-")[2])
        content = b"".join(np.asarray(arrays[n]).tobytes() for n in sorted(arrays) if n.startswith("parameters/"))
        found[int(path.stem.partition("-")[2])] = hashlib.blake2b(content).hexdigest()
    return found


def left_behind(folder: Path) -> dict[int, str]:
    """The processes that were started for a folder and go on."""
    out = {}
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PULLBACK_RUN={folder}".encode() in entry.read_bytes():
                out[int(entry.parent.name)] = (entry.parent / "comm").read_text().strip()
        except OSError:
            continue
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder, "nothing")[0] == 0
    return checkpoints(folder)[EPOCHS]


def test_training_goes_on_when_a_worker_is_killed(tmp_path: Path, whole: str) -> None:
    """To the bit as if nothing had happened."""
    status, out = run(tmp_path, "worker")
    assert status == 0 and "E711" not in out
    assert (tmp_path / "killed").exists()
    assert checkpoints(tmp_path)[EPOCHS] == whole


@pytest.mark.parametrize("lost", ["workers", "driver", "raylet", "gcs_server"])
def test_what_is_lost_is_told_and_training_goes_on(tmp_path: Path, whole: str, lost: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_RUN", str(tmp_path))
    status, out = run(tmp_path, lost)
    if lost in ("raylet", "gcs_server") and status == 0:  # the workers did not need it any more
        assert checkpoints(tmp_path)[EPOCHS] == whole
        return
    assert status == -9 if lost == "driver" else status != 0
    if lost == "workers":
        assert status == 3 and "E711" in out.splitlines()
    assert max(checkpoints(tmp_path)) >= SAVED
    end = time.monotonic() + 60
    while "ray::_Held" in (left := left_behind(tmp_path)).values() and time.monotonic() < end:
        time.sleep(0.5)
    for number in left:
        os.kill(number, signal.SIGKILL)  # Ray's own, whose driver had no time to end them
    assert "ray::_Held" not in left.values()
    assert run(tmp_path, "nothing")[0] == 0
    assert checkpoints(tmp_path)[EPOCHS] == whole

"""The program of an exported network ends with a status, whatever files a fuzzer makes up; under the sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pullback as pb
from pullback import nn

NIGHTLY: Final = bool(os.environ.get("PULLBACK_NIGHTLY"))
SECONDS: Final = 300
CLANG: Final = next((c for c in ("clang", "clang-21", "clang-20", "clang-19") if shutil.which(c)), None)
RENAMED: Final = {"main": "program_main", "fopen": "memory_file", "rename": "memory_rename", "remove": "memory_remove"}
NET: Final = nn.sequential(nn.dense(3), nn.relu, nn.dense(3)).named("small").on("N 4")


def loss(y: Any, target: Any) -> Any:
    likely = nn.log_softmax(y)
    return -pb.sum_over(y.shape, lambda n, k: pb.where(k == target[n], likely[n, k], 0)) / y.shape[0]


def has_fuzzer(folder: Path) -> bool:
    if CLANG is None:
        return False
    text = "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d == 0 && n; }"
    command = [CLANG, "-fsanitize=fuzzer,address,undefined", "-x", "c", "-", "-o", str(folder / "try")]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=False).returncode == 0


def built(folder: Path) -> Path:
    """The program under the fuzzer, with a right file of each kind to begin from."""
    NET.export(folder, NET.init(seed=0)[0], what="both", batch_size=2, loss=loss, optimizer=nn.sgd(0.1))
    shutil.copy(folder / "small.safetensors", folder / "right.weights")
    np.linspace(-1, 1, 16, dtype=np.float32).tofile(folder / "right.inputs")
    np.array([0, 1, 2, 0], np.int64).tofile(folder / "right.targets")
    (folder / "corpus").mkdir()
    for command in range(3):
        for file, name in enumerate(("weights", "inputs", "targets")):
            content = (folder / f"right.{name}").read_bytes()
            (folder / "corpus" / f"{command}{name}").write_bytes(bytes([4 * command + file]) + content)
    (folder / "corpus" / "epochs").write_bytes(bytes([4 * 2 + 3]) + b"2")
    assert CLANG is not None
    options = ["-O1", "-g", "-w", "-fno-sanitize-recover=all"]
    renamed = [f"-D{name}={other}" for name, other in RENAMED.items()]
    sources = [str(p) for p in sorted(folder.glob("*.c"))]
    fuzzed = "-fsanitize=fuzzer-no-link,address,undefined"
    subprocess.run([CLANG, *options, fuzzed, *renamed, "-c", *sources], cwd=folder, check=True)
    harness = str(Path(__file__).with_name("fuzz_main.c"))
    objects = [str(p) for p in sorted(folder.glob("*.o"))]
    linked = [CLANG, *options, "-fsanitize=fuzzer,address,undefined", '-DWEIGHTS="small.safetensors"', harness]
    subprocess.run([*linked, *objects, "-lm", "-o", "fuzzer"], cwd=folder, check=True)
    return folder / "fuzzer"


@pytest.mark.skipif(not NIGHTLY, reason="takes minutes: PULLBACK_NIGHTLY=1")
def test_the_readers_of_an_exported_program(tmp_path: Path) -> None:
    if not has_fuzzer(tmp_path):
        pytest.skip("no clang with libFuzzer and the sanitizers")
    command = [str(built(tmp_path)), "corpus", f"-max_total_time={SECONDS}", "-max_len=4096", "-timeout=20",
               "-rss_limit_mb=2048", "-close_fd_mask=3", "-print_final_stats=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace",
                          timeout=SECONDS + 60, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (runs,) = re.findall(r"number_of_executed_units: (\d+)", done.stderr)
    print(f"{runs} files in {SECONDS} s")
    assert int(runs) > 100

"""Export a trained network as C, compile it, and compare its results.

In PyTorch: `torch.export` and AOTInductor.
In Keras: TensorFlow Lite.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from pullback import nn

x = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
net = nn.sequential(nn.dense(8), nn.relu, nn.dense(3)).named("sensor").on("N 4")
run = nn.fit(net, nn.cross_entropy, (x, x[:, :3].argmax(1)), optimizer=nn.adam(0.02), epochs=15, progress=False)

with tempfile.TemporaryDirectory() as folder:
    made = net.export(folder, run.parameters, weights="const")
    assert all(Path(file).exists() for file in made["files"])
    assert "malloc" not in (Path(folder) / "sensor_infer.c").read_text()
    if compiler := shutil.which("cc"):
        sources = sorted(path.name for path in Path(folder).glob("*.c"))
        subprocess.run([compiler, "-O2", "-Wno-psabi", *sources, "-lm", "-o", "sensor"], cwd=folder, check=True)
        x[:10].tofile(Path(folder) / "x")
        done = subprocess.run(
            [Path(folder) / "sensor", "infer", "x"], cwd=folder, check=True, capture_output=True, text=True
        )
        printed = np.array([line.split() for line in done.stdout.splitlines()], float)
        assert np.allclose(printed, net(run.parameters, x[:10]), atol=1e-4)
print("files:", *sorted(Path(file).name for file in made["files"]), f"\nworking memory: {made['arena_bytes']} bytes")

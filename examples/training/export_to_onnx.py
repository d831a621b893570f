"""Save a trained network as an ONNX file for other runtimes, and read it again.

In PyTorch: `torch.onnx.export`.
In Keras: `model.export(format="onnx")`.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from pullback import nn, onnx

x = np.random.default_rng(0).normal(size=(200, 1, 6, 6)).astype(np.float32)
labels = (x.mean(axis=(1, 2, 3)) > 0).astype(np.int64)
net = nn.sequential(nn.conv(4, 3), nn.relu, nn.global_avg_pool(), nn.dense(2)).on("N 1 6 6")
run = nn.fit(net, nn.cross_entropy, (x, labels), optimizer=nn.adam(0.02), epochs=10, progress=False)

scores = net(run.parameters, x[:7])
with tempfile.TemporaryDirectory() as folder:
    file = str(Path(folder) / "net.onnx")
    onnx.save(net, file, run.parameters, run.state)
    again, held = onnx.load(file)
    assert np.allclose(again(held, x[:7]), scores, atol=1e-5)
    if find_spec("onnxruntime"):
        import onnxruntime

        session = onnxruntime.InferenceSession(file)
        (found,) = session.run(None, {session.get_inputs()[0].name: x[:7]})
        assert np.allclose(found, scores, atol=1e-5)
    size = Path(file).stat().st_size
print(f"{size} bytes; scores of the first sample {np.round(scores[0], 3)}")

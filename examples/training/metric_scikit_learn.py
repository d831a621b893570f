"""Measure validation data by functions of scikit-learn.

In PyTorch: collect outputs, then call scikit-learn.
In Keras: a callback that calls `model.predict`.
"""

import numpy as np
from sklearn.metrics import balanced_accuracy_score, log_loss

from pullback import data, nn

digits = data.load_digits()
balanced = nn.metrics.on_outputs(lambda y, t: balanced_accuracy_score(t, y.argmax(1)), name="balanced_accuracy")


def probabilities_loss(y, t):
    p = np.exp(y - y.max(1, keepdims=True)).astype(np.float64)
    return log_loss(t, p / p.sum(1, keepdims=True))


run = nn.fit(
    nn.sequential(nn.flatten(), nn.dense(10)), nn.cross_entropy, digits, optimizer=nn.adam(1e-3), epochs=8,
    metrics=[nn.metrics.accuracy, balanced, nn.metrics.on_outputs(probabilities_loss)], progress=False,
)  # fmt: skip
last = run.history.rows[-1]
assert last["balanced_accuracy"] > 0.85
assert np.isclose(last["probabilities_loss"], last["validation_loss"], rtol=1e-4)
print(f"accuracy {last['accuracy']:.3f}, balanced {last['balanced_accuracy']:.3f}")

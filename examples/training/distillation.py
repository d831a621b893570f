"""Distill a large network into a small one, which learns from its soft scores.

In PyTorch: `kl_div(log_softmax(student / T), softmax(teacher / T))`.
In Keras: the example "Knowledge distillation".
"""

import numpy as np

import pullback as pb
from pullback import nn

T = 3.0  # the temperature
random = np.random.default_rng(0)
x = random.uniform(-2, 2, (600, 2)).astype(np.float32)
labels = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
few = slice(0, 30)  # few samples have labels

teacher = nn.sequential(nn.dense(64), nn.relu, nn.dense(64), nn.relu, nn.dense(2)).on("N 2")
taught = nn.fit(teacher, nn.cross_entropy, (x, labels), optimizer=nn.adam(5e-3), epochs=60, progress=False)
soft = pb.function(lambda y: nn.softmax(y / T))(teacher(taught.parameters, x))


def distill(y, target):
    return nn.kl_div(nn.log_softmax(y / T), target)


student = nn.sequential(nn.dense(24), nn.relu, nn.dense(2)).on("N 2")
options = {"optimizer": nn.adam(0.02), "epochs": 60, "progress": False}
alone = nn.fit(student, nn.cross_entropy, (x[few], labels[few]), **options)
distilled = nn.fit(student, distill, (x, soft), **options)
right = [
    np.mean(n(r.parameters, x).argmax(1) == labels)
    for n, r in ((teacher, taught), (student, alone), (student, distilled))
]
assert right[0] > 0.95
assert right[2] > right[1] + 0.02
print("accuracy of teacher, student alone, student with teacher:", *(f"{r:.3f}" for r in right))

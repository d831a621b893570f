"""A noisy signal, cleaned in the frequency domain with a learned filter.

The gain of every frequency is a parameter. Derivatives go through the transform and back. The loss is quadratic, and no
gain acts on another: one Newton step with a diagonal Hessian, from one product with it, trains the filter.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def cleaned(gain: Float64[Array, "33"], x: Float64[Array, "B 64"]):
    return pb.fft.irfft(pb.fft.rfft(x) * gain)


@pb.function
def loss(gain: Float64[Array, "33"], noisy: Float64[Array, "B 64"], clean: Float64[Array, "B 64"]):
    return pb.mean((cleaned(gain, noisy) - clean) ** 2)


def signals(count, r):
    phase, t = r.uniform(0, 2 * np.pi, (2, count, 1)), np.arange(64) / 64
    clean = np.sin(2 * np.pi * 3 * t + phase[0]) + 0.6 * np.sin(2 * np.pi * 9 * t + phase[1])
    return clean + 0.7 * r.normal(size=clean.shape), clean


noisy, clean = signals(200, np.random.default_rng(0))
gain = np.ones(33)
slope, curvature = pb.function(lambda *data: pb.jvp(pb.grad(loss))(data, (pb.ones(33), None, None)))(gain, noisy, clean)
gain = gain - slope / curvature
noisy, clean = signals(50, np.random.default_rng(1))
assert loss(gain, noisy, clean) < 0.1 * loss(np.ones(33), noisy, clean)

fig, (above, below) = plt.subplots(2, 1, layout="constrained")
above.plot(noisy[0], color="lightgray", label="noisy")
above.plot(clean[0], "k:", label="clean")
above.plot(cleaned(gain, noisy)[0], label="filtered")
above.legend(loc="upper right")
below.stem(gain[:24], markerfmt=".")
below.set_xlabel("frequency")
below.set_ylabel("learned gain")

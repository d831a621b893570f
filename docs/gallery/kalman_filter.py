"""A Kalman filter that learns its own noise levels.

The filter is a `scan`. The likelihood of the measurements is a function of the two noise levels, and its gradient
goes through the whole filter.
"""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64

import pullback as pb
from pullback import Array

F = np.array([[1.0, 1.0], [0.0, 1.0]])  # position and speed
G = np.array([[0.25, 0.5], [0.5, 1.0]])


@pb.function
def track(log_noise: Float64[Array, "2"], seen: Float64[Array, "T"]):
    """Return minus the log-likelihood, and the mean and the variance of the position after each measurement."""
    push, error = pb.exp(log_noise[0]), pb.exp(log_noise[1])

    def step(state, t):
        mean, cov, loss = state
        mean, cov = F @ mean, F @ cov @ F.T + push * G
        surprise, spread = seen[t] - mean[0], cov[0, 0] + error
        gain = cov[:, 0] / spread
        mean, cov = mean + gain * surprise, cov - gain[:, None] * cov[0]
        return (mean, cov, loss + (surprise**2 / spread + pb.log(spread)) / 2), (mean[0], cov[0, 0])

    (_, _, loss), (means, variances) = pb.scan(seen.shape[0], (pb.zeros(2), 10 * pb.eye(2), pb.asarray(0.0)), step)
    return loss, means, variances


r, T = np.random.default_rng(0), 120
speed = np.cumsum(0.1 * r.normal(size=T))
truth = np.cumsum(speed)
seen = truth + 3.0 * r.normal(size=T)

loss = pb.function(lambda log_noise, seen: track(log_noise, seen)[0])
noise, step = np.array([0.0, 0.0]), pb.grad(loss)
for _ in range(150):
    noise = noise - 0.02 * step(noise, seen)
_, means, variances = track(noise, seen)
assert 2.4 < np.exp(noise[1] / 2) < 3.6  # the true standard deviation of a measurement is 3
assert np.sqrt(np.mean((means - truth) ** 2)) < 0.6 * np.sqrt(np.mean((seen - truth) ** 2))

band = 2 * np.sqrt(variances)
plt.plot(seen, ".", color="gray", label="measured")
plt.plot(truth, "k:", label="true")
plt.plot(means, label="filtered")
plt.fill_between(np.arange(T), means - band, means + band, alpha=0.25)
plt.xlabel("time")
plt.ylabel("position")
plt.legend()

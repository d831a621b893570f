"""A forecast with its uncertainty.

A recurrent network learns the mean and the spread of the next value of seasonal series, whose noise grows with their
level. Two hundred paths, drawn step by step, give the bands. The series that goes on is one that it has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np

import pullback as pb
from pullback import nn

L, PAST, SEASON = 72, 48, 12
random = np.random.default_rng(0)
t = np.arange(L)


def sales(count):
    """Return series with a season, a level of their own, and noise of a fifth of their value."""
    level, phase = random.uniform(0.5, 2, (count, 1)), random.integers(0, SEASON, (count, 1))
    clean = level * (1.2 + np.sin(2 * np.pi * (t + phase) / SEASON))
    return (clean * (1 + 0.2 * random.normal(size=clean.shape))).astype(np.float32)


def inputs(series):
    """Return the value before, and the season of the step, for each step but the first."""
    wave = [np.broadcast_to(f(2 * np.pi * t[1:] / SEASON), series[:, 1:].shape) for f in (np.sin, np.cos)]
    return np.stack([series[:, :-1], *wave], axis=2).astype(np.float32)


net = nn.models.deepar(hidden_size=24)
train, test = sales(384), sales(64)
how = {"optimizer": nn.adam(5e-3), "epochs": 30, "batch_size": 32, "seed": 0, "progress": False}
run = nn.fit(net, nn.models.gaussian_nll, (inputs(train), train[:, 1:, None]), **how)

draw = pb.function(lambda p, past, noise, then: nn.models.forecast(net, p, past, noise, then))
whole, paths = inputs(test), 200
past, then = (np.repeat(part, paths, 0) for part in (whole[:, :PAST], whole[:, PAST:, 1:]))
noise = random.normal(size=(len(past), L - PAST)).astype(np.float32)
drawn, real = draw(run.parameters, past, noise, then).reshape(len(test), paths, -1), test[:, PAST:]
low, middle, high = np.quantile(drawn, [0.1, 0.5, 0.9], axis=1)
inside = np.mean((low < real) & (real < high))
assert 0.65 < inside < 0.92  # of 80 percent

plt.plot(t, test[0], "k", lw=1, label="the series")
plt.fill_between(t[PAST:], low[0], high[0], color="C0", alpha=0.3, label=f"80 % of the paths ({inside:.0%} of values)")
plt.plot(t[PAST:], middle[0], "C0", label="median of the forecast")
plt.xlabel("month")
plt.ylim(0, 1.4 * test[0].max())
plt.legend(loc="upper left")

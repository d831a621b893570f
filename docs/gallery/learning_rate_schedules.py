"""Schedules of the learning rate, with and without warm-up.

A schedule is a function of the step. Optimizers take one in place of a number, and it runs inside the compiled step.
"""

import matplotlib.pyplot as plt
import numpy as np

from pullback import nn

schedules = {
    "cosine": nn.cosine_decay_schedule(0.1, 100, 10),
    "linear": nn.linear_schedule(0.1, 100, 10),
    "exponential": nn.exponential_decay(0.1, 0.5, 25),
    "steps": nn.step_decay(0.1, 30, 0.5),
    "inverse square root": nn.inverse_sqrt_schedule(0.1, 10),
}
steps = np.arange(101)
for name, schedule in schedules.items():
    rates = [float(schedule(t)) for t in steps]
    plt.plot(steps, rates, label=name)
assert np.isclose(schedules["cosine"](55), 0.05)
assert np.isclose(schedules["exponential"](25), 0.05)

plt.xlabel("step")
plt.ylabel("learning rate")
plt.legend()

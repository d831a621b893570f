"""Change the learning rate with the step: by steps, by cosine restarts, by one cycle, after a warmup, or by a formula.

In PyTorch: `lr_scheduler.StepLR`, `CosineAnnealingWarmRestarts`, `OneCycleLR`.
In Keras: `LearningRateSchedule`.
"""

import numpy as np

from pullback import nn

x = np.random.default_rng(0).normal(size=(160, 3)).astype(np.float32)
y = x @ np.array([[1.0], [2.0], [3.0]], np.float32)

schedules = {
    "steps": nn.step_decay(0.1, step_size=30, gamma=0.1),
    "restarts": nn.cosine_restarts_schedule(0.1, cycle_steps=20, cycle_mult=2),
    "one cycle": nn.one_cycle_schedule(0.1, total_steps=100),
    "warmup": nn.cosine_decay_schedule(0.1, decay_steps=100, warmup_steps=10),
    "formula": lambda step: 0.1 / (1 + 0.1 * step),
}
for name, schedule in schedules.items():
    run = nn.fit(nn.dense(1), nn.mse_loss, (x, y), optimizer=nn.adam(schedule), epochs=20, progress=False)
    rates = run.history["learning_rate"]
    assert run.history.losses[-1] < 0.7 * run.history.losses[0]
    print(f"{name:9}  rate {rates[0]:.4f} to {rates[-1]:.4f}, loss {run.history.losses[-1]:.3f}")

assert np.allclose([schedules["steps"](t) for t in (29, 30, 60)], [0.1, 0.01, 0.001])
assert np.isclose(schedules["restarts"](20), 0.1)  # a new cycle
assert np.isclose(schedules["warmup"](0), 0.01) and np.isclose(schedules["warmup"](9), 0.1)

"""Learning rates of PyTorch's schedulers. Run as a module, it stores them in `torch_schedules.json`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim import lr_scheduler

NUMBERS = Path(__file__).parents[1] / "torch_schedules.json"
LOSSES = [3, 2, 2, 2, 2, 2, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4, 1.4]
SCHEDULES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "one_cycle": (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=41, cycle_momentum=False), 41),
    "one_cycle_40": (
        lambda o: lr_scheduler.OneCycleLR(
            o, 0.1, total_steps=40, pct_start=0.5, div_factor=10, final_div_factor=100, cycle_momentum=False
        ),
        40,
    ),
    "restarts": (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10, 1, 0.01), 45),
    "restarts_3": (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 3, 0.0), 130),
}


def optimizer(rate: float) -> Any:
    """An optimizer of one number."""
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)


def rates(make: Callable[[Any], Any], count: int) -> list[float]:
    """The rates of a schedule."""
    own = optimizer(0.1)
    schedule, found = make(own), []
    for _ in range(count):
        found.append(own.param_groups[0]["lr"])
        own.step()
        schedule.step()
    return found


def plateau(cooldown: int) -> list[float]:
    """The rates after each loss; PyTorch's patience is one less than ours."""
    own, found = optimizer(1.0), []
    rule = lr_scheduler.ReduceLROnPlateau(
        own, factor=0.5, patience=1, threshold=1e-4, threshold_mode="abs", cooldown=cooldown, min_lr=0.1
    )
    for loss in LOSSES:
        rule.step(loss)
        found.append(own.param_groups[0]["lr"])
    return found


def main() -> None:
    """Store the numbers."""
    warnings.simplefilter("ignore")
    stored = {name: rates(*row) for name, row in SCHEDULES.items()}
    stored |= {f"plateau_{cooldown}": plateau(cooldown) for cooldown in (0, 1, 3)}
    NUMBERS.write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main()

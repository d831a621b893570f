"""Training: `fit`, its result, and its saving, display and stopping."""

from pullback.nn.training.checkpoint import Checkpoints
from pullback.nn.training.fit import evaluate, fit
from pullback.nn.training.history import EarlyStop, History
from pullback.nn.training.loop import Run
from pullback.nn.training.report import Progress

__all__ = ["Checkpoints", "EarlyStop", "History", "Progress", "Run", "evaluate", "fit"]

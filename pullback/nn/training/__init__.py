"""Training: `fit`, its result, checkpoints, progress display and early stopping."""

from pullback.nn.training.checkpoint import Checkpoints
from pullback.nn.training.fit import evaluate, fit
from pullback.nn.training.history import EarlyStopping, History
from pullback.nn.training.loop import Run
from pullback.nn.training.report import Progress

__all__ = ["Checkpoints", "EarlyStopping", "History", "Progress", "Run", "evaluate", "fit"]

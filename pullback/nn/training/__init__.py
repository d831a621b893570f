"""Training: `fit`, its result, checkpoints, progress display, early stopping and callbacks."""

from pullback.nn.training.callbacks import CSVLogger, TrainingState
from pullback.nn.training.checkpoint import Checkpoints
from pullback.nn.training.devices import Devices
from pullback.nn.training.finder import LearningRates, find_learning_rate
from pullback.nn.training.fit import evaluate, fit, predict
from pullback.nn.training.history import History
from pullback.nn.training.loop import Run
from pullback.nn.training.monitors import EarlyStopping, ReduceLROnPlateau
from pullback.nn.training.report import Progress
from pullback.nn.training.shared import Workers
from pullback.nn.training.tensorboard import TensorBoardLogger

__all__ = [
    "CSVLogger",
    "Checkpoints",
    "Devices",
    "EarlyStopping",
    "History",
    "LearningRates",
    "Progress",
    "ReduceLROnPlateau",
    "Run",
    "TensorBoardLogger",
    "TrainingState",
    "Workers",
    "evaluate",
    "find_learning_rate",
    "fit",
    "predict",
]

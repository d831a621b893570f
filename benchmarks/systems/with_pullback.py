"""Pullback itself: the network of `pullback.nn.models`, one compiled call for all images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Runner
from benchmarks.inputs import ZhangInputs

__all__ = ["FORMS", "recognize", "train"]

FORMS = ("fold",)


class _TrainingByPullback:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        from pullback.nn.models import zhang

        self.inputs = inputs
        self.program = zhang.train
        dtype = inputs.images.dtype.type
        self.images = inputs.images
        self.labels = inputs.labels
        self.rate = np.array(inputs.rate, dtype)
        # The fields are annotated for traced arrays; here they hold NumPy's.
        parameters: Any = zhang.Parameters
        state: Any = zhang.Training
        self.state: Any = state(parameters(*inputs.fresh()), np.zeros((), dtype))

    def reset(self) -> None:
        for own, initial in zip(self.state.parameters, self.inputs.parameters, strict=True):
            own[...] = initial
        self.state.loss[...] = 0

    def call(self) -> NDArray[Any]:
        self.program(self.state, self.images, self.labels, self.rate, out=self.state)
        return np.array([float(self.state.loss) / len(self.images)])


class _RecognitionByPullback:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        from pullback.nn.models import zhang

        self.program = zhang.recognize
        self.images = inputs.images
        parameters: Any = zhang.Parameters
        self.parameters = parameters(*inputs.fresh())

    def reset(self) -> None:
        pass

    def call(self) -> NDArray[Any]:
        digits: NDArray[Any] = self.program(self.parameters, self.images)
        return digits.astype(np.int64)


def train(inputs: ZhangInputs, form: str) -> Runner:
    """One pass over the images, updating at every image."""
    return _TrainingByPullback(inputs, form)


def recognize(inputs: ZhangInputs, form: str) -> Runner:
    """The most likely digit of every image."""
    return _RecognitionByPullback(inputs, form)

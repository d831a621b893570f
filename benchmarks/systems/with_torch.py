"""PyTorch: eager with and without oneDNN, and compiled; inference in one batch and cached batches."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import allowed_threads
from benchmarks.harness import Runner
from benchmarks.inputs import ZhangInputs

__all__ = ["FORMS", "RECOGNITION_FORMS", "SLOW_FORMS", "recognize", "train"]

FORMS = ("eager without oneDNN", "eager with oneDNN")
BATCHES = ", batches of 200"  # all images at once do not fit the caches; this was the fastest of 10 to 10,000
RECOGNITION_FORMS = (*FORMS, *(form + BATCHES for form in FORMS))
SLOW_FORMS = ("compile",)


def _torch(form: str) -> tuple[Any, AbstractContextManager[Any]]:
    torch = import_module("torch")
    torch.set_num_threads(allowed_threads())
    enabled = not form.startswith("eager without oneDNN")
    return torch, torch.backends.mkldnn.flags(enabled=enabled)


def _scores(torch: Any, parameters: Any, images: Any) -> Any:
    """(N, 1, 28, 28) -> (N, 10)."""
    functional = torch.nn.functional
    k1, b1, k2, b2, fc, b = parameters
    s1 = functional.avg_pool2d(torch.sigmoid(functional.conv2d(images, k1, b1)), 2)
    s2 = functional.avg_pool2d(torch.sigmoid(functional.conv2d(s1, k2, b2)), 2)
    return torch.sigmoid(functional.linear(s2.flatten(1), fc, b))


def _tensors(torch: Any, inputs: ZhangInputs) -> list[Any]:
    k1, b1, k2, b2, fc, b = (torch.from_numpy(array.copy()) for array in inputs.parameters)
    return [k1[:, None].contiguous(), b1, k2, b2, fc.reshape(10, 192), b]


class _TrainingByTorch:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        self.torch, self.mode = _torch(form)
        torch = self.torch
        self.form = form
        self.rate = inputs.rate
        self.initial = _tensors(torch, inputs)
        self.parameters = [p.clone().requires_grad_() for p in self.initial]
        self.images = list(torch.from_numpy(inputs.images)[:, None, None])
        targets = np.eye(10, dtype=inputs.images.dtype)[inputs.labels]
        self.targets = list(torch.from_numpy(targets)[:, None])

        def loss(parameters: Any, image: Any, target: Any) -> Any:
            return ((_scores(torch, parameters, image) - target) ** 2).sum() / 2

        self.loss = torch.compile(loss) if form == "compile" else loss

    def reset(self) -> None:
        with self.torch.no_grad():
            for own, initial in zip(self.parameters, self.initial, strict=True):
                own.copy_(initial)

    def call(self) -> NDArray[Any]:
        torch, parameters, rate = self.torch, self.parameters, self.rate
        total = 0.0
        _, mode = _torch(self.form)
        with mode:
            for image, target in zip(self.images, self.targets, strict=True):
                value = self.loss(parameters, image, target)
                gradients = torch.autograd.grad(value, parameters)
                with torch.no_grad():
                    torch._foreach_add_(parameters, gradients, alpha=-rate)
                total += value.item()
        return np.array([total / len(self.images)])


class _RecognitionByTorch:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        self.torch, _ = _torch(form)
        torch = self.torch
        self.form = form
        self.parameters = _tensors(torch, inputs)
        images = torch.from_numpy(inputs.images)[:, None]
        self.batches = images.split(200 if form.endswith(BATCHES) else len(images))

        def digits(parameters: Any, images: Any) -> Any:
            return _scores(torch, parameters, images).argmax(1)

        self.digits = torch.compile(digits) if form == "compile" else digits

    def reset(self) -> None:
        pass

    def call(self) -> NDArray[Any]:
        _, mode = _torch(self.form)
        with mode, self.torch.no_grad():
            parts = [self.digits(self.parameters, batch) for batch in self.batches]
            digits: NDArray[Any] = self.torch.cat(parts).numpy()
        return digits


def train(inputs: ZhangInputs, form: str) -> Runner:
    """One pass over the images, updating at every image."""
    return _TrainingByTorch(inputs, form)


def recognize(inputs: ZhangInputs, form: str) -> Runner:
    """The most likely digit of every image."""
    return _RecognitionByTorch(inputs, form)

"""JAX in its users' forms: one compiled loop over the images, or one compiled call an image."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Runner
from benchmarks.inputs import ZhangInputs

__all__ = ["FORMS", "RECOGNITION_FORMS", "recognize", "train"]

FORMS = ("scan over im2col", "scan over lax.conv", "one jit call an image")
RECOGNITION_FORMS = (*FORMS, "one batch over im2col", "one batch over lax.conv")


def _jax() -> tuple[Any, Any]:
    jax = import_module("jax")
    # Element types come from the arrays we pass; this only allows float64 to stay what it is.
    jax.config.update("jax_enable_x64", True)
    return jax, import_module("jax.numpy")


def _convolution(form: str) -> Callable[[Any, Any, Any], Any]:
    """(c, h, w) by (o, c, 5, 5) -> (o, h - 4, w - 4)."""
    jax, jnp = _jax()

    def by_library(x: Any, k: Any, b: Any) -> Any:
        out = jax.lax.conv_general_dilated(x[None], k, (1, 1), "VALID")[0]
        return out + b[:, None, None]

    def by_product(x: Any, k: Any, b: Any) -> Any:
        c, h, w = x.shape
        o, rows, columns = k.shape[0], h - 4, w - 4
        windows = [x[:, p : p + rows, q : q + columns] for p in range(5) for q in range(5)]
        patches = jnp.stack(windows, axis=1).reshape(c * 25, rows * columns)
        return (k.reshape(o, c * 25) @ patches).reshape(o, rows, columns) + b[:, None, None]

    return by_library if "lax.conv" in form else by_product


def _network(form: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    jax, jnp = _jax()
    convolution = _convolution(form)

    def pool(x: Any) -> Any:
        c, h, w = x.shape
        return x.reshape(c, h // 2, 2, w // 2, 2).mean((2, 4))

    def forward(parameters: Any, image: Any) -> Any:
        k1, b1, k2, b2, fc, b = parameters
        s1 = pool(jax.nn.sigmoid(convolution(image[None], k1[:, None], b1)))
        s2 = pool(jax.nn.sigmoid(convolution(s1, k2, b2)))
        return jax.nn.sigmoid(fc.reshape(10, 192) @ s2.reshape(192) + b)

    def loss(parameters: Any, image: Any, label: Any) -> Any:
        target = (jnp.arange(10) == label).astype(image.dtype)
        return ((forward(parameters, image) - target) ** 2).sum() / 2

    return forward, loss


class _TrainingByJax:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        jax, jnp = _jax()
        _, loss = _network(form)
        rate = inputs.rate
        self.inputs = inputs
        self.one_call = form == "one jit call an image"

        def update(parameters: Any, image: Any, label: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(parameters, image, label)
            return jax.tree.map(lambda p, g: p - jnp.asarray(rate, p.dtype) * g, parameters, gradient), value

        def epoch(parameters: Any, images: Any, labels: Any) -> Any:
            return jax.lax.scan(lambda p, xy: update(p, *xy), parameters, (images, labels))

        self.run = jax.jit(update if self.one_call else epoch)
        self.images, self.labels = jnp.asarray(inputs.images), jnp.asarray(inputs.labels)
        if self.one_call:
            self.images, self.labels = list(self.images), list(self.labels)
        self.initial = tuple(jnp.asarray(array) for array in inputs.parameters)
        self.parameters = self.initial

    def reset(self) -> None:
        self.parameters = self.initial

    def call(self) -> NDArray[Any]:
        if self.one_call:
            losses = []
            parameters = self.parameters
            for image, label in zip(self.images, self.labels, strict=True):
                parameters, value = self.run(parameters, image, label)
                losses.append(value)
            self.parameters = parameters
            return np.array([np.mean([float(value) for value in losses])])
        self.parameters, values = self.run(self.parameters, self.images, self.labels)
        return np.array([float(values.mean())])


class _RecognitionByJax:
    def __init__(self, inputs: ZhangInputs, form: str) -> None:
        jax, jnp = _jax()
        forward, _ = _network(form)
        self.one_call = form == "one jit call an image"

        def digit(parameters: Any, image: Any) -> Any:
            return jnp.argmax(forward(parameters, image))

        def by_scan(parameters: Any, images: Any) -> Any:
            return jax.lax.scan(lambda none, image: (none, digit(parameters, image)), None, images)[1]

        if self.one_call:
            self.run = jax.jit(digit)
        elif form.startswith("scan"):
            self.run = jax.jit(by_scan)
        else:
            self.run = jax.jit(jax.vmap(digit, (None, 0)))
        self.images = jnp.asarray(inputs.images)
        if self.one_call:
            self.images = list(self.images)
        self.parameters = tuple(jnp.asarray(array) for array in inputs.parameters)

    def reset(self) -> None:
        pass

    def call(self) -> NDArray[Any]:
        if self.one_call:
            return np.array([int(d) for d in [self.run(self.parameters, image) for image in self.images]])
        return np.asarray(self.run(self.parameters, self.images)).astype(np.int64)


def train(inputs: ZhangInputs, form: str) -> Runner:
    """One pass over the images, updating at every image."""
    return _TrainingByJax(inputs, form)


def recognize(inputs: ZhangInputs, form: str) -> Runner:
    """The most likely digit of every image."""
    return _RecognitionByJax(inputs, form)

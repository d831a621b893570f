"""The products and convolutions that libraries of the device's maker may compute."""

from __future__ import annotations

from math import prod
from typing import Literal

from pullback.ir.types import DType
from pullback.loops.program.values import Buffer
from pullback.records import dataclass


@dataclass(frozen=True)
class Matrix:
    """A matrix of a batch, or its transpose, in a buffer.

    Attributes:
        buffer: the kernel's parameter.   dtype: the type of its elements.
        transposed: whether elements of a column are neighbors.   lead: from one row (or column) to the next.
        apart: from one matrix to the next.
    """

    buffer: Buffer
    dtype: DType
    transposed: bool
    lead: int
    apart: int


@dataclass(frozen=True)
class LibraryProduct:
    """Products `out = left @ right` of matrices.

    Attributes:
        many: their number.   rows, columns, terms: the sizes of each.   out: its elements of a row are neighbors.
        tf32: whether operands of f32 may be rounded to 10 bits of mantissa.
    """

    many: int
    rows: int
    columns: int
    terms: int
    left: Matrix
    right: Matrix
    out: Matrix
    tf32: bool

    @property
    def buffers(self) -> tuple[Buffer, Buffer, Buffer]:
        """The operands and the result."""
        return self.left.buffer, self.right.buffer, self.out.buffer

    @property
    def dtype(self) -> DType:
        """The type of the operands' elements."""
        return self.left.dtype

    @property
    def count(self) -> int:
        """The number of multiply-adds."""
        return self.many * self.rows * self.columns * self.terms


@dataclass(frozen=True)
class Image:
    """A batch of images, or the weights of a convolution.

    Attributes:
        buffer: the kernel's parameter.
        sizes: images, channels, height and width, or channels of the result, those of a group, and the window.
        strides: the distances of neighbors along these axes.
        last: whether the channels of a pixel are neighbors (NHWC); otherwise the pixels of a row are (NCHW).
    """

    buffer: Buffer
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    last: bool


@dataclass(frozen=True)
class LibraryConvolution:
    """A convolution of images, or one of its gradients.

    Attributes:
        kind: "forward" computes `out` of `image` and `weights`; "image" and "weights" compute the gradients by these.
        dtype: the type of all elements.
        padding, stride, dilation: along height and width.   groups: of channels.
        tf32: whether elements of f32 may be rounded to 10 bits of mantissa.
    """

    kind: Literal["forward", "image", "weights"]
    image: Image
    weights: Image
    out: Image
    dtype: DType
    padding: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    tf32: bool

    @property
    def arrays(self) -> tuple[Image, Image, Image]:
        """The operands and the result of the computation."""
        match self.kind:
            case "forward":
                return self.image, self.weights, self.out
            case "image":
                return self.weights, self.out, self.image
            case "weights":
                return self.image, self.out, self.weights

    @property
    def buffers(self) -> tuple[Buffer, Buffer, Buffer]:
        """The operands and the result."""
        left, right, out = self.arrays
        return left.buffer, right.buffer, out.buffer

    @property
    def count(self) -> int:
        """The number of multiply-adds, with those of padding."""
        return prod(self.out.sizes) * prod(self.weights.sizes[1:])

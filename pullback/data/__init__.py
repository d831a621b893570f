"""Data sets: digits, idx, NumPy, CIFAR and image files, text; their transforms, order and batches."""

from pullback.data.dataset import Dataset, Splits
from pullback.data.datasets import load, load_digits, load_folder
from pullback.data.folders import load_arrays, load_cifar, load_image_splits, load_images
from pullback.data.idx import read_idx, write_idx
from pullback.data.loader import Batches, batches_of, prefetch
from pullback.data.text import load_text
from pullback.data.transforms import Transform, normalize, random_crop, random_flip, scale, subtract
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "Batches",
    "Dataset",
    "Splits",
    "Transform",
    "batches_of",
    "load",
    "load_arrays",
    "load_cifar",
    "load_digits",
    "load_folder",
    "load_image_splits",
    "load_images",
    "load_text",
    "normalize",
    "prefetch",
    "random_crop",
    "random_flip",
    "read_idx",
    "scale",
    "subtract",
    "write_idx",
]

_public_module(__name__)

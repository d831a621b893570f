"""Data sets from files and arrays: their transforms, order, splits and batches."""

from pullback.data.databases import load_lmdb
from pullback.data.dataset import Dataset, Splits
from pullback.data.datasets import load, load_digits, load_folder
from pullback.data.folders import load_arrays, load_cifar, load_image_splits, load_images
from pullback.data.idx import read_idx, write_idx
from pullback.data.images import color_jitter, random_affine, random_erasing, random_rotation
from pullback.data.loader import Batches, batches_of, prefetch
from pullback.data.mixing import Mixing, cutmix, mixup
from pullback.data.order import Draws
from pullback.data.shards import Shards
from pullback.data.tables import from_table, load_parquet
from pullback.data.text import load_text
from pullback.data.transforms import Transform, center_crop, normalize, random_crop, random_flip, scale, subtract
from pullback.data.windows import time_series_windows
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "Batches",
    "Dataset",
    "Draws",
    "Mixing",
    "Shards",
    "Splits",
    "Transform",
    "batches_of",
    "center_crop",
    "color_jitter",
    "cutmix",
    "from_table",
    "load",
    "load_arrays",
    "load_cifar",
    "load_digits",
    "load_folder",
    "load_image_splits",
    "load_images",
    "load_lmdb",
    "load_parquet",
    "load_text",
    "mixup",
    "normalize",
    "prefetch",
    "random_affine",
    "random_crop",
    "random_erasing",
    "random_flip",
    "random_rotation",
    "read_idx",
    "scale",
    "subtract",
    "time_series_windows",
    "write_idx",
]

_public_module(__name__)

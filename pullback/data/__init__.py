"""Data sets: idx files, folders of them, and the digits that come with scikit-learn."""

from pullback.data.datasets import Dataset, Split, load, load_digits, load_folder
from pullback.data.idx import read_idx, write_idx

__all__ = ["Dataset", "Split", "load", "load_digits", "load_folder", "read_idx", "write_idx"]

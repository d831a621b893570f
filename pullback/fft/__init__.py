"""Discrete Fourier transforms under the names of the Python array API.

`plan` has the factors of a length and the tables, `stages` the transform, `transforms` the public functions.
"""

from pullback.fft.transforms import (
    fft,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftfreq,
    rfftn,
)
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_public_module(__name__)

"""Fourier transforms of signals; complex numbers are a last axis of two."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.onnx.operators.common import axis_of, build, check_table, dtype_named, integers, number
from pullback.onnx.operators.table import Known, WrongNode, operator


def _complex(x: Any) -> Any:
    """The signal of an array whose last axis has real parts, or real and imaginary parts."""
    if number(x.shape[-1]) == 1:
        return x[..., 0]
    if number(x.shape[-1]) != 2:
        raise WrongNode(f"a last axis of {x.shape[-1]}, where 1 or 2 are needed")
    return x[..., 0] + 1j * x[..., 1]


def _transformed(x: Any, length: int | None, axis: int, inverse: int, onesided: int) -> Any:
    z = _complex(x)
    if inverse and onesided:
        return pb.expand_dims(pb.fft.irfft(z, n=length, axis=axis), -1)
    found = pb.fft.ifft(z, n=length, axis=axis) if inverse else pb.fft.fft(z, n=length, axis=axis)
    y = pb.stack([found.real, found.imag], axis=-1)
    return y[(slice(None),) * axis + (slice(0, number(y.shape[axis]) // 2 + 1),)] if onesided else y


@operator("DFT", since=20)
def transform(x: Any, dft_length: Known | None = None, axis: Known | None = None, *, inverse: int = 0,
              onesided: int = 0) -> Any:  # fmt: skip
    """The discrete Fourier transform along an axis."""
    length = integers(dft_length)[0] if dft_length is not None else None
    own = axis_of(integers(axis, [-2])[0], x.ndim)
    return pb.astype(_transformed(x, length, own, inverse, onesided), x.dtype)


@operator("DFT", until=19)
def transform_17(x: Any, dft_length: Known | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    """The transform as before version 20, whose axis is an attribute."""
    return transform(x, dft_length, np.array(axis), inverse=inverse, onesided=onesided)


@operator("STFT")
def short_transform(signal: Any, frame_step: Known, window: Any = None, frame_length: Known | None = None, *,
                    onesided: int = 1) -> Any:  # fmt: skip
    """Transforms of frames of a signal (N, L, 1 or 2): (N, frames, frequencies, 2)."""
    step, samples = integers(frame_step)[0], number(signal.shape[1])
    length = integers(frame_length, [number(window.shape[0]) if window is not None else samples])[0]
    count = 1 + (samples - length) // step if step > 0 else 0
    if count < 1:
        raise WrongNode(f"frames of {length} every {step} of {samples} samples")
    shape = (signal.shape[0], count, length, signal.shape[2])
    frames = build(shape, lambda n, f, i, part: signal[n, f * step + i, part])
    if window is not None:
        frames = frames * pb.reshape(window, (-1, 1))
    return pb.astype(_transformed(frames, None, 2, 0, onesided), signal.dtype)


@operator("MelWeightMatrix")
def mel_weights(num_mel_bins: Known, dft_length: Known, sample_rate: Known, lower_edge_hertz: Known,
                upper_edge_hertz: Known, *, output_datatype: int = 1) -> Any:  # fmt: skip
    """Triangles over frequencies, evenly spaced in mel: (frequencies, bins)."""
    bins, length = integers(num_mel_bins)[0], integers(dft_length)[0]
    check_table(length // 2 + 1, bins)
    low, high = (2595 * np.log10(1 + float(np.asarray(f)) / 700) for f in (lower_edge_hertz, upper_edge_hertz))
    mel = low + np.arange(bins + 2) * (high - low) / (bins + 2)
    hertz = 700 * (10 ** (mel / 2595) - 1)
    at = np.floor((length + 1) * hertz / integers(sample_rate)[0]).astype(int)
    left, center, right = at[:-2], at[1:-1], at[2:]
    j = np.arange(length // 2 + 1)[:, None]
    up, down = np.maximum(center - left, 1), np.maximum(right - center, 1)
    rising = np.where((j >= left) & (j <= center), np.where(center == left, 1.0, (j - left) / up), 0.0)
    falling = np.where((j >= center) & (j < right), (right - j) / down, 0.0)
    found = np.where((j >= center) & (j < right), falling, rising)
    return found.astype(dtype_named(output_datatype).numpy)

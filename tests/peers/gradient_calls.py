"""Gradients through SciPy and scikit-learn, compared with differences of the same calls on NumPy arrays.

    SCIPY_ARRAY_API=1 python -m tests.peers.gradient_calls [scipy] [sklearn] [--part=K/N]

differentiates each call of `array_calls` and of `MORE` by each array that it names, and prints the ones that fail. The
numbers of a result are weighted and summed.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.peers.array_calls import KNOWN as FAILING
from tests.peers.array_calls import SCIPY, SKLEARN, arrays, calls, leaves, value

HOMES: Final = ("scipy", "sklearn")

MORE: Final = """
fft.fft(x + 1j * y)  fft.ifft(x + 1j * y)  fft.irfft(x + 1j * y)  fft.hfft(x + 1j * y)  fft.irfftn(A + 1j * A)
fft.fft(x, 7)  fft.rfft(A, axis=0, norm="ortho")  fft.ifht(x, 0.1, 0.5)  special.logsumexp(A, axis=1)
special.logsumexp(x, b=y)  special.softmax(A, axis=0)  special.stdtr(x, y)  special.chdtr(x, y)  special.chdtrc(x, y)
special.gammaincc(x, y)  special.ndtri(q)  special.betaincc(x, y, q)  stats.zscore(A, axis=1, ddof=1)
stats.gmean(x, weights=y)  stats.quantile(x, p, method="hazen")  stats.pmean(x, 2, weights=y)
stats.skew(A, axis=1, bias=False)  stats.entropy(x, y, base=2)  stats.hmean(A, axis=None)
stats.median_abs_deviation(A, axis=1, scale="normal")  stats.tmean(A, (0.2, 2.0), axis=1)
stats.ttest_ind(x, y, equal_var=False)  stats.pearsonr(x, y).confidence_interval()
stats.circmean(A, high=2.0, axis=1)  signal.fftconvolve(A, A, mode="same")  signal.hilbert(A, axis=0)
signal.hilbert2(A)  signal.resample(x, 20)  signal.freqz_zpk(x[:2], y[:2], 2.0)  signal.lp2hp(y[:3], x[:3])
signal.lp2bp(y[:3], x[:3])  signal.lp2lp_zpk(x[:2], y[:3], 2.0)  signal.lp2hp_zpk(x[:2], y[:3], 2.0)
signal.bilinear_zpk(x[:2], y[:3], 2.0, 10.0)  signal.zpk2sos(x[:2], y[:2], 1.0)  signal.tf2ss(y[:3], x[:3])
signal.freqs_zpk(x[:2], y[:2], 2.0)  signal.sosfilt_zi(sos)  integrate.trapezoid(A, dx=0.5, axis=0)
integrate.cumulative_trapezoid(y, x, initial=0)  integrate.cumulative_simpson(y, dx=0.5)
integrate.cubature(lambda s: xp.exp(-y[0] * s[:, 0]), [0.0], [1.0]).estimate
integrate.tanhsinh(lambda s: s**2 * x1, x0, x2).integral
optimize.elementwise.find_root(lambda s: s**2 - x1, (x0, x2)).x
optimize.elementwise.find_minimum(lambda s: (s - x1) ** 2 + s, (x0 - 1.0, x0 + 0.4, x2)).x
optimize.elementwise.bracket_minimum(lambda s: (s - x1) ** 4, x1 / 3.0)
spatial.transform.Rotation.from_rotvec(X).as_euler("xyz")  spatial.transform.Rotation.from_rotvec(X).as_mrp()
spatial.transform.Rotation.from_rotvec(X).inv().as_quat()  spatial.transform.Rotation.from_rotvec(X).magnitude()
spatial.transform.Rotation.from_mrp(X).as_rotvec()  spatial.transform.RigidTransform.from_translation(X).as_matrix()
linalg.khatri_rao(A, A)  linalg.hankel(x)  cluster.vq.whiten(A)
"""

# Functions that read values, so that a gradient is refused (E715).
_READING: Final = """
stats.trimboth stats.f_oneway stats.spearmanr stats.kendalltau stats.ks_1samp stats.ranksums
stats.wasserstein_distance stats.energy_distance stats.expectile stats.linregress stats.theilslopes stats.boxcox
stats.shapiro stats.levene stats.dunnett stats.page_trend_test stats.percentileofscore stats.scoreatpercentile
stats.obrientransform stats.bws_test special.erf special.gammaln special.gamma special.digamma special.kl_div
special.beta special.poch special.multigammaln special.exp2 special.cbrt fft.dct fft.idct fft.dst fft.dctn
integrate.simpson optimize.minimize signal.detrend signal.convolve signal.correlate signal.convolve2d
signal.correlate2d signal.lfilter signal.filtfilt signal.sosfilt signal.sosfiltfilt signal.lfilter_zi
signal.group_delay signal.resample_poly signal.decimate signal.upfirdn signal.medfilt signal.medfilt2d signal.wiener
signal.order_filter signal.welch signal.periodogram signal.csd signal.coherence signal.spectrogram signal.stft
signal.lombscargle signal.tf2sos signal.bilinear signal.deconvolve signal.cspline1d signal.chirp signal.sawtooth
signal.square cluster.vq.vq cluster.vq.kmeans2 cluster.vq.kmeans cluster.hierarchy.linkage cluster.hierarchy.cophenet
cluster.hierarchy.inconsistent ndimage.gaussian_filter ndimage.uniform_filter ndimage.median_filter ndimage.sobel
ndimage.laplace ndimage.convolve ndimage.zoom ndimage.rotate ndimage.shift ndimage.center_of_mass
ndimage.maximum_filter linalg.solve linalg.inv linalg.det linalg.cholesky linalg.expm linalg.svdvals linalg.lstsq
linalg.qr linalg.eigh linalg.lu linalg.toeplitz linalg.norm interpolate.make_interp_spline interpolate.CubicSpline
interpolate.PchipInterpolator interpolate.Akima1DInterpolator interpolate.RegularGridInterpolator
interpolate.BarycentricInterpolator interpolate.AAA metrics.brier_score_loss metrics.log_loss metrics.auc
metrics.mean_squared_error metrics.root_mean_squared_error metrics.mean_absolute_error metrics.mean_squared_log_error
metrics.root_mean_squared_log_error metrics.mean_absolute_percentage_error metrics.median_absolute_error
metrics.max_error metrics.r2_score metrics.explained_variance_score metrics.mean_pinball_loss
metrics.mean_tweedie_deviance metrics.mean_poisson_deviance metrics.mean_gamma_deviance metrics.d2_tweedie_score
metrics.d2_absolute_error_score metrics.d2_brier_score metrics.d2_log_loss_score preprocessing.RobustScaler
preprocessing.scale linear_model.LogisticRegression linear_model.PoissonRegressor calibration.CalibratedClassifierCV
signal.zpk2sos signal.tf2ss signal.sosfilt_zi linalg.khatri_rao linalg.hankel spatial.distance.cdist
spatial.distance.pdist spatial.procrustes
"""
REFUSED: Final = frozenset(_READING.split())

# What has no gradient for other reasons, or one that differs from differences.
KNOWN: Final = {
    **FAILING,
    "optimize.elementwise.find_root(lambda s: s**2 - x1, (x0, x2)).x":
        "the first step hits the root, and its number depends on the bracket alone",
    "optimize.elementwise.bracket_minimum(lambda t: (t - 1.0) ** 2, x0)": "differences go over a jump",
    "signal.sosfilt_zi(sos)":
        "SciPy 1.18 divides by the first coefficient only where it is not 1, as it is here; 1.17 is refused",
    "differentiate.hessian(lambda t: xp.sum(t * t, axis=0), x).ddf": "a constant, of whose rounding differences are",
}  # fmt: skip

RIGHT: Final = ("right", "zero", "no floats")
STEP: Final = 2e-4
RELATIVE, ABSOLUTE = 1e-6, 1e-8  # the latter of the largest number of a gradient


def arguments(call: str) -> list[str]:
    """The arrays of real numbers that a call names."""
    nodes = list(ast.walk(ast.parse(call)))
    names = {n.id for n in nodes if isinstance(n, ast.Name)} - {n.arg for n in nodes if isinstance(n, ast.arg)}
    return [name for name, array in arrays(np).items() if name in names and array.dtype.kind == "f"]


def outcome(call: str, name: str, home: str) -> str:
    """The outcome of `lazy.grad` by one array of a call: one of `RIGHT`, an error, or a fault."""
    from pullback import lazy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.asarray(arrays(np)[name])
        smooth = _smooth(leaves(value(call, np, home)))
        if not smooth:
            return "no floats"

        def loss(xp: Any) -> Callable[[Any], Any]:
            return lambda v: _weighted(leaves(value(call, xp, home, **{name: v})), xp, smooth)

        try:
            found = np.asarray(lazy.grad(loss(lazy))(lazy.asarray(x)))
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        directions = _directions(x)
        wanted = np.array([_difference(loss(np), x, d) for d in directions])
        found = np.tensordot(directions, found, x.ndim)
    return _compared(found, wanted)


def _compared(found: Any, wanted: Any) -> str:
    """The outcome for a gradient and for differences along the same directions."""
    largest = np.max(np.abs(wanted), initial=1e-2)
    if not np.allclose(found, wanted, rtol=RELATIVE, atol=ABSOLUTE * largest):
        k = np.argmax(np.abs(found - wanted))
        return f"wrong: {found[k]}, not {wanted[k]}"
    return "right" if wanted.any() else "zero"


def _smooth(parts: list[Any]) -> list[int]:
    """The numbers of a result that have derivatives: finite floats."""
    plain = [np.asarray(part) for part in parts]
    return [k for k, part in enumerate(plain) if part.dtype.kind in "fc" and np.isfinite(part).all()]


def _weighted(parts: list[Any], xp: Any, chosen: list[int]) -> Any:
    """The sum of the chosen numbers of a result, each with its own weight, and imaginary parts with another."""
    total = 0.0
    for k in chosen:
        part = xp.asarray(parts[k])
        weights = np.random.default_rng(k).uniform(0.5, 1.5, (2, *part.shape))
        if xp.isdtype(part.dtype, "complex floating"):
            total = total + xp.sum(xp.asarray(weights[1]) * xp.imag(part))
            part = xp.real(part)
        total = total + xp.sum(xp.asarray(weights[0]) * part)
    return total


def _directions(x: Any) -> Any:
    """Each element of a small array, and eight random directions of a larger one."""
    if x.size <= 16:
        return np.eye(x.size).reshape(x.size, *x.shape)
    return np.random.default_rng(1).normal(size=(8, *x.shape))


def _difference(f: Callable[[Any], Any], x: Any, direction: Any) -> float:
    """The derivative along a direction: central differences of two steps, whose errors of second order cancel."""
    wide, narrow = ((f(x + h * direction) - f(x - h * direction)) / (2 * h) for h in (STEP, STEP / 2))
    return float((4 * narrow - wide) / 3)


def rows(home: str) -> list[tuple[str, str]]:
    """The calls of a library, each with an array to differentiate by."""
    table = calls(SCIPY) + calls(MORE) if home == "scipy" else calls(SKLEARN)
    return [(call, name) for call in table for name in arguments(call)]


def function(call: str) -> str:
    """The name of the function that is called first."""
    return call.partition("(")[0]


def main(options: list[str]) -> None:
    """Print the failures among the rows of the libraries named, or of both; with --part=K/N of the Kth of N parts."""
    import sklearn

    sklearn.set_config(array_api_dispatch=True)
    start, step = next((map(int, o[7:].split("/")) for o in options if o.startswith("--part=")), (0, 1))
    for home in [h for h in HOMES if h in options] or HOMES:
        chosen = rows(home)[start::step]
        found = {(call, name): outcome(call, name, home) for call, name in chosen}
        kinds = Counter("refused" if "E715" in o else o if o in RIGHT else "failing" for o in found.values())
        functions = {function(call) for (call, _), o in found.items() if o == "right"}
        print(f"{home}: {dict(kinds)} of {len(chosen)}; gradients of {len(functions)} functions", file=sys.stderr)
        for (call, name), result in found.items():
            if result not in RIGHT and not ("E715" in result and function(call) in REFUSED):
                print(f"{call}\t{name}: {result}")


if __name__ == "__main__":
    main(sys.argv[1:])

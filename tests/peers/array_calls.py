"""Calls of SciPy and scikit-learn with arrays of `pullback.lazy`, compared with the same calls on NumPy arrays.

    SCIPY_ARRAY_API=1 python -m tests.peers.array_calls [scipy] [sklearn] [--quick]

prints the calls that fail, each with its error. A call is a Python expression; `arrays` names its arrays.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any, Final

import numpy as np

SCIPY: Final = """
stats.gmean(x)  stats.hmean(x, axis=0)  stats.pmean(x, 2)  stats.mode(k)  stats.tmean(x, (0.2, 2.0))  stats.tvar(x)
stats.tmin(x, 0.5)  stats.tmax(x, 1.5)  stats.tstd(x)  stats.tsem(x)  stats.moment(x, 3)  stats.skew(x)
stats.kurtosis(x)  stats.describe(x)  stats.skewtest(x)  stats.kurtosistest(x)  stats.normaltest(x)
stats.jarque_bera(x)  stats.sem(x)  stats.zscore(x)  stats.gzscore(x)  stats.zmap(x, y)  stats.gstd(x)  stats.iqr(x)
stats.median_abs_deviation(x)  stats.trim_mean(x, 0.1)  stats.trimboth(x, 0.1)  stats.f_oneway(x, y)
stats.alexandergovern(x, y)  stats.pearsonr(x, y)  stats.spearmanr(x, y)  stats.pointbiserialr(b, x)
stats.kendalltau(x, y)  stats.ttest_1samp(x, 0.5)  stats.ttest_ind(x, y)  stats.ttest_rel(x, y)
stats.ttest_ind_from_stats(1.0, 0.5, 10, 1.2, 0.4, 12)  stats.power_divergence(x)  stats.chisquare(x)
stats.ks_1samp(x, stats.norm.cdf)  stats.ks_2samp(x, y)  stats.ranksums(x, y)  stats.kruskal(x, y)
stats.friedmanchisquare(x, y, x * y)  stats.brunnermunzel(x, y)  stats.combine_pvalues(p)
stats.wasserstein_distance(x, y)  stats.energy_distance(x, y)  stats.rankdata(x)  stats.expectile(x)  stats.lmoment(x)
stats.linregress(x, y)  stats.theilslopes(x, y)  stats.variation(x)  stats.kstat(x)  stats.kstatvar(x)
stats.boxcox_llf(0.5, x)  stats.yeojohnson_llf(0.5, x)  stats.boxcox(x, 0.5)  stats.shapiro(x)  stats.ansari(x, y)
stats.bartlett(x, y)  stats.levene(x, y)  stats.fligner(x, y)  stats.mood(x, y)  stats.wilcoxon(x, y)
stats.circmean(x)  stats.circvar(x)  stats.circstd(x)  stats.directional_stats(X)  stats.false_discovery_control(p)
stats.mannwhitneyu(x, y)  stats.entropy(x)  stats.entropy(x, y)  stats.differential_entropy(x)
stats.dunnett(x, control=y).statistic  stats.page_trend_test(A)  stats.quantile(x, p)  stats.chatterjeexi(x, y)
stats.cramervonmises(x, "norm")  stats.cramervonmises_2samp(x, y)  stats.epps_singleton_2samp(x, y)
stats.percentileofscore(x, 0.5)  stats.scoreatpercentile(x, 30)  stats.sigmaclip(x)  stats.obrientransform(x, y)
stats.bws_test(x, y).statistic  stats.somersd(k, k)  stats.tiecorrect(x)

special.erf(x)  special.erfc(x)  special.gammaln(x)  special.gamma(x)  special.digamma(x)  special.i0(x)
special.i0e(x)  special.i1(x)  special.expit(x)  special.logit(p)  special.ndtr(x)  special.ndtri(p)
special.log_ndtr(x)  special.xlogy(x, y)  special.xlog1py(x, y)  special.rel_entr(x, y)  special.entr(x)
special.kl_div(x, y)  special.logsumexp(x)  special.softmax(x)  special.log_softmax(x)  special.betainc(x, y, q)
special.gammainc(x, y)  special.beta(x, y)  special.betaln(x, y)  special.poch(x, y)  special.zeta(1 + x, y)
special.polygamma(1, x)  special.multigammaln(x + 3, 2)  special.j0(x)  special.exp2(x)  special.cbrt(x)
special.sinc(x)

fft.fft(x)  fft.ifft(z)  fft.rfft(x)  fft.irfft(z)  fft.fft2(A)  fft.fftn(A)  fft.hfft(z)  fft.ihfft(x)  fft.rfftn(A)
fft.irfftn(z)  fft.dct(x)  fft.idct(x)  fft.dst(x)  fft.dctn(A)  fft.fftshift(x)  fft.ifftshift(x)
fft.fftfreq(8, 0.5, xp=xp)  fft.rfftfreq(8, 0.5, xp=xp)  fft.fht(x, 0.1, 0.5)  fft.next_fast_len(17)

integrate.trapezoid(y, x)  integrate.cumulative_trapezoid(y)  integrate.simpson(y)  integrate.cumulative_simpson(y)
integrate.cubature(lambda t: t[..., 0] ** 2, [0.0], [1.0])  integrate.tanhsinh(xp.exp, x0, x1)
integrate.nsum(lambda i: 1 / i**2, xp.asarray(1.0), xp.asarray(20.0))
integrate.fixed_quad(lambda t: t ** 2, 0.0, 1.0)  integrate.romb(x[:9])

optimize.rosen(x)  optimize.rosen_der(x)  optimize.rosen_hess(x)  optimize.rosen_hess_prod(x, y)
optimize.elementwise.find_root(lambda t: t**2 - 2.0, (x0, x2))
optimize.elementwise.find_minimum(lambda t: (t - 1.0) ** 2, (x0 - 1.0, x0 + 0.5, x2))
optimize.elementwise.bracket_root(lambda t: t - 3.0, x0)
optimize.elementwise.bracket_minimum(lambda t: (t - 1.0) ** 2, x0)  optimize.minimize(optimize.rosen, x[:2]).fun
optimize.linprog(x[:2]).status  differentiate.derivative(xp.exp, x)  differentiate.jacobian(lambda t: t * t, x).df
differentiate.hessian(lambda t: xp.sum(t * t, axis=0), x).ddf

signal.detrend(x)  signal.hilbert(x)  signal.fftconvolve(x, y)  signal.oaconvolve(x, y)  signal.convolve(x, y)
signal.correlate(x, y)  signal.convolve2d(A, A)  signal.correlate2d(A, A)  signal.lfilter(y[:3], x[:3], x)
signal.filtfilt(y[:2], x[:2], x)  signal.sosfilt(sos, x)  signal.sosfiltfilt(sos, x)  signal.lfilter_zi(y[:3], x[:3])
signal.firwin(5, 0.3)  signal.freqz(y[:3], x[:3])  signal.freqs(y[:3], x[:3])  signal.group_delay((y[:3], x[:3]))
signal.resample(x, 8)  signal.resample_poly(x, 2, 3)  signal.decimate(x, 2, ftype="fir")  signal.upfirdn(y[:3], x)
signal.savgol_filter(x, 5, 2)  signal.medfilt(x, 3)  signal.medfilt2d(A, 3)  signal.wiener(x)
signal.order_filter(x, b[:3], 1)  signal.welch(X[:, 0], nperseg=8)  signal.periodogram(x)  signal.csd(x, y, nperseg=8)
signal.coherence(X[:, 0], X[:, 1], nperseg=8)  signal.spectrogram(X[:, 0], nperseg=8)  signal.stft(X[:, 0], nperseg=8)
signal.lombscargle(x, y, p + 0.1)  signal.zpk2tf(x[:2], y[:2], 2.0)  signal.tf2zpk(y[:3], x[:3])  signal.sos2tf(sos)
signal.sos2zpk(sos)  signal.tf2sos(y[:3], x[:3])  signal.bilinear(y[:3], x[:3])  signal.normalize(y[:3], x[:3])
signal.lp2lp(y[:3], x[:3])  signal.envelope(x)  signal.deconvolve(x, y[:3])  signal.minimum_phase(y)
signal.findfreqs(y[:3], x[:3], 9)  signal.cspline1d(x)  signal.chirp(x, 1.0, 2.0, 3.0)  signal.sawtooth(x)
signal.square(x)  signal.gausspulse(x)  signal.unit_impulse(5)  signal.vectorstrength(x, 0.5)
signal.iirnotch(0.2, 30.0, xp=xp)  signal.windows.cosine(9, xp=xp)  signal.iirpeak(0.2, 30.0, xp=xp)
signal.iircomb(0.2, 30.0, xp=xp)  signal.windows.hann(9, xp=xp)  signal.windows.kaiser(9, 3.0, xp=xp)
signal.windows.tukey(9, xp=xp)  signal.windows.gaussian(9, 2.0, xp=xp)  signal.windows.taylor(9, xp=xp)
signal.windows.dpss(9, 2.0, xp=xp)  signal.windows.chebwin(9, 50, xp=xp)  signal.get_window("hamming", 9, xp=xp)

cluster.vq.whiten(X)  cluster.vq.vq(X, X[:3])  cluster.vq.kmeans2(X, X[:3])  cluster.vq.kmeans(X, X[:3])
cluster.hierarchy.linkage(X)  cluster.hierarchy.fcluster(cluster.hierarchy.linkage(X), 2, "maxclust")
cluster.hierarchy.cophenet(cluster.hierarchy.linkage(X))  cluster.hierarchy.leaves_list(cluster.hierarchy.linkage(X))
cluster.hierarchy.inconsistent(cluster.hierarchy.linkage(X))

ndimage.gaussian_filter(A, 1.0)  ndimage.uniform_filter(A, 3)  ndimage.median_filter(A, 3)  ndimage.sobel(A)
ndimage.laplace(A)  ndimage.convolve(A, A[:3, :3])  ndimage.zoom(A, 2)  ndimage.rotate(A, 30.0)  ndimage.shift(A, 0.5)
ndimage.label(A > 0.5)  ndimage.center_of_mass(A)  ndimage.binary_erosion(A > 0.1)
ndimage.distance_transform_edt(A > 0.1)  ndimage.maximum_filter(A, 3)

linalg.block_diag(A, A)  linalg.orthogonal_procrustes(A, A)  linalg.fiedler(x)  linalg.solve(S, x[:4])  linalg.inv(S)
linalg.det(S)  linalg.cholesky(S)  linalg.expm(A)  linalg.svdvals(A)  linalg.lstsq(A, x[:4])  linalg.qr(A)
linalg.eigh(S)  linalg.lu(S)  linalg.toeplitz(x)  linalg.norm(x)

interpolate.make_interp_spline(t, y)(p)  interpolate.CubicSpline(t, y)(p)  interpolate.PchipInterpolator(t, y)(p)
interpolate.Akima1DInterpolator(t, y)(p)  interpolate.RBFInterpolator(X, X[:, 0])(X + 0.1)
interpolate.RegularGridInterpolator((t[:4], t[:4]), A)(W[:, :2] / 30)  interpolate.BarycentricInterpolator(t, y)(p)
interpolate.AAA(t, y).support_points

spatial.transform.Rotation.from_rotvec(X).as_matrix()  spatial.transform.Rotation.from_euler("xyz", X).as_quat()
spatial.transform.Rotation.from_quat(x[:4]).magnitude()  spatial.transform.Rotation.from_rotvec(X).apply(X)
spatial.transform.Rotation.from_rotvec(X).mean().as_rotvec()
spatial.transform.Slerp(t[:2], spatial.transform.Rotation.from_rotvec(X[:2]))(p / 11).as_quat()
spatial.distance.cdist(X, X)  spatial.distance.pdist(X)  spatial.procrustes(X, X + X[::-1])
constants.convert_temperature(x, "C", "K")  constants.lambda2nu(x)
"""

SKLEARN: Final = """
metrics.accuracy_score(k, k)  metrics.zero_one_loss(k, l)  metrics.confusion_matrix(k, l)
metrics.f1_score(k, l, average="macro")  metrics.fbeta_score(k, l, beta=2.0, average="micro")
metrics.precision_score(k, l, average="macro")  metrics.recall_score(k, l, average="weighted")
metrics.precision_recall_fscore_support(k, l)  metrics.jaccard_score(k, l, average="macro")
metrics.hamming_loss(k, l)  metrics.multilabel_confusion_matrix(k, l)  metrics.balanced_accuracy_score(k, l)
metrics.cohen_kappa_score(k, l)  metrics.matthews_corrcoef(k, l)  metrics.class_likelihood_ratios(c, c)
metrics.brier_score_loss(c, q)  metrics.log_loss(c, q)  metrics.roc_auc_score(c, q)  metrics.roc_curve(c, q)
metrics.precision_recall_curve(c, q)  metrics.det_curve(c, q)  metrics.average_precision_score(c, q)
metrics.auc(t, y)  metrics.mean_squared_error(x, y)  metrics.root_mean_squared_error(x, y)
metrics.mean_absolute_error(x, y)  metrics.mean_squared_log_error(x, y)  metrics.root_mean_squared_log_error(x, y)
metrics.mean_absolute_percentage_error(x, y)  metrics.median_absolute_error(x, y)  metrics.max_error(x, y)
metrics.r2_score(x, y)  metrics.explained_variance_score(x, y)  metrics.mean_pinball_loss(x, y)
metrics.mean_tweedie_deviance(x, y)  metrics.mean_poisson_deviance(x, y)  metrics.mean_gamma_deviance(x, y)
metrics.d2_tweedie_score(x, y)  metrics.d2_absolute_error_score(x, y)  metrics.d2_brier_score(c, q)
metrics.d2_log_loss_score(c, q)  metrics.pairwise.euclidean_distances(X, X)  metrics.pairwise.cosine_similarity(X, X)
metrics.pairwise.rbf_kernel(X, X)  metrics.pairwise.linear_kernel(X)  metrics.pairwise.polynomial_kernel(X)
metrics.pairwise.sigmoid_kernel(X)  metrics.pairwise.laplacian_kernel(X)  metrics.pairwise.chi2_kernel(W)
metrics.pairwise.additive_chi2_kernel(W)  metrics.pairwise.cosine_distances(X, X)
metrics.pairwise.manhattan_distances(X, X)  metrics.pairwise.paired_euclidean_distances(X, X + 1.0)
metrics.pairwise.paired_cosine_distances(X, X + 1.0)  metrics.pairwise.pairwise_distances(X)
preprocessing.StandardScaler().fit_transform(X)  preprocessing.MinMaxScaler().fit_transform(X)
preprocessing.MaxAbsScaler().fit_transform(X)  preprocessing.RobustScaler().fit_transform(X)
preprocessing.Normalizer().fit_transform(X)  preprocessing.Binarizer().fit_transform(X)
preprocessing.KernelCenterer().fit_transform(metrics.pairwise.linear_kernel(X))
preprocessing.PolynomialFeatures(2).fit_transform(X)  preprocessing.LabelEncoder().fit_transform(k)
preprocessing.LabelBinarizer().fit_transform(k)  preprocessing.normalize(X)  preprocessing.scale(X)
preprocessing.minmax_scale(X)  preprocessing.label_binarize(k, classes=[0, 1, 2])
decomposition.PCA(2, svd_solver="full").fit_transform(X)
decomposition.PCA(2, svd_solver="covariance_eigh").fit(X).components_
decomposition.PCA(2, svd_solver="randomized", random_state=0, power_iteration_normalizer="QR").fit(X).noise_variance_
linear_model.Ridge(solver="svd").fit(X, X[:, 0]).coef_  linear_model.RidgeCV().fit(X, X[:, 0]).coef_
linear_model.RidgeClassifier(solver="svd").fit(X, g).predict(X)  linear_model.LogisticRegression().fit(X, g).coef_
linear_model.PoissonRegressor().fit(W, g + 1.0).coef_
discriminant_analysis.LinearDiscriminantAnalysis().fit(X, g).predict(X)
naive_bayes.GaussianNB().fit(X, g).predict_proba(X)
mixture.GaussianMixture(2, init_params="random", random_state=0).fit(X).means_
kernel_approximation.Nystroem(n_components=4, random_state=0).fit_transform(X)
model_selection.train_test_split(X, random_state=0)
model_selection.cross_val_predict(linear_model.Ridge(solver="svd"), X, X[:, 0])  utils.check_array(X)
utils.check_X_y(X, g)  utils.shuffle(X, random_state=0)
utils.extmath.randomized_svd(X, 2, random_state=0, flip_sign=True)[1]  utils.extmath.row_norms(X)
utils.multiclass.type_of_target(g)
utils.class_weight.compute_class_weight("balanced", classes=xp.unique_values(g), y=g)
calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method="temperature", cv=2).fit(X, g).predict_proba(X)
"""

# What fails, and why.
KNOWN: Final = {
    "stats.ks_1samp(x, stats.norm.cdf)": "distributions of SciPy give NumPy arrays, which do not mix with others",
    'stats.cramervonmises(x, "norm")': "SciPy takes names of distributions for NumPy arrays only",
    "interpolate.RBFInterpolator(X, X[:, 0])(X + 0.1)": "SciPy reads the memory of complex numbers by `view`",
    "signal.savgol_filter(x, 5, 2)": "SciPy calls `xp.linalg.lstsq` with arguments of NumPy; the standard has none",
    "metrics.matthews_corrcoef(k, l)": "scikit-learn calls the method `sum` with a type, which only the function has",
    'utils.class_weight.compute_class_weight("balanced", classes=xp.unique_values(g), y=g)':
        "scikit-learn asks for a NumPy array",
}  # fmt: skip


def calls(text: str) -> list[str]:
    """The calls of a table: expressions separated by two blanks or more, or by lines."""
    return [c.strip() for line in text.splitlines() for c in line.split("  ") if c.strip()]


def arrays(xp: Any) -> dict[str, Any]:
    """The arrays of the calls, by name."""
    r = np.random.default_rng(0)
    x, y = np.exp(r.normal(size=12) / 3), np.exp(r.normal(size=12) / 3)
    m = r.normal(size=(4, 4))
    made = {
        "x": x, "y": y, "p": np.sort(r.uniform(0.05, 0.95, 5)), "t": np.arange(12.0) / 11, "k": r.integers(0, 3, 12),
        "l": r.integers(0, 3, 12), "b": x > 1, "z": x + 1j * y, "A": np.abs(m), "S": m @ m.T + 4 * np.eye(4),
        "X": r.normal(size=(24, 3)), "W": np.abs(r.normal(size=(24, 3))), "g": r.integers(0, 2, 24),
        "c": np.array([0, 1] * 6), "q": np.linspace(0.1, 0.9, 12)[::-1].copy(), "x0": np.float64(0.0),
        "x1": np.float64(1.0), "x2": np.float64(2.0), "sos": np.array([[0.2, 0.3, 0.2, 1.0, -0.4, 0.1]]),
    }  # fmt: skip
    return {name: xp.asarray(value) for name, value in made.items()}


def leaves(value: Any) -> list[Any]:
    """The numbers of a result; of a record, those of its fields."""
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in leaves(v)]
    if isinstance(value, dict):
        return leaves(list(value.values()))
    if hasattr(value, "shape") or isinstance(value, int | float | complex | str | bool | np.generic):
        return [value]
    fields = {k: v for k, v in vars(value).items() if not k.startswith("_")} if hasattr(value, "__dict__") else {}
    return leaves([v for v in fields.values() if hasattr(v, "shape") or isinstance(v, float)])


def problem(call: str, xp: Any, home: str) -> str:
    """The fault of a call on arrays of a namespace; empty if its numbers are those on NumPy arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = leaves(value(call, np, home))
        try:
            found = leaves(value(call, xp, home))
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        if len(found) != len(wanted):
            return f"{len(found)} results, not {len(wanted)}"
        for a, b in zip(found, wanted, strict=True):
            if isinstance(b, str):
                if a != b:
                    return f"{a!r}, not {b!r}"
                continue
            a, b = np.asarray(a), np.asarray(b)
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True):
                return f"{a.shape} {a.ravel()[:3]}, not {b.shape} {b.ravel()[:3]}"
    return ""


def value(call: str, xp: Any, home: str, **given: Any) -> Any:
    """The result of a call on arrays of a namespace; `given` replaces some of `arrays`."""
    path = call.split("(", 1)[0].split(".")[:-1]
    names: dict[str, Any] = {"xp": xp, **arrays(xp), **given}
    inside = ("stats", "metrics", "linear_model", "naive_bayes", "optimize")
    for module in {path[0], *(w for w in inside if f"{w}." in call)}:
        names[module] = importlib.import_module(f"{home}.{module}")
    inner = home
    for part in path:  # modules that are not imported with their package
        inner += f".{part}"
        try:
            importlib.import_module(inner)
        except ModuleNotFoundError:
            break
    return eval(call, names)


def failures(home: str, rows: list[str]) -> dict[str, str]:
    """The calls that fail, with what is wrong."""
    from pullback import lazy

    found = {call: problem(call, lazy, home) for call in rows}
    return {call: wrong for call, wrong in found.items() if wrong}


def main(arguments: list[str]) -> None:
    """Print what fails of the tables named by the arguments, or of both; with --quick of every third call."""
    import sklearn

    sklearn.set_config(array_api_dispatch=True)
    step = 3 if "--quick" in arguments else 1
    for home, table in (("scipy", SCIPY), ("sklearn", SKLEARN)):
        rows = calls(table)[::step]
        if home in arguments or not {"scipy", "sklearn"} & set(arguments):
            found = failures(home, rows)
            print(f"{home}: {len(rows) - len(found)} of {len(rows)}", file=sys.stderr)
            for call, wrong in found.items():
                print(f"{call}\t{wrong}")


if __name__ == "__main__":
    main(sys.argv[1:])

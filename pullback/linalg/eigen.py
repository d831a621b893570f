"""Eigenvalues and eigenvectors of general matrices, by QR steps on a Hessenberg form."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.arrays.complex import conj, make_complex, real
from pullback.arrays.complex_parts import as_complex
from pullback.arrays.composed import diagonal
from pullback.arrays.creation import zeros
from pullback.arrays.dtypes import finfo
from pullback.arrays.elementwise import abs as magnitude
from pullback.arrays.elementwise import hypot, sqrt, where
from pullback.arrays.manipulation import matrix_transpose
from pullback.arrays.reduction import sum as total
from pullback.linalg.francis import coupled, quasi_triangular
from pullback.linalg.lu import solve
from pullback.linalg.multishift import large, quasi_triangular_by_windows
from pullback.linalg.spectra import gaps
from pullback.linalg.spectral import held_upright, upright
from pullback.linalg.stacks import adjoint, each, matrices, rescaled, square_magnitude
from pullback.linalg.upper_hessenberg import hessenberg
from pullback.tracing.array import Array
from pullback.tracing.branches import cond as either
from pullback.tracing.complex_array import is_complex
from pullback.tracing.control import fold, scan
from pullback.tracing.custom import emit_call
from pullback.tracing.index import build, max_over, sum_over

STEPS = 30  # at most, for each eigenvalue, as in LAPACK; two or three usually suffice
BLOCK = 32  # rows of the vectors that meet those below in one product
LARGE = 1e10  # vectors are scaled down before they exceed this


class EigResult(NamedTuple):
    """The eigenvalues, and the eigenvectors as columns of a matrix."""

    eigenvalues: Any
    eigenvectors: Any


def eig(x: Any, /) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices: x @ v = v * w.

    Args:
        x: (..., n, n) floating-point or complex matrices. For symmetric and Hermitian ones use `eigh`.
    Returns:
        A pair (eigenvalues, eigenvectors), complex for real matrices too: (..., n) in no particular order, and
        (..., n, n) with columns of norm 1 whose largest element is real and positive. NaN where the steps do not
        suffice; no such matrix is known. If a matrix has no basis of eigenvectors, some columns are equal up to
        rounding.
    Raises:
        ShapeError: [E104] the matrices are not square.
        DTypeError: [E121] they are not floating-point.
    Derivative:
        ẇ = diag(C), v̇ = v (F ∘ C) with C = v⁻¹ ẋ v and F[i, j] = 1 / (w[j] - w[i]) (Magnus, *On differentiating
        eigenvalues and eigenvectors*, 1985; Boeddeker et al., *On the computation of complex-valued gradients with
        application to statistically optimum beamforming*, 2017), projected to keep the norm of each vector and the
        phase of its largest element. Where two eigenvalues are equal, neither they nor their vectors have a derivative:
        those parts of F are 0. Without a basis of eigenvectors the result is infinite, NaN, or dominated by rounding.
        Sums over all equal eigenvalues have a derivative, but rounding destroys it when v is nearly singular.
    Cost:
        About 25 n³ multiply-adds for real x: 10 n³ / 3 for the Hessenberg form, some n steps of 10 n², and n³ complex
        ones for the vectors. The eigenvalues alone cost half. Complex x: 60 n³ complex ones. From 120 rows on real x
        takes many shifts at a time, in matrix products.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def spectrum(a):
    ...     return pb.linalg.eig(a)
    >>> w, v = spectrum(np.array([[0.0, -1.0], [1.0, 0.0]]))
    >>> sorted(w.round(12).tolist(), key=lambda z: z.imag), (v * w @ np.linalg.inv(v)).real.round(12).tolist()
    ([-1j, 1j], [[0.0, -1.0], [1.0, 0.0]])
    """
    return each("eig", _one, matrices("eig", x), in_turn=True)  # type: ignore[no-any-return]


def eigvals(x: Any, /) -> Array:
    """The eigenvalues of square matrices, complex and in no particular order: the first result of `eig`.

    >>> import numpy as np, pullback as pb
    >>> @pb.function
    ... def spectrum(a):
    ...     return pb.linalg.eigvals(a)
    >>> sorted(spectrum(np.array([[1.0, 5.0], [0.0, 2.0]])).real.tolist())
    [1.0, 2.0]
    """
    return each("eigvals", lambda a: _one(a).eigenvalues, matrices("eigvals", x), in_turn=True)  # type: ignore[no-any-return]


def _one(a: Array) -> EigResult:
    if real(a).extents[0].constant == 0:
        return EigResult(diagonal(as_complex(a)), as_complex(a))
    x, _, back = rescaled(a)
    w, v = emit_call("eig", _decomposed, (x,), _eig_jvp)
    return EigResult(w * back, v)


def _decomposed(a: Array) -> EigResult:
    t, z, done = _schur(*hessenberg(a)) if is_complex(a) else _real_schur(*hessenberg(a))
    values = diagonal(t) + where(done, 0.0, float("nan"))
    vectors = z @ _triangular_vectors(t)
    norms = sqrt(total(square_magnitude(vectors), axis=0))
    return EigResult(values, upright(vectors / norms))


def _eig_jvp(primals: Any, out: EigResult, tangents: Any) -> EigResult:
    # From Ẋ V + X V̇ = V̇ W + V Ẇ with V̇ = V D: V⁻¹ Ẋ V = D W - W D + Ẇ.
    w, v = out
    turned = solve(v, tangents[0] @ v)
    v_dot = v @ (gaps(w) * turned)
    along = real(total(conj(v) * v_dot, axis=0))
    return EigResult(diagonal(turned), held_upright(v, v_dot - v * along))


# The Schur form -----------------------------------------------------------------------------------------------------


def _real_schur(h: Array, q: Array) -> tuple[Array, Array, Array]:
    """As `_schur`, for real matrices, with steps in real numbers.

    Then each block of two rows becomes triangular.
    The blocks are apart, so all are turned at once. A block's first new basis vector is an eigenvector of it.
    """
    n = h.shape[0]
    steps = quasi_triangular_by_windows if large(h.extents[0].constant) else quasi_triangular
    t, rows, done = steps(h, matrix_transpose(q))
    pair = build(n, lambda k: coupled(t, k))

    def apart(_: Any, k: Any) -> Any:
        """An eigenvalue of the block that begins in row k, less its last element: real and imaginary part."""
        half, product = (t[k, k] - t.at(k + 1, k + 1)) / 2, t.at(k, k + 1) * t.at(k + 1, k)
        inner = half * half + product
        root = sqrt(magnitude(inner))
        along = build((), lambda: where(inner < 0, half, where(half < 0, half - root, half + root)))
        return build((), lambda: along + 0.0), (along, build((), lambda: where(inner < 0, root, 0.0)))

    # A scan, so that all readers read the same stored numbers: inner may be a small difference.
    _, (along, beside) = scan(n, zeros((), dtype=t.dtype), apart)
    below = build(n, lambda k: t.at(k + 1, k))
    size = build(n, lambda k: where(pair[k], sqrt(along[k] ** 2 + beside[k] ** 2 + below[k] ** 2), 1.0))
    first = build(n, lambda k: make_complex(where(pair[k], along[k], 1.0), where(pair[k], beside[k], 0.0)) / size[k])
    y = build(n, lambda k: where(pair[k], below[k], 0.0) / size[k])
    second = build(n, lambda k: pair.at(k - 1))

    def rotated(z: Array, i: Any, j: Any) -> Any:
        """Rows k and k + 2 by the adjoint of [first, -y; y, conj(first)]."""
        return where(
            pair[i],
            conj(first[i]) * z[i, j] + y[i] * z.at(i + 1, j),
            where(second[i], first.at(i - 1) * z[i, j] - y.at(i - 1) * z.at(i - 1, j), z[i, j]),
        )

    kept = build((n, n), lambda i, j: where((i <= j) | ((i == j + 1) & second[i]), t[i, j], 0.0))
    left = build((n, n), lambda i, j: rotated(kept, i, j))
    both = build((n, n), lambda i, j: conj(rotated(adjoint(left), i, j)))
    vectors = build((n, n), lambda i, j: rotated(rows, i, j))

    def value(k: Any) -> Any:
        """The eigenvalues: of a block the one found, and its conjugate, or what remains of the sum of both."""
        found = make_complex(t.at(k + 1, k + 1) + along[k], beside[k])
        other = where(
            beside.at(k - 1) > 0,
            make_complex(t[k, k] + along.at(k - 1), -beside.at(k - 1)),
            t.at(k - 1, k - 1) - along.at(k - 1),
        )
        return where(pair[k], found, where(second[k], other, t[k, k]))

    values = build(n, value)
    upper = build((n, n), lambda i, j: where(i < j, both[j, i], where(i == j, values[i], 0.0)))
    return upper, adjoint(vectors), done


def _schur(h: Array, q: Array) -> tuple[Array, Array, Array]:
    """Return upper triangular T = Zᴴ a Z and Z from the Hessenberg form, and whether the steps converged.

    QR steps use Wilkinson's shift (Golub and Van Loan, 7.5; LAPACK's zlahqr). Each step works on the last block
    without a negligible subdiagonal element. An occasional exceptional shift breaks cycles.
    """
    n = h.shape[0]

    def step(state: Any, _: Any) -> Any:
        t, z, tries, before = state
        first, last = _block(t)
        tries = where(last == before, tries + 1, 0)
        t, z = either(last > 0, lambda t, z: _step(t, z, first, last, tries), lambda t, z: (t, z), t, z)
        return t, z, tries, last

    none = zeros((), dtype="int64")
    t, z, _, _ = fold(STEPS * n, (as_complex(h), as_complex(q), none, none), step)
    return t, z, _block(t)[1] == 0


def _negligible(t: Array, k: Any) -> Any:
    """Whether the element below diagonal element k is negligible; true for the last k."""
    info = finfo(real(t).dtype)
    beside = magnitude(t.at(k, k)) + magnitude(t.at(k + 1, k + 1))
    return ~(magnitude(t.at(k + 1, k)) > info.eps * beside + info.smallest_normal / info.eps)


def _block(t: Array) -> tuple[Array, Array]:
    """Return the first and last row of the last block that is not yet triangular; 0 and 0 for none."""
    n = t.shape[0]
    closed = build(n, lambda k: _negligible(t, k))
    last = max_over(n, lambda k: where(closed[k], 0, k + 1)).astype("int64")
    first = max_over(n, lambda k: where(closed[k] & (k < last), k + 1, 0)).astype("int64")
    return first, last


def _step(t: Array, z: Array, first: Array, last: Array, tries: Array) -> tuple[Array, Array]:
    """Take one QR step of the block: T - shift = Q R, then T becomes R Q + shift, and Z becomes Z Q.

    Each rotation acts on two rows and completes the first. Its adjoint later acts on the same columns.
    """
    n = t.shape[0]
    shift = _shift(t, last, tries)
    shifts = build(n, lambda k: where((k >= first) & (k <= last), shift, 0.0))
    kept = build((n, n), lambda i, j: where((i == j + 1) & _negligible(t, j), 0.0, t[i, j]))
    start = build((n, n), lambda i, j: kept[i, j] - where(i == j, shifts[i], 0.0))

    def rows(row: Array, k: Any) -> Any:
        below = build(n, lambda j: start.at(k + 1, j))
        size = hypot(magnitude(row[k]), magnitude(below[k]))
        turned = (k >= first) & (k < last) & (size > 0)
        size = where(turned, size, 1.0)
        c, s = where(turned, conj(row[k]) / size, 1.0), where(turned, conj(below[k]) / size, 0.0)
        done = build(n, lambda j: c * row[j] + s * below[j])
        return build(n, lambda j: conj(c) * below[j] - conj(s) * row[j]), (done, c, s)

    _, (r, c, s) = scan(n, build(n, lambda j: start[0, j]), rows)

    def columns(state: Any, k: Any) -> Any:
        done, rest = [], []
        for x, matrix in zip(state, (r, z)):
            right = build(n, lambda i, matrix=matrix: matrix.at(i, k + 1))
            done.append(build(n, lambda i, x=x, right=right: x[i] * conj(c[k]) + right[i] * conj(s[k])))
            rest.append(build(n, lambda i, x=x, right=right: right[i] * c[k] - x[i] * s[k]))
        return tuple(rest), tuple(done)

    _, (turned, vectors) = scan(n, (build(n, lambda i: r[i, 0]), build(n, lambda i: z[i, 0])), columns)
    back = build((n, n), lambda i, j: where(i <= j + 1, turned[j, i], 0.0) + where(i == j, shifts[i], 0.0))
    return back, matrix_transpose(vectors)


def _shift(t: Array, last: Array, tries: Array) -> Array:
    """Return the eigenvalue of the block's trailing 2 × 2 part that is nearer to its last element."""
    a, b, c, d = t.at(last - 1, last - 1), t.at(last - 1, last), t.at(last, last - 1), t.at(last, last)
    half = (a - d) / 2
    root = sqrt(half * half + b * c)
    below = where(real(conj(half) * root) < 0, half - root, half + root)
    there = magnitude(below) > 0
    near = d - where(there, b * c / where(there, below, 1.0), 0.0)
    return where(tries % 10 == 9, d + 0.75 * magnitude(c), near)


def _triangular_vectors(t: Array) -> Array:
    """The eigenvectors of an upper triangular matrix as columns, by back substitution from the last row.

    Equal eigenvalues are treated as one rounding unit of the matrix apart, as in LAPACK's ztrevc. Of large matrices a
    block of rows meets all rows below in one product.
    """
    n = t.shape[0]
    none = zeros((n, n), dtype=t.dtype)
    if not large(real(t).extents[0].constant):
        return _rows_of_vectors(t, none, 0, t)[0]  # type: ignore[no-any-return]

    def block(x: Array, b: Any) -> Array:
        low = n - (b + 1) * BLOCK  # the last block may begin before the first row
        strip = build((BLOCK, n), lambda r, j: t.at(low + r, j))
        known = build((BLOCK, n), lambda r, j: where(j >= low + BLOCK, strip[r, j], 0.0)) @ x
        corner = build((BLOCK, BLOCK), lambda r, j: t.at(low + r, low + j))
        rows, _, x = _rows_of_vectors(corner, known, low, t, x)
        return build((n, n), lambda r, k: x[r, k] + where((r >= low) & (r < low + BLOCK), rows.at(r - low, k), 0.0))  # type: ignore[no-any-return]

    return fold(-(-n // BLOCK), none, block)  # type: ignore[no-any-return]


def _rows_of_vectors(corner: Array, known: Array, low: Any, t: Array, *below: Array) -> Any:
    """Rows from `low` on of the eigenvectors of t, whose diagonal block there is `corner`.

    `known` are the products of the rows beside the block with the vectors. Columns that become large are scaled down,
    also those of `known` and `below`, which are results, too.
    """
    m, n = known.shape
    info = finfo(real(t).dtype)
    largest = max_over((n, n), lambda i, j: square_magnitude(t[i, j]))
    least = build((), lambda: info.eps * sqrt(largest) + info.smallest_normal / info.eps)
    values = build(n, lambda k: t[k, k])

    def step(state: Any, c: Any) -> Any:
        own = m - 1 - c
        rows, known = state[:2]
        # Stored one by one: a complex quotient reads its operands several times.
        inside = build(n, lambda k: sum_over(m, lambda r: where(r > own, corner[own, r] * rows[r, k], 0.0)))
        apart = build(n, lambda k: values[k] - corner[own, own])
        divisor = build(n, lambda k: where(square_magnitude(apart[k]) > least * least, apart[k], least))
        quotient = build(n, lambda k: (known[own, k] + inside[k]) / divisor[k])
        row = build(n, lambda k: where(k == low + own, 1.0, where(k > low + own, quotient[k], 0.0)))

        def put(rows: Array, *others: Array) -> Any:
            return build((m, n), lambda r, k: rows[r, k] + where(r == own, row[k], 0.0)), *others

        def scaled(*state: Array) -> Any:
            size = build(n, lambda k: magnitude(row[k]))
            scale = build(n, lambda k: where(size[k] > LARGE, 1 / where(size[k] > LARGE, size[k], 1.0), 1.0))
            return tuple(build(x.shape, lambda r, k, x=x: scale[k] * x[r, k]) for x in put(*state))

        return either(max_over(n, lambda k: square_magnitude(row[k])) > LARGE * LARGE, scaled, put, *state)

    return fold(m, (zeros((m, n), dtype=t.dtype), known, *below), step)

"""What gcc makes of kernels: none of their calls is left out."""

import numpy as np
import pytest

import pullback as pb
from pullback.runtime.compile import compiler_command

pytestmark = pytest.mark.skipif(compiler_command() is None, reason="no C compiler")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("n", [4, 8, 16])
def test_a_square_and_its_transpose(dtype: str, n: int) -> None:
    """gcc 12 took the kernel of the sum for one without effects where n is the number of lanes, and left it out."""
    x = np.random.default_rng(n).integers(1, 50, (n, n)).astype(dtype)
    f = pb.function(lambda x: (lambda s: pb.fold(2, s, lambda a, t: a[:, ::-1] + s))(x + pb.matrix_transpose(x)))
    s = x + x.T
    np.testing.assert_array_equal(f(x), (s[:, ::-1] + s)[:, ::-1] + s)


@pytest.mark.parametrize("n", [4, 8, 9, 16])
def test_eigenvalues_of_small_matrices(n: int) -> None:
    """Where it was found: the matrix that is decomposed is such a sum."""
    x = np.random.default_rng(n).normal(size=(n, n))
    found = pb.function(lambda x: pb.linalg.eigvalsh(x))(x)
    np.testing.assert_allclose(found, np.linalg.eigvalsh((x + x.T) / 2), atol=1e-12)

"""Every layer, activation and loss beside PyTorch: values, gradients by input and parameters, running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.torch_layers import numbers_of_torch
from tests.unit.nn.layer_cases import names, numbers

pytest.importorskip("torch", reason="PyTorch is a peer, not a dependency")


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-11), (np.float32, 1e-5)])
@pytest.mark.parametrize("name", names())
def test_layers_are_those_of_torch(name: str, dtype: Any, tolerance: float) -> None:
    ours, theirs = numbers(name, dtype), numbers_of_torch(name, dtype)
    assert ours.keys() == theirs.keys()
    for key, wanted in theirs.items():
        assert ours[key].dtype == dtype
        atol = tolerance * max(1, np.abs(wanted).max())
        np.testing.assert_allclose(ours[key], wanted, rtol=0, atol=atol, err_msg=key)

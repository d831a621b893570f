"""Neural networks: blocks in index notation, losses, optimisers, initial parameters, training and parameter files.

Networks themselves are in `pullback.nn.models`. Nothing here is known to the compiler: a block is an ordinary Python
function that writes index notation when it is called inside a traced function.
"""

from pullback.nn.blocks import average_pool, convolution, half_squared_error, log_softmax, max_pool, one_hot
from pullback.nn.initialisers import initialise
from pullback.nn.network import Network
from pullback.nn.optimisers import sgd
from pullback.nn.parameters import load_parameters, save_parameters
from pullback.nn.training import Progress, accuracy, fit

__all__ = [
    "Network",
    "Progress",
    "accuracy",
    "average_pool",
    "convolution",
    "fit",
    "half_squared_error",
    "initialise",
    "load_parameters",
    "log_softmax",
    "max_pool",
    "one_hot",
    "save_parameters",
    "sgd",
]

"""DP-SGD for PyTorch models: per-record gradients in, a private step out.

:func:`make_private` makes a training loop private: the model leaves per-record gradients, the loader draws Poisson batches and
hands them out in parts that fit the memory, the optimizer releases one noisy sum for each batch. :class:`PrivateOptimizer` is the
step alone, for per-sample gradients of your own. :class:`RecordGradients` gives those of a model to :func:`dpopt.minimize`. :class:`ClippedSumOptimizer` takes sums that were clipped elsewhere (ghost clipping),
:class:`ZerothOrder` losses alone.
"""

from .adapters import LowRank, MovedWeights, add_low_rank, train_only
from .clipped_sums import ClippedSumOptimizer
from .optimizer import PrivateOptimizer, ellipsoid
from .private import BatchOptimizer, make_private
from .records import RecordGradients
from .self_check import check
from .zeroth import ZerothOrder

__all__ = [
    "BatchOptimizer",
    "ClippedSumOptimizer",
    "LowRank",
    "MovedWeights",
    "PrivateOptimizer",
    "RecordGradients",
    "ZerothOrder",
    "add_low_rank",
    "check",
    "ellipsoid",
    "make_private",
    "train_only",
]

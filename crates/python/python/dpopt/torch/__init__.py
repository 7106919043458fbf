"""DP-SGD for PyTorch models: per-record gradients in, a private step out.

:func:`make_private` makes a training loop private: the model leaves per-record gradients, the loader draws Poisson batches and
hands them out in parts that fit the memory, the optimizer releases one noisy sum for each batch. :class:`PrivateOptimizer` is the
step alone, for per-sample gradients of your own.
"""

from .optimizer import PrivateOptimizer, ellipsoid
from .private import BatchOptimizer, make_private

__all__ = ["BatchOptimizer", "PrivateOptimizer", "ellipsoid", "make_private"]

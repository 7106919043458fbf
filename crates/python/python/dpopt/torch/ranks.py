"""One training is one process: what runs in several at once is refused by name, and a process that is one of several is warned of.

Every process would draw batches and noise of its own from the same records, and each would state the guarantee of one training.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .._warnings import warn

#: Modules of torch that run a model in several processes, or on several devices, and how to do without.
_MODULES = {
    "DistributedDataParallel": "give the model inside it (model.module), before it is wrapped",
    "DataParallel": "give the model inside it (model.module), before it is wrapped",
    "FullyShardedDataParallel": "give the model as it was before it was wrapped",
    "DeepSpeedEngine": "give the model inside it (model.module), before it is wrapped",
    "FSDPModule": "give the model as it was before fully_shard",
}
#: Optimizers and parameters of which this process holds a part.
_OPTIMIZERS = ("ZeroRedundancyOptimizer", "DistributedOptimizer", "PostLocalSGDOptimizer")
_PARAMETERS = ("FlatParameter", "DTensor", "ShardedTensor")


def _called(value: Any, names: Iterable[str]) -> str | None:
    """The name of its class, or of one above it, that is among `names`. Their modules are not imported for it: not every build of torch has them."""
    above = {kind.__name__ for kind in type(value).__mro__}
    return next((name for name in names if name in above), None)


def refuse_parallel(model: nn.Module) -> None:
    """Refuses a model that runs in several processes, or on several devices, at once."""
    for name, module in model.named_modules():
        found = _called(module, _MODULES)
        if found is not None:
            raise ValueError(
                f"{found} ({name or 'the model'}) runs in several processes or on several devices, each of which would draw its own batches and noise, so that the same records would be used in several releases for the cost of one. Train in one process; {_MODULES[found]}"
            )


def refuse_steps(optimizer: Any) -> None:
    """Refuses an optimizer whose step is more than one use of a released gradient, or is shared with other processes."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "LBFGS evaluates the loss several times per step, each of which would be a release; use another optimizer"
        )
    of = [optimizer, *(p for group in optimizer.param_groups for p in group["params"])]
    for value in of:
        found = _called(value, _OPTIMIZERS if value is optimizer else _PARAMETERS)
        if found is not None:
            raise ValueError(
                f"{found} is sharded over several processes, each of which would draw its own batches and noise; train in one process, with unsharded weights"
            )


def warn_of_ranks() -> None:
    """Warns in a process that is one of several of torch.distributed."""
    if not torch.distributed.is_available():
        return
    ranks = 1
    if torch.distributed.is_initialized():
        ranks = torch.distributed.get_world_size()
    elif torch.distributed.is_torchelastic_launched():
        given = os.environ.get("WORLD_SIZE", "1")
        ranks = int(given) if given.isdecimal() else 1
    if ranks > 1:
        warn(
            f"this is one of {ranks} processes of torch.distributed: each one that trains on the same records makes its own releases, and the guarantee covers those of this process only. Train in one process, or on records that no other process has"
        )


__all__ = ["refuse_parallel", "refuse_steps", "warn_of_ranks"]

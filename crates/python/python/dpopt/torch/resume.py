"""What a private optimizer shows of the one inside: groups for schedulers, and a state from which the same training goes on.

A state is one of a training, in the process that planned it. Loading it puts moments and learning rates back, and never steps: what was released stays released,
so that a state that is loaded twice releases nothing twice, and the guarantee of the whole training covers whatever was tried on the way.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import _core

#: Where a state says of which training it is.
_KEY = "dpopt"


class AroundOptimizer(torch.optim.Optimizer):
    """An optimizer that holds another one, to which groups, state and hooks belong."""

    optimizer: Any
    planned_steps: int
    steps_taken: int

    def _around(self, optimizer: Any) -> None:
        """In place of the constructor of torch's optimizers: everything they keep is kept inside."""
        if isinstance(optimizer, AroundOptimizer):
            raise ValueError("the optimizer is private already; give the inner optimizer, optimizer.optimizer")
        self.optimizer = optimizer
        #: of this training, in this process
        self._training_name = secrets.token_hex(16)

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Those of the optimizer inside."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """That of the optimizer inside."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """Those of the optimizer inside."""
        return self.optimizer.defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: clip and noise were planned for the weights that there are."""
        raise RuntimeError(
            "parameters cannot be added, since the noise was planned for the existing weights; give the optimizer all weights when it is made private"
        )

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """On a step of the optimizer inside, which sees what was released."""
        return self.optimizer.register_step_pre_hook(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Any:
        """On a step of the optimizer inside, which sees what was released."""
        return self.optimizer.register_step_post_hook(hook)

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimizer inside, how many steps are planned and were taken, and the name of this training. Like the weights it may be shown."""
        of = {"training": self._training_name, "planned_steps": self.planned_steps, "steps_taken": self.steps_taken}
        return {**self.optimizer.state_dict(), _KEY: of}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Puts the optimizer inside back to a state of this training; the training goes on from there, with the steps that it has left *now*.

        Parameters
        ----------
        state_dict
            What :meth:`state_dict` of this very object gave; go on with the weights of that moment (``model.load_state_dict``).

        Raises
        ------
        dpopt.PrivacyError
            If it is the state of another training: of another object, or of a process that has ended.
        """
        of = state_dict.get(_KEY) if isinstance(state_dict, Mapping) else None
        if not isinstance(of, Mapping):
            raise _core.PrivacyError(
                "this is not the state of a private training; give what state_dict() of this optimizer returned, or load moments of another training into the inner optimizer: "
                "optimizer.optimizer.load_state_dict(state)"
            )
        if of.get("training") != self._training_name:
            raise _core.PrivacyError(
                "this state is of another training, which cannot be resumed, since a file cannot tell what was released after it was written. Keep its weights, which were paid for, and start another training from them for the remaining steps, within what the ledger has left; optimizer.optimizer.load_state_dict(state) restores the moments"
            )
        self.optimizer.load_state_dict({key: value for key, value in state_dict.items() if key != _KEY})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.optimizer!r}, steps_taken={self.steps_taken}, planned_steps={self.planned_steps})"

    def _step_inside(self, parameters: list[Any]) -> None:
        """A step of the optimizer inside, by the gradients of these parameters alone: those of others were not clipped."""
        own = {id(p) for p in parameters}
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                if id(p) not in own:
                    p.grad = None
        self.optimizer.step()


__all__ = ["AroundOptimizer"]

"""A module's parameters as one vector."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class FlatParameters:
    """Lets parameters share one vector, and their gradients another.

    An optimiser step, a finite check or a copy of the weights is then one operation whatever the number of
    layers: with small networks these calls cost more than their arithmetic.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        members = [p for p in parameters if p.requires_grad]
        data = torch.cat([p.detach().reshape(-1) for p in members])
        self.vector = nn.Parameter(data)
        self.vector.grad = torch.zeros_like(data)
        start = 0
        for p in members:
            end = start + p.numel()
            p.data = data[start:end].view_as(p)
            p.grad = self.vector.grad[start:end].view_as(p)
            start = end

    @property
    def gradient(self) -> Tensor:
        """[total number of parameters]."""
        assert self.vector.grad is not None
        return self.vector.grad

    def zero_gradient(self) -> None:
        """Begin a new gradient; backward() adds to it in place."""
        self.gradient.zero_()


class FlatAdam:
    """Adam (Kingma and Ba 2015, arXiv 1412.6980) on one vector, with its usual constants.

    The arithmetic is that of torch.optim.Adam(fused=True), in one pass over the numbers; without what that
    does around it for any number of groups and devices, which costs more per step here than the arithmetic.
    """

    BETA1, BETA2, EPS = 0.9, 0.999, 1e-8

    def __init__(self, parameters: FlatParameters, learning_rate: float) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.mean = torch.zeros_like(parameters.vector.data)
        self.square = torch.zeros_like(parameters.vector.data)
        self._steps = torch.zeros((), device=parameters.vector.device)

    @property
    def steps(self) -> int:
        """How often the weights have been moved."""
        return int(self._steps)

    @torch.no_grad()
    def step(self) -> None:
        """Move the weights by the gradient that lies ready."""
        self._steps += 1
        torch._fused_adam_(
            [self.parameters.vector],
            [self.parameters.gradient],
            [self.mean],
            [self.square],
            [],
            [self._steps],
            lr=self.learning_rate,
            beta1=self.BETA1,
            beta2=self.BETA2,
            weight_decay=0.0,
            eps=self.EPS,
            amsgrad=False,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """Both running moments and the number of steps."""
        return {"steps": self.steps, "mean": self.mean, "square": self.square}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._steps.fill_(state["steps"])
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])

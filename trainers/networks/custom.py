"""Custom networks: an encoder for one observation, or everything before memory and heads.

A class is named in the YAML, as `package.module:Class` or by an entry point of the group `lanista.networks`:

    network_settings:
      encoders: {CameraSensor: my_networks:Retina}
      body: my_networks:Everything

docs/extending.md describes the interface of such a class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import torch
from mlagents_envs.base_env import ObservationSpec
from torch import Tensor, nn

from ..settings.models.networks import NetworkSettings
from ..utils.errors import TrainerError
from ..utils.plugins import NETWORKS, USER_ERRORS, PluginError, cause, load, plugins


class CustomNetwork(nn.Module):
    """What is expected of a custom encoder or body. No need to derive from it.

    An encoder is called with `(spec, settings)` of one observation, a body with `(specs, settings)` of all.
    """

    size: int
    """The length of a row of the output."""

    def forward(self, observations: Any) -> Tensor:
        """[B, *shape] float32, of a body one tensor per observation in a list -> [B, size].

        Images are in 0 to 1, vectors normalized if so set.
        """
        raise NotImplementedError


def build_custom(
    reference: str,
    specs: ObservationSpec | list[ObservationSpec],
    settings: NetworkSettings,
    generator: torch.Generator | None,
) -> CustomNetwork:
    """The encoder that the YAML names for an observation, or, of a list of these, the body.

    Raises:
        TrainerError: there is no such class, or it cannot be built, or does not read these observations; the
            message names it and the cause.
    """
    create = _found(reference)
    # Users draw first weights from torch's own stream, which is set here so that runs repeat.
    with torch.random.fork_rng(devices=[], enabled=generator is not None):
        if generator is not None:
            torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        try:
            network = create(specs, settings)
        except Exception as error:
            raise TrainerError(
                f"The network {reference} cannot be built: {cause(error)}. It is called with "
                "(observation specs, network settings)."
            ) from error
        size = getattr(network, "size", None)
        if not isinstance(network, nn.Module) or not isinstance(size, int) or size < 1:
            raise TrainerError(
                f"The network {reference} must be a torch.nn.Module with an attribute `size`, the length of "
                f"a row of what it gives; found {type(network).__name__} with size {size!r}."
            )
        for module in network.modules():
            if isinstance(module, _FROZEN):
                module.eval()
        for rows in (1, 3):
            _try(reference, network, size, specs, rows)
    setattr(network, _REFERENCE, reference)
    return cast(CustomNetwork, network)


def not_exportable(network: nn.Module) -> list[str]:
    """The user's classes in a network that cannot become part of a brain."""
    users = [module for module in network.modules() if reference_of(module)]
    return sorted({reference_of(module) for module in users if not hasattr(module, "export")})


def reference_of(network: nn.Module) -> str:
    """The name of a user's network in the YAML; empty for any other network."""
    return str(getattr(network, _REFERENCE, ""))


_REFERENCE = "_lanista_reference"
_FROZEN = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)
"""Layers that compute something else in training than in inference. Learning, acting and brains need the same
function, so these layers are in evaluation mode throughout."""


@torch.no_grad()
def _try(reference: str, network: nn.Module, size: int, specs: Any, rows: int) -> None:
    """Apply a network to so many rows of zeros, so that its errors appear when the run starts.

    Raises:
        TrainerError: it cannot, or gives something else than [rows, size] float32.
    """
    several = isinstance(specs, list)
    inputs = [torch.zeros(rows, *spec.shape) for spec in (specs if several else [specs])]
    shapes = ", ".join(str(tuple(one.shape)) for one in inputs)
    try:
        given = network(inputs if several else inputs[0])
    except Exception as error:
        raise TrainerError(
            f"The network {reference} cannot read observations of the shape {shapes}: {cause(error)}. The "
            "first number is that of the agents, which may be any."
        ) from error
    if isinstance(given, Tensor) and given.shape == (rows, size) and given.dtype == torch.float32:
        return
    found = f"{tuple(given.shape)} of {given.dtype}" if isinstance(given, Tensor) else type(given).__name__
    raise TrainerError(
        f"The network {reference} gives {found} for observations of the shape {shapes}; by its `size` it has "
        f"to give ({rows}, {size}) of torch.float32."
    )


def _found(reference: str) -> Callable[..., Any]:
    """The class of this reference."""
    if ":" not in reference:
        entries = plugins(NETWORKS)
        if reference not in entries:
            raise TrainerError(
                f"No installed package offers a network named {reference!r} (entry points of the group "
                f"{NETWORKS}: {', '.join(sorted(entries)) or 'none'}). A class is named as "
                "package.module:Class."
            )
        try:
            return cast(Callable[..., Any], load(entries[reference]))
        except PluginError as error:
            raise TrainerError(str(error)) from error
    module, _, name = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # where a console script runs, Python does not look
        sys.path.append(here)
    try:
        return cast(Callable[..., Any], attrgetter(name)(import_module(module)))
    except USER_ERRORS as error:
        file = getattr(sys.modules.get(module), "__file__", None)
        found = "" if file is None else f" in {file}"
        raise TrainerError(
            f"The network {reference} cannot be imported: {cause(error)}{found}. It is named as "
            f"package.module:Class; modules are looked for among the installed packages and in {here}."
        ) from error

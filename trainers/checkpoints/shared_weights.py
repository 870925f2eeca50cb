"""A policy's weights as safetensors, to share: tensors and text alone, which nothing in a file could run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ...envs.utils.bounded_yaml import load_json
from ...envs.utils.installation import install_command
from ...envs.utils.regular_files import refuse_pipe
from ..utils.atomic_files import atomic_write_bytes
from .file import CheckpointError, load_checkpoint
from .metadata import KEY
from .rules import TRAINER_TYPE

SUFFIX = ".safetensors"


def save_shared(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write the policy of a checkpoint's state, with the description that rebuilds it.

    Optimizers, random states and unfinished rollouts are left out: a run can begin with the file, and none
    goes on with it.

    Raises:
        CheckpointError: the state has no policy of Lanista's, or safetensors is not installed.
        OSError: the file system.
    """
    library = _library()
    described, policy = state.get(KEY), state.get("Policy")
    if not isinstance(described, Mapping) or not isinstance(policy, Mapping):
        raise CheckpointError(f"it is not one of Lanista's: expected {KEY!r} and 'Policy' in it")
    tensors = {
        name: value.detach().clone().contiguous()  # views of one vector are not taken
        for name, value in policy.items()
        if isinstance(value, torch.Tensor)
    }
    texts = {
        "format": "pt",
        "behavior": str(described["behavior"]),
        "trainer": str(described.get(TRAINER_TYPE) or "unknown"),
        "step": str(state.get("step", 0)),
        KEY: json.dumps(described),
        "numbers": json.dumps({name: value for name, value in policy.items() if name not in tensors}),
    }
    atomic_write_bytes(path, library.torch.save(tensors, texts))


def load_shared(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> dict[str, Any]:
    """What `save_shared` wrote, in the form of a checkpoint's state.

    Raises:
        CheckpointError: it cannot be read, is damaged, or was not written by Lanista.
    """
    library = _library()
    file = Path(path)
    try:
        refuse_pipe(file)
        with library.safe_open(file, framework="pt", device=str(device)) as opened:
            texts = opened.metadata() or {}
            policy: dict[str, Any] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except Exception as error:  # the library raises its own, OSError and ValueError
        raise CheckpointError(f"{file} cannot be read as safetensors: {error}.") from error
    try:
        policy.update(load_json(texts["numbers"]))
        return {"Policy": policy, KEY: load_json(texts[KEY]), "step": int(texts["step"])}
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{file} does not describe its network: found {', '.join(sorted(texts)) or 'no'} metadata. "
            "`lanista export RUN --safetensors` writes files that do."
        ) from error


def load_weights(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The state in a checkpoint (.pt), or in weights that were shared (.safetensors).

    Raises:
        CheckpointError: it cannot be used.
    """
    return load_shared(path) if Path(path).suffix == SUFFIX else load_checkpoint(path)


def _library() -> Any:
    """The package.

    Raises:
        CheckpointError: it is not installed.
    """
    try:
        import safetensors
        import safetensors.torch
    except ImportError as error:
        raise CheckpointError(
            f"{SUFFIX} needs the package safetensors: {install_command('safetensors')}."
        ) from error
    return safetensors

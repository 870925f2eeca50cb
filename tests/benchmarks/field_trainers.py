"""The trainers of field.py: what each is told of a task, and what starts it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from products import BIN, run_command
from results import LANISTA, ROOT

PEER = ROOT / "tests" / "peer"
SB3, CLEANRL, SAMPLE_FACTORY = "Stable-Baselines3", "CleanRL", "Sample Factory"


@dataclass(frozen=True)
class Plan:
    """What to train with PPO, in Lanista's words as far as it has them."""

    environment: str
    """An id that tests/peer/field_environments.py registers."""
    pictures: bool
    """Whether it is seen as pictures: then the network is Nature's with 512 units, else two layers of 64."""
    max_steps: int
    learning_rate: float
    seed: int = 0
    copies: int = 8
    horizon: int = 128
    """Steps of each copy between updates."""
    batch_size: int = 256
    epochs: int = 4
    gamma: float = 0.99
    lambd: float = 0.95
    epsilon: float = 0.2
    beta: float = 0.01
    max_grad_norm: float = 0.5

    @property
    def json(self) -> str:
        """As the scripts of tests/peer take it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Trainer:
    """One line of the tables."""

    command: Callable[[Plan, Path], Sequence[str]]
    """What trains, given a folder to write to, which is also the working directory."""
    version: Callable[[Plan], str]
    """That is measured."""
    variables: Sequence[str] = ()
    """Environment variables that tell where it is."""

    def missing(self) -> list[str]:
        """The variables that are not set."""
        return [name for name in self.variables if not os.environ.get(name)]


def lanista_settings(plan: Plan) -> dict[str, Any]:
    """Of the behavior. One body for policy and value where the others have one, too: with pictures."""
    network: dict[str, Any] = {"hidden_units": 64, "num_layers": 2}
    if plan.pictures:
        network = {"hidden_units": 512, "num_layers": 1, "vis_encode_type": "nature_cnn"}
        network["initialization"] = "orthogonal"
    constant = ("learning_rate_schedule", "beta_schedule", "epsilon_schedule")
    return {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": plan.batch_size,
            "buffer_size": plan.copies * plan.horizon,
            "learning_rate": plan.learning_rate,
            "beta": plan.beta,
            "epsilon": plan.epsilon,
            "lambd": plan.lambd,
            "num_epoch": plan.epochs,
            "max_grad_norm": plan.max_grad_norm,
            "shared_critic": plan.pictures,
            **dict.fromkeys(constant, "constant"),
        },
        "network_settings": network,
        "reward_signals": {"extrinsic": {"gamma": plan.gamma, "strength": 1.0}},
        "max_steps": plan.max_steps,
        "time_horizon": plan.horizon,
        "summary_freq": 10000,
    }


def lanista(plan: Plan, folder: Path) -> list[str]:
    """`lanista-learn`."""
    config = folder / "settings.yaml"
    config.write_text(
        yaml.safe_dump({"behaviors": {plan.environment: lanista_settings(plan)}}), encoding="utf-8"
    )
    command = [str(BIN / "lanista-learn"), str(config), "--run-id=run", f"--seed={plan.seed}"]
    command += [f"--env=gymnasium:field_environments:{plan.environment}", f"--num-areas={plan.copies}"]
    return [*command, f"--results-dir={folder}", "--torch-device=cpu"]


def sb3(plan: Plan, folder: Path) -> list[str]:
    """Of Stable-Baselines3."""
    return [os.environ["LANISTA_SB3"], str(PEER / "run_field_sb3.py"), plan.json]


def cleanrl(plan: Plan, folder: Path) -> list[str]:
    """By Stable-Baselines3's Python, which has what CleanRL needs but for two small packages."""
    script = str(PEER / "run_field_cleanrl.py")
    return [os.environ["LANISTA_SB3"], script, os.environ["LANISTA_CLEANRL"], plan.json]


def sample_factory(plan: Plan, folder: Path) -> list[str]:
    """Of Sample Factory."""
    return [os.environ["LANISTA_SAMPLE_FACTORY"], str(PEER / "run_field_sample_factory.py"), plan.json]


def version(python: str, package: str) -> str:
    """Of a package, and of PyTorch beside it."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    found = run_command([python, "-c", code, package, "torch"] if package else [python, "-c", code, "torch"])
    *own, torch = found.split()
    return ", ".join([*own, f"PyTorch {torch}"])


def cleanrl_version(plan: Plan) -> str:
    """It has no releases that its scripts would belong to: the start of the script's SHA-256."""
    path = Path(os.environ["LANISTA_CLEANRL"]) / "cleanrl" / ("ppo_atari.py" if plan.pictures else "ppo.py")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    return f"{path.name} with SHA-256 {digest}, {version(os.environ['LANISTA_SB3'], '')}"


TRAINERS = {
    LANISTA: Trainer(lanista, lambda plan: version(sys.executable, "lanista")),
    SB3: Trainer(sb3, lambda plan: version(os.environ["LANISTA_SB3"], "stable-baselines3"), ["LANISTA_SB3"]),
    CLEANRL: Trainer(cleanrl, cleanrl_version, ["LANISTA_SB3", "LANISTA_CLEANRL"]),
    SAMPLE_FACTORY: Trainer(
        sample_factory,
        lambda plan: version(os.environ["LANISTA_SAMPLE_FACTORY"], "sample-factory"),
        ["LANISTA_SAMPLE_FACTORY"],
    ),
}
"""In the order of a round; every second one goes backward."""

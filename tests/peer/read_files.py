"""Run by ML-Agents' Python: what its readers make of damaged files, as JSON.

    read_files.py KIND FILE EVERY [KIND FILE EVERY ...]

KIND is one of READERS; EVERY, that each so-manyth byte is damaged (tests/reliability/damages.py).
"""

import json
import logging
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "reliability"))

import torch
from damages import judge
from mlagents.plugins.trainer_type import register_trainer_plugins
from mlagents.trainers.cli_utils import load_config
from mlagents.trainers.demo_loader import load_demonstration
from mlagents.trainers.exception import TrainerConfigError, TrainerError
from mlagents.trainers.settings import RunOptions
from mlagents.trainers.training_status import GlobalTrainingStatus
from mlagents_envs.exception import UnityException


def demonstration(path):
    spec, pairs, _ = load_demonstration(str(path))
    return str(spec), [pair.SerializeToString() for pair in pairs]


def checkpoint(path):
    return repr(plain(torch.load(path)))


def plain(value):
    """Nested tensors as bytes."""
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes(), tuple(value.shape)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def configuration(path):
    return str(RunOptions.from_dict(load_config(str(path))))


def status(path):
    GlobalTrainingStatus.saved_state.clear()
    GlobalTrainingStatus.load_state(str(path))
    return json.dumps(GlobalTrainingStatus.saved_state, sort_keys=True)


READERS = {"demo": demonstration, "checkpoint": checkpoint, "yaml": configuration, "status": status}


def main() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    register_trainer_plugins()
    words = sys.argv[1:]
    for kind, file, every in zip(words[::3], words[1::3], words[2::3]):
        found = judge(
            Path(file), READERS[kind], (TrainerError, TrainerConfigError, UnityException), int(every)
        )
        print("READ " + json.dumps({"kind": kind, **{name: asdict(each) for name, each in found.items()}}))


if __name__ == "__main__":
    main()

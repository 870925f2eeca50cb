"""Runs that were saved, and runs that resume them or start from them with changed settings."""

import copy
import logging
import re

from crowd import make_learner
from lanista.trainers.checkpoints.file import load_checkpoint, save_checkpoint
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from specs import sensor
from trainers_and_networks import SMALL, TRAINERS

SENSORS = [sensor((3,), "near"), sensor((3,), "far"), sensor((1,), "own")]
MEMORY = {"memory_size": 4, "sequence_length": 4}


def spec_of(trainer, sensors=SENSORS):
    _, (continuous, branches) = TRAINERS[trainer]
    return BehaviorSpec(sensors, ActionSpec(continuous, branches))


def with_changes(settings, changes):
    """Settings with others put in, by their paths."""
    changed = copy.deepcopy(settings)
    for path, value in changes.items():
        *parents, key = path.split(".")
        place = changed
        for parent in parents:
            place = place.setdefault(parent, {})
        place[key] = value
    return changed


def behavior_of(trainer, before):
    hyper, _ = TRAINERS[trainer]
    yaml = {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": SMALL, "time_horizon": 5}
    return with_changes(yaml, before)


class Runs:
    """A run that was saved, and runs that resume it or start from it with changed settings."""

    def __init__(self, folder, trainer, before, sensors=SENSORS):
        self.folder, self.spec, self.yaml = folder, spec_of(trainer, sensors), behavior_of(trainer, before)
        self.learner = make_learner(folder / "old", self.spec, self.yaml)

    @property
    def file(self):
        return self.folder / "old" / "Crowd" / "checkpoint.pt"

    def save(self):
        self.learner.checkpointer.exports_onnx = False
        assert self.learner.save()
        return self

    def rewrite(self, change):
        """Let the checkpoint be as another release wrote it."""
        state = load_checkpoint(self.file)
        change(state)
        save_checkpoint(self.file, state)

    def resumed(self, changes, **context):
        yaml = with_changes(self.yaml, changes)
        return make_learner(self.folder / "old", self.spec, yaml, resume=True, **context)

    def started(self, changes, start=None):
        yaml = with_changes(self.yaml, changes)
        return make_learner(
            self.folder / "new", self.spec, yaml, initialize_from=start or self.folder / "old"
        )


def warnings(caplog):
    """Those of settings that have changed."""
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [text for text in told if re.search(r" was .*, is | dropped", text)]


RND = {"reward_signals": {"extrinsic": {}, "rnd": {"network_settings": SMALL}}}

"""One behaviour of a run: when its trainer is called."""

import numpy as np
import pytest
import torch
from lanista.trainers.learner import Learner, RunContext
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.source import Source
from lanista.trainers.stats.display import make_display
from lanista.trainers.training_status import TrainingStatus
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)

SPEC = BehaviorSpec(
    [ObservationSpec((4,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "vector")],
    ActionSpec.create_continuous(2),
)
BUFFER = 640


@pytest.fixture
def learner(tmp_path):
    hyper = {"batch_size": 64, "buffer_size": BUFFER}
    options = RunOptions.from_source(
        Source({"behaviors": {"Ball": {"trainer_type": "ppo", "hyperparameters": hyper}}})
    )
    status = TrainingStatus(tmp_path / "status.json")
    display = make_display("test", plain=True)
    run = RunContext(folder=tmp_path, seed=1, status=status, writers=[], display=display)
    return Learner("Ball", SPEC, options.behavior("Ball"), run)


def waiting(agents: int) -> DecisionSteps:
    zeros, ids = np.zeros(agents, np.float32), np.arange(agents, dtype=np.int32)
    return DecisionSteps([torch.zeros(agents, 4).numpy()], zeros, ids, None, ids, zeros)


def test_a_trainer_is_called_when_a_portion_of_its_buffer_may_wait(learner):
    calls = []
    learner.trainer.advance = lambda: calls.append(1)
    for tick in range(30):
        learner.decide([waiting(3)])
        learner.advance()
        assert len(calls) == (tick + 1) // 4, "10 steps, a 64th of the buffer, are there at every fourth tick"


def test_many_agents_fill_a_portion_at_every_tick(learner):
    calls = []
    learner.trainer.advance = lambda: calls.append(1)
    for _ in range(5):
        learner.decide([waiting(100), waiting(28)])
        learner.advance()
    assert len(calls) == 5

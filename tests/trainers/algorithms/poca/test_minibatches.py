"""In each epoch the actor learns from all of its whole minibatches, however large teams are."""

import pytest
import torch
from crowd import Crowd, learn_from, make_learner
from lanista.trainers.algorithms.poca.minibatches import TeamMinibatches
from specs import spec_of_shapes

pytestmark = pytest.mark.slow

MEMORY = {"memory_size": 4, "sequence_length": 8}


@pytest.mark.parametrize("trainer", ["poca", "mappo"])
@pytest.mark.parametrize(
    ("members", "batch_size", "memory"), [(2, 16, MEMORY), (5, 16, MEMORY), (8, 4, None)]
)
def test_a_team_larger_than_a_minibatch_takes_no_steps_from_the_actor(
    trainer, members, batch_size, memory, tmp_path, monkeypatch
):
    spec = spec_of_shapes([[3]], continuous=2)
    behavior = {
        "trainer_type": trainer,
        "hyperparameters": {"batch_size": batch_size, "buffer_size": 256, "num_epoch": 1},
        "network_settings": {"hidden_units": 8, "num_layers": 1, "memory": memory},
        "time_horizon": 16,
    }
    learner = make_learner(tmp_path, spec, behavior)
    crowd = Crowd(spec, agents=2 * members, length=16)
    crowd.groups = crowd.ids // members + 1
    epochs = []
    minibatches = TeamMinibatches.minibatches

    def counted(source: TeamMinibatches, size: int, generator: torch.Generator):
        learned = 0
        for batch in minibatches(source, size, generator):
            learned += len(batch.policy.advantages)
            yield batch
        epochs.append((learned, len(source._steps)))

    monkeypatch.setattr(TeamMinibatches, "minibatches", counted)
    learn_from(learner, crowd.play(learner, 400 // (2 * members) + 32))
    assert epochs
    for learned, collected in epochs:
        assert collected - batch_size < learned <= collected

"""What a checkpoint saves of POCA's steps is never mistaken for steps of the process that loads it."""

import numpy as np
import pytest
import torch
from lanista.agent_processor.processor import AgentManager
from lanista.agent_processor.queues import AgentManagerQueue
from lanista.agent_processor.rows import RESTORED_STORE, STORE_BITS, RowStore
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.poca.minibatches import Rows, TeamSteps
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.buffers.columns import joined
from lanista.trainers.buffers.rollout_buffer import RolloutBuffer
from lanista.trainers.policies.policy import Policy
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from mlagents_envs.base_env import DecisionSteps, TerminalSteps
from reliability.resume import differences
from rollouts import reloaded
from specs import vector_spec
from trainer_surroundings import Events, Record

SPEC = vector_spec([3], 1, (2,))
SETTINGS = TrainerSettings.model_validate(
    {
        "trainer_type": "poca",
        "hyperparameters": {"batch_size": 8, "buffer_size": 200},
        "network_settings": {"hidden_units": 16, "num_layers": 1},
        "time_horizon": 5,
        "summary_freq": 10**6,
    }
)


def trainer_of(seed=0):
    poca = POCA(SPEC, SETTINGS, torch.device("cpu"), seed, NonFinitePolicy.STOP)
    return OnPolicyTrainer(SETTINGS, poca, {"extrinsic": ExtrinsicReward(True)}, Record(), Events())


def play(trainer, ticks, seed, team=0):
    """A group of three and one of two; nobody ends, so that mates' rows come with other trajectories too."""
    queue = AgentManagerQueue("B")
    manager = AgentManager(f"B?team={team}", SPEC, 5, Record(), trajectory_queue=queue)
    policy = Policy(trainer.algorithm.network, SPEC, seed)
    random, decided = np.random.default_rng(seed), None
    ids, groups = np.arange(5, dtype=np.int32), np.array([1, 1, 1, 2, 2], np.int32)
    for _ in range(ticks):
        obs, reward = random.normal(size=(5, 3)), random.normal(size=5)
        zeros, mask = np.zeros(5, np.float32), [np.zeros((5, 2), bool)]
        obs, reward = [obs.astype(np.float32)], reward.astype(np.float32)
        batch = DecisionSteps(obs, reward, ids, mask, groups, zeros)
        manager.add_experiences(batch, TerminalSteps.empty(SPEC), 0, decided)
        (decided,) = policy.act([batch])
    trainer.subscribe(queue)
    trainer.advance()
    trainer.queues.clear()


def steps_numbered(seed, first):
    """Six steps of a pair of agents, whose teammates' rows came with other parts."""
    random = np.random.default_rng(seed)
    floats = {name: random.normal(size=(6, 1)).astype(np.float32) for name in ("baselines", "returns")}
    numbers = first + np.arange(6)
    return TeamSteps(
        numbers=numbers,
        teammates=np.stack([first + 10 + np.arange(6), np.full(6, -1)], 1),
        obs=[random.normal(size=(6, 3)).astype(np.float32)],
        continuous=random.normal(size=(6, 1)).astype(np.float32),
        discrete=random.integers(0, 2, (6, 1)).astype(np.int32),
        log_probs=np.full((6, 2), -1.0, np.float32),
        action_mask=None,
        advantages=random.normal(size=6).astype(np.float32),
        other_numbers=first + 10 + np.arange(6),
        other_obs=[random.normal(size=(6, 3)).astype(np.float32)],
        other_continuous=random.normal(size=(6, 1)).astype(np.float32),
        other_discrete=random.integers(0, 2, (6, 1)).astype(np.int32),
        **floats,
    )


def test_steps_that_were_saved_and_new_ones_of_the_same_numbers_are_kept_apart():
    first = (RESTORED_STORE + 1) << STORE_BITS
    buffer = RolloutBuffer(TeamSteps)
    buffer.append(steps_numbered(1, first))
    assert "mates" in buffer.state_dict(), "as in the checkpoints of before"
    for _ in range(2):  # a run may be resumed again before its next update
        buffer.load_state_dict(buffer.state_dict())
    buffer.append(steps_numbered(2, first))
    held = buffer.columns()
    found = Rows.of(held)
    expected = Rows.of(joined([steps_numbered(1, first), steps_numbered(2, first + 1000)]))
    assert len(found.obs[0]) == 24
    np.testing.assert_array_equal(found.obs[0], expected.obs[0])
    np.testing.assert_array_equal(found.own, expected.own)
    np.testing.assert_array_equal(found.teammates, expected.teammates)
    assert (held.teammates[:, 1] == -1).all(), "an absent teammate stays absent"


def test_no_store_numbers_its_rows_as_a_checkpoint_s_are_numbered(monkeypatch):
    numbers = iter([0, 2 ** (63 - STORE_BITS) - 2, 2 ** (63 - STORE_BITS) - 1])
    monkeypatch.setattr("lanista.agent_processor.rows._stores", numbers)
    for _ in range(3):
        begun = RowStore(SPEC).begin([np.zeros((1, 3), np.float32)], 1)
        assert begun.start >> STORE_BITS != RESTORED_STORE
        assert begun.start > 0


@pytest.mark.slow
@pytest.mark.parametrize("teams", [1, 2])
def test_an_update_after_a_resume_is_bit_for_bit_the_one_that_would_have_been(teams, monkeypatch):
    """With a part of the buffer from before, and stores that count from the beginning again."""
    monkeypatch.setattr("lanista.agent_processor.rows._stores", iter(range(100)))
    one = trainer_of()
    for team in range(teams):
        play(one, 6, seed=team, team=team)
    assert 0 < len(one.buffer) <= 200
    state = reloaded(one.state_dict())
    monkeypatch.setattr("lanista.agent_processor.rows._stores", iter(range(100)))
    two = trainer_of(seed=5)
    two.load_state_dict(state)
    for team in range(2):  # in the first, the rows' numbers go on behind the old ones
        monkeypatch.setattr("lanista.agent_processor.rows._stores", iter([50 + team]))
        play(one, 6, seed=10 + team)
        monkeypatch.setattr("lanista.agent_processor.rows._stores", iter([team]))
        play(two, 6, seed=10 + team)
    for trainer in (one, two):
        trainer.algorithm.update(trainer.buffer.columns(), trainer.step)
    for name in ("network", "critic"):
        assert not differences(*(getattr(t.algorithm, name).state_dict() for t in (one, two)))
    assert one.step == two.step

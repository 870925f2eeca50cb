"""POCA and MAPPO on groups whose members come and go: who counts for whom, and what is still to be earned.

With gamma and lambda at 1 a step's return is what its trajectory earns from there on, plus the value of what
follows; so all expectations are sums of rewards, and the critic's values of sets written out here.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lanista.agent_processor.rollout import build_rollout
from lanista.agent_processor.trajectory import Rollout
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.mappo import MAPPO
from lanista.trainers.algorithms.poca.minibatches import TeamSteps
from lanista.trainers.algorithms.poca.poca import POCA, TeamActorCritic
from lanista.trainers.networks.team_critic import TeamSets
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.rewards.rnd import RND
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.rewards import RNDSettings
from simple_engine import SimpleEngine, vector_spec

SPEC = vector_spec((2,), continuous=1, branches=(2,))
SETTINGS = {
    "hyperparameters": {"batch_size": 4, "lambd": 1.0},
    "network_settings": {"hidden_units": 16},
    "reward_signals": {"extrinsic": {"gamma": 1.0}},
    "time_horizon": 100,
}


def sight(agent: int, time: int) -> list[float]:
    """What an agent sees at a time: its number and the time."""
    return [agent / 8, time / 8]


class Script(SimpleEngine):
    """Plays steps of one environment; agents by number, each in its group; only groups are rewarded."""

    def __init__(self, groups: dict[int, int]) -> None:
        super().__init__(100, SPEC, sight, groups, reward=0.0)
        self.finished = []

    def step(self, *agents, **keys):
        self.finished += super().step(*agents, **keys)

    def evaluated(self, team: TeamActorCritic) -> tuple[Rollout, TeamSteps, dict[int, slice]]:
        """The finished trajectories as a rollout, the evaluation of it, and each agent's steps in it."""
        found = build_rollout(self.finished)
        rewards = {"extrinsic": ExtrinsicReward(with_teammates=True).evaluate(found)}
        steps = team.evaluate(found, rewards, {"extrinsic": False}).steps
        ends = np.cumsum(found.lengths)
        where = {t.agent.agent: slice(e - len(t), e) for t, e in zip(self.finished, ends.tolist())}
        return found, steps, where


@pytest.fixture(params=[POCA, MAPPO])
def team(request: pytest.FixtureRequest) -> TeamActorCritic:
    settings = TrainerSettings.model_validate({**SETTINGS, "trainer_type": request.param.name.lower()})
    algorithm: TeamActorCritic = request.param(SPEC, settings, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    return algorithm


def value_of(team: TeamActorCritic, *saw: list[float]) -> float:
    """The critic's value of one set, by itself."""
    inputs = team.network.prepare([torch.tensor(saw)])
    with torch.no_grad():
        return float(team.critic.value(inputs, TeamSets(((len(saw), 1),)))[0, 0])


def sets(found: Rollout, where: slice) -> list[set[int]]:
    """Which teammates each of these steps saw, by their numbers."""
    numbers = (found.obs[0][:, 0] * 8).round().astype(int)
    mates = found.teammates if found.teammates is not None else np.zeros((found.steps, 0), int)
    return [{int(numbers[m]) for m in row if m >= 0} for row in mates[where]]


def test_a_group_of_one_is_a_team(team):
    script = Script({1: 7})
    for _ in range(3):
        script.step([1], group_reward=1.0)
    script.step([], [1], group_reward=5.0)
    found, steps, where = script.evaluated(team)
    assert found.all_group_dones.tolist() == [True]
    assert sets(found, where[1]) == [set(), set(), set()]
    np.testing.assert_allclose(steps.returns[:, 0], [7.0, 6.0, 5.0])


def test_a_group_whose_members_all_die_in_one_step_has_nothing_more_to_earn(team):
    script = Script({1: 7, 2: 7, 3: 7})
    script.step([1, 2, 3])
    script.step([1, 2, 3], group_reward=1.0)
    script.step([], [1, 2, 3], group_reward=2.0)
    found, steps, where = script.evaluated(team)
    assert found.all_group_dones.all() and found.done_reached.all()
    for agent in (1, 2, 3):
        np.testing.assert_allclose(steps.returns[where[agent], 0], [3.0, 2.0])
        assert sets(found, where[agent]) == [{1, 2, 3} - {agent}] * 2


def test_a_member_that_dies_early_is_credited_with_the_value_of_the_survivors(team):
    script = Script({1: 7, 2: 7})
    script.step([1, 2])
    script.step([1, 2])
    script.step([2], [1])
    script.step([2])
    script.step([], [2], group_reward=1.0)
    found, steps, where = script.evaluated(team)
    # The survivor as it was last seen: its own step of that time is recorded behind the death.
    worth = value_of(team, sight(1, 2), sight(2, 1))
    np.testing.assert_allclose(steps.returns[where[1], 0], [worth, worth], rtol=1e-4)
    np.testing.assert_allclose(steps.returns[where[2], 0], [1.0, 1.0, 1.0, 1.0])
    assert sets(found, where[2]) == [{1}, {1}, set(), set()]


def test_a_late_joiner_is_a_teammate_from_then_on(team):
    script = Script({1: 7, 2: 7})
    script.step([1])
    script.step([1])
    script.step([1, 2])
    script.step([1, 2])
    script.step([], [1, 2], group_reward=1.0)
    found, steps, where = script.evaluated(team)
    assert sets(found, where[1]) == [set(), set(), {2}, {2}]
    assert sets(found, where[2]) == [{1}, {1}]
    np.testing.assert_allclose(steps.returns[:, 0], 1.0)


def test_two_groups_of_one_environment_know_nothing_of_each_other(team):
    script = Script({1: 7, 2: 7, 3: 9, 4: 9})
    script.step([1, 2, 3, 4])
    script.step([3, 4], [1, 2], group_reward=1.0)
    script.step([], [3, 4], group_reward=2.0)
    found, steps, where = script.evaluated(team)
    assert found.all_group_dones.all(), "the living of the other group are nobody's survivors"
    for agent, mate in ((1, 2), (2, 1), (3, 4), (4, 3)):
        assert all(seen == {mate} for seen in sets(found, where[agent]))
    for agent in (1, 2):
        np.testing.assert_allclose(steps.returns[where[agent], 0], [1.0])
    for agent in (3, 4):
        np.testing.assert_allclose(steps.returns[where[agent], 0], [3.0, 2.0])


def test_agents_without_a_group_are_teams_of_one_each(team):
    script = Script({1: 0, 2: 0})
    script.step([1, 2])
    script.step([2], [1])
    script.step([], [2])
    found, steps, where = script.evaluated(team)
    assert found.all_group_dones.all()
    assert sets(found, where[1]) == [set()] and sets(found, where[2]) == [set(), set()]
    np.testing.assert_allclose(steps.returns[:, 0], 0.0)


def test_what_a_member_earns_by_a_learned_signal_is_its_own(team):
    """No mate's novelty is added; and novelty goes on after the end of the whole group."""
    script, rnd = Script({1: 7, 2: 7}), RND(SPEC, RNDSettings(), torch.device("cpu"), 0, NonFinitePolicy.STOP)
    script.step([1, 2])
    script.step([1, 2])
    script.step([2], [1])
    script.step([], [2])
    found, _, where = script.evaluated(team)
    novelty = rnd.evaluate(found)
    alone = np.concatenate([rnd.evaluate(build_rollout([one])) for one in script.finished])
    np.testing.assert_allclose(novelty, alone, rtol=1e-5)
    assert len(np.unique(novelty)) == found.steps == 5
    steps = team.evaluate(found, {"extrinsic": novelty}, {"extrinsic": rnd.ignores_done}).steps
    after = {1: value_of(team, sight(1, 2), sight(2, 1)), 2: value_of(team, sight(2, 3))}
    for agent, of_agent in where.items():
        earned = novelty[of_agent][::-1].cumsum()[::-1]
        np.testing.assert_allclose(steps.returns[of_agent, 0], earned + after[agent], rtol=1e-4, atol=1e-5)


def test_all_of_them_are_learned_from_in_one_update(team):
    script = Script({1: 0, 2: 7, 3: 7, 4: 7, 5: 9})
    script.step([1, 2, 3])
    script.step([1, 2, 3, 5])
    script.step([1, 2, 4, 5], [3], group_reward=1.0)
    script.step([2, 4], [1, 5])
    script.step([], [2, 4], group_reward=2.0)
    _, steps, _ = script.evaluated(team)
    before = [p.clone() for p in (*team.network.parameters(), *team.critic.parameters())]
    figures = team.update(steps, 0)
    after = [*team.network.parameters(), *team.critic.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(before, after))
    assert all(bool(torch.isfinite(p).all()) for p in after)
    assert all(np.isfinite(value) for value in figures.values())

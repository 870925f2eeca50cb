"""The sums of rewards of the episodes that are under way."""

import numpy as np
import pytest
from changed_runs import Runs
from crowd import Crowd, learn_from
from lanista.agent_processor.trajectory import AgentKey
from lanista.trainers.trainer.episode_stats import EpisodeStats

KEYS = [AgentKey(0, 1), AgentKey(0, 2), AgentKey(1, 1)]


@pytest.mark.parametrize(
    ("what", "left"),
    [
        ((), []),
        ((0,), KEYS[2:]),
        ((0, np.array([2, 7], np.int32)), [KEYS[0], KEYS[2]]),
        ((1, np.array([1], np.int32)), KEYS[:2]),
        ((1, np.array([], np.int32)), KEYS),
    ],
    ids=["all", "of an environment", "of an agent", "of the other environment's agent", "of nobody"],
)
def test_what_is_forgotten_and_what_is_not(what, left):
    episodes = EpisodeStats(["extrinsic"])
    episodes.sums = {key: np.ones(2) for key in KEYS}
    episodes.reset_agents(*what)
    assert list(episodes.sums) == left


@pytest.mark.parametrize("trainer", ["poca", "sac"])
def test_a_group_whose_members_end_together_counts_once(tmp_path, trainer):
    """Counted with each member, groups that end at once would outweigh those that are left one by one."""
    run = Runs(tmp_path, trainer, {})
    told = []
    run.learner.trainer.episodes.on_episode = lambda agent, seat, own, of_group, length: told.append(of_group)
    learn_from(run.learner, Crowd(run.spec, agents=8, length=6).play(run.learner, 13))
    assert told == [None, 6.0] * 8, "four pairs, twice"
    assert run.learner.trainer.episodes.history.state_dict()["finished"] == 8

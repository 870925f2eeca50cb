"""Clones of what people did in Unity, by episodes that the clones have not seen."""

import numpy as np
import pytest
from lanista.trainers.buffers.demonstrations import load_demonstrations, of_episodes
from learning_cloning import DEMOS, trial


def test_a_clone_predicts_an_expert_better_than_its_habit_does():
    row = trial("ExpertPyramid", 0)
    assert row.clone > row.constant + 0.15 and row.clone > 0.7


@pytest.mark.parametrize("engine_actions, share", [(True, 0.15), (False, 0.8)])
def test_a_clone_acts_more_like_an_expert_than_its_mean_action(engine_actions, share):
    row = trial("Real3dball", 0, engine_actions=engine_actions)
    assert row.clone < share * row.constant
    # Three times too small: the error is mostly (1 - 1/3) of what the expert did.
    assert engine_actions or row.clone == pytest.approx((2 / 3) ** 2 * row.constant, rel=0.2)


def test_episodes_are_taken_whole():
    demos = load_demonstrations(DEMOS / "ExpertPyramid.demo")
    first = np.cumsum(demos.lengths) - demos.lengths
    some = of_episodes(demos, [7, 2])
    assert some.lengths.tolist() == demos.lengths[[7, 2]].tolist() and len(some) == some.lengths.sum()
    middle = int(some.lengths[0])
    np.testing.assert_array_equal(some.obs[0][:middle], demos.obs[0][first[7] : first[7] + middle])
    np.testing.assert_array_equal(some.discrete[middle], demos.discrete[first[2]])
    np.testing.assert_array_equal(some.action_mask[middle:], demos.action_mask[first[2] : first[3]])
    np.testing.assert_array_equal(some.next_obs[1][1], demos.next_obs[1][2])

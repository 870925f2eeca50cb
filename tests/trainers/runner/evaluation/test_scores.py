"""The first episodes that start are counted, of groups if agents are in groups, each to its end; by seat."""

import numpy as np
from lanista.trainers.runner.evaluation.scores import Scores
from mlagents_envs.base_env import DecisionSteps, TerminalSteps


def rows(*agents):
    """Agents as (id, reward) or (id, reward, group, group reward)."""
    whole = [(*agent, *(0, 0.0)[len(agent) - 2 :]) for agent in agents]
    ids, rewards, groups, earned = zip(*whole) if whole else ((), (), (), ())
    obs = [np.zeros((len(whole), 1), np.float32)]
    numbers = np.array(rewards, np.float32), np.array(ids, np.int32)
    return obs, *numbers, np.array(groups, np.int32), np.array(earned, np.float32)


def asking(*agents):
    obs, reward, ids, groups, earned = rows(*agents)
    return DecisionSteps(obs, reward, ids, None, groups, earned)


def ending(*agents):
    obs, reward, ids, groups, earned = rows(*agents)
    return TerminalSteps(obs, reward, np.zeros(len(ids), bool), ids, groups, earned)


def test_short_episodes_do_not_push_in_front_of_long_ones():
    scores = Scores("Ball", 2)
    assert scores.add("Ball?team=0", asking((1, 0), (2, 0), (3, 0)), ending(), 0) == []
    ended = scores.add("Ball?team=0", asking((2, 1), (3, 1), (1, 0)), ending((1, 5)), 1)
    assert [(e.agent, e.reward, e.length, e.first, e.last) for e in ended] == [(1, 5, 0, 0, 1)]
    assert not scores.complete and scores.firsts() == [0]
    scores.add("Ball?team=0", asking((2, 1)), ending((1, 9), (3, 9)), 2)
    assert not scores.complete, "the second to begin still goes on; later ones do not count"
    scores.add("Ball?team=0", asking(), ending((2, 1)), 3)
    assert scores.complete and scores.rewards == [5, 3] and scores.lengths == [0, 2]
    assert (scores.mean(), scores.std(), scores.firsts()) == (4.0, 1.0, [])


def test_a_group_is_an_episode_and_what_it_earns_is_the_score():
    scores = Scores("Push", 1)
    scores.add("Push?team=0", asking((1, 0, 7, 0.0), (2, 0, 7, 0.0), (3, 0, 8, 0.0)), ending(), 0)
    scores.add("Push?team=0", asking((2, 0.5, 7, 0.25)), ending((1, 1, 7, 0.25), (3, 9, 8, 9.0)), 1)
    assert not scores.complete
    scores.add("Push?team=0", asking(), ending((2, 0, 7, 2.0)), 2)
    assert scores.complete
    assert (scores.rewards, scores.group_rewards, scores.mean()) == ([1.0, 0.5], [2.25], 2.25)


def test_groups_that_earn_nothing_as_groups_are_judged_by_their_agents():
    scores = Scores("Push", 1)
    scores.add("Push?team=0", asking((1, 0, 7, 0.0)), ending(), 0)
    scores.add("Push?team=0", asking(), ending((1, 4, 7, 0.0)), 1)
    assert scores.group_rewards == [0.0] and scores.mean() == 4.0


def test_what_does_not_end_is_counted_as_it_stands():
    scores = Scores("Ball", 2, most_decisions=3)
    ended = []
    for number in range(5):
        ended += scores.add("Ball?team=0", asking((1, 1), (2, 0, 5, 0.5)), ending(), number)
    assert {e.agent for e in ended} == {1, 2} and scores.complete
    assert (scores.num_episodes, scores.num_cut) == (1, 1), "a group's, since groups earn rewards"
    assert sorted(scores.rewards) == [0.0, 3.0] and scores.group_rewards == [1.5]


def test_all_can_be_cut_at_once():
    scores = Scores("Ball", 5)
    scores.add("Ball?team=0", asking((1, 0), (2, 0, 4, 0.0)), ending(), 0)
    assert len(scores.cut_all(1)) == 2
    assert len(scores.rewards) == 2 and len(scores.group_rewards) == 1


def test_each_team_has_its_episodes_and_the_score_is_the_mean_over_teams():
    scores = Scores("Soccer", 2)
    scores.add("Soccer?team=1", asking((1, 0)), ending(), 0)
    for number in range(4):  # team 0 plays four episodes while team 1 plays two
        scores.add("Soccer?team=0", asking((number, 0)), ending(), 2 * number)
        scores.add("Soccer?team=0", asking(), ending((number, 1)), 2 * number + 1)
        assert not scores.complete
    scores.add("Soccer?team=1", asking((2, 0)), ending((1, -3)), 8)
    scores.add("Soccer?team=1", asking(), ending((2, -5)), 9)
    assert scores.complete and scores.returns_by_seat() == {"Soccer_0": [1, 1], "Soccer_1": [-3, -5]}
    assert (scores.mean(), scores.num_episodes) == (-1.5, 2)


def test_a_team_that_leaves_for_good_does_not_hold_up_the_others():
    scores = Scores("Soccer", 2)
    for team in "01":
        scores.add(f"Soccer?team={team}", asking((1, 0)), ending(), 0)
    scores.add("Soccer?team=1", asking(), ending((1, 4)), 1)
    for number in (1, 2):
        assert not scores.complete
        scores.add("Soccer?team=0", asking((number + 1, 0)), ending((number, 2)), number)
    assert scores.complete and scores.mean() == 3.0


class TwoSeats:
    def seat_name(self, behavior_id):
        return ("north", "south")[int(behavior_id[-1])]

    def game_of(self, agent_id):
        return agent_id // 2


def test_the_same_games_are_counted_for_all_seats():
    """Agent 2 g + s plays game g; the second game starts with the south, the third with the north."""
    scores = Scores("Chess", 2, games=TwoSeats())
    scores.add("Chess?team=0", asking((0, 0)), ending(), 0)
    scores.add("Chess?team=1", asking((3, 0)), ending(), 0)
    for team, ids in ("0", (4, 2)), ("1", (1, 5)):
        scores.add(f"Chess?team={team}", asking(*((agent, 0) for agent in ids)), ending(), 1)
    assert not scores.complete
    for team, ends in ("0", ((4, 9), (0, 1), (2, 1))), ("1", ((5, -9), (1, -1), (3, -1))):
        scores.add(f"Chess?team={team}", asking(), ending(*ends), 2)
    assert scores.complete and scores.returns_by_seat() == {"north": [1, 1], "south": [-1, -1]}
    assert scores.mean() == 0


def test_a_game_that_never_ends_is_cut_and_counted_once():
    """Its agents act on under the same ids, in the same game."""
    scores = Scores("Chess", 1, most_decisions=2, games=TwoSeats())
    for number in range(3):
        assert not scores.complete
        for team in (0, 1):
            scores.add(f"Chess?team={team}", asking((team, 1)), ending(), number)
    assert scores.complete and scores.returns_by_seat() == {"north": [2], "south": [2]}
    assert scores.num_cut == 1 and scores.num_episodes == 1

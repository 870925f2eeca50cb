"""The first episodes that start are counted, of groups if agents are in groups, each to its end; by seat."""

import pytest
from lanista.envs.base import MAX_IDLE_STEPS
from lanista.trainers.episodes.scores import EpisodeCounter, Scores
from told_steps import asking, ending


def test_short_episodes_do_not_push_in_front_of_long_ones():
    scores = Scores("Ball", 2)
    assert scores.add("Ball?team=0", asking((1, 0), (2, 0), (3, 0)), ending(), 0) == []
    ended = scores.add("Ball?team=0", asking((2, 1), (3, 1), (1, 0)), ending((1, 5)), 1)
    assert [(e.agent, e.reward, e.length, e.first, e.last) for e in ended] == [(1, 5, 0, 0, 1)]
    assert not scores.complete
    scores.add("Ball?team=0", asking((2, 1)), ending((1, 9), (3, 9)), 2)
    assert not scores.complete, "the second to begin still goes on; later ones do not count"
    scores.add("Ball?team=0", asking(), ending((2, 1)), 3)
    assert scores.complete and scores.rewards == [5, 3] and scores.lengths == [0, 2]
    assert (scores.mean(), scores.std()) == (4.0, 1.0)


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


def results(scores, steps):
    """The signs of the last rewards after these steps: decision requests, ends, and whether interrupted."""
    for number, (asks, ends, interrupted) in enumerate(steps):
        scores.add("Game?team=0", asking(*asks), ending(*ends, interrupted=interrupted), number)
    return [int(last > 0) - int(last < 0) for last in scores.seats["Game?team=0"].last_rewards]


GROUPS_END = [
    ([(1, 0, 7), (2, 0, 7)], [], False),
    ([(2, 0, 7)], [(1, -1, 7)], False),
    ([(3, 0, 8), (4, 0, 8)], [(2, 1, 7)], False),
    ([(5, 0)], [(3, 5, 8), (4, 5, 8)], True),
    ([], [(5, -1)], False),
]
GROUPS_MEET = [
    ([(1, 0, 7), (2, 0, 7)], [], False),
    ([(1, 0, 7), (2, 0, 8)], [], False),
    ([(1, 0, 8), (2, 0, 8)], [], False),
    ([(3, 0, 7)], [(1, 1, 8), (2, 1, 8)], False),
    ([], [(3, -1, 7)], False),
]
FIRST_STARTED = [
    ([(1, 0), (2, 0), (3, 0)], [], False),
    ([(1, 0), (2, 0), (4, 0)], [(3, 1)], False),
    ([(1, 0), (2, 0)], [(4, 1)], False),
    ([(1, 0)], [(2, -1)], False),
]
GROUP_REWARD = [([(1, 0, 7, 0)], [], False), ([], [(1, -1, 7, 3.0)], False)]


@pytest.mark.parametrize(
    ("episodes", "most", "steps", "expected"),
    [
        (3, 100, GROUPS_END[:2], []),
        (3, 100, GROUPS_END[:3], [1]),
        (3, 100, GROUPS_END, [1, 0, -1]),
        (3, 100, GROUPS_MEET[:3], [0]),
        (3, 100, GROUPS_MEET, [0, 1, -1]),
        (2, 3, FIRST_STARTED[:3], []),
        (2, 3, FIRST_STARTED, [-1, 0]),
        (1, 100, GROUP_REWARD, [1]),
    ],
    ids=[
        "a group with a member",
        "by its last member",
        "an interrupted one is no result",
        "a group that all have left",
        "members go on in another group",
        "the third that began ends first",
        "an endless one is no result",
        "the group's reward decides too",
    ],
)
def test_an_episode_has_a_result_which_is_its_last_reward(episodes, most, steps, expected):
    scores = Scores("Game", episodes, most)
    assert results(scores, steps) == expected
    assert scores.complete == (len(expected) == episodes)


def test_what_is_counted_of_groups_is_counted_of_their_members():
    """Groups of two and three, two of them counted: five agents, not the two that started first."""
    scores = Scores("Push", 2)
    members = {7: (1, 2), 8: (3, 4, 5), 9: (6, 7)}
    scores.add("Push?team=0", asking(*((a, 0, g) for g in members for a in members[g])), ending(), 0)
    scores.add("Push?team=0", asking(), ending(*((a, a, g, g) for g in members for a in members[g])), 1)
    assert scores.complete and scores.group_rewards == [7, 8] and scores.rewards == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("groups_earn", [False, True])
def test_once_groups_earn_a_test_in_which_they_earn_nothing_is_scored_by_them_too(groups_earn):
    scores = Scores("Push", 1, groups_earn=groups_earn)
    scores.add("Push?team=0", asking((1, 0, 7), (2, 0, 7)), ending(), 0)
    scores.add("Push?team=0", asking(), ending((1, 5, 7, 0), (2, 5, 7, 0)), 1)
    assert scores.by_groups is groups_earn and scores.mean() == (0 if groups_earn else 5)
    assert scores.returns_by_seat() == {"Push_0": [0] if groups_earn else [5, 5]}
    alone = Scores("Ball", 1, groups_earn=groups_earn)
    alone.add("Ball?team=0", asking((1, 0)), ending(), 0)
    alone.add("Ball?team=0", asking(), ending((1, 5)), 1)
    assert alone.mean() == 5 and not alone.by_groups, "nobody is in a group here"


def test_the_episode_with_which_a_group_ends_tells_what_the_group_has_earned():
    scores = Scores("Push", 2, most_decisions=2)
    scores.add("Push?team=0", asking((1, 0, 7), (2, 0, 7), (3, 0, 8), (4, 0, 0)), ending(), 0)
    left = asking((2, 0, 7, 0.5), (3, 0, 8, 0.25))
    ended = scores.add("Push?team=0", left, ending((1, 0, 7, 0.5)), 1)
    assert [(e.agent, e.group_reward) for e in ended] == [(1, None)]
    ended = scores.add("Push?team=0", asking((3, 0, 8, 0.25)), ending((2, 0, 7, 1.0)), 2)
    assert [(e.agent, e.group_reward) for e in ended] == [(2, 1.5), (3, 0.5)], "the other one is cut"


def test_a_group_that_never_ends_is_counted_again_and_again():
    scores = Scores("Push", 2, most_decisions=3)
    for number in range(7):
        assert not scores.complete
        scores.add("Push?team=0", asking((1, 1, 7, 0.5), (2, 1, 7, 0.5)), ending(), number)
    assert scores.complete and scores.group_rewards == [1.5, 1.5] and scores.num_cut == 2
    assert scores.rewards == [3, 3, 3, 3] and scores.seats["Push?team=0"].cut_agents == {1, 2}


def counted(counter, asks, ends=()):
    """Add a step; by behavior id, the agents that ask and those that end with the reward 1."""
    ids = [*asks, *(name for name in ends if name not in asks)]
    counter.add(
        {
            name: (
                asking(*((a, 0) for a in asks.get(name, ()))),
                ending(*((a, 1) for a in dict(ends).get(name, ()))),
            )
            for name in ids
        }
    )


def test_all_behaviors_are_awaited():
    counter = EpisodeCounter([Scores("A", 1), Scores("B", 1)])
    counted(counter, {"A?team=0": [1], "C?team=0": [5]})
    counted(counter, {"A?team=0": [2]}, {"A?team=0": [1]})
    assert not counter.over and counter.idle_steps == 0
    counted(counter, {"B?team=1": [1]})
    assert not counter.over and list(counter.seats) == ["A?team=0", "B?team=1"]
    counted(counter, {}, {"B?team=1": [1]})
    assert counter.over and counter.idle_steps == 1


@pytest.mark.parametrize("appears", [False, True])
def test_a_behavior_that_falls_silent_is_not_awaited_for_ever(appears):
    counter = EpisodeCounter([Scores("A", 1), Scores("B", 2)])
    counted(counter, {"A?team=0": [1], **({"B?team=0": [2]} if appears else {})})
    counted(counter, {}, {"A?team=0": [1], "B?team=0": [2]})
    for _ in range(MAX_IDLE_STEPS - 1):
        counted(counter, {"C?team=0": [3]})
    assert not counter.over
    counted(counter, {})
    assert counter.over and len(counter.scores["B"].rewards) == appears


def test_an_agent_that_never_ends_nor_asks_again_is_cut_at_the_end():
    counter = EpisodeCounter([Scores("A", 2, most_decisions=3)])
    counted(counter, {"A?team=0": [1, 2]})
    for _ in range(9):
        assert not counter.over
        counted(counter, {"A?team=0": [2]})
    assert counter.over and counter.scores["A"].num_cut == 2


def test_without_behaviors_nothing_is_over():
    counter = EpisodeCounter()
    counted(counter, {"A?team=0": [1]})
    assert not counter.over and counter.seats == {}

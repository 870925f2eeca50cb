"""The returns by which `stop_at_reward` and `keep_best` compare policies."""

import json

import pytest
from lanista.agent_processor.processor import RESULT_TAGS
from lanista.trainers.stats.earned import EPISODES, FEWEST, GROUP_REWARD, PATIENCE, REWARD, RewardHistory

FIRST, SECOND = "p?team=0", "p?team=1"


def history(*seats):
    made = RewardHistory()
    for seat in seats:
        made.expect(seat)
    return made


def add(record, seat, reward, count, **keys):
    for _ in range(count):
        record.add(seat, reward, **keys)


def reloaded(record, *seats):
    again = history(*seats)
    again.load_state_dict(json.loads(json.dumps(record.state_dict())))
    return again


def test_a_policy_is_evaluated_by_enough_episodes_each_counted_once():
    record = RewardHistory()
    add(record, FIRST, 1.0, FEWEST - 1)
    assert record.next_mean() is None
    record.add(FIRST, 11.0)
    assert record.next_mean() == pytest.approx(2.0)
    assert record.next_mean() is None


def test_the_mean_of_the_last_episodes_is_known_once_there_are_enough():
    record = RewardHistory()
    record.add(FIRST, 100.0)
    add(record, FIRST, 1.0, EPISODES - 2)
    assert record.recent_mean(EPISODES) is None
    for each in (record, reloaded(record, FIRST), again := reloaded(record)):
        each.add(FIRST, 1.0)
        assert each.recent_mean(EPISODES) == pytest.approx(1.99)
        each.add(FIRST, 1.0)
        assert each.recent_mean(EPISODES) == 1.0
        assert each.next_mean() == pytest.approx((100 + EPISODES) / (EPISODES + 1))
    assert again.state_dict() == record.state_dict()


def test_without_episodes_there_is_no_mean():
    for record in (history(), history(FIRST)):
        assert record.recent_mean(EPISODES) is None and record.next_mean() is None


def test_each_seat_s_episodes_count_alike_however_many_finish_first():
    record = history(FIRST, SECOND)
    for so_far in (None, 0.0):
        add(record, FIRST, 1.0, 3 * EPISODES)
        assert record.recent_mean(EPISODES) == so_far and record.next_mean() is None, (
            "the second is waited for"
        )
        add(record, SECOND, -1.0, EPISODES)
        again = reloaded(record, SECOND, FIRST)
        assert again.recent_mean(EPISODES) == again.next_mean() == 0.0
        assert record.recent_mean(EPISODES) == record.next_mean() == 0.0


@pytest.mark.parametrize("at_first", [0, 5, EPISODES], ids=["never", "a little", "at first"])
def test_a_seat_that_no_longer_plays_is_not_waited_for(at_first):
    record = history(FIRST, SECOND)
    add(record, SECOND, -1.0, at_first)
    add(record, FIRST, 1.0, 2 * PATIENCE)
    waited_for = 0.0 if at_first == EPISODES else None
    assert record.recent_mean(EPISODES) == waited_for
    record.add(FIRST, 1.0)
    assert record.recent_mean(EPISODES) == record.next_mean() == 1.0
    record.add(SECOND, -1.0)
    assert record.recent_mean(EPISODES) == waited_for, "it plays again"


def test_a_seat_of_before_that_does_not_appear_after_a_resume_is_not_waited_for():
    record = history(FIRST, SECOND)
    add(record, SECOND, -1.0, 5)
    again = reloaded(record, FIRST)
    add(again, FIRST, 1.0, EPISODES)
    assert again.recent_mean(EPISODES) == again.next_mean() == 1.0
    add(late := reloaded(again, FIRST, SECOND), SECOND, -1.0, EPISODES - 5)
    assert late.recent_mean(EPISODES) == 0.0, "its first five were kept"


def test_a_group_s_returns_take_the_place_of_its_agents_returns():
    record = history(FIRST, SECOND)
    add(record, FIRST, 5.0, EPISODES)
    for _ in range(EPISODES):
        record.add(FIRST, 0.25, 3.0, ended=False)
        record.add(FIRST, 0.25, 3.0)
    add(record, SECOND, 1.0, EPISODES)  # its groups earn nothing, whatever its agents do
    assert record.recent_mean(EPISODES) == record.next_mean() == 1.5
    assert reloaded(record, FIRST, SECOND).recent_mean(EPISODES) == 1.5
    new = record.cleared()
    new.add(FIRST, 0.25, 0.0, ended=False)
    assert new.state_dict()["finished"] == 0, "whether groups earn rewards stays known"


def test_the_first_group_reward_drops_the_returns_of_agents_one_by_one_too():
    record = RewardHistory(kept=3)
    for reward in (1.0, 2.0, 3.0, 4.0):
        record.add(FIRST, reward)
    assert list(record.last) == [4.0, 3.0, 2.0] and not record.by_groups
    record.add(FIRST, 5.0, 7.0, ended=False)
    assert list(record.last) == [] and record.by_groups
    record.add(FIRST, 5.0, 8.0)
    assert list(record.last) == list(reloaded(record).last) == [8.0] and reloaded(record).by_groups


def test_a_mean_is_told_from_enough_episodes_on():
    record = RewardHistory()
    add(record, FIRST, 1.0, FEWEST - 1)
    assert record.recent_mean() is None
    record.add(FIRST, 11.0)
    assert record.recent_mean() == pytest.approx(2.0)


def test_of_an_older_version_s_seats_those_of_agents_start_anew_beside_those_of_groups():
    of = {"number": 1, "since": [0, 0.0], "recent": [4.0] * FEWEST}
    seats = {FIRST: {"of_groups": True, **of}, SECOND: {"of_groups": False, **of}}
    record = RewardHistory()
    record.load_state_dict({"finished": FEWEST, "seats": seats})
    record.expect(FIRST)
    assert record.by_groups and record.recent_mean() == 4.0
    record.expect(SECOND)
    assert record.recent_mean() is None


@pytest.mark.parametrize(
    "record",
    [
        {
            "finished": 1,
            "seats": {FIRST: {"of_groups": False, "recent": [None], "number": 1, "since": [1, 1]}},
        },
        {"finished": 1, "seats": {FIRST: {"of_groups": False, "recent": [1], "number": 1, "since": [1]}}},
        {"finished": 1, "seats": {FIRST: {"of_groups": False, "recent": "ab", "number": 1, "since": [1, 1]}}},
        {
            "finished": 1,
            "seats": {FIRST: {"of_groups": False, "recent": [1], "number": "x", "since": [1, 1]}},
        },
        {"finished": 1, "seats": {FIRST: 5}},
        {"finished": 1, "seats": [5]},
        {"finished": None, "seats": {}},
        {"seats": {}},
        5,
    ],
)
def test_what_is_malformed_is_refused_when_it_is_loaded(record):
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        RewardHistory().load_state_dict(record)


def test_a_history_of_an_older_version_starts_anew():
    record = history(FIRST)
    record.load_state_dict({"of_groups": False, "recent": [1.0] * EPISODES, "since": [3, 3.0]})
    assert record.recent_mean(EPISODES) is None
    add(record, FIRST, 2.0, EPISODES)
    assert record.recent_mean(EPISODES) == 2.0


def test_a_team_that_appears_again_later_brings_no_returns_of_agents():
    record = history(FIRST, SECOND)
    for seat in (FIRST, SECOND):
        add(record, seat, 5.0, EPISODES)
    again = reloaded(record)
    add(again, FIRST, 5.0, EPISODES, of_group=0.5)
    again.expect(SECOND)
    assert again.by_groups and again.recent_mean() is None, "the second is waited for"
    add(again, SECOND, 5.0, FEWEST, of_group=1.5)
    assert again.recent_mean() == 1.0


def test_no_statistic_of_a_game_passes_for_a_reward():
    assert {REWARD, GROUP_REWARD} <= RESULT_TAGS

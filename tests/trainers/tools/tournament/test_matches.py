"""Games are counted once, completely, for the right side; a round-robin ranks the participants."""

import numpy as np
import pytest
from card_game import Cards
from lanista.envs.python.pettingzoo.turn_based import TurnBasedEnvironment
from lanista.trainers.tools.tournament import match
from lanista.trainers.tools.tournament.match import (
    MatchError,
    Participant,
    Result,
    play_all_sides,
    play_match,
)
from lanista.trainers.tools.tournament.plot import plot_tournament
from lanista.trainers.tools.tournament.round_robin import RoundRobin
from mlagents_envs.base_env import ActionTuple


class Always:
    """Plays one card; records the agents for which it acted and those that were reset."""

    def __init__(self, card):
        self.card, self.played, self.forgotten = card, set(), set()

    def act(self, steps, deterministic=False, behavior_id=""):
        self.played |= set(steps.agent_id.tolist())
        return ActionTuple(discrete=np.full((len(steps), 1), self.card, np.int32))

    def reset_agents(self, agent_ids, behavior_id=""):
        self.forgotten |= set(agent_ids.tolist())


def player(card):
    return Participant(f"plays {card}", {"": Always(card)})


def cards(areas=3, self_play=True):
    return TurnBasedEnvironment(Cards, seed=1, areas=areas, self_play=self_play)


def test_a_match_counts_the_given_number_of_games_of_one_side():
    high, low = player(2), player(1)
    assert play_match(cards(), {0: high, 1: low}, 0, 7) == Result(7, 0, 0)
    assert play_match(cards(), {0: high, 1: low}, 1, 7) == Result(0, 0, 7)
    assert play_match(cards(), {0: high, 1: player(2)}, 0, 4) == Result(0, 4, 0)
    assert high.policies[""].played == high.policies[""].forgotten


class Endless(Cards):
    """Nobody ever wins."""

    def step(self, action):
        super().step(action)
        self.terminations = dict.fromkeys(self.terminations, False)


def test_a_game_that_never_ends_is_a_draw_and_played_once():
    """Its agents act on under the same ids."""
    env = TurnBasedEnvironment(Endless, seed=1, areas=3, self_play=True)
    assert play_match(env, {0: player(2), 1: player(1)}, 0, 3, max_decisions=4) == Result(0, 3, 0)


def test_a_team_without_agents_is_told(monkeypatch):
    monkeypatch.setattr(match, "MAX_IDLE_STEPS", 20)
    with pytest.raises(MatchError, match=r"No agent of team 2 requested a decision in 20 steps"):
        play_match(cards(), {0: player(2), 1: player(1)}, 2, 1)


class Seeing(Always):
    """A policy that says what it reads, as every saved one does."""

    observations, continuous_size, branches = {0: (77,)}, 0, (3,)
    memory_size, has_deterministic = 0, True


def test_a_policy_of_another_game_is_refused_before_it_plays():
    other = Participant("stranger", {"": Seeing(1)})
    with pytest.raises(MatchError, match=r"stranger does not fit the behavior .* reads observation 0"):
        play_match(cards(), {0: player(2), 1: other}, 0, 1)


class Late(TurnBasedEnvironment):
    """Describes nothing before the reset, and the second seat only some steps later, as engines do."""

    steps = None

    @property
    def behavior_specs(self):
        shown = 0 if self.steps is None else 1 if self.steps < 3 else 2
        return dict(list(super().behavior_specs.items())[:shown])

    def reset(self):
        self.steps = 0
        super().reset()

    def step(self):
        self.steps += 1
        super().step()


def test_seats_that_appear_late_are_played_too():
    env = Late(Cards, seed=1, areas=1, self_play=True)
    high, low = player(2), player(1)
    assert play_all_sides(env, high, low, 20).wins > 15, "until they appear the default plays"
    assert low.policies[""].played
    with pytest.raises(MatchError, match=r"player\?team=1 appeared only after the match had begun"):
        play_match(env, {0: high}, 0, 20)


def test_both_participants_play_every_side():
    env = cards()
    high, low = player(2), player(1)
    assert play_all_sides(env, high, low, 9) == Result(9, 0, 0)
    assert play_all_sides(env, low, high, 9) == Result(0, 0, 9)
    assert Result(2, 2, 1).score == 3 and Result(2, 2, 1).plus(Result(1, 0, 0)) == Result(3, 2, 1)


def test_a_round_robin_ranks_and_draws():
    told = []
    tournament = RoundRobin([player(1), player(3), player(2), player(2)])
    tournament.play(cards(), 6, on_match=lambda *match: told.append(match))
    assert len(told) == 6
    table = tournament.leaderboard()
    assert [one.name for one in table] == ["plays 3", "plays 2", "plays 2", "plays 1"]
    assert table[0].result == Result(18, 0, 0) and table[1].result == Result(6, 6, 6)
    assert table[1].rating == pytest.approx(table[2].rating)
    assert tournament.between(0, 1) == Result(0, 0, 6) and tournament.between(1, 0) == Result(6, 0, 0)
    figure = plot_tournament(tournament, "cards")
    bars, matrix = figure.axes
    assert bars.get_yticklabels()[0].get_text() == "plays 3  1"
    assert [text.get_text() for text in matrix.texts][:3] == ["100", "100", "100"]
    shares = matrix.images[0].get_array()
    assert shares[0].tolist()[1:] == [1.0, 1.0, 1.0] and shares[1, 2] == 0.5
    said = tournament.as_dict()
    assert said["standings"][0]["score"] == 1.0 and len(said["matches"]) == 6


@pytest.mark.parametrize("count", [2, 5])
def test_titles_and_ratings_lie_within_the_picture(count):
    tournament = RoundRobin([player(k) for k in range(1, count + 1)])
    tournament.play(cards(), 2)
    figure = plot_tournament(tournament, "pettingzoo:pettingzoo.classic.a_game?boards=true, " + "games " * 30)
    figure.draw_without_rendering()
    bars, matrix = figure.axes
    texts = [figure._suptitle, matrix.title, *bars.texts, *bars.get_yticklabels()]
    for box in (text.get_window_extent() for text in texts):
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    assert all(text.get_window_extent().x1 <= bars.bbox.x1 for text in bars.texts)


def test_an_environment_of_one_team_and_a_participant_without_a_brain_are_refused():
    class Alone(Cards):
        def __init__(self):
            self.possible_agents = ["player_0"]

        def step(self, action):
            """The only player moves on and on."""

    with pytest.raises(MatchError, match="two teams"):
        play_all_sides(TurnBasedEnvironment(Alone), player(1), player(2), 2)
    other = Participant("other", {"Goalie": Always(1)})
    with pytest.raises(MatchError, match="has no brain for the behavior player; it has brains for: Goalie"):
        play_all_sides(cards(), player(1), other, 2)

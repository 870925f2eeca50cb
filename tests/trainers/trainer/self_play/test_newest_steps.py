"""What is learned from with learn_from_both_sides, and what is counted."""

import numpy as np
import pytest
import torch
from lanista.agent_processor.trajectory import AgentKey, EpisodesDropped, Trajectory
from lanista.trainers.settings.models.behavior import SelfPlaySettings
from lanista.trainers.trainer.self_play.self_play import SelfPlay
from lanista.trainers.trainer.self_play.snapshots import NEWEST
from lanista.trainers.trainer.self_play.team_rotation import TeamRotation


class Draws:
    """Chooses the newest weights, or the snapshot in the first slot."""

    newest = True

    def uniform(self):
        return 0.99 if self.newest else 0.0

    def below(self, n):
        return 0


class Acting(dict):
    """By what each team acts: None for the weights that are trained."""

    def learn(self, team):
        self[team] = None

    def assign(self, team, snapshot):
        self[team] = snapshot


class Stats(list):
    def add_stat(self, key, value, aggregation):
        self.append((key, value))


class Played(Trajectory):
    """A trajectory of which only this is known."""

    def __init__(self, team, length=3, agent=0, by_snapshot=False, done=False, reward=0.0):
        self.behavior_id, self.length, self.agent = f"B?team={team}", length, AgentKey(0, agent)
        self.by_snapshot, self.of_opponent, self.reward = by_snapshot, False, reward
        self.done_reached, self.interrupted, self.life_lost = done, False, False
        self.all_group_dones_reached = True

    last_reward = property(lambda self: self.reward)

    def __len__(self):
        return self.length


class Game:
    def __init__(self, teams=(0, 1), **keys):
        self.acting, self.draws, self.stats = Acting(), Draws(), Stats()
        settings = SelfPlaySettings(learn_from_both_sides=True, swap_steps=10, **keys)
        self.rotation = TeamRotation()
        weights = lambda: {"w": torch.zeros(1)}  # noqa: E731
        self.play = SelfPlay(settings, self.rotation, weights, self.acting, self.draws, self.stats)
        for team in teams:
            self.play.join(team)

    def swap(self, newest):
        self.draws.newest = newest
        self.play.opponents_step += 11
        self.play.advance(0)

    def learned(self, *items):
        return [item for item in self.play.split_by_team(items) if isinstance(item, Trajectory)]


@pytest.fixture
def game():
    return Game()


def test_an_opponent_that_plays_the_newest_weights_acts_with_those_that_are_trained(game):
    assert game.acting[1] is not None  # at first, a snapshot of them
    game.swap(newest=True)
    assert game.acting[1] is None and game.play.opponent == NEWEST and game.play.assigned == {}
    game.swap(newest=False)
    assert game.acting[1] is game.play.pool.snapshots[0]


def test_what_the_newest_weights_did_is_learned_from_whichever_team_it_is_of(game):
    own, newest, old = Played(0), Played(1, agent=1), Played(1, agent=2, by_snapshot=True)
    assert game.learned(own, newest, old) == [own, newest]
    assert (own.of_opponent, newest.of_opponent) == (False, True)
    # Opponents are swapped after as many steps as without.
    assert game.play.opponents_step == 6
    assert game.stats == [("Self-play/Opponent Share", 0.5)]


def test_after_a_change_of_the_team_each_step_counts_by_the_weights_that_took_it(game):
    """Where a thread learns, steps from before the change arrive after it."""
    game.rotation.change()
    game.play.advance(0)
    assert game.play.learning == 1 and game.acting[1] is None
    late, stale = Played(0, reward=1.0, done=True), Played(1, by_snapshot=True, reward=1.0, done=True)
    assert game.learned(late, stale) == [late] and late.of_opponent
    assert game.play.elo == 1200.0 and game.play.opponents_step == 6


def test_games_of_the_learning_team_alone_are_rated(game):
    game.swap(newest=False)
    game.learned(
        Played(0, done=True, reward=1.0), Played(1, agent=1, by_snapshot=True, done=True, reward=-1.0)
    )
    assert game.play.elo == 1200.5 and game.play.opponent_rating == 1199.5
    game.swap(newest=True)
    game.learned(Played(0, done=True, reward=1.0), Played(1, agent=1, done=True, reward=-1.0))
    assert game.play.elo == 1200.5  # a game against oneself


def forgotten(items):
    return [(item.env, item.agent_ids.tolist()) for item in items if isinstance(item, EpisodesDropped)]


def test_what_is_kept_of_an_opponent_is_forgotten_where_its_steps_are_missing(game):
    first = [Played(1, agent=agent) for agent in (1, 2, 3)]
    assert forgotten(game.play.split_by_team(first)) == []
    gap = [Played(1, agent=1, by_snapshot=True), Played(1, agent=2, by_snapshot=True, done=True)]
    assert game.play.split_by_team(gap) == []
    again = [Played(0), Played(1, agent=1), Played(1, agent=3)]
    found = game.play.split_by_team(again)
    assert forgotten(found) == [(0, [1, 2])] and isinstance(found[1], EpisodesDropped)
    assert forgotten(game.play.split_by_team([Played(1, agent=1)])) == []


@pytest.mark.parametrize("reset", [(None, None), (0, None), (0, [1])], ids=["all", "environment", "agent"])
def test_a_reset_forgets_it_by_itself(game, reset):
    env, ids = reset
    game.play.split_by_team([Played(1, agent=1), Played(1, agent=1, by_snapshot=True)])
    event = EpisodesDropped(env, None if ids is None else np.array(ids, np.int32))
    assert game.play.split_by_team([event]) == [event]
    assert forgotten(game.play.split_by_team([Played(1, agent=1)])) == []


def test_three_teams_learn_by_what_each_acts_with(game):
    game = Game(teams=(0, 1, 2))
    items = [Played(0), Played(1, agent=1), Played(2, agent=2, by_snapshot=True)]
    assert game.learned(*items) == items[:2] and game.play.opponents_step == 6


def test_other_behaviors_learn_in_their_own_turn_alone():
    """Goalies and strikers: each has one team, so there is no other side to learn from."""
    goalie = Game(teams=(0,))
    striker = Game(teams=())
    striker.play.rotation = goalie.rotation
    striker.play.join(1)
    striker.swap(newest=True)
    assert striker.acting[1] is not None  # a snapshot, which does not change while it waits
    assert striker.learned(Played(1)) == [] and goalie.learned(Played(0)) != []

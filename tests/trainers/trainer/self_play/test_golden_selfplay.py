"""Ratings and the course of self-play against what ML-Agents 1.1.0 computes."""

from collections import deque

import goldendata
import pytest
import torch
from lanista.agent_processor.trajectory import Trajectory
from lanista.envs.base import BehaviorName
from lanista.trainers.settings.models.behavior import SelfPlaySettings
from lanista.trainers.trainer.self_play.self_play import SelfPlay
from lanista.trainers.trainer.self_play.snapshots import rating_change
from lanista.trainers.trainer.self_play.team_rotation import TeamRotation

LIVE = "live"
"""A team acts by what is being learnt."""


@pytest.mark.parametrize("case", goldendata.cases("selfplay", "elo"))
def test_ratings(case):
    learner, opponent = case["inputs"]["learner"], case["inputs"]["opponent"]
    change = rating_change(learner, opponent, case["inputs"]["result"])
    expected = case["expected"]
    assert change == pytest.approx(expected["change"], rel=1e-9, abs=1e-12)
    assert learner + change == pytest.approx(expected["learner_after"], rel=1e-12)
    assert opponent - change == pytest.approx(expected["opponent_after"], rel=1e-12)


class Script:
    """The draws of the reference's run, in their order."""

    def __init__(self):
        self.left = deque()

    def uniform(self):
        return self.left.popleft()["uniform"]

    def below(self, n):
        draw = self.left.popleft()
        assert draw["index_below"] == n
        return draw["index"]


class Stats(list):
    def add_stat(self, key, value, aggregation):
        self.append([key, value, aggregation.name])


class Brain:
    """A behaviour whose weights are the number of its updates; it notes by which each team acts."""

    def __init__(self, settings, rotation, draws, stats):
        self.version = self.step = 0
        self.acts = {}
        self.play = SelfPlay(
            settings, rotation, lambda: {"version": torch.tensor(self.version)}, self, draws, stats
        )

    def learn(self, team):
        self.acts[team] = LIVE

    def assign(self, team, snapshot):
        self.acts[team] = version(snapshot)

    def advance(self, trajectories, update):
        self.play.detect_team_change(self.step)
        self.step += sum(len(each) for each in self.play.split_by_team(trajectories))
        if update:
            self.version += 1
            self.play.on_update()
        self.play.advance(self.step)


def version(snapshot):
    return int(snapshot.weights["version"])


class Told(Trajectory):
    """A trajectory of which only this is known."""

    def __init__(self, behavior_id, told):
        self.behavior_id, self.length = behavior_id, told["length"]
        self.done_reached, self.interrupted = told["done"], told["interrupted"]
        # Agents without mates have none that live.
        self.all_group_dones_reached = told["mates_done"] is not False
        self.life_lost = False
        self.reward = told["reward"] + told["group_reward"]

    last_reward = property(lambda self: self.reward)

    def __len__(self):
        return self.length


@pytest.mark.parametrize("case", goldendata.cases("selfplay", "ghost_run"))
def test_the_course_of_self_play(case):
    inputs = case["inputs"]
    rotation, draws, stats = TeamRotation(), Script(), Stats()
    settings = SelfPlaySettings(**inputs["settings"])
    brains = {name: Brain(settings, rotation, draws, stats) for name in inputs["advance_order"]}
    acting = {}
    """By which version each team acts in the reference: what was pushed to it last."""
    for behavior_id in inputs["behavior_ids_in_registration_order"]:
        name = BehaviorName.parse(behavior_id)
        brains[name.name].play.join(name.team_id)
        acting[behavior_id] = 0
    ids = [BehaviorName.parse(each) for each in inputs["behavior_ids_in_registration_order"]]
    shares_teams = len({each.team_id for each in ids}) < len(ids)
    start, *rounds = case["expected"]["after_setup_and_each_round"]
    compare(brains, rotation, start)
    for told, expected in zip(inputs["rounds"], rounds, strict=True):
        draws.left.extend(told["draws"])
        for name, brain in brains.items():
            given = [
                Told(behavior_id, each)
                for behavior_id, trajectories in told["trajectories"].items()
                if BehaviorName.parse(behavior_id).name == name
                for each in trajectories
            ]
            brain.advance(given, told["update"].get(name, False))
        if shares_teams and rotation.learning != start["controller_team"]:
            # The change is one for all behaviors here: docs/from-ml-agents.md.
            assert expected["controller_team"] != start["controller_team"]
            return
        assert not draws.left
        compare(brains, rotation, expected)
        assert rotation.take_change() is expected["reset_requested"]
        assert stats == [[key, pytest.approx(value), how] for key, value, how in expected["elo_stats"]]
        stats.clear()
        acting |= {push["behavior_id"]: push["version"] for push in expected["pushed"]}
        for behavior_id, wanted in acting.items():
            name = BehaviorName.parse(behavior_id)
            acts = brains[name.name].acts.get(name.team_id, LIVE)
            assert (brains[name.name].version if acts == LIVE else acts) == wanted


def compare(brains, rotation, expected):
    assert rotation.learning == expected["controller_team"]
    for name, theirs in expected["trainers"].items():
        brain, play = brains[name], brains[name].play
        found = {
            "learning_team": play.learning,
            "step": brain.step,
            "ghost_step": play.opponents_step,
            "last_save": play.last_save,
            "last_swap": play.last_swap,
            "last_team_change": play.last_team_change,
            "snapshot_counter": play.pool.next_slot,
            "snapshots": [version(snapshot) for snapshot in play.pool.snapshots],
            "current_snapshot": version(play.newest),
            "current_opponent": play.opponent,
            "wrapped_team": play.teams[0],
        }
        assert found == {key: theirs[key] for key in found}
        assert play.pool.ratings == pytest.approx(theirs["elos"], rel=1e-9)

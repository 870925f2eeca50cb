"""Whole runs that learn from both sides, and choose their opponents by how hard they are."""

from dataclasses import replace

import numpy as np
import pytest
from lanista.trainers.policies.joint import ActRequest
from lanista.trainers.trainer.inference import InferencePolicy
from lanista.trainers.trainer.trainer import Trainer
from reliability.resume import differences
from self_play_runs import EVERY, LSTM, OF_GROUPS, TEAMS, configure

BOTH = ("--set", "behaviors.Tiny.self_play.learn_from_both_sides=true")
PRIORITIZED = ("--set", "behaviors.Tiny.self_play.opponent_sampling=prioritized")


@pytest.fixture
def runs(runs):
    runs.rules |= {"behaviors": TEAMS, "unique_ids": True}
    return runs


@pytest.fixture
def learned(monkeypatch):
    """By whom the steps were decided that a run learns from, and how many of them are an opponent's."""
    request, marked, process = InferencePolicy.request, ActRequest.marked, Trainer.process
    found = {"by": set(), "own": 0, "opponent": 0}
    marks = {}

    def requested(self, policy, *arguments, **keys):
        marks[policy] = 1.0 if policy is self.policy else -1.0
        return request(self, policy, *arguments, **keys)

    def told_apart(self, decisions):
        return [
            replace(one, log_probs=np.full_like(one.log_probs, marks[self.policy]))
            for one in marked(self, decisions)
        ]

    def processed(self, rollout):
        found["by"] |= set(np.unique(rollout.log_probs[: rollout.steps]).tolist())
        of_opponent = int(rollout.lengths[rollout.of_opponent].sum())
        found["opponent"] += of_opponent
        found["own"] += rollout.steps - of_opponent
        process(self, rollout)

    monkeypatch.setattr(InferencePolicy, "request", requested)
    monkeypatch.setattr(ActRequest, "marked", told_apart)
    monkeypatch.setattr(Trainer, "process", processed)
    return found


@pytest.mark.parametrize("threaded", ["false", "true"])
@pytest.mark.parametrize("teams", [2, 3])
def test_only_steps_of_the_newest_weights_are_learned_from(runs, tmp_path, learned, threaded, teams):
    configure(tmp_path, hyper=", num_epoch: 1")
    runs.rules["behaviors"] = [f"Tiny?team={k}" for k in range(teams)]
    # The log-probabilities are not those of the actions, so nothing may be learned.
    more = ["buffer_size=100000", "batch_size=64"]
    flags = [text for one in more for text in ("--set", f"behaviors.Tiny.hyperparameters.{one}")]
    threads = ("--set", f"behaviors.Tiny.threaded={threaded}")
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *BOTH, *flags, *threads) == 0
    assert learned["by"] == {1.0}
    state = runs.state()
    assert state["step"] == learned["own"] + learned["opponent"] > 700
    assert state["self_play"]["rotation"]["changes"] >= 3
    # About half of the opponents' steps, which are all counted beside the trainer's.
    assert 0 < learned["opponent"] < state["self_play"]["steps"][0]


@pytest.mark.slow
@pytest.mark.parametrize("trainer", EVERY)
def test_every_trainer_learns_from_both_sides(runs, tmp_path, capsys, trainer):
    hyper, discrete, continuous = EVERY[trainer]
    configure(tmp_path, trainer, hyper)
    runs.rules |= {"disc": discrete, "cont": continuous, "groups": trainer in OF_GROUPS}
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *BOTH, *PRIORITIZED) == 0
    state = runs.state()
    assert state["self_play"]["rotation"]["changes"] >= 3 and len(state["self_play"]["slots"]) == 3
    assert state["step"] > 1.2 * state["self_play"]["steps"][0]


def test_statistics_are_the_learning_teams_alone(runs, tmp_path, monkeypatch):
    from lanista.trainers.trainer.episode_stats import EpisodeStats

    teams, add = set(), EpisodeStats._report
    monkeypatch.setattr(
        EpisodeStats,
        "_report",
        lambda self, agent, *rest: (teams.add(agent.agent // 4), add(self, agent, *rest))[1],
    )
    configure(tmp_path)
    never = ("--set", "behaviors.Tiny.self_play.team_change=100000")
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *BOTH, *never) == 0
    assert teams == {0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "memory", "teams"),
    [("ppo", LSTM, 2), ("ppo", "", 3), ("poca", LSTM, 2), ("coma", LSTM, 2)],
    ids=["ppo with a memory", "three teams", "poca with a memory", "coma with a memory"],
)
def test_a_killed_run_goes_on_bit_for_bit(runs, tmp_path, monkeypatch, capsys, trainer, memory, teams):
    configure(tmp_path, trainer, ", num_epoch: 1" if trainer != "coma" else "", memory=memory)
    both = "window: 9, learn_from_both_sides: true, opponent_sampling: prioritized"
    text = (tmp_path / "c.yaml").read_text().replace("window: 3", both)
    (tmp_path / "c.yaml").write_text(text)
    runs.rules["behaviors"] = [f"Tiny?team={k}" for k in range(teams)]
    runs.rules |= {"groups": trainer != "ppo", "cont": 0, "disc": [3]}
    runs.killed_and_resumed(monkeypatch, 12 if trainer == "ppo" else 1)
    saved = runs.at_the_kill[0]["self_play"]
    unkilled, killed = runs.state("unkilled"), runs.state("killed")
    assert unkilled["step"] > 700 and saved["rotation"]["changes"] >= 1
    assert not differences(unkilled["self_play"], killed["self_play"])
    assert trainer != "ppo" or any(games for games, _ in unkilled["self_play"]["records"])
    found = {text.partition(":")[0]: text for text in differences(unkilled, killed)}
    rows = {".buffer.numbers", ".buffer.mates", ".buffer.next_mates", ".buffer.other_numbers"}
    assert found.keys() <= (rows if trainer != "ppo" else set()), found


@pytest.mark.slow
def test_with_one_team_of_the_behavior_it_is_said_that_there_is_no_other_side(runs, tmp_path, capsys):
    names = ("Goalie", "Striker")
    configure(tmp_path, names=names)
    runs.rules["behaviors"] = ["Goalie?team=0", "Striker?team=1"]
    flags = [
        text for name in names for text in ("--set", f"behaviors.{name}.self_play.learn_from_both_sides=true")
    ]
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *flags) == 0
    out = capsys.readouterr().out
    assert all(out.count(f"no effect on the behavior {name}") == 1 for name in names), out


def test_what_was_chosen_is_reported(runs, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    configure(tmp_path)
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *BOTH, *PRIORITIZED) == 0
    events = EventAccumulator(str(tmp_path / "results" / "r" / "Tiny"))
    events.Reload()
    for tag in ("Self-play/Win Rate", "Self-play/Opponent Share"):
        assert all(0 <= event.value < 1 for event in events.Scalars(tag))

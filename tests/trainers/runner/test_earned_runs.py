"""Runs of teams: whatever compares or is told a behavior's reward means what its groups earn."""

import json
import re

import pytest
from lanista import TrainingResult
from lanista.trainers.callbacks import Callback
from line_game import Line

YAML = """\
behaviors:
  Tiny:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 16, buffer_size: 128}}
    network_settings: {{hidden_units: 8, num_layers: 1}}
    max_steps: 800
    time_horizon: 8
    summary_freq: 200
    checkpoint_interval: 400
environment_parameters:
  max_len:
    curriculum:
      - name: Short
        value: 6
        completion_criteria: {{behavior: Tiny, min_lesson_length: 12, threshold: 0.4}}
      - {{name: Long, value: 8}}
"""
OF_A_GROUP = 0.5
"""What every group earns in an episode, whatever its agents do."""


class Episodes(Callback):
    def __init__(self):
        self.of_agents, self.checkpoints = [], []

    def on_episode_end(self, event):
        self.of_agents.append(event.reward)

    def on_checkpoint(self, event):
        self.checkpoints.append(event.reward)


@pytest.mark.parametrize("trainer", ["poca", "ppo"])
def test_a_team_s_reward_is_what_its_groups_earn(runs, tmp_path, capsys, trainer):
    runs.rules["groups"] = True
    runs.configure(YAML.format(trainer=trainer))
    seen = Episodes()
    runs.train("c.yaml", "--run-id", "r", "--seed", "3", callbacks=[seen])
    status = runs.status()
    assert status["max_len"]["lesson_num"] == 1, "the agents' own rewards are below the threshold"
    assert max(seen.of_agents) != OF_A_GROUP
    assert seen.checkpoints[-1] == OF_A_GROUP
    assert {entry["reward"] for entry in status["Tiny"]["checkpoints"]} == {OF_A_GROUP}
    assert TrainingResult.from_folder(tmp_path / "results" / "r").rewards == {"Tiny": OF_A_GROUP}
    assert re.search(r"Mean Group Reward: 0\.500", capsys.readouterr().out)


@pytest.mark.parametrize("test_frequency", [0, 100])
def test_the_best_policies_are_compared_anew_once_groups_earn(runs, tmp_path, monkeypatch, test_frequency):
    """Agents earn much as long as their groups earn nothing."""
    act = Line.act

    def late(line, action):
        act(line, action)
        if seen.steps < 400:
            line.terminals.reward[:] += 50.0
            line.terminals.group_reward[:] = 0.0

    class Steps(Callback):
        steps = 0

        def on_environment_step(self, event):
            self.steps = event.steps["Tiny"]

    seen = Steps()
    monkeypatch.setattr(Line, "act", late)
    runs.rules["groups"] = True
    yaml = YAML.format(trainer="ppo").partition("environment_parameters")[0]
    tested = f"    test_frequency: {test_frequency}\n    test_episodes: 4\n" if test_frequency else ""
    runs.configure(f"{yaml}    keep_best: 1\n{tested}callbacks: [keep_best]\n")
    runs.train("c.yaml", "--env", "scene:basic", "--run-id", "r", "--seed", "3", callbacks=[seen])
    status = runs.status()["Tiny"]
    assert [entry["reward"] for entry in status["best_checkpoints"]] == [OF_A_GROUP]
    state = json.loads((tmp_path / "results" / "r" / "run_logs" / "callbacks.json").read_text())
    assert state["keep_best"]["best"] == {"Tiny": OF_A_GROUP}


def test_a_team_s_reward_ends_its_run(runs, capsys):
    runs.rules["groups"] = True
    runs.configure(
        f"{YAML.format(trainer='poca')}callbacks: [{{stop_at_reward: {{reward: 0.5, episodes: 20}}}}]\n"
    )
    assert runs("c.yaml", "--run-id", "r", "--seed", "3") == 0
    assert "the mean reward of the last 20 episodes of Tiny is 0.500" in capsys.readouterr().out


def test_the_listed_reward_is_the_mean_of_many_episodes(runs):
    """Not of those since the last update, which may be one."""
    runs.configure(YAML.format(trainer="ppo").partition("environment_parameters")[0])
    seen = Episodes()
    runs.train("c.yaml", "--run-id", "r", "--seed", "3", callbacks=[seen])
    last = seen.of_agents[-100:]
    assert runs.status()["Tiny"]["final_checkpoint"]["reward"] == pytest.approx(sum(last) / len(last))


def test_a_game_s_statistic_does_not_pass_for_the_reward(runs, capsys, monkeypatch):
    from lanista.envs.base import StatsAggregationMethod
    from line_game import LineGame

    told = {"Environment/Cumulative Reward": [(911.0, StatsAggregationMethod.AVERAGE)]}
    monkeypatch.setattr(LineGame, "statistics", lambda game: told)
    runs.configure(YAML.format(trainer="ppo").partition("environment_parameters")[0])
    assert runs("c.yaml", "--run-id", "r", "--seed", "3") == 0
    out = capsys.readouterr().out
    means = [float(text) for text in re.findall(r"Mean Reward: (-?\d+\.\d+)", out)]
    assert means and max(means) <= 1.0
    assert out.count("written as Game/Environment/Cumulative Reward") == 1

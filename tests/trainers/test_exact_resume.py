"""A killed run goes on from its checkpoint, bit for bit, as one that only started its engines afresh there.

Whole processes, killed at any moment, are the subject of tests/reliability/resume.py.
"""

import json
from itertools import cycle

import pytest
from lanista.trainers.checkpoints import load_checkpoint
from lanista.trainers.controller import TrainerController
from line_game import Runs
from reliability.resume import differences, numbers

YAML = """\
behaviors:
  Tiny:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 16, buffer_size: 128, num_epoch: 1, learning_rate_schedule: linear}}
    network_settings: {{normalize: true, hidden_units: 8, num_layers: 1{memory}}}
    keep_best: {keep_best}
    checkpoint_interval: 300
    max_steps: 700
    time_horizon: 8
    summary_freq: 100
"""


@pytest.fixture
def runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Runs(monkeypatch)


class Kill:
    """Ends a run between two ticks, as a kill does: without a save."""

    def __init__(self, monkeypatch, checkpoint, ticks):
        real, left = TrainerController._learn, [ticks]

        def learn(controller):
            real(controller)
            if checkpoint.exists():
                left[0] -= 1
                if not left[0]:
                    monkeypatch.setattr(TrainerController, "_learn", real)
                    raise KeyboardInterrupt("here")

        monkeypatch.setattr(TrainerController, "_learn", learn)


LSTM = ", memory: {memory_size: 4, sequence_length: 8}"


ROWS = {".buffer.numbers", ".buffer.mates", ".buffer.next_mates", ".buffer.other_numbers"}
"""Numbers by which the rows of a process are told apart: another process counts from where it begins."""


@pytest.mark.parametrize(
    "trainer, memory, keep_best, ticks",
    [("ppo", "", 0, 40), ("ppo", LSTM, 0, 40), ("ppo", "", 2, 1), ("poca", "", 0, 1)],
    ids=["ppo", "ppo with a memory", "ppo that keeps the best", "poca"],
)
def test_no_bit_differs(runs, tmp_path, monkeypatch, capsys, trainer, memory, keep_best, ticks):
    (tmp_path / "c.yaml").write_text(YAML.format(trainer=trainer, memory=memory, keep_best=keep_best))
    runs.rules["groups"] = trainer == "poca"
    # Every process starts its engines afresh at checkpoints, so that there may be several of them.
    runs.restarting_at_checkpoints("c.yaml", "--run-id", "unkilled", "--seed", "3")
    killed = tmp_path / "results" / "killed" / "Tiny"
    Kill(monkeypatch, killed / "checkpoint.pt", ticks)
    with pytest.raises(KeyboardInterrupt, match="here"):
        runs.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--seed", "3")
    assert not (killed.parent / "Tiny.onnx").exists(), "a kill saves nothing"
    runs.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--resume")
    assert "resuming training from step" in capsys.readouterr().out
    states = [
        load_checkpoint(tmp_path / "results" / run / "Tiny" / "checkpoint.pt")
        for run in ("unkilled", "killed")
    ]
    assert states[0]["step"] > 700 and numbers(states[0]) > 200
    found = {text.partition(":")[0]: text for text in differences(*states)}
    assert found.keys() <= (ROWS if trainer == "poca" else set()), found


def lessons(count):
    """Every lesson lasts 12 episodes, and is another length of episodes; every second one resets."""
    criteria = "behavior: Tiny, measure: reward, threshold: -2, min_lesson_length: 12"
    told = [
        f"{{name: L{k}, value: {5 + 3 * (k % 3)}, completion_criteria: {{{criteria}, require_reset: {r}}}}}"
        for k, r in zip(range(count - 1), cycle(["false", "true"]))
    ]
    return "\n      - ".join(
        ["environment_parameters:\n  max_len:\n    curriculum:", *told, "{name: last, value: 9}"]
    )


def test_no_bit_differs_in_the_middle_of_a_curriculum(runs, tmp_path, monkeypatch, capsys):
    yaml = YAML.format(trainer="ppo", memory="", keep_best=0) + lessons(30)
    (tmp_path / "c.yaml").write_text(yaml)
    runs.restarting_at_checkpoints("c.yaml", "--run-id", "unkilled", "--seed", "3")
    whole = capsys.readouterr().out
    killed = tmp_path / "results" / "killed" / "Tiny"
    Kill(monkeypatch, killed / "checkpoint.pt", 40)
    with pytest.raises(KeyboardInterrupt, match="here"):
        runs.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--seed", "3")
    capsys.readouterr()
    status = json.loads((killed.parent / "run_logs" / "training_status.json").read_text())
    at_the_kill = status["max_len"]["lesson_num"]
    runs.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--resume")
    resumed = capsys.readouterr().out
    ends = [
        (
            load_checkpoint(tmp_path / "results" / run / "Tiny" / "checkpoint.pt"),
            json.loads((tmp_path / "results" / run / "run_logs" / "training_status.json").read_text())[
                "max_len"
            ],
        )
        for run in ("unkilled", "killed")
    ]
    assert not differences(*ends)
    assert 2 < at_the_kill < ends[0][1]["lesson_num"] - 2 and ends[0][1]["smoothed_reward"] != 0
    lines = [line for line in whole.splitlines() if "is in lesson" in line]
    assert [line for line in resumed.splitlines() if "is in lesson" in line] == lines[at_the_kill:]

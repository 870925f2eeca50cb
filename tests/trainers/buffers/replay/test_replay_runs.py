"""Runs that learn from a replay: beside collecting, and when settings, the file or the disk are bad."""

import re

import pytest
from lanista.trainers.buffers.replay import memory_limit as memory
from lanista.trainers.buffers.replay import storage as replay_file
from lanista.trainers.buffers.replay.storage import FILE
from lanista.trainers.checkpoints.file import load_checkpoint
from line_runs import Runs
from replay_steps import fill_disk

YAML = """\
behaviors:
  Tiny:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 16, buffer_size: {size}, steps_per_update: 10, save_replay_buffer: true}}
    network_settings: {{hidden_units: 8, num_layers: 1{memory}}}
    checkpoint_interval: 100
    max_steps: {end}
    time_horizon: 8
    summary_freq: 100
    threaded: {threaded}
torch_settings: {{num_threads: 1}}
"""
TRAINERS = ["sac", "dqn", "ddpg", "td3"]


@pytest.fixture
def runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    made = Runs(monkeypatch)

    def run(*arguments, trainer="sac", size=256, end=200, memory="", threaded=False):
        if trainer == "dqn":
            made.rules |= {"cont": 0, "disc": (3,)}
        (tmp_path / "c.yaml").write_text(
            YAML.format(trainer=trainer, size=size, end=end, memory=memory, threaded=threaded)
        )
        return made("c.yaml", "--run-id", "r", *arguments)

    return run


@pytest.fixture
def behavior(tmp_path):
    return tmp_path / "results" / "r" / "Tiny"


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_replay_smaller_than_a_batch_is_refused_before_anything_is_written(runs, tmp_path, capsys, trainer):
    assert runs(trainer=trainer, size=15) == 1
    printed = capsys.readouterr().err
    assert "buffer_size" in printed and "found 15" in printed and "batch_size 16" in printed
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("trainer", TRAINERS)
def test_learning_beside_collecting_makes_the_updates_that_the_steps_are_worth(runs, behavior, trainer):
    assert runs(trainer=trainer, end=400, threaded=True) == 0
    ended = load_checkpoint(behavior / "checkpoint.pt")
    assert ended["step"] >= 400 and (behavior.parent / "Tiny.onnx").exists()
    # Counting begins at 1. The last steps, as many as the queue holds, get none: the run is over.
    assert 10 <= ended["updates"][0] <= ended["step"] / 10 + 1


def test_a_replay_of_less_than_a_batch_of_whole_sequences_is_learned_from(runs, behavior):
    assert runs(size=16, memory=", memory: {memory_size: 4, sequence_length: 12}") == 0
    assert load_checkpoint(behavior / "checkpoint.pt")["updates"][0] >= 15


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_replay_that_no_memory_holds_is_refused_with_numbers(runs, capsys, monkeypatch, trainer):
    monkeypatch.setattr(memory, "_limits", lambda: iter([(1000, "the machine")]))
    assert runs(trainer=trainer) == 1
    printed = capsys.readouterr().err
    assert re.search(r"Tiny: its replay of 256 steps.* takes [\d.]+ kB.*the machine leaves 1 kB", printed)
    assert re.search(r"buffer_size to at most about \d+", printed)


def test_the_size_of_the_replay_is_reported_at_the_start(runs, capsys):
    assert runs() == 0
    assert re.search(
        r"Tiny: the replay will take [\d.]+ kB of memory when it holds 256 st", capsys.readouterr().out
    )


def test_a_damaged_replay_is_dropped_and_the_run_continues(runs, behavior, capsys):
    assert runs() == 0
    before = load_checkpoint(behavior / "checkpoint.pt")["step"]
    data = (behavior / FILE).read_bytes()
    (behavior / FILE).write_bytes(data[:3000] + bytes([data[3000] ^ 4]) + data[3001:])
    capsys.readouterr()
    assert runs("--resume", end=400) == 0
    printed = capsys.readouterr().out
    assert "Replay buffer was unable to load, starting from scratch." in printed
    assert re.search(r"Its \d+ steps are dropped", printed)
    after = load_checkpoint(behavior / "checkpoint.pt")
    assert before < 250 and after["step"] >= 400
    # It learns on, and the replay of the steps since is saved in the damaged one's place.
    assert after["updates"][0] > before // 10 + 10
    capsys.readouterr()
    assert runs("--resume", end=500) == 0
    assert re.search(r"the replay holds \d+ steps", capsys.readouterr().out)


def test_a_disk_that_fills_while_the_replay_is_saved_costs_the_new_replay_alone(
    runs, behavior, capsys, monkeypatch
):
    assert runs() == 0
    older = (behavior / FILE).read_bytes()
    write = replay_file._write
    fill_disk(monkeypatch, 4000)
    capsys.readouterr()
    assert runs("--resume", end=400) == 0
    printed = capsys.readouterr().out
    assert re.search(r"Tiny: the replay of step \d+ could not be saved \(.*No space left", printed)
    assert load_checkpoint(behavior / "checkpoint.pt")["step"] >= 400
    assert (behavior / FILE).read_bytes() == older and not list(behavior.parent.rglob("*.partial"))
    assert (behavior.parent / "Tiny.onnx").exists()
    monkeypatch.setattr(replay_file, "_write", write)
    assert runs("--resume", end=500) == 0
    assert re.search(r"It is of step \d+, the checkpoint of step \d+", capsys.readouterr().out)
    assert (behavior / FILE).read_bytes() != older

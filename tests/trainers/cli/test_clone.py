"""`lanista clone`: the files of a run, what a brain made of demonstrations does, and what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from crowd import write_demonstration
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.cli.main import run
from lanista.trainers.runner.cloning import CloningRun
from learning_cloning import Teacher, contest
from reliability.resume import differences
from specs import spec_of_shapes
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

DEMOS = Path(__file__).parents[2] / "real" / "demos"
BASIC = str(DEMOS / "ExpertBasic.demo")
NAMED = (BASIC, "--behavior", "Basic")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def clone(*arguments):
    return run(["clone", *map(str, arguments)])


def test_a_brain_of_real_demonstrations_plays_their_game(capsys):
    assert clone(*NAMED, "--gradient-steps", 300, "--seed", 1) == 0
    said = capsys.readouterr().out
    assert "Basic: learns from" in said and "Held-out Accuracy: " in said
    folder = Path("results/clone")
    assert run(["play", f"{folder}/Basic.onnx", "--env", "scene:basic", "--episodes", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_reward"] > 0.9
    assert run(["export", f"{folder}/Basic/checkpoint.pt", "again.onnx"]) == 0
    assert Path("again.onnx").read_bytes() == (folder / "Basic.onnx").read_bytes()


def test_the_run_folder_is_that_of_a_training():
    assert clone(*NAMED, "--gradient-steps", 100, "--held-out", 0.2, "--seed", 1, "--run-id", "a/b") == 0
    folder = Path("results/a/b")
    status = json.loads((folder / "run_logs" / "training_status.json").read_text())
    assert status["Basic"]["final_checkpoint"]["steps"] == 100
    assert [each["steps"] for each in status["Basic"]["checkpoints"]][-1] == 100
    assert (folder / "run_logs" / "timers.json").exists() and (folder / "Basic" / "Basic-100.onnx").exists()
    written = yaml.safe_load((folder / "configuration.yaml").read_text())
    assert written["behaviors"]["Basic"]["clone"] == {
        "demos": [BASIC],
        "gradient_steps": 100,
        "held_out": 0.2,
    }
    assert written["env_settings"]["seed"] == 1
    events = EventAccumulator(str(folder / "Basic")).Reload()
    assert {"Losses/Pretraining Loss", "Cloning/Held-out Accuracy"} <= set(events.Tags()["scalars"])
    steps = [event.step for event in events.Scalars("Losses/Pretraining Loss")]
    assert len(steps) > 10 and steps[-1] == 100


def test_a_run_that_was_stopped_resumes_bit_for_bit(monkeypatch):
    steps = ["--gradient-steps", 60, "--seed", 5]
    assert clone(*NAMED, *steps, "--run-id", "whole") == 0
    with monkeypatch.context() as patched:
        patched.setattr(CloningRun, "on_summary", lambda self, step: step >= 20 and self.stop())
        assert clone(*NAMED, *steps, "--run-id", "parts") == 0
    (stopped,) = Path("results/parts/Basic").glob("Basic-2?.pt")
    assert load_checkpoint(stopped)["step"] < 60
    assert clone(*NAMED, "--gradient-steps", 60, "--run-id", "parts", "--resume") == 0
    ends = [load_checkpoint(f"results/{name}/Basic/checkpoint.pt") for name in ("whole", "parts")]
    assert not differences(*ends)
    brains = [Path(f"results/{name}/Basic.onnx").read_bytes() for name in ("whole", "parts")]
    assert brains[0] == brains[1]


def test_an_older_run_is_not_overwritten(capsys):
    assert clone(*NAMED, "--gradient-steps", 2) == 0
    before = Path("results/clone/Basic.onnx").read_bytes()
    assert clone(*NAMED, "--gradient-steps", 3) == 1
    assert "Previous data from this run ID was found" in capsys.readouterr().err
    assert Path("results/clone/Basic.onnx").read_bytes() == before
    assert clone(*NAMED, "--gradient-steps", 3, "--force") == 0
    assert len(list(Path("results").glob("clone.*"))) == 1


def test_settings_come_from_the_files_and_flags_override_them():
    Path("a.yaml").write_text(
        "behaviors: {Basic: {trainer_type: dqn, network_settings: {hidden_units: 16, num_layers: 1},"
        " clone: {demos: [other.demo], gradient_steps: 7}}}"
    )
    key = "behaviors.Basic.network_settings.num_layers=2"
    assert clone(*NAMED, "--config", "a.yaml", "--gradient-steps", 3, "--set", key) == 0
    state = load_checkpoint("results/clone/Basic/checkpoint.pt")
    assert state["step"] == 3
    assert state["brain"]["network"]["hidden_units"] == 16 and state["brain"]["network"]["num_layers"] == 2


def test_images_masks_memory_and_both_kinds_of_actions(capsys):
    spec = spec_of_shapes([[3], [1, 20, 20]], continuous=1, branches=(3, 2))
    write_demonstration(Path("a.demo"), spec, [9, 8])
    shutil.copy("a.demo", "b.demo")
    more = ["--set", "behaviors.Crowd.network_settings.memory={sequence_length: 4, memory_size: 4}"]
    more += ["--set", "behaviors.Crowd.network_settings.hidden_units=8"]
    assert clone("a.demo", "b.demo", "--gradient-steps", 4, "--held-out", 0.5, *more) == 0
    said = capsys.readouterr().out
    assert (
        "learns from 2 episodes" in said and "Held-out Action Error" in said and "Held-out Accuracy" in said
    )
    assert Path("results/clone/Crowd.onnx").exists()


def refused():
    """By name: what is to be refused, and a part of the message."""
    spec = spec_of_shapes([[3]], continuous=1)
    write_demonstration(Path("crowd.demo"), spec, [5, 5])
    write_demonstration(Path("other.demo"), spec_of_shapes([[4]], continuous=1), [5])
    write_demonstration(Path("idle.demo"), spec_of_shapes([[3]]), [5])
    write_demonstration(Path("single.demo"), spec, [1])
    damaged = Path("crowd.demo").read_bytes()
    Path("short.demo").write_bytes(damaged[:-20])
    Path("empty.demo").write_bytes(b"")
    Path("empty").mkdir()
    Path("a.yaml").write_text("behaviors: {Ball: {}}")
    return {
        "no such file": (["gone.demo"], "gone.demo: the demonstration file or directory does not exist"),
        "a folder without any": (["empty"], "no '.demo' files"),
        "several behaviors": (["crowd.demo", BASIC], "several behaviors: Crowd (crowd.demo), BasicLearning"),
        "another spec": (["crowd.demo", "other.demo"], "The shape (4,) for observation 0"),
        "actions": (["crowd.demo", BASIC, "--behavior", "X"], "in demonstration do not match those of crowd"),
        "no step": (["single.demo"], "there is no step in it"),
        "no actions": (["idle.demo"], "has no actions: there is nothing to imitate"),
        "damaged": (["short.demo"], "short.demo: byte"),
        "empty": (["empty.demo"], "The demonstration empty.demo"),
        "not in the file": (
            ["crowd.demo", "--config", "a.yaml"],
            "Crowd of the demonstrations is not in a.yaml",
        ),
        "a wrong number": (["crowd.demo", "--held-out", "1"], "behaviors.Crowd.clone.held_out"),
        "no assignment": (["crowd.demo", "--set", "max_steps"], "--set: 'max_steps' has no '='"),
        "several learners": (
            ["crowd.demo", "--set", "torch_settings.learners=2"],
            "torch_settings.learners: found 2",
        ),
        "no run to resume": (["crowd.demo", "--resume"], "Previous data from this run ID was not found"),
        "no such start": (["crowd.demo", "--initialize-from", "x"], "Could not initialize from"),
        "a trainer for other actions": (
            ["crowd.demo", "--set", "behaviors.Crowd.trainer_type=coma"],
            "Crowd: ",
        ),
    }


def test_what_cannot_be_learned_is_refused_in_a_sentence(capsys):
    for what, (arguments, message) in refused().items():
        assert clone(*arguments) == 1, what
        said = capsys.readouterr().err
        assert message in said and said.startswith("lanista clone: error: "), (what, said)
        assert "Traceback" not in said
        assert not list(Path().glob("results/*/configuration.yaml")) or what == "a trainer for other actions"


def test_what_can_be_refused_without_torch_is_refused_before_it_is_loaded():
    code = (
        "import sys; from lanista.trainers.cli.main import run; "
        f"run(['clone', {BASIC!r}, '--resume']); print('torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Previous data from this run ID was not found" in out.stderr
    assert out.stdout.splitlines()[-1] == "False"


def test_training_goes_on_from_a_clone(capsys):
    from lanista.trainers.learn import run as learn

    assert clone(*NAMED, "--gradient-steps", 50) == 0
    Path("basic.yaml").write_text(
        "behaviors: {Basic: {max_steps: 100, summary_freq: 100, network_settings: {normalize: true}}}"
    )
    given = ["basic.yaml", "--env", "scene:basic", "--run-id", "new", "--initialize-from", "clone"]
    assert learn(given) == 0
    assert "with the weights of results/clone/Basic/checkpoint.pt" in capsys.readouterr().out
    states = [load_checkpoint(f"results/{name}/Basic/checkpoint.pt")["Policy"] for name in ("clone", "new")]
    same = [torch.equal(states[0][key], states[1][key]) for key in states[0] if "weight" in key]
    assert same and all(same), "nothing was learned in 100 steps"


def test_a_clone_of_unitys_own_brain_balances_the_ball_for_longer_than_chance():
    """Recorded and cloned by the commands: continuous actions, in other episodes, and longer ones.

    Clones return from 20 to 100, depending on the seed; what has learned nothing, 1 to 2.
    """
    teacher = Teacher("ball3d", 40, decisions=60, options=["--gradient-steps", "1500"])
    row = contest("3DBall", teacher, seed=0, played=2)
    assert row.teacher_return > 95 and row.clone_return > 10, row

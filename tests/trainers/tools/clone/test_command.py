"""`lanista clone`: the files of a run, what a brain made of demonstrations does, and what is refused."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from crowd import write_demonstration
from lanista.envs.demonstrations.recorder import DemonstrationRecorder
from lanista.envs.scenes.in_process import make_in_process
from lanista.trainers.checkpoints.file import load_checkpoint, save_checkpoint
from lanista.trainers.cli.main import run
from lanista.trainers.cli.runs.record import read_run
from lanista.trainers.tools.card.contents import Training
from lanista.trainers.tools.clone.run import CloningRun
from learning_cloning import Teacher, contest
from reliability.resume import differences
from specs import spec_of_shapes
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

DEMOS = Path(__file__).parents[3] / "real" / "demos"
BASIC = str(DEMOS / "ExpertBasic.demo")
NAMED = (BASIC, "--behavior", "Basic")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


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


@pytest.mark.parametrize("method", ["bc", "iql"])
def test_a_whole_clone_is_listed_as_finished_with_its_gradient_steps(method, monkeypatch, capsys):
    words = [*NAMED, "--gradient-steps", 20, "--method", method, "--run-id", "c"]
    monkeypatch.setattr("sys.argv", ["lanista", "clone", *map(str, words)])
    assert clone(*words) == 0
    for brief in (False, True):
        record = read_run(Path("results/c"), brief=brief)
        assert record.state == "finished"
        (behavior,) = record.behaviors
        assert (behavior.cloned, behavior.steps, behavior.max_steps) == (method, 20, 20)
    assert ("Cloning of Basic", f"{method}, 20 of 20 gradient steps") in Training(record).facts()


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


def test_a_run_that_saved_nothing_starts_over_with_the_weights_that_it_was_given(monkeypatch):
    steps = ["--gradient-steps", 5, "--seed", 5]
    assert clone(*NAMED, "--gradient-steps", 40, "--seed", 3, "--run-id", "teacher") == 0
    assert clone(*NAMED, *steps, "--run-id", "whole", "--initialize-from", "teacher") == 0
    with monkeypatch.context() as patched:
        patched.setattr(CloningRun, "learn", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        assert clone(*NAMED, *steps, "--run-id", "parts", "--initialize-from", "teacher") != 0
    assert clone(*NAMED, *steps, "--run-id", "parts", "--resume") == 0
    assert not differences(
        *(load_checkpoint(f"results/{name}/Basic/checkpoint.pt") for name in ("whole", "parts"))
    )


def test_other_behaviors_need_no_weights_to_start_from(capsys):
    """The configuration is the game's; the run that is started from knows one of its behaviors."""
    config = {"behaviors": {name: {"trainer_type": "ppo"} for name in ("Basic", "Other")}}
    Path("game.yaml").write_text(yaml.safe_dump(config))
    assert clone(*NAMED, "--gradient-steps", 5, "--run-id", "teacher") == 0
    start = ["--config", "game.yaml", "--initialize-from", "teacher"]
    assert clone(*NAMED, *start, "--gradient-steps", 5, "--run-id", "pupil") == 0
    Path("results/teacher/Basic/checkpoint.pt").unlink()
    assert clone(*NAMED, *start, "--gradient-steps", 5, "--run-id", "another") == 1
    assert "Basic" in capsys.readouterr().err


def test_a_callback_ends_a_run_which_is_saved(tmp_path, monkeypatch, capsys):
    code = "import lanista.trainers as t\n\nclass Stop(t.Callback):\n    def on_summary(self, event):\n"
    (tmp_path / "mine.py").write_text(code + "        return 'it knows enough'\n")
    monkeypatch.syspath_prepend(tmp_path)
    Path("c.yaml").write_text("default_settings: {}\ncallbacks: [mine:Stop]\n")
    assert clone("--config", "c.yaml", *NAMED, "--gradient-steps", 500, "--run-id", "r") == 0
    assert "it knows enough" in capsys.readouterr().out
    assert 0 < load_checkpoint("results/r/Basic/checkpoint.pt")["step"] < 500


def test_a_run_by_rewards_resumes_bit_for_bit_and_says_what_was_worth_imitating(monkeypatch):
    steps = ["--method", "iql", "--gradient-steps", 60, "--seed", 5]
    expectile = ["--set", "behaviors.Basic.clone.iql.expectile=0.9"]
    assert clone(*NAMED, *steps, *expectile, "--run-id", "whole") == 0
    with monkeypatch.context() as patched:
        patched.setattr(CloningRun, "on_summary", lambda self, step: step >= 20 and self.stop())
        assert clone(*NAMED, *steps, *expectile, "--run-id", "parts") == 0
    assert clone("--config", "results/parts/configuration.yaml", *NAMED, "--run-id", "parts", "--resume") == 0
    ends = [load_checkpoint(f"results/{name}/Basic/checkpoint.pt") for name in ("whole", "parts")]
    assert ends[1]["step"] == 60 and not differences(*ends)
    written = yaml.safe_load(Path("results/parts/configuration.yaml").read_text())
    assert written["behaviors"]["Basic"]["clone"]["method"] == "iql"
    assert written["behaviors"]["Basic"]["clone"]["iql"]["expectile"] == 0.9
    events = EventAccumulator("results/whole/Basic").Reload()
    for tag in ("Losses/Value Loss", "Losses/Q Loss", "Cloning/Effective Share"):
        assert len(events.Scalars(tag)) > 10


def record_random_play(folder, scene, episodes, seed=0):
    """Demonstrations of an agent that does anything."""
    env, random = make_in_process(scene, seed), np.random.default_rng(seed)
    env.reset()
    (name,) = env.behavior_specs
    spec, ended = env.behavior_specs[name], 0
    with DemonstrationRecorder(folder) as recorder:
        while ended < episodes:
            decisions, terminals = env.get_steps(name)
            recorder.end(name, spec, terminals)
            ended += len(terminals)
            action = spec.action_spec.empty_action(len(decisions))
            for branch, size in enumerate(spec.action_spec.discrete_branches):
                action.discrete[:, branch] = random.integers(0, size, len(decisions))
            recorder.act(name, spec, decisions, action)
            env.set_actions(name, action)
            env.step()
    env.close()


def test_random_play_teaches_by_its_rewards_what_nobody_showed(capsys):
    record_random_play("demos", "scene:basic", episodes=40)
    played = {}
    for method, more in (("bc", []), ("iql", ["--set", "behaviors.Basic.clone.iql.tau=0.02"])):
        how = ("--method", method, "--gradient-steps", 1500, "--seed", 1, "--run-id", method)
        assert clone("demos", *how, *more) == 0
        capsys.readouterr()
        play = f"play results/{method}/Basic.onnx --env scene:basic --episodes 5 --max-decisions 100 --json"
        assert run(play.split()) == 0
        played[method] = json.loads(capsys.readouterr().out)["mean_reward"]
    assert played["iql"] > 0.9 > 0.1 > played["bc"]


def test_a_saved_replay_is_learned_from_alone_and_beside_demonstrations(capsys):
    from lanista.trainers.learn import run as learn

    Path("basic.yaml").write_text(
        "behaviors: {Basic: {trainer_type: sac, max_steps: 600, network_settings: {hidden_units: 16},"
        " hyperparameters: {save_replay_buffer: true, buffer_size: 500, buffer_init_steps: 1000}}}"
    )
    assert learn(["basic.yaml", "--env", "scene:basic", "--run-id", "sac"]) == 0
    replay = Path("results/sac/Basic/last_replay_buffer.replay")
    capsys.readouterr()
    assert clone(replay, "--method", "iql", "--gradient-steps", 20, "--seed", 1) == 0
    said = capsys.readouterr().out
    assert "Basic: learns from " in said and "Basic: held out" in said
    play = "play results/clone/Basic.onnx --env scene:basic --episodes 2 --max-decisions 50 --json"
    assert run(play.split()) == 0
    both = (replay, BASIC, "--behavior", "Basic", "--gradient-steps", 5, "--force", "--held-out", 0)
    assert clone(*both) == 0
    steps = sum(int(found) for found in re.findall(r"learns from \d+ episodes?, (\d+) steps", said))
    assert 0 < steps < 500
    data = replay.read_bytes()
    replay.write_bytes(data[:-40])
    assert clone(replay, "--force") == 1
    assert f"the replay {replay}: it is cut off" in capsys.readouterr().err
    replay.write_bytes(data)
    beside = replay.with_name("checkpoint.pt")
    for damage, says in (
        (
            lambda: save_checkpoint(beside, {"Policy": {}}),
            "is not of a run of Lanista with the reward signal",
        ),
        (
            beside.unlink,
            "which describes its behavior. The checkpoint results/sac/Basic/checkpoint.pt cannot be",
        ),
    ):
        damage()
        assert clone(replay, "--force") == 1
        assert says in capsys.readouterr().err


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
        "no such replay": (["gone/last.replay"], "the replay gone/last.replay: there is no such"),
        "an unknown method": (["crowd.demo", "--method", "cql"], "behaviors.Crowd.clone.method"),
        "nothing earned": (["crowd.demo", "--method", "iql"], "all of them are 0"),
        "values with a memory": (
            ["crowd.demo", "--method", "iql", "--set", "behaviors.Crowd.network_settings.memory={}"],
            "behaviors.Crowd.network_settings.memory: found a section, and clone.method: iql",
        ),
        "values with a critic's memory": (
            [
                *("crowd.demo", "--method", "iql"),
                *("--set", "behaviors.Crowd.network_settings.critic={memory: {}}"),
            ],
            "behaviors.Crowd.network_settings.critic.memory: found a section",
        ),
        "no probabilities": (
            ["crowd.demo", "--method", "iql", "--set", "behaviors.Crowd.trainer_type=dqn"],
            "behaviors.Crowd.trainer_type: found dqn",
        ),
        "no discount": (
            ["crowd.demo", "--method", "iql", "--set", "behaviors.Crowd.reward_signals={rnd: {}}"],
            "behaviors.Crowd.reward_signals: found no extrinsic",
        ),
        "settings of another method": (
            ["crowd.demo", "--set", "behaviors.Crowd.clone.iql={}"],
            "behaviors.Crowd.clone.iql: found a section, and method: bc has no settings",
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


LATE = ("nothing earned", "a trainer for other actions")
"""What is refused with the run's folder there already."""


def test_what_cannot_be_learned_is_refused_in_a_sentence(capsys):
    for what, (arguments, message) in refused().items():
        assert clone(*arguments) == 1, what
        said = capsys.readouterr().err
        assert message in said and said.startswith("lanista clone: error: "), (what, said)
        assert "Traceback" not in said
        assert not list(Path().glob("results/*/configuration.yaml")) or what in LATE, what


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

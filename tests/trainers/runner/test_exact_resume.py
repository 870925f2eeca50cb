"""A killed run resumes from its checkpoint bit for bit as an unkilled one that restarted its engines there.

Whole processes, killed at any moment, are the subject of tests/reliability/resume.py.
"""

from itertools import cycle
from pathlib import Path

import pytest
from crowd import write_demonstration
from lanista.trainers.buffers.replay.storage import FILE
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint, save_checkpoint
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.status import TrainingStatus
from reliability.resume import differences, numbers
from specs import spec_of_shapes

YAML = """\
behaviors:
  Tiny:
    trainer_type: {trainer}
    hyperparameters: {{{hyper}}}
    network_settings:
      {{normalize: true, hidden_units: 8, num_layers: 1, vis_encode_type: fully_connected{memory}}}
    keep_best: {keep_best}
    checkpoint_interval: 300
    max_steps: 700
    time_horizon: 8
    summary_freq: 100
torch_settings: {{num_threads: 1}}
"""

ON_POLICY = "batch_size: 16, buffer_size: 128, num_epoch: 1, learning_rate_schedule: linear"
NORMALIZED = "normalize_values: true, normalize_rewards: true"
OFF_POLICY = "batch_size: 16, buffer_size: 256, buffer_init_steps: 50, steps_per_update: 5"
SAVED = f"{OFF_POLICY}, save_replay_buffer: true"
DRIFT = "noise_type: ornstein_uhlenbeck, noise_dt: 0.1"
RANDOM = f"{SAVED.replace('_steps: 50', '_steps: 350')}, random_initial_actions: true"
RICH = f"{SAVED}, n_step: 3, prioritized_replay: true, normalize_rewards: true"
SIGNALS = """\
    reward_signals:
      extrinsic: {}
      rnd: {network_settings: {hidden_units: 8, num_layers: 1, normalize: true}}
      curiosity: {strength: 0.1, network_settings: {hidden_units: 8, num_layers: 1}}
      gail: {demo_path: expert.demo, use_vail: true, network_settings: {hidden_units: 8, num_layers: 1}}
    behavioral_cloning: {demo_path: expert.demo, steps: 2000, num_epoch: 1, samples_per_update: 32}
"""
DEMONSTRATIONS = "    demonstrations: {demo_path: expert.demo, share: 0.25}\n"
REPLAYS = ("sac", "dqn", "ddpg", "td3")
RULES = {"poca": {"groups": True}, "mappo": {"groups": True}, "dqn": {"cont": 0, "disc": (3,)}}


LSTM = ", memory: {memory_size: 4, sequence_length: 8}"
BY_STATE = ", initial_log_std: -1, state_dependent_exploration: {resample_interval: 5}"


ROWS = {".buffer.numbers", ".buffer.mates", ".buffer.next_mates", ".buffer.other_numbers"}
"""Row numbers, which another process counts from its own start."""


CASES = {
    "ppo": ("ppo", ON_POLICY, "", 40),
    "ppo with a memory": ("ppo", ON_POLICY, LSTM, 40),
    "ppo that explores by the state": ("ppo", ON_POLICY, BY_STATE + LSTM, 41),
    "ppo beside them that explores by the state": ("ppo", ON_POLICY, BY_STATE, 41),
    "sac that explores by the state": ("sac", SAVED, BY_STATE, 41),
    "ppo that keeps the best": ("ppo", ON_POLICY, "", 1),
    "ppo with signals and a teacher": ("ppo", ON_POLICY, LSTM, 40),
    "ppo that normalizes values": ("ppo", f"{ON_POLICY}, {NORMALIZED}", "", 40),
    "poca": ("poca", f"{ON_POLICY}, baseline_clip: deviation, max_grad_norm: 0.5, {NORMALIZED}", "", 1),
    "ppo beside the environments": ("ppo", f"{ON_POLICY}, {NORMALIZED}", "", 40),
    "ppo beside them with signals and a teacher": ("ppo", ON_POLICY, LSTM, 40),
    "poca beside the environments": ("poca", ON_POLICY, "", 1),
    "mappo with a memory": (
        "mappo",
        f"{ON_POLICY}, clip_value_loss: true, {NORMALIZED}, normalize_padding: false",
        *(LSTM, 1),
    ),
    "sac with its replay": ("sac", SAVED, "", 40),
    "sac with signals and a teacher": ("sac", SAVED, "", 15),
    "sac with demonstrations": ("sac", RICH, "", 15),
    "sac with a memory and demonstrations": ("sac", SAVED, LSTM, 15),
    "td3 with demonstrations, without": ("td3", f"{OFF_POLICY}, normalize_rewards: true", "", 25),
    "sac without": ("sac", OFF_POLICY, "", 40),
    "sac with a memory": ("sac", f"{SAVED}, interrupted_value: own_observation", LSTM, 15),
    "sac with a memory, without": ("sac", OFF_POLICY, LSTM, 15),
    "sac within its random actions": ("sac", RANDOM, LSTM, 3),
    "sac by simba's recipe": ("sac", f"{RICH}, recipe: simba", "", 15),
    "dqn": ("dqn", f"{RICH}, epsilon_decay_steps: 600", "", 25),
    "dqn on frames": ("dqn", f"{SAVED}, frame_stack: 3, epsilon_decay_steps: 600", "", 15),
    "dqn without": ("dqn", f"{OFF_POLICY}, prioritized_replay: true, epsilon_decay_steps: 600", "", 25),
    "ddpg": ("ddpg", f"{SAVED}, normalize_rewards: true, {DRIFT}", "", 25),
    "ddpg without": ("ddpg", f"{OFF_POLICY}, noise_type: ornstein_uhlenbeck", "", 25),
    "td3": ("td3", f"{RICH}, interrupted_value: own_observation, max_grad_norm: 1", "", 25),
    "td3 within its random actions": ("td3", RANDOM, "", 3),
    "td3 without": ("td3", f"{OFF_POLICY}, normalize_rewards: true", "", 25),
}
"""By name: trainer, hyperparameters, memory, and ticks from the checkpoint to the kill.

Without the replay a resumed run begins with an empty one, and so does the other at its checkpoint.
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_resumes_bit_for_bit(runs, tmp_path, monkeypatch, capsys, case):
    trainer, hyper, memory, ticks = CASES[case]
    text = YAML.format(
        trainer=trainer, hyper=hyper, memory=memory, keep_best=2 if case == "ppo that keeps the best" else 0
    )
    if "beside" in case:
        text = text.replace("    keep_best", "    threaded: true\n    keep_best")
    if "a teacher" in case:
        text = text.replace("    keep_best", f"{SIGNALS}    keep_best")
        write_demonstration(tmp_path / "expert.demo", spec_of_shapes([[2]], continuous=1), [9, 14, 6])
    if "demonstrations" in case:
        text = text.replace("    keep_best", f"{DEMONSTRATIONS}    keep_best")
        expert = spec_of_shapes([[2]], continuous=1)
        write_demonstration(tmp_path / "expert.demo", expert, [9, 14, 6], rewarded=True)
    runs.configure(text)
    runs.rules |= RULES.get(trainer, {})
    if "frame_stack" in hyper:
        runs.rules["frames"] = 3
    runs.killed_and_resumed(monkeypatch, ticks)
    assert "resuming training from step" in capsys.readouterr().out
    states = [runs.state("unkilled"), runs.state("killed")]
    assert states[0]["step"] > 700 and numbers(states[0]) > 200
    if trainer in REPLAYS:
        assert states[0]["updates"][0] > 60, "much was learned after the kill"
    if "save_replay_buffer" in hyper:
        ends = [tmp_path / "results" / run / "Tiny" / FILE for run in ("unkilled", "killed")]
        assert ends[0].read_bytes() == ends[1].read_bytes()
    found = {text.partition(":")[0]: text for text in differences(*states)}
    assert found.keys() <= (ROWS if trainer in ("poca", "mappo") else set()), found


@pytest.mark.parametrize(
    "case", ["ppo", "ppo with a memory", "sac with its replay", "dqn", "ddpg", "td3 without"]
)
def test_a_run_that_has_ended_is_not_changed_by_resuming_it(runs, capsys, case):
    """As when the kill comes between its last checkpoint and its end: agents do not act once more."""
    trainer, hyper, memory, _ = CASES[case]
    runs.configure(YAML.format(trainer=trainer, hyper=hyper, memory=memory, keep_best=0))
    runs.rules |= RULES.get(trainer, {})
    assert runs("c.yaml", "--run-id", "r", "--seed", "3") == 0
    before = runs.state("r")
    assert runs("c.yaml", "--run-id", "r", "--resume") == 0
    assert "nothing is left to train" in capsys.readouterr().out
    assert differences(before, runs.state("r")) == []


def lessons(count):
    """Lessons of 12 episodes, each with another length of episodes; every second one resets."""
    criteria = "behavior: Tiny, measure: reward, threshold: -2, min_lesson_length: 12"
    told = [
        f"{{name: L{k}, value: {5 + 3 * (k % 3)}, completion_criteria: {{{criteria}, require_reset: {r}}}}}"
        for k, r in zip(range(count - 1), cycle(["false", "true"]))
    ]
    return "\n      - ".join(
        ["environment_parameters:\n  max_len:\n    curriculum:", *told, "{name: last, value: 9}"]
    )


def test_a_run_killed_during_a_curriculum_resumes_bit_for_bit(runs, monkeypatch, capsys):
    runs.configure(YAML.format(trainer="ppo", hyper=ON_POLICY, memory="", keep_best=0) + lessons(30))
    runs.killed_and_resumed(monkeypatch, 40)
    at_the_kill = runs.at_the_kill[1]["max_len"]["lesson_num"]
    ends = [(runs.state(run), runs.status(run)["max_len"]) for run in ("unkilled", "killed")]
    assert not differences(*ends)
    assert 2 < at_the_kill < ends[0][1]["lesson_num"] - 2 and ends[0][1]["smoothed_reward"] != 0
    before, resuming, after = capsys.readouterr().out.partition("resuming training from step")
    whole, resumed = (
        [line for line in out.splitlines() if "is in lesson" in line] for out in (before, after)
    )
    assert resuming and resumed == whole[: ends[0][1]["lesson_num"] + 1][at_the_kill:]


@pytest.mark.slow
def test_lessons_do_not_fall_behind_the_weights_when_a_kill_hits_a_save(runs, monkeypatch):
    """The status file is written last: here the second time only after the kill."""
    runs.configure(YAML.format(trainer="ppo", hyper=ON_POLICY, memory="", keep_best=0) + lessons(30))
    runs.restarting_at_checkpoints("c.yaml", "--run-id", "unkilled", "--seed", "3")
    real, saves = TrainingStatus.save, []

    def save(status):
        saves.append(Path("results", "killed", "Tiny", "checkpoint.pt").exists())
        if sum(saves) == 2:
            raise KeyboardInterrupt("here")
        real(status)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt, match="here"):
        patched.setattr(TrainingStatus, "save", save)
        runs.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--seed", "3")
    saved, listed = runs.state("killed")["lessons"]["max_len"], runs.status("killed")["max_len"]
    assert saved["lesson_num"] > listed["lesson_num"], "the kill came in between"
    runs.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--resume")
    ends = [(runs.state(run), runs.status(run)["max_len"]) for run in ("unkilled", "killed")]
    assert not differences(*ends)


@pytest.mark.parametrize("lessons_saved", [3, {"max_len": 2}, {"metadata": {"torch_version": "0"}}, {1: {}}])
def test_lessons_of_a_checkpoint_that_are_none_are_refused_with_its_name(runs, lessons_saved):
    runs.configure(YAML.format(trainer="ppo", hyper=ON_POLICY, memory="", keep_best=0) + lessons(3))
    runs.restarting_at_checkpoints("c.yaml", "--run-id", "altered", "--seed", "3")
    path = Path("results", "altered", "Tiny", "checkpoint.pt")
    save_checkpoint(path, load_checkpoint(path) | {"lessons": lessons_saved})
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt cannot be resumed from: of the parameter"):
        runs.restarting_at_checkpoints("c.yaml", "--run-id", "altered", "--resume")


TWO = f"""\
default_settings:
  trainer_type: ppo
  hyperparameters: {{{ON_POLICY}}}
  network_settings: {{normalize: true, hidden_units: 8, num_layers: 1}}
  keep_checkpoints: 1
  max_steps: 700
  time_horizon: 8
  summary_freq: 100
behaviors:
  Tiny: {{checkpoint_interval: TINY}}
  Other: OTHER
torch_settings: {{num_threads: 1}}
"""
OTHERS = {
    "saved more rarely": (300, "{checkpoint_interval: 100000}"),
    "saved more often": (300, "{checkpoint_interval: 170}"),
    "saved before": (600, "{checkpoint_interval: 230}"),
    "of another trainer": (
        300,
        f"{{trainer_type: sac, checkpoint_interval: 100000, hyperparameters: {{{SAVED}}}}}",
    ),
    "done before": (300, "{max_steps: 150}"),
}


@pytest.fixture
def two(runs):
    """Runs of the behaviors Tiny and Other."""
    runs.rules["behaviors"] = ["Tiny?team=0", "Other?team=0"]
    return runs


def configure(runs, tiny, other):
    runs.configure(TWO.replace("TINY", str(tiny)).replace("OTHER", other))


def both(runs, run):
    return {name: runs.state(run, name) for name in ("Tiny", "Other")}


@pytest.mark.slow
@pytest.mark.parametrize("case", OTHERS)
def test_behaviors_whose_checkpoints_fall_at_different_moments_resume_bit_for_bit(two, monkeypatch, case):
    configure(two, *OTHERS[case])
    two.killed_and_resumed(monkeypatch, 25)
    ends = both(two, "unkilled"), both(two, "killed")
    assert not differences(*ends) and ends[0]["Tiny"]["step"] > 700
    names = {"Tiny", "Other"}
    assert {name for name in names if "resume_step" in two.status("killed")[name]} == names


def test_a_kill_before_all_have_saved_leaves_the_moment_before(two, monkeypatch):
    """Tiny's second checkpoint is written, Other's weights of the same moment are not."""
    configure(two, 200, "{checkpoint_interval: 100000}")
    two.restarting_at_checkpoints("c.yaml", "--run-id", "unkilled", "--seed", "3")
    real, calls = CheckpointManager.save_weights, []

    def save_weights(manager, step, state):
        calls.append(step)
        if len(calls) == 2:
            raise KeyboardInterrupt("here")
        return real(manager, step, state)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt, match="here"):
        patched.setattr(CheckpointManager, "save_weights", save_weights)
        two.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--seed", "3")
    newest, status = two.state("killed"), two.status("killed")
    assert status["Tiny"]["resume_step"] < newest["step"] and status["Other"]["resume_step"] == calls[0]
    two.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--resume")
    assert not differences(both(two, "unkilled"), both(two, "killed"))


def test_a_finished_run_of_two_leaves_only_the_files_that_it_lists(two):
    configure(two, 200, "{checkpoint_interval: 100000}")
    assert two("c.yaml", "--run-id", "r", "--seed", "3") == 0
    for name in ("Tiny", "Other"):
        (numbered,) = Path("results", "r", name).glob("*-*.pt")
        entry = two.status()[name]
        assert numbered.name == f"{name}-{entry['resume_step']}.pt"
        assert [each["steps"] for each in entry["checkpoints"]] == [entry["resume_step"]]


def test_the_status_of_one_behavior_has_the_reference_s_keys_alone(runs):
    runs.configure(YAML.format(trainer="ppo", hyper=ON_POLICY, memory="", keep_best=0))
    assert runs("c.yaml", "--run-id", "r", "--seed", "3") == 0
    assert runs.status()["Tiny"].keys() == {"checkpoints", "final_checkpoint"}

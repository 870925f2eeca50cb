"""With every trainer, callbacks and evaluations receive all events and do not change what is learned."""

import pytest
from lanista.trainers.callbacks.dispatcher import HOOKS
from printing_game import FAILED
from recorded_events import Recorder
from reliability.resume import differences, numbers

ON = "{batch_size: 16, buffer_size: 64, num_epoch: 1}"
OFF = "{batch_size: 16, buffer_size: 400, buffer_init_steps: 64, steps_per_update: 8}"
CHOICES = {"cont": 0, "disc": [3]}
TRAINERS = {
    "ppo": (ON, {}),
    "poca": (ON, {"groups": True}),
    "mappo": (ON, {"groups": True}),
    "coma": (ON, {"groups": True, **CHOICES}),
    "sac": (OFF, {}),
    "dqn": (OFF, CHOICES),
    "ddpg": (OFF, {}),
    "td3": (OFF, {}),
}
"""Hyperparameters, and the actions and groups of the game."""

YAML = """\
default_settings:
  trainer_type: {trainer}
  hyperparameters: {hyperparameters}
  network_settings: {{normalize: true, hidden_units: 8, num_layers: 1}}
  checkpoint_interval: 100
  max_steps: 220
  time_horizon: 8
  summary_freq: 100
"""
TESTS = ["--set", "default_settings.test_frequency=100", "--set", "default_settings.test_episodes=3"]
ROWS = {".buffer.numbers", ".buffer.mates", ".buffer.next_mates", ".buffer.other_numbers"}
"""Numbers of rows: the second run of a process counts on."""


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
def test_callbacks_receive_all_events_and_change_no_bit(runs, trainer):
    hyperparameters, rules = TRAINERS[trainer]
    runs.rules.update(rules)
    runs.prints = {5: [FAILED]}
    runs.configure(YAML.format(trainer=trainer, hyperparameters=hyperparameters))
    start = ["c.yaml", "--env", "scene:basic", "--seed", "3"]
    heard = Recorder()
    runs.train(*start, "--run-id", "plain")
    runs.train(*start, "--run-id", "tested", *TESTS, callbacks=[heard])
    assert not [hook for hook in HOOKS if not heard.of(hook)]
    tests, (end,) = heard.of("on_evaluation_end"), heard.of("on_training_end")
    assert [test.step // 100 for test in tests[:2]] == [1, 2]
    assert tests[-1].step == end.steps["Tiny"] > 220, "the final policy is tested too"
    assert all(len(test.lengths) >= 3 for test in tests)
    assert all(any("Losses/" in key for key in told.metrics) for told in heard.of("on_update_end"))
    if rules.get("groups"):
        assert any(event.group_reward == 0.5 for event in heard.of("on_episode_end"))
        assert all(set(test.group_rewards) == {0.5} and test.score == 0.5 for test in tests)
    plain, tested = runs.state("plain"), runs.state("tested")
    assert tested.pop("test_due") == 300 and tested.pop("last_test") == tested["step"]
    assert numbers(plain) > 80
    assert not [text for text in differences(plain, tested) if text.partition(":")[0] not in ROWS]

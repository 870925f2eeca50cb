"""`lanista.train`: a run from Python, with every kind of configuration and environment."""

import logging
import threading

import lanista
import numpy as np
import pytest
import torch
import yaml
from lanista.envs import UnityEnvironment
from lanista.trainers import Callback, RunOptions, TrainerConfigError
from line_game import LineGame

TINY = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 16, "buffer_size": 64},
    "network_settings": {"hidden_units": 8, "num_layers": 1},
    "max_steps": 200,
    "time_horizon": 8,
    "summary_freq": 100,
}
CONFIG = {"behaviors": {"Tiny": TINY}, "torch_settings": {"num_threads": 1}}


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def make_game(seed=0):
    return LineGame(seed, ["Tiny?team=0"], agents=4, max_len=12, cont=1)


def test_a_run_returns_its_models_rewards_steps_and_folder(tmp_path):
    result = lanista.train(CONFIG, env=make_game, run_id="r")
    assert (tmp_path / result.folder) == tmp_path / "results" / "r"
    assert result.steps == {"Tiny": pytest.approx(200, abs=40)}
    assert np.isfinite(result.rewards["Tiny"])
    policy = lanista.load(result.brains["Tiny"])
    assert policy is not None and result.brains["Tiny"] == result.folder / "Tiny.onnx"
    assert not acts_deterministically(result), "unless that is asked for"


def acts_deterministically(result):
    settings = yaml.safe_load((result.folder / "configuration.yaml").read_text())
    return settings["behaviors"]["Tiny"]["network_settings"]["deterministic"]


def test_overrides_win_over_every_kind_of_configuration(tmp_path):
    overrides = {"behaviors.Tiny.max_steps": 100, "env_settings.seed": 3}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(CONFIG))
    for k, config in enumerate([CONFIG, RunOptions.from_dict(CONFIG), "c.yaml", tmp_path / "c.yaml"]):
        result = lanista.train(config, env=make_game, run_id=f"r{k}", overrides=overrides)
        assert result.steps["Tiny"] < 160
    assert CONFIG["behaviors"]["Tiny"]["max_steps"] == 200  # the caller's dict stays as it is


def test_a_preset_and_a_scene_are_taken_by_their_names():
    overrides = {"behaviors.Basic.max_steps": 150, "behaviors.Basic.hyperparameters.buffer_size": 64}
    assert "Basic" in lanista.train("ppo/basic", env="scene:basic", run_id="r", overrides=overrides).brains


def test_overrides_of_a_behavior_that_is_not_listed_are_not_silent(caplog):
    overrides = {"behaviors.Basc.max_steps": 500, "behaviors.Basic.max_steps": 300}
    lanista.train("ppo/basic", env="scene:basic", run_id="r", overrides=overrides)
    assert "overrides adds the behavior Basc to Basic. Did you mean Basic?" in caplog.text


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("ppo/basc", "There is no preset 'ppo/basc'. Did you mean ppo/basic"),
        ("basc.yaml", "Config file could not be found"),
    ],
)
def test_a_mistyped_configuration_is_looked_for_among_what_it_looks_like(config, told):
    with pytest.raises(TrainerConfigError, match=told):
        lanista.train(config, env="scene:basic", run_id="r")


@pytest.mark.parametrize("make", [lambda seed: make_game(seed), make_game], ids=["lambda", "function"])
def test_a_function_makes_the_environments(make):
    overrides = {"env_settings.num_envs": 2}
    assert lanista.train(CONFIG, env=make, run_id="r", overrides=overrides).steps["Tiny"] >= 200


def test_an_environment_of_the_caller_stays_open():
    game = make_game()
    closed = []
    game.close = lambda: closed.append(True)
    lanista.train(CONFIG, env=game, run_id="r")
    assert not closed
    game.close()
    assert closed


def test_an_engine_of_the_caller_stays_open_and_it_is_the_caller_s_turn(capsys):
    env = UnityEnvironment("scene:basic", seed=1)
    overrides = {"behaviors.Basic.max_steps": 300}
    for number in range(2):
        lanista.train("ppo/basic", env=env, run_id=f"r{number}", overrides=overrides)
        assert not env.awaits_answer
        env.step()
        assert len(env.get_steps("Basic?team=0")[0]) == 1
    assert "could not be closed" not in capsys.readouterr().out
    env.close()


def test_one_environment_cannot_be_used_as_several():
    with pytest.raises(ValueError, match="2 are asked for"):
        lanista.train(CONFIG, env=make_game(), overrides={"env_settings.num_envs": 2})


@pytest.mark.parametrize("key", ["env_settings.env_workers", "torch_settings.learners"])
def test_an_environment_of_this_process_cannot_be_used_by_others(key):
    with pytest.raises(ValueError, match="a function of a module that they can import"):
        lanista.train(CONFIG, env=lambda: make_game(), overrides={key: 2})


def test_an_invalid_environment_is_refused():
    with pytest.raises(TypeError, match="Expected what --env takes"):
        lanista.train(CONFIG, env=3)


def test_it_works_off_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(lanista.train(CONFIG, env=make_game, run_id="r")))
    thread.start()
    thread.join()
    assert results[0].steps["Tiny"] >= 200


def test_the_log_and_the_threads_of_torch_are_restored():
    logger, threads = logging.getLogger("lanista"), torch.get_num_threads()
    before = logger.level, logger.propagate, logger.handlers[:]
    lanista.train(CONFIG, env=make_game, run_id="r")
    assert (logger.level, logger.propagate, logger.handlers[:]) == before
    assert torch.get_num_threads() == threads


def test_a_run_is_resumed_overwritten_or_refused():
    lanista.train(CONFIG, env=make_game, run_id="r")
    with pytest.raises(Exception, match=r"--force|--resume"):
        lanista.train(CONFIG, env=make_game, run_id="r")
    more = {"behaviors.Tiny.max_steps": 400}
    assert lanista.train(CONFIG, env=make_game, run_id="r", resume=True, overrides=more).steps["Tiny"] >= 400
    assert lanista.train(CONFIG, env=make_game, run_id="r", force=True).steps["Tiny"] < 400
    with pytest.raises(TrainerConfigError, match="leave one of them out"):
        lanista.train(CONFIG, env=make_game, run_id="r", resume=True, force=True)


def test_an_override_can_be_none():
    config = {"behaviors": {"Tiny": TINY}, "torch_settings": {"num_threads": 3}}
    result = lanista.train(config, env=make_game, run_id="r", overrides={"torch_settings.num_threads": None})
    written = yaml.safe_load((result.folder / "configuration.yaml").read_text())
    assert "num_threads" not in written["torch_settings"]


def test_a_wrong_override_names_its_place():
    with pytest.raises(TrainerConfigError, match=r"lanista\.train: behaviors\.Tiny\.max_step"):
        lanista.train(CONFIG, env=make_game, overrides={"behaviors.Tiny.max_step": 3})


def test_a_behavior_that_the_dict_does_not_name_is_refused():
    with pytest.raises(TrainerConfigError, match="Tiny has not been specified"):
        lanista.train({"behaviors": {"Tinny": TINY}}, env=make_game, run_id="r")


def test_a_behavior_that_options_do_not_name_is_refused():
    options = RunOptions.from_dict({"behaviors": {"Tinny": TINY}})
    with pytest.raises(TrainerConfigError, match="Tiny has not been specified"):
        lanista.train(options, env=make_game, run_id="r")


def test_options_without_behaviors_train_any_with_defaults():
    steps = {"default_settings.max_steps": 100}
    result = lanista.train(RunOptions(), env=make_game, run_id="r", overrides=steps)
    assert result.steps["Tiny"] >= 100
    recorded = RunOptions.from_file(result.folder / "configuration.yaml")
    assert recorded.behaviors["Tiny"].max_steps == 100, "the run can be repeated from it"


def test_inference_returns_a_result_without_rewards():
    lanista.train(CONFIG, env=make_game, run_id="old")
    inference = {"inference": True, "inference_steps": 50, "initialize_from": "old"}
    overrides = {f"checkpoint_settings.{key}": value for key, value in inference.items()}
    result = lanista.train(CONFIG, env=make_game, run_id="new", overrides=overrides)
    assert result.folder.name == "new" and result.rewards == result.steps == {}


def test_callbacks_are_called():
    class Updates(Callback):
        count = 0

        def on_update_end(self, event):
            self.count += 1

    updates = Updates()
    lanista.train(CONFIG, env=make_game, run_id="r", callbacks=[updates])
    assert updates.count >= 2


def test_a_deterministic_run_repeats_bit_for_bit():
    def weights(run_id):
        run = lanista.train(
            CONFIG, env=make_game, run_id=run_id, deterministic=True, overrides={"env_settings.seed": 5}
        )
        assert acts_deterministically(run)
        return run.brains["Tiny"].read_bytes()

    assert weights("a") == weights("b")

"""Runs of `lanista-learn` in this process, with `LineGame`s as its environments."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from lanista.envs.engines import ports
from lanista.envs.manager.manager import EnvManager
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.learn import run, run_training
from lanista.trainers.runner import environments as run_environments
from lanista.trainers.runner import training as training_run
from lanista.trainers.runner.controller import TrainerController
from lanista.trainers.runner.evaluation.environment import EVALUATION_SEED, EvaluationEnvironment
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.utils import distributed
from line_game import LineGame
from mlagents_envs.base_env import BaseEnv
from printing_game import PrintingGame, Prints

EVALUATED = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 16, buffer_size: 128, num_epoch: 1}
  network_settings: {hidden_units: 8, num_layers: 1}
  max_steps: 400
  time_horizon: 8
  summary_freq: 100
  test_frequency: 100
  test_episodes: 4
"""
"""A configuration with evaluations."""
START = ["c.yaml", "--env", "scene:basic", "--seed", "3", "--run-id", "r"]


class Kill:
    """Ends a run so many ticks after its first checkpoint, as a kill does: without a save."""

    def __init__(self, monkeypatch, checkpoint, ticks):
        real, left = TrainerController._reset_if_due, [ticks]

        def after_learning(controller, answers):
            if checkpoint.exists():
                left[0] -= 1
                if not left[0]:
                    monkeypatch.setattr(TrainerController, "_reset_if_due", real)
                    raise KeyboardInterrupt("here")
            return real(controller, answers)

        monkeypatch.setattr(TrainerController, "_reset_if_due", after_learning)


class Runs:
    """`lanista-learn` in this process, in the current folder, its environments being `LineGame`s."""

    def __init__(self, monkeypatch: Any) -> None:
        self.rules: dict[str, Any] = {"behaviors": ["Tiny?team=0"], "cont": 1, "agents": 4, "max_len": 12}
        self.test_rules: dict[str, Any] = {}
        """What is different where tests take place."""
        self.prints: Prints = {}
        """The errors that games print, by the steps in which they do; see `Prints`."""
        self.test_prints: Prints = {}
        """The same where tests take place."""
        monkeypatch.setattr(training_run, "make_env_manager", self._make)
        monkeypatch.setattr(run_environments, "make_env_manager", self._make)
        monkeypatch.setattr(training_run, "make_evaluation_environment", self._make_test)
        # Tests run beside each other, and a run without --env asks whether the Editor's port is free.
        monkeypatch.setattr(ports, "EDITOR_PORT", 0)

    def _make(
        self, options: Any, seed: int, log_folder: Any, cluster: Any = None, errors: Any = None
    ) -> EnvManager:
        own = distributed.shard(options.env_settings.num_envs)

        def make(index: int) -> BaseEnv:
            return self._game(own[index], self.prints, errors, seed=seed + own[index], **self.rules)

        editor = options.env_settings.env_path is None
        return EnvManager(make, len(own), ordered=options.repeatable, editor=editor)

    def _make_test(
        self, options: Any, log_folder: Any, cluster: Any = None, errors: Any = None
    ) -> EvaluationEnvironment:
        rules = {**self.rules, **self.test_rules}

        def make(drawn: bool) -> BaseEnv:
            number = options.env_settings.environments
            return self._game(number, self.test_prints, errors, seed=EVALUATION_SEED, **rules)

        return EvaluationEnvironment(make, NonFinitePolicy.STOP)

    def _game(self, number: int, prints: Prints, errors: Any, **rules: Any) -> BaseEnv:
        return PrintingGame(number, prints, errors, **rules) if prints else LineGame(**rules)

    def __call__(self, *arguments: str) -> int:
        """The exit status."""
        with Restored():
            return run(arguments)

    def configure(self, text: str) -> None:
        """Write `c.yaml`."""
        Path("c.yaml").write_text(text)

    def state(self, run: str = "r", behavior: str = "Tiny") -> Any:
        """The newest checkpoint of a run."""
        return load_checkpoint(Path("results", run, behavior, "checkpoint.pt"))

    def status(self, run: str = "r") -> Any:
        """What a run's training_status.json holds."""
        return json.loads(Path("results", run, "run_logs", "training_status.json").read_text())

    def killed_and_resumed(self, monkeypatch: Any, ticks: int) -> None:
        """Runs `unkilled` and `killed`: ended so many ticks after its first checkpoint, and resumed."""
        self.restarting_at_checkpoints("c.yaml", "--run-id", "unkilled", "--seed", "3")
        Kill(monkeypatch, Path("results", "killed", "Tiny", "checkpoint.pt"), ticks)
        with pytest.raises(KeyboardInterrupt, match="here"):
            self.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--seed", "3")
        self.at_the_kill = self.state("killed"), self.status("killed")
        assert not Path("results", "killed", "Tiny.onnx").exists(), "a kill saves nothing"
        self.restarting_at_checkpoints("c.yaml", "--run-id", "killed", "--resume")

    def train(self, *arguments: str, callbacks: Any = ()) -> None:
        """A run as a script starts it."""
        with Restored():
            run_training(parse_command_line(arguments), callbacks=callbacks)

    def restarting_at_checkpoints(self, *arguments: str) -> None:
        """What a run that is resumed from its checkpoint can equal, bit for bit."""
        with Restored():
            run_training(parse_command_line(arguments), restart_engines_at_checkpoints=True)


class Restored:
    """Undoes what a run changes in its process."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("lanista")
        self.before = (self.logger.handlers[:], self.logger.level, self.logger.propagate)
        self.threads = torch.get_num_threads()

    def __exit__(self, *error: object) -> None:
        self.logger.handlers[:], level, self.logger.propagate = self.before
        self.logger.setLevel(level)
        torch.set_num_threads(self.threads)

"""Where the time of a training run goes, phase by phase.

    python tests/benchmarks/phases.py [--areas 12 128 1024] [--steps 96000] [--json]

Trains scene:ball3d in this process with timers around the product's own functions, which stay as they are.
A phase's time is what its functions take without the phases inside them. Counted from the first summary to
the last; per agent-step, in microseconds: passed ("wall") and spent computing in this thread ("cpu"). What
remains of "wait" beyond its computing is time in which the engine has the turn. The timers themselves cost
about a microsecond a call, which shows in phases of many small calls.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from results import ROOT
from results import table as markdown
from script_options import parse_options

CONFIG = ROOT / "config" / "ppo" / "ball3d.yaml"
REST = "loop and all else"


@dataclass
class Phases:
    """Sums per phase of the thread that made it, exclusive of phases inside."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    _inside: list[list[float]] = field(default_factory=list)
    _thread: int = field(default_factory=threading.get_ident)

    def clear(self) -> None:
        for sums in (self.wall, self.cpu, self.calls):
            sums.clear()

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*args, **kwargs)
            nested = [0.0, 0.0]
            self._inside.append(nested)
            cpu, wall = time.thread_time(), time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
                self._inside.pop()
                self._add(phase, wall - nested[0], cpu - nested[1])
                if self._inside:
                    self._inside[-1][0] += wall
                    self._inside[-1][1] += cpu

        return call

    def _add(self, phase: str, wall: float, cpu: float) -> None:
        self.wall[phase] = self.wall.get(phase, 0.0) + wall
        self.cpu[phase] = self.cpu.get(phase, 0.0) + cpu
        self.calls[phase] = self.calls.get(phase, 0) + 1

    def wrap(self, owner: object, name: str, phase: str) -> None:
        setattr(owner, name, self.timed(phase, getattr(owner, name)))


def install(phases: Phases) -> None:
    """Puts the timers in place."""
    import torch
    from lanista.agent_processor.processor import AgentManager
    from lanista.envs.manager import worker
    from lanista.envs.manager.manager import EnvManager
    from lanista.envs.protocol.decoder import Decoder
    from lanista.envs.protocol.encoder import Encoder
    from lanista.trainers.algorithms.common.optim import CheckedAdam, FlatAdam
    from lanista.trainers.algorithms.ppo import fused, ppo
    from lanista.trainers.networks.actor_critic import ActorCritic
    from lanista.trainers.policies.fast_forward import DenseActor
    from lanista.trainers.policies.policy import Policy
    from lanista.trainers.runner.controller import TrainerController
    from lanista.trainers.trainer import on_policy, trainer
    from lanista.trainers.trainer.learner import Learner

    for owner, name, phase in [
        (EnvManager, "wait", "wait for the engine, receive"),
        (Decoder, "start", "decode"),
        (worker, "check_finite", "check for NaN"),
        (Policy, "act", "act: sample, log-probabilities, entropy"),
        (DenseActor, "__call__", "act: forward pass"),
        (EnvManager, "send", "send"),
        (Encoder, "actions", "encode"),
        (AgentManager, "add_experiences", "agent processor"),
        (on_policy.OnPolicyTrainer, "advance", "take in: the rest"),
        (trainer, "build_rollout", "process: gather the rows"),
        (ppo.PPO, "update_normalizer", "take in: normalizer"),
        (ppo.PPO, "evaluate", "take in: critic's values"),
        (ppo, "generalized_advantages", "take in: advantages"),
        (ppo.PPO, "update", "update: shuffle, cut minibatches, the rest"),
        (fused, "forward", "update: forward pass"),
        (fused.FusedPPOGradient, "_policy", "update: loss and its gradient"),
        (fused.FusedPPOGradient, "__call__", "update: heads, value loss"),
        (fused, "backward", "update: backward pass"),
        # By automatic differentiation, where there is no closed form:
        (ActorCritic, "evaluate", "update: forward pass"),
        (ppo, "clipped_surrogate", "update: loss and its gradient"),
        (torch.Tensor, "backward", "update: backward pass"),
        (FlatAdam, "step", "update: optimizer"),
        (CheckedAdam, "step", "update: finite check"),
        (Learner, "on_summary", "summaries"),
        (Learner, "save", "checkpoints"),
        (TrainerController, "_train", REST),
    ]:
        phases.wrap(owner, name, phase)


@dataclass
class Window:
    """From the first summary to the last."""

    phases: Phases
    last_step: int
    marks: list[tuple[int, float, float]] = field(default_factory=list)
    found: tuple[dict[str, float], dict[str, float], dict[str, int]] = ({}, {}, {})

    def on_summary(self, step: int) -> None:
        """Called after each summary, within its timer, so that the timer of the first is not counted."""
        self.marks.append((step, time.perf_counter(), time.thread_time()))
        if len(self.marks) == 1:
            self.phases.clear()
        if step >= self.last_step:
            self.found = (dict(self.phases.wall), dict(self.phases.cpu), dict(self.phases.calls))

    def described(self, agents: int) -> dict[str, Any]:
        """Microseconds per agent-step of every phase.

        Raises:
            RuntimeError: There were fewer than two summaries.
        """
        if len(self.marks) < 2:
            raise RuntimeError("the run was too short for two summaries")
        (first, wall0, cpu0), (last, wall1, cpu1) = self.marks[0], self.marks[-1]
        wall, cpu, calls = self.found
        per_step = 1e6 / (last - first)
        rows = {phase: (wall[phase] * per_step, cpu[phase] * per_step, calls[phase]) for phase in wall}
        total = ((wall1 - wall0) * per_step, (cpu1 - cpu0) * per_step)
        rest = [total[k] - sum(row[k] for row in rows.values()) for k in (0, 1)]
        rows[REST] = (rest[0], rest[1], 0)
        return {"areas": agents, "steps": last - first, "phases": rows, "total": total}


def after_summaries(call: Callable[[int], None]) -> None:
    """Call a function with the step after each summary of the runs in this process."""
    from lanista.trainers.trainer.learner import Learner

    summary = Learner.on_summary

    def on_summary(learner: Learner, step: int) -> bool:
        is_best = summary(learner, step)
        call(step)
        return is_best

    Learner.on_summary = on_summary  # type: ignore[method-assign]


def train_here(config: Path, areas: int, steps: int, summary_freq: int) -> None:
    """Train scene:ball3d in this process, with a summary every `summary_freq` steps.

    Raises:
        SystemExit: The run failed.
    """
    from lanista.trainers.learn import run

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        settings = yaml.safe_load(config.read_text())
        for behavior in settings["behaviors"].values():
            behavior.update(max_steps=steps, summary_freq=summary_freq)
        path = Path(folder, "config.yaml")
        path.write_text(yaml.safe_dump(settings))
        options = ["--run-id", "run", "--results-dir", folder, "--seed", "1", "--base-port", str(free_port())]
        if status := run([str(path), "--env", "scene:ball3d", *options, "--env-args", "--areas", str(areas)]):
            raise SystemExit(status)


def profile(areas: int, steps: int, config: Path) -> dict[str, Any]:
    """Trains, in this process; microseconds per agent-step of every phase."""
    phases = Phases()
    window = Window(phases, steps)
    after_summaries(window.on_summary)
    install(phases)
    (behavior,) = yaml.safe_load(config.read_text())["behaviors"].values()
    train_here(config, areas, steps, min(behavior["summary_freq"], steps // 2))
    return window.described(areas)


def free_port() -> int:
    """A port that is free."""
    import socket

    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def apart(areas: int, steps: int, config: Path) -> dict[str, Any]:
    """`profile` in a process of its own."""
    command = [sys.executable, __file__, "--json", "--areas", str(areas), "--steps", str(steps)]
    done = subprocess.run([*command, "--config", str(config)], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(results: list[dict[str, Any]]) -> str:
    """The phases as rows, wall and processor time for each number of agents as columns."""
    phases = list(dict.fromkeys(phase for result in results for phase in result["phases"]))
    order = sorted(phases, key=lambda p: -max(r["phases"].get(p, (0, 0))[1] for r in results))
    heads = [head for r in results for head in (f"{r['areas']:,} agents: wall:", "cpu:", "calls:")]
    lines = []
    for phase in order:
        cells = [phase]
        for result in results:
            wall, cpu, calls = result["phases"].get(phase, (0.0, 0.0, 0))
            cells += [f"{wall:.2f}", f"{cpu:.2f}", f"{calls:,}" if calls else ""]
        lines.append(cells)
    totals = [cell for r in results for cell in (f"{r['total'][0]:.1f}", f"{r['total'][1]:.1f}", "")]
    return markdown(["phase", *heads], [*lines, ["in all", *totals]])


def main() -> None:
    config = {"default": CONFIG, "type": Path}
    json_line = {"default": False, "help": "one line of JSON, of one number of areas"}
    given = parse_options(__doc__, areas=[12, 128, 1024], steps=96_000, config=config, json=json_line)
    if given.json:
        print(json.dumps(profile(given.areas[0], given.steps, given.config)))
    else:
        print(table([apart(areas, given.steps, given.config) for areas in given.areas]))


if __name__ == "__main__":
    main()

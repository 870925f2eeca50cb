"""Where the time of a training run goes, phase by phase.

    python tests/benchmarks/phases.py [--tasks "ball 12" duel ...] [--json]

Trains tasks of speed_tasks.py with timers around the product's own functions, which stay as they are.
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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from results import table as markdown
from script_options import parse_options
from side_by_side import Case
from speed_tasks import tasks
from timed_scene import executable
from training_run import free_port

REST = "loop and all else"
ENGINE = "wait for the engine, receive"
NETWORKS = (
    *("act: forward pass", "take in: critic's values"),
    *("update: forward pass", "update: backward pass", "update: gradient in closed form"),
    *("update: heads, value loss", "update: optimizer"),
)
"""Beginnings of the names of phases in which networks are computed, and gradients applied."""
SMALL_SHARE = 0.01
"""Of a profile's time; phases below it in all profiles are left out of the overview."""


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


Timed = list[tuple[object, str, str]]
"""Functions: whose they are, their names, and the phases that they belong to."""


def install(phases: Phases) -> None:
    """Puts the timers in place."""
    for owner, name, phase in [*_of_collecting(), *_of_updates()]:
        phases.wrap(owner, name, phase)


def _of_collecting() -> Timed:
    from lanista.agent_processor.processor import AgentManager
    from lanista.envs.manager import worker
    from lanista.envs.manager.manager import EnvManager
    from lanista.envs.protocol.decoder import Decoder
    from lanista.envs.protocol.encoder import Encoder
    from lanista.trainers.algorithms.poca.poca import TeamActorCritic
    from lanista.trainers.algorithms.ppo import ppo
    from lanista.trainers.networks.fast.acting import DenseActor, NetworkActor, RecurrentActor
    from lanista.trainers.networks.fast.sampling import ActionSampler, JointSampler
    from lanista.trainers.policies.joint import JointPolicies
    from lanista.trainers.policies.policy import Policy
    from lanista.trainers.runner.controller import TrainerController
    from lanista.trainers.trainer import trainer
    from lanista.trainers.trainer.inference import InferencePolicy
    from lanista.trainers.trainer.learner import Learner
    from lanista.trainers.trainer.off_policy import OffPolicyTrainer

    return [
        (EnvManager, "wait", ENGINE),
        (Decoder, "start", "decode"),
        (worker, "check_finite", "check for NaN"),
        (JointPolicies, "act", "act: the rest"),
        (Policy, "act", "act: the rest"),
        (JointSampler, "__call__", "act: sample, log-probabilities, entropy"),
        (ActionSampler, "__call__", "act: sample, log-probabilities, entropy"),
        (DenseActor, "encode", "act: forward pass"),
        (DenseActor, "__call__", "act: forward pass"),
        (NetworkActor, "__call__", "act: forward pass"),
        (RecurrentActor, "__call__", "act: forward pass"),
        (EnvManager, "send", "send"),
        (Encoder, "actions", "encode"),
        (AgentManager, "add_experiences", "agent processor"),
        (trainer.Trainer, "advance", "take in: the rest"),
        (trainer, "build_rollout", "take in: gather the rows"),
        (ppo.PPO, "update_normalizer", "take in: normalizer"),
        (ppo.PPO, "evaluate", "take in: critic's values"),
        (TeamActorCritic, "evaluate", "take in: critic's values"),
        (ppo, "generalized_advantages", "take in: advantages"),
        (OffPolicyTrainer, "_store", "take in: to the replay"),
        (InferencePolicy, "publish", "publish weights and statistics to the copy that acts"),
        (Learner, "on_summary", "summaries"),
        (Learner, "save", "checkpoints"),
        (TrainerController, "_train", REST),
    ]


def _of_updates() -> Timed:
    import torch
    from lanista.trainers.algorithms.common.optim import CheckedAdam, FlatAdam
    from lanista.trainers.algorithms.dqn import DQN
    from lanista.trainers.algorithms.fast import ppo as fused
    from lanista.trainers.algorithms.fast.cuda_graphs import CapturedStep
    from lanista.trainers.algorithms.fast.sac import FusedSACGradient
    from lanista.trainers.algorithms.poca.poca import POCA
    from lanista.trainers.algorithms.ppo import ppo
    from lanista.trainers.algorithms.sac.sac import SAC
    from lanista.trainers.networks.actor_critic import ActorCritic
    from lanista.trainers.networks.fast import packed_memory
    from lanista.trainers.trainer.off_policy import OffPolicyTrainer
    from lanista.trainers.trainer.on_policy import OnPolicyTrainer

    return [
        (OnPolicyTrainer, "_update", "update: shuffle, cut minibatches"),
        (ppo.PPO, "update", "update: the rest"),
        (POCA, "update", "update: the rest"),
        (SAC, "update", "update: the rest"),
        (DQN, "update", "update: the rest"),
        (DQN, "_gradient", "update: forward pass"),
        (OffPolicyTrainer, "_batch", "update: sample the replay"),
        (FusedSACGradient, "__call__", "update: gradient in closed form"),
        (fused, "forward", "update: forward pass"),
        (fused.FusedPPOGradient, "_policy", "update: loss and its gradient"),
        (fused.FusedPPOGradient, "__call__", "update: heads, value loss"),
        (fused, "backward", "update: backward pass"),
        (packed_memory.PackedMemory, "forward", "update: forward pass of the memory"),
        (packed_memory._SteppedPass, "backward", "update: backward pass of the memory"),
        # By automatic differentiation, where there is no closed form:
        (ActorCritic, "evaluate", "update: forward pass"),
        (POCA, "_estimates", "update: forward pass of the critic"),
        (POCA, "distribution", "update: forward pass"),
        (ppo, "clipped_surrogate", "update: loss and its gradient"),
        (torch.Tensor, "backward", "update: backward pass"),
        (FlatAdam, "step", "update: optimizer"),
        (CheckedAdam, "step", "update: finite check"),
        (CheckedAdam, "read_steps", "update: wait for the device"),
        (CapturedStep, "__call__", "update: replay of the CUDA graph"),
    ]


@dataclass
class Window:
    """From the first summary to the last."""

    phases: Phases
    last_step: int
    marks: list[tuple[int, float, float]] = field(default_factory=list)
    found: tuple[dict[str, float], dict[str, float], dict[str, int]] = ({}, {}, {})

    def on_summary(self, step: int) -> None:
        """Called after each summary and its timer, so that the first summary is not counted."""
        self.marks.append((step, time.perf_counter(), time.thread_time()))
        if len(self.marks) == 1:
            self.phases.clear()
        if step >= self.last_step:
            self.found = (dict(self.phases.wall), dict(self.phases.cpu), dict(self.phases.calls))

    def described(self, title: str) -> dict[str, Any]:
        """Microseconds per agent-step of every phase, under a title.

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
        return {"title": title, "steps": last - first, "phases": rows, "total": total}


def after_summaries(call: Callable[[int], None]) -> None:
    """Call a function with the step after each summary of the runs in this process."""
    from lanista.trainers.trainer.learner import Learner

    summary = Learner.on_summary

    def on_summary(learner: Learner, step: int) -> bool:
        is_best = summary(learner, step)
        call(step)
        return is_best

    Learner.on_summary = on_summary  # type: ignore[method-assign]


def train_here(case: Case) -> None:
    """Train a task in this process.

    Raises:
        SystemExit: The run failed.
    """
    from lanista.trainers.learn import run

    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(sys.stderr):
        folder = Path(name)
        behaviors = {case.behavior: case.settings, **case.others}
        config = {"behaviors": {behavior: dict(settings) for behavior, settings in behaviors.items()}}
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        options = [f"--env={executable(folder, case.scene)}", f"--base-port={free_port()}", "--seed=1"]
        options += ["--run-id=run", f"--results-dir={folder / 'runs'}", f"--torch-device={case.device}"]
        if status := run([str(path), *options, "--env-args", *case.engine]):
            raise SystemExit(status)


def profile(case: Case) -> dict[str, Any]:
    """Trains, in this process; microseconds per agent-step of every phase."""
    phases = Phases()
    window = Window(phases, case.settings["max_steps"])
    install(phases)
    after_summaries(window.on_summary)
    train_here(case)
    return window.described(case.kind)


def apart(case: Case) -> dict[str, Any]:
    """`profile` in a process of its own."""
    command = [sys.executable, __file__, "--json", "--tasks", case.kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _phases(results: list[dict[str, Any]]) -> list[str]:
    """Those of all profiles, by the greatest share that they have in one."""
    phases = dict.fromkeys(phase for result in results for phase in result["phases"])
    return sorted(phases, key=lambda phase: -max(_share(result, phase) for result in results))


def _share(result: dict[str, Any], phase: str) -> float:
    """Of a profile's time."""
    return float(result["phases"].get(phase, (0.0,))[0] / result["total"][0])


def overview(results: list[dict[str, Any]]) -> str:
    """The phases as rows, the time for each profile as columns; without phases that take little in all."""
    lines = []
    for phase in _phases(results):
        if any(_share(result, phase) > SMALL_SHARE for result in results):
            walls = [result["phases"].get(phase, (0.0,))[0] for result in results]
            lines.append([phase, *(f"{wall:,.1f}" if wall else "" for wall in walls)])
    totals = [f"{result['total'][0]:,.1f}" for result in results]
    return markdown(["phase", *(f"{r['title']}:" for r in results)], [*lines, ["in all", *totals]])


def parts(result: dict[str, Any]) -> dict[str, float]:
    """Microseconds per agent-step of the engine's turn, of what networks compute, and of all else."""
    walls = {phase: wall for phase, (wall, _, _) in result["phases"].items()}
    engine = walls[ENGINE]
    networks = sum(wall for phase, wall in walls.items() if phase.startswith(NETWORKS))
    return {"engine": engine, "networks": networks, "rest": result["total"][0] - engine - networks}


def tick(result: dict[str, Any], agents: int) -> float:
    """Microseconds in which so many agents get their actions, without the engine, updates and taking in."""
    apart = ("update", "take in", "wait", "summaries")
    walls = [wall for phase, (wall, _, _) in result["phases"].items() if not phase.startswith(apart)]
    return float(sum(walls) * agents)


def limits(results: list[dict[str, Any]], peer_rates: Mapping[str, float]) -> str:
    """What a trainer would reach that only waits for the engine, and then computes its networks.

    `peer_rates`: ML-Agents' agent-steps per second by task, of the same machine.
    """
    lines = []
    for result in results:
        found, title = parts(result), result["title"]
        limit = 1e6 / (found["engine"] + found["networks"])
        peer = peer_rates.get(title)
        times = [f"{rate / peer:.1f}" if peer else "" for rate in (limit, 1e6 / result["total"][0])]
        cells = [f"{found[part]:,.1f}" for part in ("engine", "networks", "rest")]
        lines.append([title, *cells, f"{limit:,.0f}", *times, _largest_of_rest(result)])
    heads = ["task", "engine's turn:", "networks:", "all else:", "limit, agent-steps/s:"]
    heads += ["limit, times ML-Agents:", "in this run:", "the most of all else"]
    return markdown(heads, lines)


def _largest_of_rest(result: dict[str, Any]) -> str:
    """The three phases that take most, apart from the engine and the networks."""
    walls = {phase: wall for phase, (wall, _, _) in result["phases"].items()}
    others = [phase for phase in walls if phase != ENGINE and not phase.startswith(NETWORKS)]
    return ", ".join(f"{phase} {walls[phase]:,.1f}" for phase in sorted(others, key=walls.get)[-3:][::-1])


def table(results: list[dict[str, Any]]) -> str:
    """The phases as rows, wall and processor time for each profile as columns."""
    heads = [head for r in results for head in (f"{r['title']}: wall:", "cpu:", "calls:")]
    lines = []
    for phase in _phases(results):
        cells = [phase]
        for result in results:
            wall, cpu, calls = result["phases"].get(phase, (0.0, 0.0, 0))
            cells += [f"{wall:.2f}", f"{cpu:.2f}", f"{calls:,}" if calls else ""]
        lines.append(cells)
    totals = [cell for r in results for cell in (f"{r['total'][0]:.1f}", f"{r['total'][1]:.1f}", "")]
    return markdown(["phase", *heads], [*lines, ["in all", *totals]])


def main() -> None:
    cases = {case.kind: case for case in tasks() if not case.others}
    known = {"default": ["ball 12", "ball 128", "ball 1024"], "choices": list(cases)}
    json_line = {"default": False, "help": "one line of JSON, of one task"}
    given = parse_options(__doc__, tasks=known, json=json_line)
    if given.json:
        print(json.dumps(profile(cases[given.tasks[0]])))
    else:
        print(table([apart(cases[name]) for name in given.tasks]))


if __name__ == "__main__":
    main()

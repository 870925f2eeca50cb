"""How fast Lanista runs an engine without training: with ready actions, and with a policy's.

    python tests/benchmarks/rates.py [--areas 12 128 1024] [--seconds 4] [--json]

"engine alone" steps scene:ball3d through `UnityEnvironment` with actions drawn beforehand; "with inference"
steps it through `EnvManager` with the network of config/ppo/ball3d.yaml deciding, as in a run of
`lanista-learn`. Both include the wire; neither collects or learns.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from results import ENGINE, INFERENCE
from script_options import parse_options

SCENE = "scene:ball3d"


def measured(step: Callable[[], None], agents: int, seconds: float) -> dict[str, float]:
    """Agent-steps per second, and this process's processor time for each, after a warm-up."""
    _repeat(step, seconds / 8)
    cpu, wall = time.process_time(), time.perf_counter()
    count = agents * _repeat(step, seconds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"steps": count, "steps_per_s": count / wall, "trainer_cpu_us": 1e6 * cpu / count}


def _repeat(step: Callable[[], None], seconds: float) -> int:
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        step()
        count += 1
    return count


def engine_alone(areas: int, seconds: float) -> dict[str, float]:
    from lanista.envs.unity import UnityEnvironment
    from mlagents_envs.base_env import ActionTuple

    env = UnityEnvironment(SCENE, additional_args=["--areas", str(areas)])
    try:
        env.reset()
        (name,) = env.behavior_specs
        draws = np.random.default_rng(0).uniform(-1, 1, (64, areas, 2)).astype(np.float32)
        tick = 0

        def step() -> None:
            nonlocal tick
            env.set_actions(name, ActionTuple(draws[tick % len(draws)]))
            env.step()
            tick += 1

        return measured(step, areas, seconds)
    finally:
        env.close()


def with_inference(areas: int, seconds: float) -> dict[str, float]:
    import torch
    from lanista.envs.manager.manager import EnvManager
    from lanista.envs.unity import UnityEnvironment
    from lanista.trainers.networks.actor_critic import ActorCritic
    from lanista.trainers.policies.policy import Policy
    from lanista.trainers.settings.models.networks import NetworkSettings

    torch.set_num_threads(1)
    arguments = ["--areas", str(areas)]
    manager = EnvManager(
        lambda index: UnityEnvironment(SCENE, index, additional_args=arguments, non_finite=None), 1
    )
    with manager:
        manager.start()
        steps = manager.reset()
        ((name, spec),) = manager.behavior_specs.items()
        settings = NetworkSettings(normalize=True, hidden_units=128, num_layers=2)
        policy = Policy(ActorCritic(spec, settings, ["extrinsic"]), spec, seed=0)

        def step() -> None:
            nonlocal steps
            (answer,) = steps
            (decision,) = policy.act([answer.steps[name][0]])
            manager.send(answer.env, {name: decision})
            steps = manager.wait()

        return measured(step, areas, seconds)


def apart(areas: int, seconds: float) -> dict[str, dict[str, float]]:
    """Both, in a process of their own."""
    command = [sys.executable, __file__, "--areas", str(areas), "--seconds", str(seconds), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    json_line = {"default": False, "help": "one line of JSON, of one number of areas"}
    given = parse_options(__doc__, areas=[12, 128, 1024], seconds=4.0, json=json_line)
    logging.disable()
    for areas in given.areas:
        rates = {
            ENGINE: engine_alone(areas, given.seconds),
            INFERENCE: with_inference(areas, given.seconds),
        }
        if given.json:
            print(json.dumps(rates))
        else:
            parts = [f"{name} {r['steps_per_s']:,.0f}/s" for name, r in rates.items()]
            print(f"{areas} agents: {', '.join(parts)}")


if __name__ == "__main__":
    main()

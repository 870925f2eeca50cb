"""Run by the peer's Python: ML-Agents' UnityEnvironment steps an executable and says what it saw, as JSON.

step_scene.py EXECUTABLE PORT STEPS [arguments of the executable]

With `unreal:` before the executable it is the UnrealEnvironment of `ueagents_envs` instead.
"""

import json
import sys
from importlib import import_module

import numpy as np

UNREAL = "unreal:"


def make(executable, **options):
    """The environment of the package that speaks with this executable, and its channel for parameters."""
    package, engine = (
        ("ueagents_envs", "Unreal") if executable.startswith(UNREAL) else ("mlagents_envs", "Unity")
    )
    environment = getattr(import_module(f"{package}.environment"), f"{engine}Environment")

    def channel(module, name):
        return getattr(import_module(f"{package}.side_channel.{module}"), name)()

    parameters = channel("environment_parameters_channel", "EnvironmentParametersChannel")
    channels = [parameters, channel("stats_side_channel", "StatsSideChannel")]
    if engine == "Unity":
        channels.append(channel("engine_configuration_channel", "EngineConfigurationChannel"))
        channels[-1].set_configuration_parameters(time_scale=20.0)
    return environment(executable.replace(UNREAL, ""), side_channels=channels, **options), parameters


def main() -> None:
    executable, port, steps, *arguments = sys.argv[1:]
    env, parameters = make(executable, base_port=int(port), additional_args=arguments, seed=3)
    parameters.set_float_parameter("scale", 0.5)
    env.reset()
    name = next(iter(env.behavior_specs))
    spec = env.behavior_specs[name]
    random = np.random.default_rng(0)
    seen = {"agents": 0, "decisions": 0, "episodes": 0, "reward": 0.0, "finite": True}
    for _ in range(int(steps)):
        decisions, terminals = env.get_steps(name)
        seen["agents"] = max(seen["agents"], len(decisions))
        seen["decisions"] += len(decisions)
        seen["episodes"] += len(terminals)
        seen["reward"] += float(decisions.reward.sum() + terminals.reward.sum())
        seen["finite"] &= all(bool(np.isfinite(o).all()) for o in [*decisions.obs, *terminals.obs])
        action = spec.action_spec.empty_action(len(decisions))
        if spec.action_spec.continuous_size:
            action.add_continuous(random.uniform(-1, 1, action.continuous.shape).astype(np.float32))
        for branch, size in enumerate(spec.action_spec.discrete_branches):
            action.discrete[:, branch] = random.integers(0, size, len(decisions))
        env.set_actions(name, action)
        env.step()
    env.close()
    seen["behavior"] = name
    seen["obs"] = [[o.name, list(o.shape)] for o in spec.observation_specs]
    seen["actions"] = [spec.action_spec.continuous_size, list(spec.action_spec.discrete_branches)]
    print("SEEN " + json.dumps(seen))


if __name__ == "__main__":
    main()

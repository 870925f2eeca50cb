"""Trains with PPO of CleanRL: `python run_field_cleanrl.py CHECKOUT '<plan as JSON>'`.

For tests/benchmarks/field.py, whose `Plan` the keys of the plan are. Needs a Python environment that has
torch, gymnasium, tyro and tensorboard. It measures nothing: the environments write down what they see.

CleanRL is scripts of one file each, which are meant to be changed: cleanrl/ppo.py trains CartPole as it is,
cleanrl/ppo_atari.py Atari games. The changed script is written to the working directory and run.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

Changes = dict[str, str]

COMMON: Changes = {
    # Gymnasium 1.0 resets an environment in the step after its last one, and tells of ended episodes in
    # another form. The scripts are written for 0.29, which resets in the same step.
    "for i in range(args.num_envs)],\n    )": "for i in range(args.num_envs)],\n"
    "        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,\n    )",
    "        env = gym.wrappers.RecordEpisodeStatistics(env)\n": "",
    'if "final_info" in infos:': "if False:",
}
ATARI: Changes = {
    "from cleanrl_utils.atari_wrappers import (  # isort:skip\n"
    "    ClipRewardEnv,\n"
    "    EpisodicLifeEnv,\n"
    "    FireResetEnv,\n"
    "    MaxAndSkipEnv,\n"
    "    NoopResetEnv,\n"
    ")\n": "",
    "            env = gym.make(env_id)\n": "            env = gym.make(env_id, channels_first=True)\n",
    "        env = NoopResetEnv(env, noop_max=30)\n"
    "        env = MaxAndSkipEnv(env, skip=4)\n"
    "        env = EpisodicLifeEnv(env)\n"
    '        if "FIRE" in env.unwrapped.get_action_meanings():\n'
    "            env = FireResetEnv(env)\n"
    "        env = ClipRewardEnv(env)\n"
    "        env = gym.wrappers.ResizeObservation(env, (84, 84))\n"
    "        env = gym.wrappers.GrayScaleObservation(env)\n"
    "        env = gym.wrappers.FrameStack(env, 4)\n": "",
    "nn.Conv2d(4, 32, 8, stride=4)": "nn.Conv2d(1, 32, 8, stride=4)",
    "nn.Linear(64 * 7 * 7, 512)": "nn.Linear(64 * 4 * 4, 512)",
}


def changed(source: str, changes: Changes) -> str:
    """A script with pieces of its text replaced, each of which it must hold exactly once."""
    for old, new in changes.items():
        assert source.count(old) == 1, f"the script holds {source.count(old)} times:\n{old}"
        source = source.replace(old, new)
    return source


def options(plan: dict[str, Any]) -> list[str]:
    """The arguments of the script that mean the same."""
    rollout = plan["copies"] * plan["horizon"]
    given = {
        "env-id": f"field_environments:{plan['environment']}",
        "seed": plan["seed"],
        "total-timesteps": plan["max_steps"],
        "learning-rate": plan["learning_rate"],
        "num-envs": plan["copies"],
        "num-steps": plan["horizon"],
        "gamma": plan["gamma"],
        "gae-lambda": plan["lambd"],
        "num-minibatches": rollout // plan["batch_size"],
        "update-epochs": plan["epochs"],
        "clip-coef": plan["epsilon"],
        "ent-coef": plan["beta"],
        "max-grad-norm": plan["max_grad_norm"],
    }
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return [*words, "--no-anneal-lr", "--no-cuda"]


def train(checkout: Path, plan: dict[str, Any]) -> None:
    """Change the script, and run it as if it had been started by itself."""
    name = "ppo_atari.py" if plan["pictures"] else "ppo.py"
    source = (checkout / "cleanrl" / name).read_text(encoding="utf-8")
    script = Path(name)
    script.write_text(changed(source, COMMON | (ATARI if plan["pictures"] else {})), encoding="utf-8")
    sys.argv = [name, *options(plan)]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    train(Path(sys.argv[1]), json.loads(sys.argv[2]))

"""Trains on an engine that once sends NaN, infinity, a huge number, or a mask that leaves no choice.

    python tests/reliability/non_finite.py [--cases observation-nan mask] [--products Lanista ML-Agents]

The runs are those of the real `lanista-learn` and `mlagents-learn` with PPO; in the middle of one, a single
agent's observation, reward or action mask is bad. Held has a run that goes on to its end, or whose error
names the sensor or the agent, if the weights it saved are finite. Lanista's cases also have the policies
`drop` and `zero` of `env_settings.non_finite`. Ends with status 1 when one of Lanista's runs did not hold.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from console_runs import PATIENCE, weights_are_finite
from figures import LANISTA, Recorder
from script_options import parse_options
from scripted_engine import executable, free_port

ENGINE = """\
from lanista.envs.protocol import messages
place, value = {place!r}, float({value!r})
def output(k, described, bad):
    found = messages.UnityOutputProto.FromString(observation(k % 7, 0.5, done=k % 10 == 9, agent_id=k // 10))
    (agent,) = found.rl_output.agentInfos["Ball?team=0"].value
    if place == "mask":
        spec = found.rl_initialization_output.brain_parameters[0].action_spec
        spec.num_continuous_actions, spec.num_discrete_actions = 0, 1
        spec.discrete_branch_sizes.append(3)
        agent.action_mask.extend([bad] * 3)
    elif bad and place == "reward":
        agent.reward = value
    elif bad:
        agent.observations[0].float_data.data[1] = value
    if not described:
        found.ClearField("rl_initialization_output")
    return message(found.SerializeToString())
greet()
ask(output(0, True, False))
for k in range(1, 10**9):
    ask(output(k, False, k == 305))
"""
SETTINGS = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 16, "buffer_size": 64},
    "network_settings": {"normalize": True, "hidden_units": 16, "num_layers": 1},
    "max_steps": 600,
    "checkpoint_interval": 200,
    "time_horizon": 16,
    "summary_freq": 100,
}
FINITE = """\
import sys, torch
def finite(value):
    if isinstance(value, torch.Tensor):
        return bool(torch.isfinite(value.float()).all())
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return all(map(finite, values))
print("FINITE", all(finite(torch.load(path)) for path in sys.argv[1:]))
"""


@dataclass(frozen=True)
class Case:
    """What is bad, and what is to be done about it."""

    place: str
    value: str = "nan"
    policy: str = ""
    """Of Lanista, where it is not the default."""


PLACES = ("observation", "reward")
CASES = {f"{place}-{value}": Case(place, value) for place in PLACES for value in ("nan", "inf", "3e38")}
CASES |= {
    f"{place}-nan-{policy}": Case(place, "nan", policy) for place in PLACES for policy in ("drop", "zero")
}
CASES["mask"] = Case("mask")
NAMED = re.compile(r"VectorSensor|agent(_0-| )\d")


def finite(product: str, files: list[Path]) -> bool:
    """Whether these checkpoints hold nothing else; none counts as such."""
    if not files:
        return True
    if product == LANISTA:
        return weights_are_finite(files)
    command = [programs.python(product), "-W", "ignore", "-c", FINITE, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return "FINITE True" in done.stdout


def measure(case: Case, product: str) -> tuple[bool, str]:
    """Whether a run held, and what was seen of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        settings = {"behaviors": {"Ball": SETTINGS}}
        if case.policy:
            settings["env_settings"] = {"non_finite": case.policy}
        game = executable(folder, ENGINE.format(place=case.place, value=case.value))
        engine = ["--env", game, "--base-port", str(free_port()), "--max-lifetime-restarts", "0"]
        yaml = programs.configuration(product, settings)
        ended = programs.learn(product, folder, *engine, yaml=yaml, seconds=2 * PATIENCE)
        files = sorted((folder / "results" / "r" / "Ball").glob("*.pt"))
        weights = finite(product, files)
    went_on = ended.status == 0
    named = any(NAMED.search(line) for line in ended.text.splitlines() if "rror" in line)
    text = "went on to its end" if went_on else f"ended with status {ended.status}"
    text += "" if went_on else ", sensor or agent named" if named else ", nobody named"
    text += f"; the weights of {len(files)} checkpoints are {'finite' if weights else 'NOT FINITE'}"
    text += "" if went_on else f"; {ended.last_line[:150]}"
    return weights and not ended.left and (went_on or named), text


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        cases={"default": list(CASES), "choices": list(CASES)},
        products=programs.OPTION,
        record={"default": False, "help": "keep the figures"},
    )
    recorder, bad = Recorder(7, options.record), 0
    for name in options.cases:
        for product in options.products:
            if product == LANISTA or not CASES[name].policy:
                held, found = measure(CASES[name], product)
                recorder.add(name, product, 1, int(held), found=found)
                bad += product == LANISTA and not held
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

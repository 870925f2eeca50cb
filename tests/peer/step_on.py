"""Run by ML-Agents' Python: UnityEnvironment steps an executable until it is killed, and says how far it is.

step_on.py EXECUTABLE PORT     # a line of the number of steps, ten times a second; "-": as the Editor's
"""

import sys
import time

from mlagents_envs.environment import UnityEnvironment

executable, port = sys.argv[1:]
env = UnityEnvironment(None if executable == "-" else executable, base_port=int(port), seed=1)
env.reset()
name, spec = next(iter(env.behavior_specs.items()))
steps, said = 0, 0.0
while True:
    decisions, _ = env.get_steps(name)
    env.set_actions(name, spec.action_spec.empty_action(len(decisions)))
    env.step()
    steps += 1
    if time.monotonic() - said > 0.1:
        said = time.monotonic()
        print(steps, flush=True)

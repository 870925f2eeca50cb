"""Run by ML-Agents' own Python: steps the executable that is named and prints what it saw."""

import socket
import sys

from mlagents_envs.environment import UnityEnvironment

with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]

env = UnityEnvironment(sys.argv[1], seed=1, base_port=port)
env.reset()
name = "3DBall?team=0"
decisions, _ = env.get_steps(name)
agents, height = len(decisions), decisions.obs[0][:, 3].max()
ends = 0
for _ in range(100):
    decisions, terminals = env.get_steps(name)
    ends += len(terminals)
    env.set_actions(name, env.behavior_specs[name].action_spec.random_action(len(decisions)))
    env.step()
env.close()
print(agents, ends, height)

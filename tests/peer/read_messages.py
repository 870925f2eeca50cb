"""Run by ML-Agents' Python: its UnityEnvironment's decoder reads messages from standard input.

Each comes as a head of struct "<BBI" and its bytes: what to do with it (see `READ` and so on), the session,
and the length. The answer is a line: "read", or the exception's type with "refused" before one that ML-Agents
raises on purpose.
"""

import struct
import sys
from types import SimpleNamespace

from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.exception import UnityException
from mlagents_envs.side_channel.engine_configuration_channel import EngineConfigurationChannel
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from mlagents_envs.side_channel.side_channel_manager import SideChannelManager
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel

BEGIN, READ, READ_FIRST, SIDE_CHANNEL = range(4)
HEAD = struct.Struct("<BBI")


def environment():
    """What the decoder needs of a UnityEnvironment."""
    channels = [StatsSideChannel(), EnvironmentParametersChannel(), EngineConfigurationChannel()]
    found = SimpleNamespace(_env_specs={}, _env_state={}, _side_channel_manager=SideChannelManager(channels))
    found._update_state = lambda output: UnityEnvironment._update_state(found, output)
    return found


def decode(env, data):
    message = UnityMessageProto.FromString(data)
    if message.header.status == 200:
        UnityEnvironment._update_behavior_specs(env, message.unity_output)
        env._update_state(message.unity_output.rl_output)


def outcome(kind, env, data):
    try:
        if kind == SIDE_CHANNEL:
            env._side_channel_manager.process_side_channel_message(data)
        else:
            decode(environment() if kind == READ_FIRST else env, data)
    except UnityException as error:
        return f"refused, {type(error).__name__}"
    except Exception as error:
        return type(error).__name__
    return "read"


def main():
    answers, sys.stdout = sys.stdout, sys.stderr  # what the package prints does not count
    environments = {}
    while head := sys.stdin.buffer.read(HEAD.size):
        kind, session, length = HEAD.unpack(head)
        data = sys.stdin.buffer.read(length)
        if kind == BEGIN:
            environments[session] = environment()
        print(outcome(kind, environments[session], data), file=answers, flush=True)


if __name__ == "__main__":
    main()

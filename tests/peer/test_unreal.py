"""The Python package of UnrealMLAgents, `ueagents_envs`: its messages and ours, in both directions."""

import base64
import json
from pathlib import Path

import pytest
from lanista.envs.scenes.registry import export
from lanista.envs.unity import UnityEnvironment
from unreal_session import check_answers, check_engine_messages, our_answers

GOLDEN = Path(__file__).parents[1] / "envs" / "protocol" / "unreal_session.json"


@pytest.fixture
def unreal(peer):
    peer.require_unreal()
    return peer


def test_the_committed_session_is_what_the_package_writes(unreal):
    assert json.loads(unreal.run("record_unreal.py")) == json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("seed", range(1, 9))
def test_messages_of_any_numbers_of_agents_are_read_alike(unreal, seed):
    session = json.loads(unreal.run("record_unreal.py", seed))
    check_engine_messages(session)
    check_answers(session)


READ = """
import base64, json, sys
from ueagents_envs.communicator_objects.unreal_message_pb2 import UnrealMessageProto
for data, theirs in json.loads(sys.argv[1]):
    ours, expected = (UnrealMessageProto.FromString(base64.b64decode(each)) for each in (data, theirs))
    assert ours == expected, (ours, expected)
"""


def test_the_package_reads_our_answers_as_its_own(unreal):
    session = json.loads(GOLDEN.read_text(encoding="utf-8"))
    ours = [base64.b64encode(data).decode() for data in our_answers(session)]
    unreal.run(
        "-c", READ, json.dumps([[a, b["bytes"]] for a, b in zip(ours, session["answers"], strict=True)])
    )


def test_its_environment_and_ours_see_the_same_scene(unreal, tmp_path, port):
    """Step by step under the actions that are sent if none are set, seed and all."""
    game = export("ball3d", tmp_path / "ball3d")
    script = """
import json, sys
from ueagents_envs.environment import UnrealEnvironment
env = UnrealEnvironment(sys.argv[1], base_port=int(sys.argv[2]), seed=7, additional_args=["--areas=5"])
env.reset()
rows = []
for _ in range(60):
    decisions, terminals = env.get_steps("3DBall?team=0")
    rows.append([part.tolist() for s in (decisions, terminals) for part in (s.obs[0], s.reward, s.agent_id)])
    env.step()
env.close()
print("ROWS " + json.dumps(rows))
"""
    output = unreal.run("-c", script, game, port)
    expected = json.loads(output.split("ROWS ")[1])
    env = UnityEnvironment(f"unreal:{game}", seed=7, additional_args=["--areas=5"])
    env.reset()
    for row in expected:
        steps = env.get_steps("3DBall?team=0")
        assert [part.tolist() for s in steps for part in (s.obs[0], s.reward, s.agent_id)] == row
        env.step()
    env.close()

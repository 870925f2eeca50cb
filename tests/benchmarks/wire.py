"""What the wire costs: microseconds a message and an agent, on this machine.

    python tests/benchmarks/wire.py

exchange.py measures the exchange itself, without what the messages mean.
Agents have eight floats and two continuous actions, as 3DBall's. "As Unity writes them": zeros left out, so
that agents with and without a reward, with ids of one byte and of two, have different layouts.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

import numpy as np
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.encoder import Encoder
from lanista.envs.protocol.engine import AgentBatch, StepEncoder
from lanista.envs.protocol.engine_decoder import ReplyDecoder
from mlagents_envs.base_env import ActionTuple
from results import best_microseconds
from specs import vector_spec
from wirereference import PlainDecoder, engine_message

NAME = "3DBall?team=0"
SPEC = vector_spec([8], continuous=2)


def batch(agents: int, done: float, rewarded: float) -> AgentBatch:
    rng = np.random.default_rng(0)
    return AgentBatch(
        obs=[rng.normal(size=(agents, 8)).astype(np.float32)],
        reward=np.where(rng.random(agents) < rewarded, 0.1, 0).astype(np.float32),
        done=rng.random(agents) < done,
        interrupted=np.zeros(agents, np.bool_),
        agent_id=np.arange(agents, dtype=np.int32),
        group_id=np.zeros(agents, np.int32),
        group_reward=np.zeros(agents, np.float32),
    )


def codec(agents: int) -> None:
    usual, mixed = batch(agents, 0, 1), batch(agents, 0.01, 0.5)
    rows: dict[str, Callable[[], object]] = {}
    for label, steps in (("all alike", usual), ("1 % done, half without reward", mixed)):
        data = engine_message({NAME: steps}, {NAME: SPEC}, new=True)
        fast, plain = Decoder(), PlainDecoder()
        fast.decode(data), plain.decode(data)
        data = engine_message({NAME: steps}, {NAME: SPEC}, new=False)
        rows[f"decode, {label}"] = lambda data=data, fast=fast: fast.decode(data)
        rows[f"the same by protobuf's objects, {label}"] = lambda data=data, plain=plain: plain.decode(data)
    encoder = StepEncoder({NAME: SPEC})
    actions = {NAME: ActionTuple(np.zeros((agents, 2), np.float32))}
    answers, replies = Encoder(), ReplyDecoder()
    reply = answers.actions(actions, b"")
    rows["encode actions"] = lambda: answers.actions(actions, b"")
    rows["engine: encode step"] = lambda: encoder.encode({NAME: usual})
    rows["engine: decode actions"] = lambda: replies.decode(reply)
    for label, function in rows.items():
        cost = best_microseconds(function, rounds=7, seconds=0.35)
        print(f"{agents:6} agents  {label:58} {cost:9.1f} us  {cost / agents:8.3f} us/agent")


if __name__ == "__main__":
    for count in (1, 12, 128, 1024):
        codec(count)

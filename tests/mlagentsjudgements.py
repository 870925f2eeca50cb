"""Our networks with weights of ML-Agents, against what its own networks said of the same inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.networks.critics import BurnInSequences
from lanista.trainers.networks.modules.distributions import flat_actions
from lanista.trainers.networks.team_critic import TeamSets
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer.factory import make_algorithm
from specs import vector_spec

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def settings_of(case: dict[str, Any], **changes: Any):
    hyperparameters = {"shared_critic": True} if case["shared_critic"] else {}
    behavior = {
        "trainer_type": case["trainer"],
        "hyperparameters": hyperparameters,
        "network_settings": case["network_settings"],
        "reward_signals": {name: {} for name in case["signals"]},
    } | changes
    return RunOptions.from_dict({"behaviors": {"B": behavior}}).behaviors["B"]


def algorithm_of(case: dict[str, Any], **changes: Any) -> Any:
    spec = vector_spec(case["observations"], case["continuous"], case["branches"])
    return make_algorithm(spec, settings_of(case, **changes), torch.device("cpu"), 3, NonFinitePolicy.STOP)


def assert_judges_alike(algorithm: Any, case: dict[str, Any], said: Path) -> None:
    """The same distribution, values, baselines and memories, for the inputs in `said`."""
    with np.load(said) as arrays:
        found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    with torch.no_grad():
        ours = _actor(algorithm, case, found)
        critics = {"ppo": _critic, "poca": _team, "sac": _soft}
        ours |= critics[case["trainer"]](algorithm, case, found)
    expected = {name.removeprefix("said_"): x for name, x in found.items() if name.startswith("said_")}
    assert ours.keys() == expected.keys()
    for name, tensor in ours.items():
        np.testing.assert_allclose(tensor.numpy(), expected[name].numpy(), **CLOSE, err_msg=name)


def _obs(case, found, who):
    return [found[f"obs_{who}_{i}"] for i in range(len(case["observations"]))]


def _actor(algorithm, case, found):
    network, said = algorithm.network, {}
    inputs, forbidden = network.prepare(_obs(case, found, 0)), found.get("forbidden")
    if network.memory_size:
        distribution, after = network.act_with_memory(inputs, found["actor_memory"], action_mask=forbidden)
        said["actor_memory_after"] = after
    else:
        distribution = network.act(inputs, forbidden)
    if case["continuous"]:
        said["mu"] = distribution.mu
        said["sigma"] = distribution.log_sigma.exp().expand_as(distribution.mu)
    if case["branches"]:
        said["probabilities"] = distribution.branches.flat(distribution.probabilities)
    return said


def _critic(algorithm, case, found):
    network = algorithm.network
    inputs = network.prepare(_obs(case, found, 0))
    if not network.memory_size:
        return {"values": network.value(inputs)}
    states = found["actor_memory" if case["shared_critic"] else "critic_memory"]
    encoding, _ = network.memory(-1)(network.critic_encoding(inputs), states, 1)
    return {"values": network.values(encoding)}


def _soft(algorithm, case, found):
    """Both action values as ML-Agents shapes them, and the two state values."""
    _, q, _, value, target = algorithm.networks
    inputs = algorithm.network.prepare(_obs(case, found, 0))
    encodings = [network.encoding(inputs) for network in (value, target)]
    if not algorithm.network.memory_size:
        twins = q(q.encode(inputs), found["continuous_0"].tanh())
    else:
        states = found["critic_memory"]
        hidden = q.bodies(q.encode(inputs), found["continuous_0"].tanh())
        twins = q.over_sequences(hidden, [states, states], BurnInSequences(1))
        both = zip((value, target), encodings, strict=True)
        encodings = [network.memory()(encoding, states, 1)[0] for network, encoding in both]
    values, slow = (n.values(e) for n, e in zip((value, target), encodings, strict=True))
    if not case["branches"]:
        twins = twins.squeeze(-1)
    return {"q1": twins[0], "q2": twins[1], "values": values, "target_values": slow}


def _team(algorithm, case, found):
    """Sets of the agent and its mates; rows are [step, member], one after another."""
    critic, sizes = algorithm.critic, case["observations"]
    width = sum(name.startswith("obs_") for name in found) // len(sizes)
    steps = len(found["obs_0_0"])

    def rows(name):
        return torch.stack([found[name.format(who)] for who in range(width)], 1).flatten(0, 1)

    inputs = algorithm.network.prepare([rows(f"obs_{{}}_{i}") for i in range(len(sizes))])
    actions = flat_actions(rows("continuous_{}"), rows("discrete_{}"), case["branches"])
    sets = TeamSets(((width, steps),))
    encodings, counts = critic.encode(inputs, actions, sets)
    first = steps if width > 1 else 0
    both, counts = [encodings[:steps], encodings[first::width]], counts[:steps]
    if critic.memories:
        both = [critic.memory()(encoding, found["critic_memory"], 1)[0] for encoding in both]
    values, baselines = (critic.heads(encoding, counts) for encoding in both)
    return {"values": values, "baselines": baselines}

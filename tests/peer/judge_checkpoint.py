"""Run by ML-Agents' Python: what its own networks make of a checkpoint, for random inputs.

judge_checkpoint.py CASE.json CHECKPOINT.pt OUT.npz [--new]

The case says how the network is built: trainer, observations, continuous, branches, network_settings,
shared_critic, signals. With --new the checkpoint is first made, of random weights, in the way of ML-Agents'
saver.
OUT.npz holds the inputs beside what came of them.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from mlagents.plugins.trainer_type import register_trainer_plugins
from mlagents.trainers.poca.optimizer_torch import TorchPOCAOptimizer
from mlagents.trainers.policy.torch_policy import TorchPolicy
from mlagents.trainers.ppo.optimizer_torch import TorchPPOOptimizer
from mlagents.trainers.sac.optimizer_torch import TorchSACOptimizer
from mlagents.trainers.settings import RunOptions
from mlagents.trainers.torch_entities.agent_action import AgentAction
from mlagents.trainers.torch_entities.networks import SharedActorCritic, SimpleActor
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)

ROWS, MATES = 7, 2


def spec_of(case):
    observations = [
        ObservationSpec((size,), (DimensionProperty.NONE,), ObservationType.DEFAULT, f"obs{i}")
        for i, size in enumerate(case["observations"])
    ]
    return BehaviorSpec(observations, ActionSpec(case["continuous"], tuple(case["branches"])))


def networks(case):
    """The policy and the optimiser as ML-Agents' trainers build them."""
    register_trainer_plugins()
    hyperparameters = {"shared_critic": True} if case["shared_critic"] else {}
    behavior = {
        "trainer_type": case["trainer"],
        "hyperparameters": hyperparameters,
        "network_settings": case["network_settings"],
        "reward_signals": {name: {"network_settings": {"hidden_units": 8}} for name in case["signals"]},
    }
    settings = RunOptions.from_dict({"behaviors": {"B": behavior}}).behaviors["B"]
    soft = case["trainer"] == "sac"
    actor, arguments = SimpleActor, {"conditional_sigma": soft, "tanh_squash": soft}
    if case["shared_critic"]:
        actor, arguments = SharedActorCritic, {**arguments, "stream_names": case["signals"]}
    policy = TorchPolicy(1, spec_of(case), settings.network_settings, actor, arguments)
    kinds = {"ppo": TorchPPOOptimizer, "poca": TorchPOCAOptimizer, "sac": TorchSACOptimizer}
    return policy, kinds[case["trainer"]](policy, settings)


def critics(case, optimizer):
    """By their names in a checkpoint."""
    modules = optimizer.get_modules()
    names = ["q_network", "value_network", "target_network"] if case["trainer"] == "sac" else ["critic"]
    return {name: modules[name] for name in (f"Optimizer:{name}" for name in names)}


def adams(case, optimizer):
    if case["trainer"] != "sac":
        return [optimizer.optimizer]
    return [optimizer.policy_optimizer, optimizer.value_optimizer, optimizer.entropy_optimizer]


def make(case, policy, optimizer, path):
    """A checkpoint that no training made, but with numbers everywhere that are not those of a beginning."""
    generator = torch.Generator().manual_seed(5)
    for module in (policy.actor, *critics(case, optimizer).values()):
        for name, tensor in module.state_dict().items():
            if name.endswith("normalization_steps"):
                tensor.fill_(40)
            elif "normalizer.running" in name:
                generator.manual_seed(len(tensor) + name.endswith("variance"))
                tensor.copy_(40 * torch.rand(tensor.shape, generator=generator))
            elif name.endswith(("bias", "log_sigma")):
                tensor.copy_(0.3 * torch.randn(tensor.shape, generator=generator))
    for adam in adams(case, optimizer):
        for p in (p for group in adam.param_groups for p in group["params"]):
            if p.requires_grad:
                p.grad = 0.01 * torch.randn(p.shape, generator=generator)
        adam.step()
    modules = {**policy.get_modules(), **optimizer.get_modules()}
    torch.save({name: module.state_dict() for name, module in modules.items()}, path)


def load(case, policy, optimizer, path):
    state = torch.load(path, weights_only=True)
    policy.actor.load_state_dict(state["Policy"])
    for name, module in critics(case, optimizer).items():
        module.load_state_dict(state[name])


def inputs(case):
    random = np.random.default_rng(3)
    given = {}
    for who in range(1 + MATES):
        for i, size in enumerate(case["observations"]):
            given[f"obs_{who}_{i}"] = random.normal(0, 2, (ROWS, size)).astype(np.float32)
        given[f"continuous_{who}"] = random.normal(0, 1, (ROWS, case["continuous"])).astype(np.float32)
        columns = [random.integers(0, size, ROWS) for size in case["branches"]]
        given[f"discrete_{who}"] = np.stack(columns, 1) if columns else np.zeros((ROWS, 0), np.int64)
    if case["branches"]:
        forbidden = random.random((ROWS, sum(case["branches"]))) < 0.3
        forbidden[:, np.cumsum([0, *case["branches"]])[:-1]] = False
        given["forbidden"] = forbidden
    memory = case["network_settings"].get("memory")
    if memory:
        given["actor_memory"], given["critic_memory"] = random.normal(
            0, 1, (2, ROWS, memory["memory_size"])
        ).astype(np.float32)
    return given


def judge(case, policy, optimizer):
    """Distribution parameters, the actor's next memory, the critic's values and a team's baselines."""
    given = inputs(case)
    tensors = {name: torch.from_numpy(array) for name, array in given.items()}
    obs = [[tensors[f"obs_{who}_{i}"] for i in range(len(case["observations"]))] for who in range(1 + MATES)]
    actor_memory, critic_memory = (
        tensors[name].unsqueeze(0) if name in tensors else None for name in ("actor_memory", "critic_memory")
    )
    masks = 1.0 - tensors["forbidden"].float() if "forbidden" in tensors else None
    said = {}
    encoding, after = policy.actor.network_body(obs[0], memories=actor_memory, sequence_length=1)
    if actor_memory is not None:
        said["actor_memory_after"] = after[0]
    found = policy.actor.action_model._get_dists(encoding, masks)
    if found.continuous is not None:
        said["mu"], said["sigma"] = found.continuous.mean, found.continuous.std.expand(ROWS, -1)
    if found.discrete:
        said["probabilities"] = torch.cat([branch.probs for branch in found.discrete], 1)
    if case["trainer"] == "sac":
        said |= _soft(case, policy, optimizer, obs[0], tensors, critic_memory)
        values, after = optimizer.critic.critic_pass(obs[0], memories=critic_memory)
    elif case["trainer"] == "poca":
        values, after = optimizer.critic.critic_pass(obs, memories=critic_memory)
        actions = [_action(case, tensors, who) for who in range(1, 1 + MATES)]
        baselines, _ = optimizer.critic.baseline(obs[0], (obs[1:], actions), memories=critic_memory)
        said["baselines"] = torch.stack([baselines[name] for name in case["signals"]], 1)
    else:
        memory = actor_memory if case["shared_critic"] else critic_memory
        values, after = optimizer.critic.critic_pass(obs[0], memories=memory)
    said["values"] = torch.stack([values[name] for name in case["signals"]], 1)
    return {**given, **{f"said_{name}": tensor.detach().numpy() for name, tensor in said.items()}}


def _soft(case, policy, optimizer, obs, tensors, memory):
    """Both action values, of every discrete action where there are some, and the slow state value.

    All critics get the policy's normaliser first, as at the beginning of each update.
    """
    own = policy.actor.network_body
    for network in (optimizer.q_network.q1_network, optimizer.q_network.q2_network):
        network.network_body.copy_normalization(own)
    for network in (optimizer.critic, optimizer.target_network):
        network.network_body.copy_normalization(own)
    actions = tensors["continuous_0"].tanh() if case["continuous"] else None
    both = optimizer.q_network(obs, actions=actions, memories=memory, sequence_length=1)
    slow, _ = optimizer.target_network(obs, memories=memory, sequence_length=1)
    said = {f"q{k + 1}": torch.stack([q[name] for name in case["signals"]], 1) for k, q in enumerate(both)}
    return {**said, "target_values": torch.stack([slow[name] for name in case["signals"]], 1)}


def _action(case, tensors, who):
    discrete = tensors[f"discrete_{who}"]
    columns = [discrete[:, k] for k in range(discrete.shape[1])] or None
    return AgentAction(tensors[f"continuous_{who}"], columns)


def main() -> None:
    case = json.loads(Path(sys.argv[1]).read_text())
    path = Path(sys.argv[2])
    torch.manual_seed(4)
    policy, optimizer = networks(case)
    if "--new" in sys.argv:
        make(case, policy, optimizer, path)
    load(case, policy, optimizer, path)
    np.savez_compressed(sys.argv[3], **judge(case, policy, optimizer))


if __name__ == "__main__":
    main()

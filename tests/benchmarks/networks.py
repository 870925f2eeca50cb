"""How long acting, learning and exporting take.

    python tests/benchmarks/networks.py [--threads 1]

"act" is what a policy does per tick: prepare, forward, sample, log-probabilities, entropy, engine actions.
"learn" is one pass of actor and critic over a minibatch with its backward pass (no loss, no optimizer).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

import torch
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.onnx.export import export_brain
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import ActionSpec
from results import best_microseconds
from script_options import parse_options
from specs import vector_spec

BEHAVIORS = {
    "8 floats, 2 continuous": ([8], ActionSpec(2, ())),
    "20 floats, branch of 3": ([20], ActionSpec(0, (3,))),
    "5 + 3 floats, 2 continuous, branches of 3 and 2": ([5, 3], ActionSpec(2, (3, 2))),
}
AGENTS = (12, 1024)
MINIBATCHES = (64, 1024)


class Workload:
    def __init__(self, sizes: list[int], actions: ActionSpec) -> None:
        self.spec = vector_spec(sizes, actions.continuous_size, actions.discrete_branches)
        self.network = ActorCritic(self.spec, NetworkSettings(normalize=True), ["extrinsic"])
        self.branches = sum(actions.discrete_branches)

    def inputs(self, rows: int) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        obs = [torch.randn(rows, *o.shape) for o in self.spec.observation_specs]
        mask = torch.zeros(rows, self.branches, dtype=torch.bool) if self.branches else None
        return obs, mask

    def acting(self, rows: int) -> Callable[[], object]:
        obs, mask = self.inputs(rows)
        generator = torch.Generator().manual_seed(0)

        def act() -> object:
            with torch.inference_mode():
                distribution = self.network.act(self.network.prepare(obs), mask)
                actions = distribution.sample(generator)
                engine = distribution.to_engine(actions.continuous)
                return engine, distribution.log_probs(actions), distribution.entropy()

        return act

    def learning(self, rows: int) -> Callable[[], object]:
        obs, mask = self.inputs(rows)
        inputs = self.network.prepare(obs)
        with torch.no_grad():
            actions = self.network.act(inputs, mask).sample()

        def learn() -> None:
            distribution, values = self.network.evaluate(inputs, mask)
            outputs = [distribution.log_probs(actions), distribution.entropy(), values]
            torch.autograd.backward(outputs, [torch.ones_like(x) for x in outputs])

        return learn


def main() -> None:
    torch.set_num_threads(parse_options(__doc__, threads=1).threads)
    for name, (sizes, actions) in BEHAVIORS.items():
        load = Workload(sizes, actions)
        acts = ", ".join(f"{best_microseconds(load.acting(n)):.0f} us at {n}" for n in AGENTS)
        learns = ", ".join(f"{best_microseconds(load.learning(n)):.0f} us at {n}" for n in MINIBATCHES)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "brain.onnx")
            export = (
                best_microseconds(partial(export_brain, load.network, path, behavior="Benchmark"), rounds=3)
                / 1000
            )
        print(f"{name}: act {acts}; learn {learns}; export {export:.1f} ms")


if __name__ == "__main__":
    main()

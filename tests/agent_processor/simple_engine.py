"""An engine of few words: agents are numbers, and an agent's observation is its number."""

from typing import Any

from lanista.agent_processor.trajectory import Trajectory
from processor_scripts import Player, vector_spec


class SimpleEngine(Player):
    """A `Player` whose events are just who ends and who decides. Every reward is 1, every action 0.5."""

    def __init__(self, horizon: int, sensors: int = 1) -> None:
        super().__init__(vector_spec(*[(3,)] * sensors, continuous=1), horizon)
        self.sensors = sensors
        self.waiting: dict[int, list[int]] = {}

    def step(
        self,
        decide: list[int],
        end: list[int] | None = None,
        group: int = 0,
        answer: bool = True,
        env: int = 0,
    ) -> list[Trajectory]:
        """One step of one environment; the decisions that wait there are answered first."""
        answered = self.waiting.get(env, []) if answer else []
        self.waiting[env] = decide
        return self.play(
            {
                "op": "step",
                "worker": env,
                "actions": self.answer(answered) if answered else None,
                "decision": {**self.batch(decide, group), "action_mask": None},
                "terminal": {**self.batch(end or [], group), "interrupted": [False] * len(end or [])},
            }
        )

    @staticmethod
    def answer(ids: list[int]) -> dict[str, Any]:
        n = len(ids)
        return {
            "agent_ids": ids,
            "continuous": [[0.5]] * n,
            "discrete": [[]] * n,
            "log_probs_continuous": [[-1.0]] * n,
            "log_probs_discrete": [[]] * n,
        }

    def batch(self, ids: list[int], group: int) -> dict[str, Any]:
        n = len(ids)
        return {
            "agent_id": ids,
            "obs": [[[i, i, i] for i in ids]] * self.sensors,
            "reward": [1.0] * n,
            "group_id": [group] * n,
            "group_reward": [0.0] * n,
        }

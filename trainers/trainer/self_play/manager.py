"""The self-play of a learner: who acts by what, what is learnt from, and what is kept in its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mlagents_envs.base_env import DecisionSteps
from torch import Tensor

from ....agent_processor.stats_sink import StatsSink
from ....envs.base import BehaviorId, BehaviorName, Decision
from ...policies.agent_states import Asking
from ...policies.policy import Policy
from ...settings.models.self_play import SelfPlaySettings
from ...utils.errors import TrainerError
from .opponents import Act, Opponents
from .self_play import Item, SeededDraws, SelfPlay
from .team_rotation import TeamRotation


class SelfPlayManager:
    """Joins the `SelfPlay` of one behaviour with the `Opponents` that act for it."""

    def __init__(
        self,
        name: str,
        settings: SelfPlaySettings,
        rotation: TeamRotation,
        network: Any,
        make: Callable[[Any], Policy],
        stats: StatsSink,
        seed: int,
    ) -> None:
        """Begin before any team is there.

        Args:
            name: the behaviour's.
            settings: of self-play.
            rotation: of the teams of all behaviours.
            network: that is learnt.
            make: the policy that acts by a copy of it.
            stats: is told the rating.
            seed: of the choice of opponents, and of what these leave to chance.
        """
        self.name = name
        self.settings = settings
        self.rotation = rotation
        self.opponents = Opponents(network, make, seed + 1)
        self._normalizes = any(True for _ in network.buffers())
        self.play = SelfPlay(
            settings, rotation, lambda: _copy(network), self.opponents, SeededDraws(seed), stats
        )
        self._alone: BehaviorId = ""

    @property
    def elo(self) -> float:
        """The learner's rating."""
        return self.play.elo

    def portion(self, of_trainer: int) -> int:
        """Decisions of all teams after which it is worth to learn, given those of the one that learns."""
        least = min(self.settings.save_steps, self.settings.swap_steps, self.settings.team_change)
        return min(of_trainer, least) * max(1, self.rotation.teams)

    def join(self, behavior_id: BehaviorId) -> None:
        """A team is there."""
        self._alone = behavior_id
        self.play.join(BehaviorName.parse(behavior_id).team_id)

    def decide(
        self, learner: Policy, batches: Sequence[DecisionSteps], asking: Sequence[Asking], act: Act
    ) -> list[Decision]:
        """Decide for all teams; see `Opponents.decide`."""
        return self.opponents.decide(learner, batches, asking, act)

    # Learning -------------------------------------------------------------------------------------------

    def sift(self, collected: Iterable[Item], step: int) -> list[Item]:
        """What is to be learnt from, before the trainer learns at its `step`."""
        self.play.notice(step)
        return self.play.sift(collected)

    def advance(self, step: int) -> None:
        """Do what falls due after the trainer has learnt, at its `step`.

        Raises:
            TrainerError: there is one team alone.
        """
        if step and self.rotation.teams < 2:
            raise TrainerError(
                f"The behavior {self.name} has a section self_play, and the environment has shown one team "
                f"alone, {self._alone}: self-play needs somebody to play against. Give the opponents "
                "another Team Id (in Unity, in their Behavior Parameters); where they are another behavior, "
                f"give that one a section self_play too; or remove behaviors.{self.name}.self_play."
            )
        self.play.advance(step)

    def learnt(self) -> None:
        """The weights have changed."""
        self.play.learnt()

    def taken_in(self) -> None:
        """Steps were taken in; where observations are normalised, that has changed the policy."""
        if self._normalizes:
            self.play.learnt()

    # Files ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the next games depend on."""
        return {**self.play.state_dict(), "acting": self.opponents.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        self.play.load_state_dict(state)
        self.opponents.generator.set_state(state["acting"])

    def begin_rated(self, elo: float) -> None:
        """Go on with a rating alone: all that ML-Agents has left of a run's self-play."""
        self.play.pool.rate_anew(elo)


def _copy(network: Any) -> dict[str, Tensor]:
    """Its weights and statistics as they are now, on the CPU."""
    return {key: value.detach().to("cpu", copy=True) for key, value in network.state_dict().items()}

"""The self-play of one behavior in a run: its games and the policies of the opponents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from ....agent_processor.queues import StatsSink
from ....envs.base import BehaviorId, BehaviorName
from ....envs.engines.terms import UNKNOWN, Terms
from ...policies.policy import Policy
from ...settings.models.behavior import SelfPlaySettings
from ...utils.errors import TrainerError
from .self_play import Item, SeededRandom, SelfPlay
from .snapshots import Opponents
from .team_rotation import TeamRotation

logger = logging.getLogger(__name__)


class SelfPlayManager(SelfPlay):
    """`SelfPlay` with snapshots of a network, and the `Opponents` that act with them."""

    def __init__(
        self,
        name: str,
        settings: SelfPlaySettings,
        rotation: TeamRotation,
        network: Any,
        make_policy: Callable[[Any], Policy],
        stats: StatsSink,
        seed: int,
        terms: Terms = UNKNOWN,
    ) -> None:
        """Start without any team.

        Args:
            name: the behavior's.
            settings: of self-play.
            rotation: of the teams of all behaviors.
            network: the one that is trained.
            make_policy: makes the policy that acts with a copy of it.
            stats: gets the rating.
            seed: of the choice of opponents, and of the actions that these sample.
            terms: the words for the environment in messages to its users.
        """
        self.name = name
        self._terms = terms
        self.opponents = Opponents(network, make_policy, seed + 1, marks=settings.learn_from_both_sides)
        super().__init__(
            settings, rotation, lambda: _copy(network), self.opponents, SeededRandom(seed), stats
        )
        self._normalizes = any(True for _ in network.buffers())
        self._last_joined: BehaviorId = ""
        self._begun: int | None = None
        """The trainer's step at the first `advance`: as long as it stays there, teams may still appear."""
        self._alone = False
        """Whether the user knows that there was no opponent when the first steps had been learned from."""
        self._one_sided = settings.learn_from_both_sides
        """It is still to be checked whether there is another side to learn from."""

    def interval(self, trainer_interval: int) -> int:
        """Decisions of all teams after which it is worth calling the trainer.

        Args:
            trainer_interval: decisions of the learning team after which it is.
        """
        least = min(self.settings.save_steps, self.settings.swap_steps, self.settings.team_change)
        return min(trainer_interval, least) * max(1, self.rotation.teams)

    def add_team(self, behavior_id: BehaviorId) -> None:
        """A team has appeared."""
        self._last_joined = behavior_id
        self.join(BehaviorName.parse(behavior_id).team_id)

    def select(self, collected: Iterable[Item], step: int) -> list[Item]:
        """The trajectories to learn from; to be called before the trainer advances at its `step`."""
        self.detect_team_change(step)
        return self.split_by_team(collected)

    def advance(self, step: int) -> None:
        """Do what is due after the trainer has advanced, at its `step`.

        Raises:
            TrainerError: another team is to learn now, and there is only one.
        """
        if self._begun is None:
            self._begun = step
        if step > self._begun:
            if self.rotation.teams < 2:
                self._require_opponent(step)
            elif self._one_sided:
                self._warn_of_one_side()
        self.follow_first_rank()
        super().advance(step)

    def _require_opponent(self, step: int) -> None:
        """Warn once that there is only one team; refuse that where another one is to learn now."""
        if self._is_team_change_due(step):
            raise TrainerError(
                f"The behavior {self.name} has a section self_play, but the environment has shown only one "
                f"team, {self._last_joined}, and at step {step} another one is to learn: self-play needs an "
                f"opponent. Give the opponents another {self._terms.team}; if they are another behavior, "
                f"give that one a section self_play too; or remove behaviors.{self.name}.self_play."
            )
        if not self._alone:
            self._alone = True
            logger.warning(
                "The behavior %s has a section self_play, and the environment has shown only one team so "
                "far, %s, which learns without an opponent. If there is still none when another team is to "
                "learn (self_play.team_change: %d), the run ends.",
                self.name,
                self._last_joined,
                self.settings.team_change,
            )

    def _warn_of_one_side(self) -> None:
        """Warn once if all opponents are other behaviors, which learn by themselves in their turn."""
        self._one_sided = False
        if len(self.teams) == 1:
            logger.warning(
                "self_play.learn_from_both_sides has no effect on the behavior %s: its opponents are another "
                "behavior, so that there is but one team (%s) whose steps it can learn from.",
                self.name,
                self._last_joined,
            )

    def on_steps_processed(self) -> None:
        """Steps were processed; if observations are normalized, that has changed the policy."""
        if self._normalizes:
            self.on_update()

    def state_dict(self) -> dict[str, Any]:
        """All that the next games depend on."""
        return {**super().state_dict(), "acting": self.opponents.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        super().load_state_dict(state)
        self.opponents.generator.set_state(state["acting"])


def _copy(network: Any) -> dict[str, Tensor]:
    """Its weights and statistics as they are now, on the CPU."""
    return {key: value.detach().to("cpu", copy=True) for key, value in network.state_dict().items()}

"""An engine's full names of behaviours, such as `Striker?team=1`."""

from dataclasses import dataclass
from urllib.parse import parse_qs


@dataclass(frozen=True, slots=True)
class BehaviorName:
    """A behaviour's full name taken apart."""

    behavior_id: str
    """The full name as the engine sent it."""
    name: str
    """What the user's configuration calls the behaviour: the part before the question mark."""
    team_id: int = 0
    """The team, 0 where the full name tells none."""

    @classmethod
    def parse(cls, behavior_id: str) -> "BehaviorName":
        """Take a full name apart; anything in its query but the first `team` is ignored.

        Raises:
            ValueError: The team is not a whole number.
        """
        name, _, query = behavior_id.partition("?")
        team = parse_qs(query).get("team", ["0"])[0]
        try:
            return cls(behavior_id, name, int(team))
        except ValueError:
            raise ValueError(
                f"The behaviour {behavior_id!r} has the team {team!r}, which is not a whole number. "
                "Full names look like 'Name?team=0'."
            ) from None

    @property
    def rebuilt(self) -> str:
        """The full name in its usual form, `Name?team=0`."""
        return behavior_id(self.name, self.team_id)


def behavior_id(name: str, team_id: int = 0) -> str:
    """The full name of a behaviour's team."""
    return f"{name}?team={team_id}"

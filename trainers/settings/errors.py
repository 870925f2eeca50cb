"""What a wrong configuration raises."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a configuration."""

    path: str
    """Where in the tree, such as `behaviors.Ball.hyperparameters.batch_size`; empty for the whole."""
    message: str
    """What was found, what is allowed, what to do."""
    place: str = ""
    """Where it was written: `ball.yaml, line 12`, or the flag of the command line."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path, self.message) if part)


class TrainerConfigError(Exception):
    """The configuration cannot be used; says everything that is wrong with it, one problem a line."""

    def __init__(self, problems: str | Sequence[Problem]) -> None:
        self.problems = [Problem("", problems)] if isinstance(problems, str) else list(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) > 1:
            lines = [f"{len(lines)} problems in the configuration:", *(f"  {line}" for line in lines)]
        super().__init__("\n".join(lines))

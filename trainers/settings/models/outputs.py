"""The settings `stats_writers` and `callbacks` of a run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from ...utils.errors import did_you_mean
from ...utils.plugins import CALLBACKS, MLAGENTS_STATS_WRITERS, STATS_WRITERS, plugins
from ..base import Text, found, wrong

TENSORBOARD = "tensorboard"
CONSOLE = "console"
CSV = "csv"
NONE = "none"
BUILT_IN = (TENSORBOARD, CONSOLE, CSV, NONE)


def _as_list(value: Any) -> Any:
    """A single name as a list of one; a list as it is."""
    if isinstance(value, str):
        return [value]
    if value is None or isinstance(value, list):
        return value
    raise wrong(f"found {found(value)}, expected a list such as [tensorboard, csv]")


def _known(names: list[str]) -> list[str]:
    """Refuse unknown names, and `none` together with others."""
    others: list[str] = []
    if not set(names) <= set(BUILT_IN):
        others = [*plugins(STATS_WRITERS), *plugins(MLAGENTS_STATS_WRITERS)]
    known = [*BUILT_IN, *(name for name in others if name not in BUILT_IN)]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise wrong(f"there is no stats writer {name!r} here.{hint} Known: {', '.join(known)}")
    if NONE in names and len(names) > 1:
        raise wrong(f"found {', '.join(names)}; none stands alone: remove it or the others")
    return list(dict.fromkeys(names))


WriterNames = Annotated[list[Text], BeforeValidator(_as_list), AfterValidator(_known)]
"""Names of stats writers, each known here."""


def writes_to(writers: list[str] | None, name: str) -> bool:
    """Whether `name` is among the writers of a run; None stands for ML-Agents' choice."""
    return name in (TENSORBOARD, CONSOLE) if writers is None else name in writers


READY = {
    "stop_at_reward": "lanista.trainers.callbacks.stop_at_reward:StopAtReward",
    "keep_best": "lanista.trainers.callbacks.keep_best:KeepBest",
    "write_video": "lanista.trainers.callbacks.video:WriteVideo",
    "wandb": "lanista.trainers.callbacks.wandb:WeightsAndBiases",
    "mlflow": "lanista.trainers.callbacks.mlflow:MLflow",
}
"""The built-in callbacks by name, with the module and class of each."""

_FORM = "expected a name, or a name with its arguments such as {stop_at_reward: {reward: 15}}"


def choice(entry: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of one of the callbacks that are chosen."""
    if isinstance(entry, str):
        return entry, {}
    ((name, arguments),) = entry.items()
    return name, arguments or {}


def _choices(value: Any) -> Any:
    """A single entry as a list; each entry is a name, or a mapping from a name to arguments."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise wrong(f"found {found(value)}, expected a list of callbacks: {_FORM}")
    for entry in value:
        _check(entry)
    return value


def _check(entry: Any) -> None:
    if isinstance(entry, dict):
        if len(entry) != 1:
            raise wrong(f"found {found(entry)}; {_FORM}: indent the arguments below the name")
        ((name, arguments),) = entry.items()
        fits = arguments is None or (
            isinstance(arguments, dict) and all(isinstance(k, str) for k in arguments)
        )
        if not fits:
            raise wrong(f"found {found(entry)}; {_FORM}")
    else:
        name = entry
    if not isinstance(name, str):
        raise wrong(f"found {found(entry)}; {_FORM}")
    if ":" in name:
        if not all(name.split(":")) or name.count(":") != 1:
            raise wrong(f"found {name!r}; a callback of your own is named as package.module:Class")
        return
    known = [*READY, *plugins(CALLBACKS)] if name not in READY else list(READY)
    if name not in known:
        raise wrong(
            f"there is no callback {name!r} here.{did_you_mean(name, known)} Known: {', '.join(known)}; "
            "one of your own is named as package.module:Class"
        )


CallbackChoices = Annotated[list[str | dict[str, Any]], BeforeValidator(_choices)]
"""Names of callbacks, each alone or with its arguments."""

"""What a vectorised environment tells besides observations, rewards and ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .actions import Actions
from .crew import Crew
from .slots import VACANT
from .views import View


def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The crews' [n, ...] one behind the other."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def infos_of(crews: Sequence[Crew], actions: Actions) -> dict[str, Any]:
    """What is known of every slot: an array [n] for each name, and under `_` and the name who has it."""
    told: dict[str, Any] = {
        "asks": joined([crew.asks for crew in crews]).copy(),
        "agent_id": joined([crew.slots.holders for crew in crews]).copy(),
        "group_id": np.maximum(joined([crew.slots.groups for crew in crews]), 0),
        "group_reward": joined([crew.group_reward for crew in crews]).copy(),
    }
    if crews[0].forbidden:
        branches = zip(*(crew.forbidden for crew in crews))
        told["action_mask"] = actions.masks([joined(branch) for branch in branches])
    slots = len(told["asks"])
    return told | {f"_{key}": np.ones(slots, np.bool_) for key in told}


def tell_of_ends(infos: dict[str, Any], crews: Sequence[Crew], view: View) -> None:
    """Add `final_obs` and `final_info` where episodes have ended."""
    slots = sum(map(len, crews))
    last = np.full(slots, None, object)
    over = np.zeros(slots, np.bool_)
    agents = np.full(slots, VACANT, np.int64)
    first = 0
    for crew in crews:
        for ended in crew.ended:
            seen = view.of(ended.obs)
            for row, slot in enumerate(ended.slots + first):
                last[slot] = view.row(seen, row)
            over[ended.slots + first] = True
            agents[ended.slots + first] = ended.agent_id
        first += len(crew)
    if over.any():
        final = {"agent_id": agents, "_agent_id": over.copy()}
        infos.update(final_obs=last, _final_obs=over.copy(), final_info=final, _final_info=over)

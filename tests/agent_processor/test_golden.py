"""Scripted episodes: what trajectories and statistics must hold, as ML-Agents 1.1.0 has it.

Three departures are meant. A forced reset clears everything that is unfinished (pitfalls B2), the previous
action of an agent is its own (pitfalls C12), and members of a group count from their first decision, not from
their first finished step. A plain model of the reference is checked against the reference data with these
quirks; without them it shows what must come out of scripts that hold such a thing.
"""

from typing import Any

import pytest
from goldendata import cases
from plain_processor import PlainProcessor, ReferenceQuirks
from processor_scripts import Player, spec_of
from told_trajectories import same, told


def model_of(inputs: dict[str, Any], quirks: ReferenceQuirks) -> PlainProcessor:
    branches = inputs["spec"]["action_spec"]["discrete_branches"]
    return PlainProcessor(inputs["time_horizon"], inputs["use_memory"], len(branches), quirks)


def play_plainly(model: PlainProcessor, event: dict[str, Any]) -> dict[str, Any]:
    model.trajectories, model.stats = [], []
    if event["op"] == "step":
        model.step(event["worker"], event["actions"], event["decision"], event["terminal"])
    elif event["op"] == "end_episode":
        model.end_episode()
    return {"trajectories": model.trajectories, "stats": model.stats}


@pytest.mark.parametrize("case", cases("agent_processor"))
def test_the_plain_model_with_the_references_quirks_is_the_reference(case: dict[str, Any]) -> None:
    model = model_of(case["inputs"], ReferenceQuirks(True, True, True))
    for i, event in enumerate(case["inputs"]["events"]):
        found = play_plainly(model, event)
        if event["op"] == "step":
            expected = case["expected"]["per_event"][i]
            same(found["stats"], expected["stats"], f"event {i} stats")
            same(found["trajectories"], _without(expected["trajectories"], "behavior_id"), f"event {i}")


@pytest.mark.parametrize("case", cases("agent_processor"))
def test_trajectories_and_statistics(case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    player = Player(spec_of(inputs["spec"]), inputs["time_horizon"], inputs["use_memory"])
    forced_reset = False  # pitfalls B2, from the first one on
    discrete = bool(inputs["spec"]["action_spec"]["discrete_branches"])  # pitfalls C12
    model = model_of(inputs, ReferenceQuirks())
    as_reference = model_of(inputs, ReferenceQuirks(mates_from_first_finish=True))
    for i, event in enumerate(inputs["events"]):
        player.sink.stats.clear()
        forced_reset = forced_reset or event["op"] == "end_episode"
        found = {"trajectories": told(player.spec, player.play(event)), "stats": player.sink.stats}
        expected = case["expected"]["per_event"][i]
        if event["op"] != "env_stats":
            plain = play_plainly(model, event)
            pending_member_remains = _ends(plain) != _ends(play_plainly(as_reference, event))
            if forced_reset or discrete or pending_member_remains:
                expected = plain
        same(found["stats"], expected["stats"], f"event {i} stats")
        same(found["trajectories"], _without(expected["trajectories"], "behavior_id"), f"event {i}")
        if not (forced_reset or pending_member_remains):
            theirs = case["expected"]["per_event"][i]["trajectories"]
            same(found["trajectories"], _without(theirs, "behavior_id", "prev_action"), f"event {i}")


def _ends(played: dict[str, Any]) -> list[bool]:
    return [trajectory["all_group_dones_reached"] for trajectory in played["trajectories"]]


def _without(value: Any, *keys: str) -> Any:
    """The nested value without these keys."""
    if isinstance(value, dict):
        return {k: _without(v, *keys) for k, v in value.items() if k not in keys}
    return [_without(v, *keys) for v in value] if isinstance(value, list) else value

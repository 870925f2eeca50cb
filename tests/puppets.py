"""The agents of tests/godot/lanista_project/game/puppets.tscn: they do as the trainer orders."""

import numpy as np
from godot_trainer import actions, steps

PUPPETS = "res://game/puppets.tscn"
TEAM_0, TEAM_1 = "puppet?team=0", "puppet?team=1"
GO_ON, TERMINATE, TRUNCATE, RESET_THEN_DONE, JUMP, ASK_FOR_RESET, VANISH, END_AND_VANISH = range(8)
BRING_ANOTHER, REWARD_GROUP, END_GROUP, VANISH_AT_ONCE, RELOAD, MISBEHAVE = range(8, 14)
"""The orders of game/puppet.gd."""


def order(game, message, orders=None, at=3):
    """Answer all agents that wait: orders by id, to be followed `at` physics frames after the decision."""
    behaviors = {}
    for key in message["behaviors"]:
        ids = steps(message, key)[0].ids
        if ids:
            chosen = [(orders or {}).get(k, GO_ON) for k in ids]
            behaviors[key] = actions(ids, np.full((len(ids), 1), at / 16), np.array(chosen)[:, None])
    return game.act(behaviors)

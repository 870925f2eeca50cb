"""The names of actions travel with a spec that is otherwise like any other."""

import copy
import pickle

from lanista.envs.named_actions import NamedAction, actions_of, named_action_spec
from mlagents_envs.base_env import ActionSpec

MOVE = NamedAction("move", 2, "continuous")
JUMP = NamedAction("jump", 2, "discrete")
AIM = NamedAction("aim", 1, "continuous")


def test_a_named_spec_has_the_sizes_of_its_actions_and_equals_one_without_names():
    spec = named_action_spec([MOVE, JUMP, AIM])
    assert (spec.continuous_size, spec.discrete_branches) == (3, (2,))
    assert spec == ActionSpec(3, (2,))
    assert actions_of(spec) == (MOVE, JUMP, AIM)


def test_names_survive_copying_and_pickling():
    spec = named_action_spec([MOVE, JUMP])
    for other in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert actions_of(other) == (MOVE, JUMP)


def test_actions_without_names_are_named_by_their_place():
    assert actions_of(ActionSpec(3, (2, 4))) == (
        NamedAction("continuous", 3, "continuous"),
        NamedAction("branch_0", 2, "discrete"),
        NamedAction("branch_1", 4, "discrete"),
    )
    assert actions_of(ActionSpec(0, ())) == ()

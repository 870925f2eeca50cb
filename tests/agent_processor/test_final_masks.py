"""Engines send no action masks with an end; the last observation of a cut episode gets those before it."""

from lanista.agent_processor.rollout import build_rollout
from simple_engine import SimpleEngine, vector_spec

SPEC = vector_spec((1,), branches=(3, 2))
FORBIDDEN = {1: [True, False, False, False, False], 2: [False, True, True, False, True], 3: [False] * 5}


def masks_after(interrupted):
    """By agent, the masks after episodes of two decisions, of which the second had those of `FORBIDDEN`."""
    engine = SimpleEngine(spec=SPEC, forbids=lambda agent: FORBIDDEN[agent] if engine.time else [False] * 5)
    engine.step([1, 2, 3])
    engine.step([3, 2, 1])
    rollout = build_rollout(engine.step([], end=[3, 1, 2], interrupted=interrupted))
    return {
        key.agent: mask for key, mask in zip(rollout.agents, rollout.next_action_mask.tolist(), strict=True)
    }


def test_the_last_mask_of_an_interrupted_episode_holds_for_its_last_observation():
    assert masks_after(interrupted=True) == FORBIDDEN


def test_after_an_end_nothing_is_forbidden():
    assert masks_after(interrupted=False) == dict.fromkeys((1, 2, 3), [False] * 5)

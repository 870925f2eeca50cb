"""The game in the documentation is one."""

import re
import sys
from pathlib import Path

import numpy as np
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.base_env import ActionTuple

PAGE = Path(__file__).parents[3] / "docs" / "scenes.md"


def test_the_example_is_an_engine(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    game = tmp_path / "walk.py"
    game.write_text(code.replace("#!/usr/bin/env python", f"#!{sys.executable}"), encoding="utf-8")
    game.chmod(0o755)
    env = UnityEnvironment(str(game), additional_args=["--walkers", "3"])
    try:
        env.reset()
        ends, places = 0, []
        for _ in range(40):
            decisions, terminals = env.get_steps("Walker?team=0")
            assert len(decisions) == 3
            ends += len(terminals)
            places.append(decisions.obs[0][0, 0])
            env.set_actions("Walker?team=0", ActionTuple(np.ones((3, 1), np.float32)))
            env.step()
        assert ends >= 3
        assert places[1] > places[0]
    finally:
        env.close()

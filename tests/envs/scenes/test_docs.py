"""The game in the documentation works, and its tables are those of the scenes."""

import dataclasses
import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from lanista.envs.scenes.registry import SCENES
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.base_env import ActionTuple
from scene_play import SIZED

PAGE = Path(__file__).parents[3] / "docs" / "scenes.md"


def test_the_example_is_an_engine(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    game = tmp_path / "walk.py"
    game.write_text(code, encoding="utf-8")
    with closing(UnityEnvironment(str(game), additional_args=["--walkers", "3"])) as env:
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


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_has_its_row_and_its_rules(name):
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(rf"^\| `{name}` \|", page, re.M) and re.findall(rf"^### {name}$", page, re.M)


@pytest.mark.parametrize("name", SIZED)
def test_every_option_is_in_the_scenes_table_with_its_values(name):
    """Rows such as "`ground`, meters; `goal`, meters | 25; 4.3 | 7; 2": full and small, or one for both."""
    (section,) = re.findall(rf"^### {name}\n(.*?)(?=^##)", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    fields = {field.name: field for field in dataclasses.fields(SCENES[name].load().options_type)}
    documented = {option: {} for option in fields if option not in ("areas", "size")}
    for row in re.findall(r"^\| (.*) \|$", section, re.M):
        first, *cells = row.split(" | ")
        options = [option for option in re.findall(r"`(\w+)`", first) if option in documented]
        for size, cell in zip(("full", "small"), cells * 2 if len(cells) == 1 else cells):
            for option, (text, number) in zip(options, re.findall(r"`(\w+)`|(\d+(?:\.\d+)?)", cell)):
                documented[option].setdefault(size, text or float(number))
    assert documented == {option: fields[option].metadata["sizes"] for option in documented}

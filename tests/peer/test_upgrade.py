"""Our upgrade of old configurations means what ML-Agents' own upgrade of them means."""

import pytest
import yaml
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.tools.migrate import upgrade
from oldconfigurations import CURRICULUM, FLAT, PARTED, SAMPLERS

# Where ours does better, the files are as both understand them: ML-Agents keeps the old name of this sampler,
# which it does not know itself, and drops self-play's old key in silence.
SAMPLERS = SAMPLERS.replace("multirange_uniform", "multirangeuniform")
FLAT = FLAT.replace("play_against_current_self", "play_against_latest_model")


def named(lessons):
    """ML-Agents writes {LessonN: {...}}, which its own loader refuses."""
    return [{"name": name, **lesson} for item in lessons for name, lesson in item.items()]


def theirs(peer, folder, old, curriculum=None, samplers=None):
    arguments = [folder / "old.yaml", folder / "new.yaml"]
    (folder / "old.yaml").write_text(old)
    for flag, text in (("--curriculum", curriculum), ("--sampler", samplers)):
        if text is not None:
            path = folder / f"{flag[2:]}.yaml"
            path.write_text(text)
            arguments += [flag, path]
    call = (
        "import sys\n"
        "from mlagents.plugins.trainer_type import register_trainer_plugins\n"
        "from mlagents.trainers import upgrade_config\n"
        "register_trainer_plugins()\n"
        "sys.argv[0] = 'upgrade_config'\n"
        "upgrade_config.main()"
    )
    peer.run("-c", call, *arguments)
    data = yaml.safe_load((folder / "new.yaml").read_text())
    for parameter in data.get("environment_parameters", {}).values():
        if "curriculum" in parameter:
            parameter["curriculum"] = named(parameter["curriculum"])
    return RunOptions.from_dict(data)


@pytest.mark.parametrize(
    "files", [(FLAT,), (FLAT, CURRICULUM, SAMPLERS), (PARTED,)], ids=["flat", "three files", "0.17"]
)
def test_both_upgrades_give_equal_settings(peer, tmp_path, files):
    expected = theirs(peer, tmp_path, *files)
    found = RunOptions.from_dict(upgrade(*map(yaml.safe_load, files)).data)
    assert found.as_dict()["behaviors"] == expected.as_dict()["behaviors"]
    assert found.as_dict()["environment_parameters"] == expected.as_dict()["environment_parameters"]

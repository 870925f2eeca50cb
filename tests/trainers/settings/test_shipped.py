"""Every configuration that comes with Lanista is read as written and can be trained."""

import pytest
import yaml
from lanista.trainers.settings import RunOptions
from lanista.trainers.settings.base import Settings
from lanista.trainers.settings.models.environment_parameters import ConstantSettings
from lanista.trainers.settings.validation import unsupported
from lanista.trainers.settings.yaml_source import FOLDER, preset_names

FILES = sorted(FOLDER.rglob("*.yaml"))
AHEAD = (".self_play", ".rnd", ".curiosity")
"""Parts that settings of scenes that are there already ask for, while they are not."""


def holds(settings, written, path=""):
    """The settings hold everything that was written."""
    if isinstance(written, dict):
        for key, value in written.items():
            below = settings[key] if isinstance(settings, dict) else getattr(settings, key)
            holds(below, value, f"{path}.{key}")
    elif isinstance(written, list):
        assert len(settings) == len(written), path
        for number, (below, value) in enumerate(zip(settings, written, strict=True)):
            holds(below, value, f"{path}.{number}")
    elif isinstance(settings, ConstantSettings):
        assert settings.value == written, path
    else:
        assert not isinstance(settings, Settings), path
        assert settings == written, path


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_is_read_as_written_without_a_warning(file, caplog):
    options = RunOptions.from_file(file)
    holds(options, yaml.safe_load(file.read_text(encoding="utf-8")))
    # What these need is named, and nothing else is wrong with them.
    assert all(problem.key.endswith(AHEAD) for problem in unsupported(options))
    assert {settings.trainer_type for settings in options.behaviors.values()} == {file.parent.name}
    assert not caplog.records
    assert RunOptions.from_dict(options.as_dict()).as_dict() == options.as_dict()
    assert options.read_again() == options


def test_each_is_a_preset():
    assert preset_names() == sorted(f"{file.parent.name}/{file.stem}" for file in FILES)

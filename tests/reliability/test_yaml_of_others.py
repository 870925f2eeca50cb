"""YAML of others whose aliases make billions of values: refused before any of it is shown."""

import pytest
from alias_bomb import BOMB
from lanista.envs.registry.entry import RegistryError, read_manifest
from lanista.trainers.checkpoints.run_folder import recorded_behaviors, recorded_seed
from lanista.trainers.cli.main import run
from lanista.trainers.cli.runs.record import read_run
from lanista.trainers.tools.card.markdown import MARK, read_front

pytestmark = pytest.mark.slow

SHORT = 2000
"""Letters of a message; the bomb's own values would fill the memory."""


def test_a_manifest_is_refused_by_name(tmp_path):
    path = tmp_path / "manifest.yaml"
    path.write_text(f"{BOMB}\nenvironments: [{{Game: {{expected_reward: *a11}}}}]\n")
    with pytest.raises(RegistryError, match=r"manifest\.yaml") as caught:
        read_manifest(str(path))
    assert len(str(caught.value)) < SHORT


def test_a_card_counts_as_none():
    assert read_front(f"---\nlanista: {{version: 1}}\n---\n{MARK}") == {"version": 1}
    assert read_front(f"---\n{BOMB}\nlanista: {{version: *a11}}\n---\n{MARK}") == {}


def test_the_record_of_a_run_counts_as_unknown(tmp_path, caplog):
    path = tmp_path / "configuration.yaml"
    path.write_text(f"{BOMB}\nbehaviors: {{B: {{trainer_type: *a11}}}}\nenv_settings: {{seed: *a11}}\n")
    assert recorded_seed(tmp_path) is None
    assert recorded_behaviors(tmp_path) == {}
    assert len(caplog.text) < SHORT
    (problem,) = read_run(tmp_path).problems
    assert "configuration.yaml" in problem and len(problem) < SHORT


def test_a_run_is_not_uploaded_with_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lanista.trainers.tools.hub._hub", lambda: None)
    (tmp_path / "configuration.yaml").write_text(f"{BOMB}\nbehaviors: {{B: *a11}}\n")
    words = ["hub", "push", "--run-id", "r", "--repo-id", "a/b", "--local-dir", str(tmp_path)]
    assert run(words) == 1
    said = capsys.readouterr().err
    assert "configuration.yaml" in said and len(said) < SHORT

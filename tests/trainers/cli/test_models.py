"""The models of a run are found, those too that differ by the agents' slots."""

from pathlib import Path

import pytest
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import describe_network
from lanista.trainers.cli.main import run
from lanista.trainers.cli.models import find_models, find_run
from lanista.trainers.networks.multi_actor import MultiActor
from lanista.trainers.policies.onnx.load import LoadError
from lanista.trainers.policies.onnx.runtime import SlotPolicies
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.tools.report.command import find
from specs import vector_spec


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A results folder with the run `team`, whose two slots have actors of their own."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results" / "team" / "Runner"
    folder.mkdir(parents=True)
    settings, spec = NetworkSettings(hidden_units=8, num_layers=1), vector_spec([3], 0, [2])
    network = MultiActor(spec, settings, 2, shared=False)
    brain = describe_network("Runner", spec, settings, [], None, actors={"places": 2, "shared": False})
    save_checkpoint(folder / "checkpoint.pt", {"Policy": network.state_dict(), "step": 7, "brain": brain})
    return tmp_path / "results"


@pytest.mark.parametrize("given", ["team", "results/team", "results/team/Runner"])
def test_a_run_whose_slots_have_models_of_their_own_is_one_model(results, given):
    assert run(["export", "team"]) == 0
    (model,) = find_models([given], results)
    assert isinstance(model.policy, SlotPolicies) and model.behavior == "Runner"
    assert model.source.name == "Runner-place0.onnx" and model.policy.observations == {0: (3,)}


def test_a_run_s_id_comes_before_a_folder_of_the_same_name(results, tmp_path):
    run_folder = results / "game"
    (run_folder / "run_logs").mkdir(parents=True)
    for folder in (tmp_path / "game", tmp_path / "other"):
        folder.mkdir()
    assert find_run("game", Path("results")) == Path("results/game")
    assert find_run("./game", Path("elsewhere")) == Path("game")
    assert find_run("other", Path("results")) == Path("other")
    assert list(find(["game"], Path("results"))) == ["game"]


def test_checkpoints_whose_slots_have_actors_of_their_own_must_be_exported(results):
    with pytest.raises(LoadError, match="lanista export"):
        find_models(["team"], results)

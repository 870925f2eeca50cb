"""The start of a run: folder names, initial weights, and the seed of a resumed run."""

import logging
import re

import pytest
import torch
from lanista.envs.engines.terms import UNITY
from lanista.trainers.checkpoints import run_folder
from lanista.trainers.checkpoints.run_folder import (
    ignores_case,
    recorded_seed,
    require_distinct_folder,
    require_folder_name,
)
from lanista.trainers.checkpoints.transfer import (
    check_initial_weights,
    find_start,
    initial_checkpoint,
    load_matching,
    load_optimizers,
)
from lanista.trainers.learn import run_seed
from lanista.trainers.networks.modules.layers import DenseStack
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.utils.errors import CheckpointError, TrainerError
from reliability.resume import differences
from torch import nn

# Names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["3DBall", "Ball v2.1", "Bälle", "a" * 200, "Game: Ball", "con"])
def test_names_that_a_folder_can_have(name):
    require_folder_name(name, windows=False)


@pytest.mark.parametrize(
    "name, says",
    [
        ("Game/Ball", "cannot hold '/'"),
        ("../x", "cannot hold '/'"),
        ("/abs", "cannot hold '/'"),
        ("..", "not a valid name"),
        (".", "not a valid name"),
        ("", "not a valid name"),
        ("a\0b", "cannot hold"),
        ("metadata", "the run itself"),
        ("run_logs", "the run itself"),
        ("é" * 101, "longer than 200 bytes"),
    ],
)
@pytest.mark.parametrize("windows", [False, True])
def test_names_that_are_invalid_for_folders(name, says, windows):
    with pytest.raises(TrainerError, match=says) as error:
        require_folder_name(name, UNITY, windows=windows)
    assert repr(name) in str(error.value) and "Behavior Parameters" in str(error.value)


@pytest.mark.parametrize("name", ["Game: Ball", "what?", "a\\b", "con", "COM1.x", "Ball.", "Ball "])
def test_names_that_are_invalid_on_windows(name):
    with pytest.raises(TrainerError):
        require_folder_name(name, windows=True)


@pytest.mark.parametrize(
    ("name", "others", "same"),
    [
        ("ball", ["Goal", "Ball"], "Ball"),
        ("Straße", ["STRASSE"], "STRASSE"),
        ("Ba\u0308lle", ["B\u00e4lle"], "B\u00e4lle"),
        ("Metadata", [], "metadata"),
    ],
)
def test_names_that_are_one_where_case_is_ignored(name, others, same, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "ignores_case", lambda folder: False)
    require_distinct_folder(name, others, tmp_path)
    monkeypatch.setattr(run_folder, "ignores_case", lambda folder: folder == tmp_path)
    with pytest.raises(TrainerError, match="the case of letters is ignored") as error:
        require_distinct_folder(name, others, tmp_path, UNITY)
    assert repr(same) in str(error.value) and "Behavior Parameters" in str(error.value)
    require_distinct_folder("Ball", ["Ball", "another"], tmp_path)


@pytest.mark.posix("a folder that does not ignore case")
def test_a_folder_that_is_found_in_the_other_case_ignores_it(tmp_path):
    folder = tmp_path / "Run" / "1"
    folder.mkdir(parents=True)
    assert not ignores_case(folder)
    (tmp_path / "rUN").symlink_to(tmp_path / "Run", target_is_directory=True)
    assert ignores_case(folder), "as where there is one entry of both names"


# Where the weights are --------------------------------------------------------------------------------


@pytest.fixture
def older(tmp_path, monkeypatch):
    """The folder of a run with the behavior Ball."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results" / "older" / "Ball"
    folder.mkdir(parents=True)
    for name in ("checkpoint.pt", "Ball-500.pt"):
        (folder / name).write_bytes(b"")
    return folder.parent


@pytest.mark.parametrize(
    "init_path, from_run, expected",
    [
        (None, False, None),
        (None, True, "Ball/checkpoint.pt"),
        ("Ball-500.pt", True, "Ball/Ball-500.pt"),
        ("{run}/Ball/Ball-500.pt", False, "Ball/Ball-500.pt"),
        ("{run}/Ball/Ball-500.pt", True, "Ball/Ball-500.pt"),
        ("{run}/Ball", False, "Ball/checkpoint.pt"),
        ("results/older/Ball", True, "Ball/checkpoint.pt"),
    ],
)
def test_initial_weights_are_found(older, init_path, from_run, expected):
    wanted = init_path and init_path.format(run=older)
    got = initial_checkpoint("Ball", wanted, older if from_run else None)
    assert (got and got.resolve()) == (expected and older / expected)


@pytest.mark.parametrize(
    "init_path, from_run", [("Ball-700.pt", True), ("Ball-500.pt", False), ("nowhere", False), (None, True)]
)
def test_missing_weights_are_refused(older, init_path, from_run):
    with pytest.raises(TrainerError, match=r"Could not initialize from .*not exist or is not a \.pt file"):
        initial_checkpoint("Cat" if init_path is None else "Ball", init_path, older if from_run else None)


def options(**checkpoint):
    behaviors = {"Ball": {"trainer_type": "ppo", "init_path": "nowhere/Ball.pt"}}
    return RunOptions.from_dict(
        {"behaviors": behaviors, "checkpoint_settings": {"run_id": "new", **checkpoint}}
    )


def test_weights_of_listed_behaviors_are_checked_before_the_run(older):
    with pytest.raises(TrainerError, match=r"behaviors\.Ball\.init_path: nowhere/Ball\.pt"):
        check_initial_weights(options())
    check_initial_weights(options(resume=True))  # continues with its own


def test_a_run_cannot_start_from_itself(older):
    for start in ("older", "results/older", "results/older/Ball", "results/older/Ball/Ball-500.pt"):
        with pytest.raises(TrainerError, match=r"own weights.*--resume"):
            check_initial_weights(options(run_id="older", initialize_from=start, force=True))
    own = RunOptions.from_dict(
        {
            "behaviors": {"Ball": {"init_path": "results/older/Ball/Ball-500.pt"}},
            "checkpoint_settings": {"run_id": "older", "force": True},
        }
    )
    with pytest.raises(TrainerError, match=r"own weights"):
        check_initial_weights(own)


@pytest.mark.parametrize(
    "wanted, found",
    [
        ("older", "results/older"),
        ("{run}", "results/older"),
        ("results/older", "results/older"),
        ("older/Ball", "results/older/Ball/checkpoint.pt"),
        ("results/older/Ball", "results/older/Ball/checkpoint.pt"),
        ("results/older/Ball/Ball-500.pt", "results/older/Ball/Ball-500.pt"),
        ("older/Ball/Ball-500.pt", "results/older/Ball/Ball-500.pt"),
    ],
)
def test_initialize_from_takes_a_run_a_folder_or_a_file(older, tmp_path, wanted, found):
    settings = options(initialize_from=wanted.format(run=older)).checkpoint_settings
    assert find_start(settings).resolve() == tmp_path / found


def test_a_run_s_id_comes_before_a_folder_of_that_name(older, tmp_path):
    (tmp_path / "older").mkdir()
    settings = options(initialize_from="older").checkpoint_settings
    assert find_start(settings).resolve() == older


def test_one_checkpoint_is_used_for_every_behavior(older):
    file = older / "Ball" / "Ball-500.pt"
    assert initial_checkpoint("Ball", None, file) == initial_checkpoint("Cat", None, file) == file


@pytest.mark.parametrize(
    "wanted", ["oldr", "nowhere", "results/older/Ball/Ball-700.pt", "configuration.yaml"]
)
def test_errors_list_the_runs_to_start_from(older, tmp_path, wanted):
    (older / "run_logs").mkdir()
    (older.parent / "empty" / "run_logs").mkdir(parents=True)
    (tmp_path / "configuration.yaml").write_text("")
    listed = r"Could not initialize from .*Runs with checkpoints in results: older\."
    with pytest.raises(TrainerError, match=listed) as error:
        find_start(options(initialize_from=wanted).checkpoint_settings)
    assert ("Did you mean older?" in str(error.value)) == (wanted == "oldr")


def test_errors_list_the_behaviors_and_checkpoints(older):
    with pytest.raises(TrainerError, match=r"older has Ball\."):
        initial_checkpoint("Cat", None, older)
    with pytest.raises(TrainerError, match=r"Ball has Ball-500\.pt, checkpoint\.pt\."):
        initial_checkpoint("Ball", "Ball-700.pt", older)


# What fits of them ------------------------------------------------------------------------------------


class Network(nn.Module):
    def __init__(self, size=3, out=2, extra=False):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)
        self.body = nn.Linear(size, 4)
        self.head = nn.Linear(4, out)
        if extra:
            self.extra = nn.Linear(4, 1)


def saved_by(network):
    optimizer = FakeAdam()
    optimizer.state = {"steps": 7, "mean": torch.ones(3)}
    return {"Policy": network.state_dict(), "Optimizer": optimizer.state_dict()}


@pytest.mark.parametrize("entry", [3, "text", [1.0, 2.0], None, {}])
def test_entries_of_another_type_do_not_fit(entry):
    state = saved_by(Network())
    state["Policy"]["head.weight"] = entry
    state["Optimizer"]["mean"] = entry
    network = Network()
    unfit = load_matching({"Policy": network}, state)
    unfit += load_optimizers({"Optimizer": FakeAdam()}, state)
    assert len(unfit) == 2 and unfit[0].startswith("Policy.head") and unfit[1].startswith("Optimizer")
    for policy in (entry, {"head": {}}):
        with pytest.raises(CheckpointError, match="nothing of its policy fits"):
            load_matching({"Policy": Network()}, {"Policy": policy})


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(number):
    state = saved_by(Network())
    state["Policy"]["head.weight"][0, 0] = number
    with pytest.raises(CheckpointError, match=r"its tensor Policy\.head\.weight holds NaN or infinite"):
        load_matching({"Policy": Network()}, state)


class FakeAdam:
    def __init__(self, size=3):
        self.state = {"steps": 0, "mean": torch.zeros(size)}

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state):
        self.state = dict(state)


def test_fitting_weights_are_taken_with_the_optimizer_state():
    first, second, adam = Network(), Network(), FakeAdam()
    assert load_matching({"Policy": second}, saved_by(first)) == []
    assert load_optimizers({"Optimizer": adam}, saved_by(first)) == []
    assert not differences(first.state_dict(), second.state_dict())
    assert adam.state["steps"] == 7


def test_modules_that_do_not_fit_are_named_and_unchanged():
    first, second = Network(size=5), Network(extra=True)
    before = {name: tensor.clone() for name, tensor in second.state_dict().items()}
    first.norm.num_batches_tracked += 3
    mismatches = load_matching({"Policy": second}, saved_by(first))
    assert [misfit.split(" ")[0] for misfit in mismatches] == ["Policy.norm", "Policy.body", "Policy.extra"]
    assert "of shape [5] there, [3] here" in mismatches[0] and "not in the file" in mismatches[2]
    assert torch.equal(second.head.weight, first.head.weight)
    for name in ("norm.num_batches_tracked", "norm.running_mean", "body.weight", "body.bias"):
        assert torch.equal(second.state_dict()[name], before[name]), "a module is taken whole or not at all"


class Streams(torch.nn.Module):
    """A body of so many streams, the first of which is the actor's."""

    def __init__(self, count):
        super().__init__()
        self.body = DenseStack(count, 3, 5)
        self.head = torch.nn.Linear(5, 2)


@pytest.mark.parametrize(
    ("there", "here", "lost"), [(2, 1, "this network has no such part"), (1, 2, "not in the file")]
)
def test_an_actor_is_taken_from_a_body_that_a_critic_shares_and_the_other_way_around(there, here, lost):
    first, second = Streams(there), Streams(here)
    before = second.body.weight.detach().clone()
    assert load_matching({"Policy": second}, saved_by(first)) == [f"Policy.body of the critic ({lost})"]
    assert torch.equal(second.body.weight[0], first.body.weight[0])
    assert torch.equal(second.body.weight[1:], before[1:]), "the critic keeps its own"
    assert torch.equal(second.head.weight, first.head.weight)


@pytest.mark.parametrize(
    "state, reason", [({}, "not in the file"), ({"Optimizer": {"steps": 1}}, "not in the file")]
)
def test_an_optimizer_that_does_not_fit_is_named_and_unchanged(state, reason):
    adam = FakeAdam()
    (mismatch,) = load_optimizers({"Optimizer": adam}, state)
    assert mismatch.startswith("Optimizer (") and reason in mismatch
    assert adam.state["steps"] == 0


def test_parts_that_the_network_lacks_are_named():
    assert load_matching({"Policy": Network()}, saved_by(Network(extra=True))) == [
        "Policy.extra (this network has no such part)"
    ]


def test_a_second_network_may_be_missing():
    mismatches = load_matching({"Policy": Network(), "Critic": Network()}, saved_by(Network()))
    assert [re.split(r"[. ]", misfit)[0] for misfit in mismatches] == ["Critic"] * 3


@pytest.mark.parametrize("state", [{}, {"Policy": 3}, {"Policy": {"network_body.x": torch.ones(1)}}])
def test_a_file_of_which_nothing_fits_is_refused(state):
    with pytest.raises(CheckpointError, match="nothing of its policy fits"):
        load_matching({"Policy": Network()}, state)


# The seed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, seed",
    [
        ("env_settings: {seed: 17}", 17),
        ("env_settings: {seed: -1}", None),
        ("env_settings: {seed: true}", None),
        ("env_settings: {}", None),
        ("env_settings: [", None),
        ("[" * 20_000, None),
        ("env_settings: {seed: 2024-13-45}", None),
        ("", None),
        (None, None),
    ],
)
def test_the_seed_of_a_resumed_run(tmp_path, caplog, text, seed):
    if text is not None:
        (tmp_path / "configuration.yaml").write_text(text)
    with caplog.at_level(logging.WARNING):
        assert recorded_seed(tmp_path) == seed
    assert ("a new one is drawn" in caplog.text) == (seed is None)
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_a_damaged_record_of_a_resumed_run_is_named_with_the_line(tmp_path, caplog):
    (tmp_path / "configuration.yaml").write_text("behaviors: {}\nenv_settings: }\n")
    assert recorded_seed(tmp_path) is None
    assert "configuration.yaml, line 2, column 15: error parsing yaml" in caplog.text


def test_a_resumed_run_keeps_its_seed_and_a_new_one_draws_one(tmp_path):
    (tmp_path / "configuration.yaml").write_text("env_settings: {seed: 123456}")
    assert run_seed(tmp_path, resumed=True) == 123456
    assert 0 <= run_seed(tmp_path, resumed=False) <= 9999

"""The variables of `torchrun`: which rank a process is, or what is wrong with them."""

import re

import pytest
from lanista.trainers.learn import run
from lanista.trainers.utils.errors import TrainerError
from lanista.trainers.utils.torchrun import LaunchedRank, launched_rank

WHOLE = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "7001"}
LOCAL = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.fixture
def variables(monkeypatch):
    for name in (*WHOLE, *LOCAL):
        monkeypatch.delenv(name, raising=False)

    def put(values):
        for name, text in values.items():
            monkeypatch.setenv(name, text)

    return put


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (WHOLE, LaunchedRank(1, 4, 1, None, "127.0.0.1", 7001)),
        (WHOLE | LOCAL, LaunchedRank(1, 4, 1, 2, "127.0.0.1", 7001)),
        (WHOLE | {"RANK": " 3 "} | LOCAL, LaunchedRank(3, 4, 1, 2, "127.0.0.1", 7001)),
        (WHOLE | {"LOCAL_RANK": "", "LOCAL_WORLD_SIZE": ""}, LaunchedRank(1, 4, 1, None, "127.0.0.1", 7001)),
        ({}, None),
        ({"RANK": "captain"}, None),
        (dict.fromkeys(WHOLE, ""), None),
        ({"MASTER_ADDR": "node-1", "MASTER_PORT": "29500"}, None),
        (WHOLE | {"WORLD_SIZE": "1", "RANK": "0"}, None),
        ({"WORLD_SIZE": "1"}, None),
    ],
)
def test_the_rank_that_was_launched(variables, values, found):
    variables(values)
    assert launched_rank() == found


def test_whether_all_are_on_one_machine(variables):
    for size, alone in (("2", False), ("4", True), ("", False)):
        variables(WHOLE | {"LOCAL_WORLD_SIZE": size})
        assert launched_rank().on_one_machine is alone


NUMBER = "expected a whole number"
WRONG = [
    ({"WORLD_SIZE": "x"}, f"found WORLD_SIZE='x', {NUMBER} of at least 1"),
    ({"WORLD_SIZE": "0"}, f"found WORLD_SIZE='0', {NUMBER} of at least 1"),
    ({"WORLD_SIZE": "2.0"}, f"found WORLD_SIZE='2.0', {NUMBER} of at least 1"),
    ({"WORLD_SIZE": "\u0664"}, NUMBER),
    ({"WORLD_SIZE": "9" * 5000}, rf"found WORLD_SIZE='9{{40}}', {NUMBER} of at least 1"),
    ({"WORLD_SIZE": "2", "RANK": "5"}, f"found RANK='5', {NUMBER} from 0 to 1"),
    ({"RANK": "-1"}, f"found RANK='-1', {NUMBER} from 0 to 3"),
    ({"RANK": "first"}, f"found RANK='first', {NUMBER} from 0 to 3"),
    ({"MASTER_PORT": "http"}, f"found MASTER_PORT='http', {NUMBER} from 1 to 65535"),
    ({"MASTER_PORT": "65536"}, f"found MASTER_PORT='65536', {NUMBER} from 1 to 65535"),
    ({"LOCAL_RANK": "x"}, f"found LOCAL_RANK='x', {NUMBER} from 0 to 3"),
    ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, f"found LOCAL_RANK='2', {NUMBER} from 0 to 1"),
    ({"LOCAL_WORLD_SIZE": "8"}, f"found LOCAL_WORLD_SIZE='8', {NUMBER} from 1 to 4"),
    ({"MASTER_ADDR": ""}, "found RANK=1, WORLD_SIZE=4, MASTER_PORT=7001 without MASTER_ADDR"),
    ({"MASTER_ADDR": "", "MASTER_PORT": " "}, "WORLD_SIZE=4 without MASTER_ADDR and MASTER_PORT"),
    ({"RANK": ""}, "found WORLD_SIZE=4, MASTER_ADDR=127.0.0.1, MASTER_PORT=7001 without RANK"),
    ({"WORLD_SIZE": ""}, "found RANK=1, MASTER_ADDR=127.0.0.1, MASTER_PORT=7001 without WORLD_SIZE"),
    (dict.fromkeys(("RANK", "MASTER_ADDR", "MASTER_PORT"), ""), "found WORLD_SIZE=4 without RANK and"),
]


@pytest.mark.parametrize(("values", "said"), WRONG)
def test_a_variable_that_no_rank_can_have_is_named(variables, values, said):
    variables(WHOLE | values)
    with pytest.raises(TrainerError, match=f"^Environment variables: .*{said}") as raised:
        launched_rank()
    assert re.search("To train without it, unset WORLD_SIZE and RANK; --learners N", str(raised.value))


def test_a_run_ends_with_that_sentence(variables, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    variables({"RANK": "0", "WORLD_SIZE": "x"})
    (tmp_path / "c.yaml").write_text("behaviors: {}")
    assert run(["c.yaml", "--env", "scene:basic"]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("lanista-learn: error: Environment variables: found RANK=0, WORLD_SIZE=x") == 1
    assert not (tmp_path / "results").exists()

"""Whatever fails, `lanista-learn` prints one message, saves what it can and leaves no process."""

import re
import shutil
import socket
import sys

import pytest
from console_runs import YAML, learn, weights_are_finite
from lanista.trainers.checkpoints.file import load_checkpoint
from scripted_engine import NOBODY, executable, message, observation

pytestmark = pytest.mark.slow

BASIC = YAML.replace("Ball:", "Basic:")
HURRY = ["--timeout-wait", "3"]
"""For tests of engines that do not answer."""

# What can be refused at once --------------------------------------------------------------------------

SOON = [
    ("unknown key", ["--set", "behaviors.Ball.max_step=3"], r"max_step.*max_steps"),
    ("wrong value", ["--set", "behaviors.Ball.max_steps=many"], r"max_steps[\s\S]*many"),
    ("missing executable", ["--env", "nowhere/Game"], r"nowhere/Game.*There is no folder nowhere"),
    ("no executable at all", ["--env", "c.yaml"], r"c\.yaml.*is not executable.*chmod"),
    ("resume without a run", ["--env", "scene:basic", "--resume"], r"no folder results/r.*--resume"),
    ("start from nothing", ["--env", "scene:basic", "--initialize-from", "x"], r"initialize from results/x"),
    ("results in a file", ["--env", "scene:basic", "--results-dir", "c.yaml"], r"c\.yaml/r cannot be made"),
]


@pytest.mark.parametrize("arguments, says", [c[1:] for c in SOON], ids=[c[0] for c in SOON])
def test_mistakes_are_refused_before_anything_is_loaded_or_written(tmp_path, arguments, says):
    ended = learn(tmp_path, *arguments)
    assert re.search(says, ended.error)
    assert not (tmp_path / "results").exists()


def test_a_quiet_run_says_only_what_is_wrong(tmp_path):
    yaml = BASIC + "    framework: pytorch\n"
    ended = learn(tmp_path, "--env", "scene:basic", "--quiet", yaml=yaml)
    assert (ended.status, ended.out) == (0, "")
    assert ended.err == "framework: Framework option was deprecated but was specified\n"
    assert ended.files("Basic.onnx")
    twice = learn(tmp_path, "--env", "scene:basic", "--quiet", "--debug", "--force", yaml=yaml)
    assert "quiet: found true, but debug is true too" in twice.error


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not heed this limit")
def test_too_few_addresses_are_refused_before_a_library_ends_the_process(tmp_path):
    import resource

    def limited(megabytes: int):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes * 10**6,) * 2)

    refused = learn(tmp_path, "--env", "scene:basic", preexec_fn=limited(600))
    assert re.search(r"limited to 0\.6 GiB \(ulimit -v\), with which torch cannot be loaded", refused.error)
    assert not (tmp_path / "results").exists()
    warned = learn(tmp_path, "--env", "scene:ball3d", preexec_fn=limited(1500))
    assert "limited to 1.4 GiB (ulimit -v). If a library ends the run" in warned.out


# Engines that do not come up --------------------------------------------------------------------------


def test_an_early_crash_shows_the_end_of_the_log_and_can_be_retried(tmp_path):
    game = executable(tmp_path, "print('no display', file=log); sys.exit(7)")
    for _ in range(2):  # the leftovers of a run that never started are no obstacle
        error = learn(tmp_path, "--env", game).error
        assert re.search(
            r"environment 0: .*return code 7\.[\s\S]*Player-0\.log \(kept .*\):\n    no display", error
        )


def test_an_engine_that_never_connects(tmp_path):
    error = learn(tmp_path, "--env", executable(tmp_path, "time.sleep(600)"), *HURRY).error
    assert re.search(r"environment 0 did not answer within 3 s.*not called.*is alive", error)


def test_an_engine_of_another_version(tmp_path):
    error = learn(tmp_path, "--env", executable(tmp_path, "greet('2.0.0'); time.sleep(600)")).error
    assert re.search(r"Python API: 1\.5\.0, Unity API: 2\.0\.0\.[\s\S]*environment 0", error)


@pytest.mark.parametrize("silence", ["time.sleep(600)", f"[ask(message({NOBODY!r})) for _ in iter(int, 1)]"])
def test_agents_that_never_request_decisions(tmp_path, silence):
    """The engine waits forever, or keeps stepping without them."""
    game = executable(tmp_path, f"greet(); {silence}")
    # No restart either: what has never worked will not work the next time.
    error = learn(tmp_path, "--env", game, "--max-lifetime-restarts", "10", *HURRY).error
    assert re.search(r"[Nn]o agent has asked for a decision[\s\S]*Decision Requester", error)


def test_the_given_port_is_taken(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        error = learn(tmp_path, "--env", "scene:basic", "--base-port", str(port)).error
    assert re.search(rf"^Port {port} is held by .*--base-port", error)


def test_a_behavior_that_is_not_configured(tmp_path):
    game = executable(tmp_path, "greet(); ask(message(observation(1, 2, name='Walker?team=0')))")
    error = learn(tmp_path, "--env", game).error
    assert re.search(r"Walker.*c\.yaml.*Ball.*default_settings", error)


# Engines that fail while their agents learn -----------------------------------------------------------


def failing(folder, fault, *arguments):
    """A run whose engine fails after 200 steps; the weights until then are saved."""
    ended = learn(folder, "--env", executable(folder, f"greet(); steps(200); {fault}"), *arguments)
    step = max(load_checkpoint(path)["step"] for path in ended.files("*.pt"))
    assert 176 <= step <= 200  # all but the trajectory that was not at its end
    assert ended.files("Ball.onnx")
    assert weights_are_finite(ended.files("*.pt"))
    return ended


def test_a_crash_in_the_middle_of_a_run(tmp_path):
    error = failing(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)").error
    assert re.search(r"environment 0 failed.*max_lifetime_restarts.*SIGSEGV", error)


def test_a_crash_beyond_the_restart_limits_reports_every_failure(tmp_path):
    game = executable(tmp_path, "greet(); steps(100); print('it burst', file=log); sys.exit(3)")
    ended = learn(tmp_path, "--env", game, "--max-lifetime-restarts", "1")
    assert len(re.findall(r"s after the start: .*return code 3", ended.error)) == 2
    assert "it burst" in ended.error and "Restarting environment 0" in ended.out


def test_the_logs_of_dead_engines_are_kept_by_restarts_and_by_resume(tmp_path):
    script = "greet(); steps(40); print('it burst', os.getpid(), file=log); sys.exit(3)"
    run = ["--env", executable(tmp_path, script), "--max-lifetime-restarts", "1"]
    ended = learn(tmp_path, *run)
    assert re.search(r"Restarting environment 0 after .*Player-0\.log \(kept as Player-0\.1\.log", ended.out)
    assert re.search(r"Player-0\.log \(kept as Player-0\.2\.log", ended.error)
    assert re.search(r"kept as Player-0\.4\.log", learn(tmp_path, *run, "--resume").error)
    logs = {path.name: path.read_text() for path in ended.files("Player-0*.log")}
    assert sorted(logs) == ["Player-0.1.log", "Player-0.2.log", "Player-0.3.log", "Player-0.log"]
    assert len(set(logs.values())) == 4 and all(text.startswith("it burst") for text in logs.values())


@pytest.mark.posix("signals")
def test_a_hang_with_its_socket_open(tmp_path):
    error = failing(tmp_path, "os.kill(os.getpid(), signal.SIGSTOP)", *HURRY).error
    assert re.search(r"environment 0 did not answer within 3 s.*\(stopped\)", error)


@pytest.mark.parametrize(
    "data, says",
    [
        (b"\xff" * 40, r"environment 0: malformed message of 40 bytes: byte 0"),
        (message(observation(1, 2, side_channel=b"abc")), r"environment 0: .*SideChannel.*byte 0"),
    ],
    ids=["noise", "side channel"],
)
def test_malformed_bytes(tmp_path, data, says):
    assert re.search(says, failing(tmp_path, f"ask({data!r}); steps(10**6)").error)


def test_an_engine_that_quits_more_often_than_the_limits_allow_is_a_failure(tmp_path):
    error = failing(tmp_path, "ask(message(None, 400))").error
    assert re.search(r"environment 0 ended the session, and the limits .*max_lifetime_restarts", error)


# Numbers that are none --------------------------------------------------------------------------------

NAN = "observation(1, float('nan'))"
INFINITE_REWARD = "observation(1, 2, reward=float('-inf'))"
NAMES = {
    NAN: r"environment 0, behavior 'Ball\?team=0': the observation 'VectorSensor' of agent 1 is nan",
    INFINITE_REWARD: r"environment 0, behavior 'Ball\?team=0': the reward of agent 1 is -inf",
}


def test_a_non_finite_number_ends_the_run(tmp_path):
    assert re.search(NAMES[NAN], failing(tmp_path, f"ask(message({NAN})); steps(10**6)").error)


@pytest.mark.parametrize("number, policy", [(INFINITE_REWARD, "drop"), (NAN, "zero")], ids=["drop", "zero"])
def test_a_non_finite_number_is_dropped_or_zeroed(tmp_path, number, policy):
    game = executable(tmp_path, f"greet(); steps(200); ask(message({number})); steps(10**6)")
    ended = learn(tmp_path, "--env", game, "--set", f"env_settings.non_finite={policy}")
    assert ended.good and len(re.findall(NAMES[number], ended.out)) == 1
    assert max(load_checkpoint(path)["step"] for path in ended.files("*.pt")) > 400
    assert weights_are_finite(ended.files("*.pt"))


@pytest.mark.parametrize(
    "number, says",
    [
        ("observation(1, 1e30)", r"statistics.*overflow: the observation 'VectorSensor' holds 1e\+30"),
        ("observation(1, 2, reward=1e30)", r"gradient of the policy at step \d+ is not a finite number"),
    ],
    ids=["observation", "reward"],
)
def test_a_number_too_large_to_learn_from_changes_no_weight(tmp_path, number, says):
    game = executable(tmp_path, f"greet(); steps(200); ask(message({number})); steps(10**6)")
    ended = learn(tmp_path, "--env", game)
    assert re.search(says, ended.error)
    assert weights_are_finite(ended.files("*.pt"))
    ended = learn(tmp_path, "--env", game, "--force", "--set", "env_settings.non_finite=drop")
    assert ended.good and "This is said once" in ended.out
    assert weights_are_finite(ended.files("*.pt"))


# Files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    assert learn(folder, "--env", executable(folder, "greet(); steps(10**6)")).good
    return folder


@pytest.fixture
def trained(trained_once, tmp_path):
    """The folder of a finished run, and the arguments that resume it."""
    folder = tmp_path / "copy"
    shutil.copytree(trained_once, folder)
    return folder, ["--env", str(folder / "Game.x86_64"), "--resume"]


LONGER = YAML.replace("400", "800")


def test_a_truncated_checkpoint_is_replaced_by_the_one_before_it(trained):
    folder, arguments = trained
    newest = folder / "results" / "r" / "Ball" / "checkpoint.pt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    ended = learn(folder, *arguments, yaml=LONGER)
    assert ended.good
    assert re.search(r"checkpoint\.pt \(\d+ bytes\) cannot be used.*Resuming from .*Ball-\d+\.pt", ended.out)


def test_without_an_intact_checkpoint_the_old_run_is_not_overwritten(trained):
    folder, arguments = trained
    files = sorted((folder / "results" / "r" / "Ball").glob("*.pt"))
    for path in files:
        path.write_bytes(path.read_bytes()[:-1000])
    before = {path: path.read_bytes() for path in files}
    ended = learn(folder, *arguments, yaml=LONGER)
    assert ended.error.count(") cannot be used") == len(files)
    assert ended.error.rstrip().endswith(
        "None of them can be used: restore one from a copy, or start over with --force."
    )
    assert {path: path.read_bytes() for path in ended.files("*.pt")} == before


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("hidden_units: 16", "hidden_units: 17", "network_settings.hidden_units was 16, is 17"),
        (
            "hidden_units: 16",
            "hidden_units: 16, activation: tanh",
            "network_settings.activation was 'swish', is 'tanh'. Set that back",
        ),
        ("trainer_type: ppo", "trainer_type: sac", "trainer_type was 'ppo', is 'sac'"),
        (
            "batch_size: 8",
            "batch_size: 8, shared_critic: true",
            "hyperparameters.shared_critic was False, is ",
        ),
    ],
)
def test_a_checkpoint_of_other_settings_names_them(trained, was, now, said):
    folder, arguments = trained
    error = learn(folder, *arguments, yaml=YAML.replace(was, now)).error
    assert error.startswith(f"Ball: the saved run cannot be resumed: {said}") and "size mismatch" not in error
    assert "begin a new run: --run-id NEW, with --initialize-from r" in error
    assert "hidden_units: 16" in (folder / "results" / "r" / "configuration.yaml").read_text()


def no_file_larger_than_a_checkpoint():
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))


@pytest.mark.posix("needs a POSIX system")
def test_a_full_disk_costs_only_the_new_checkpoints(trained):
    folder, arguments = trained
    before = {path: path.read_bytes() for path in (folder / "results" / "r" / "Ball").glob("Ball-*.*")}

    ended = learn(folder, *arguments, yaml=LONGER, preexec_fn=no_file_larger_than_a_checkpoint)
    assert len(re.findall(r"checkpoint of step \d+ could not be saved", ended.out)) >= 3
    assert "Step: 800" in ended.out
    # What was learned since is lost when the run ends, so it failed.
    assert re.search(r"Ball: .*not saved.*--resume", ended.error)
    assert {path: path.read_bytes() for path in before} == before
    assert not ended.files("*.partial")


@pytest.mark.posix("needs a POSIX system")
def test_where_nothing_was_saved_at_all_nothing_is_promised(tmp_path):
    ended = learn(tmp_path, "--env", "scene:basic", yaml=BASIC, preexec_fn=no_file_larger_than_a_checkpoint)
    *before, last = re.findall(r"checkpoint of step \d+ could not be saved.*", ended.out)
    assert before and all("there is no other one. Training goes on" in warning for warning in before)
    assert last.endswith("; there is no other one.")
    assert "The run has no checkpoint" in ended.error and "--resume" not in ended.error


def test_a_recipe_is_named_instead_of_the_keys_that_it_sets(tmp_path):
    engine = ["--env", executable(tmp_path, "greet(); steps(10**6)")]
    plain = YAML.replace("trainer_type: ppo", "trainer_type: sac")
    assert learn(tmp_path, *engine, yaml=plain).good
    error = learn(
        tmp_path, *engine, "--resume", yaml=plain.replace("batch_size: 8", "batch_size: 8, recipe: simba")
    ).error
    assert "cannot be resumed: hyperparameters.recipe was 'mlagents', is 'simba'. Set that back" in error

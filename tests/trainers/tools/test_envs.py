"""`lanista envs`, and a run in an environment of a registry."""

import functools
import sys
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from lanista.envs.registry import registry
from lanista.envs.scenes.registry import export
from lanista.trainers.cli.main import run
from script_programs import SUFFIX

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin", reason="exported scenes are no .app, as builds for macOS are"
)

WINDOWS = sys.platform == "win32"
OURS, OTHERS = ("win_url", "linux_url") if WINDOWS else ("linux_url", "win_url")
"""The address of a build for this system, and that of one for another."""


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """A server with the manifest of one environment, the scene basic."""
    monkeypatch.setenv("LANISTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    registry._locate.cache_clear()
    files = tmp_path / "files"
    files.mkdir()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(files))
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{http.server_port}"
    with zipfile.ZipFile(files / "Walk.zip", "w") as zipped:
        program = export("basic", tmp_path / "Walk")
        zipped.write(program, f"Walk/{program.name}")
    told = {
        "Walk": {OURS: f"{address}/Walk.zip", "expected_reward": 0.9, "description": "A walk"},
        "Swim": {OTHERS: f"{address}/Swim.zip"},
    }
    (files / "all.yaml").write_text(
        yaml.safe_dump({"environments": [{name: one} for name, one in told.items()]})
    )
    yield f"{address}/all.yaml"
    http.shutdown()
    http.server_close()


@pytest.mark.slow
def test_a_run_trains_in_a_registered_environment(manifest, tmp_path, capfd):
    from lanista.trainers.learn import run as learn

    config = tmp_path / "config.yaml"
    config.write_text("behaviors: {Basic: {trainer_type: ppo, max_steps: 200, summary_freq: 100}}")
    env = f"registry:Walk?manifest={manifest}"
    status = learn(
        [str(config), "--env", env, "--run-id", "walk", "--results-dir", str(tmp_path / "results")]
    )
    assert status == 0, capfd.readouterr()
    assert (tmp_path / "results" / "walk" / "Basic.onnx").is_file()


def test_an_unknown_name_is_reported_before_anything_is_written(manifest, tmp_path, capfd):
    from lanista.trainers.learn import run as learn

    config = tmp_path / "config.yaml"
    config.write_text("behaviors: {Basic: {trainer_type: ppo}}")
    env = f"registry:Wakl?manifest={manifest}"
    assert learn([str(config), "--env", env, "--results-dir", str(tmp_path / "results")]) == 1
    assert "Did you mean Walk?" in capfd.readouterr().err and not (tmp_path / "results").exists()


def test_list_fetch_and_remove(manifest, tmp_path, capsys):
    more = ["--manifest", manifest]
    assert run(["envs", "list", *more]) == 0
    told = capsys.readouterr().out
    assert (
        "registry:Walk" in told
        and "A walk" in told
        and f"no build (only {'linux' if WINDOWS else 'win32'})" in told
    )
    assert run(["envs", "fetch", "Walk", *more]) == 0
    assert capsys.readouterr().out.strip().endswith(f"Walk{SUFFIX}")
    assert run(["envs", "list", *more]) == 0 and "yes" in capsys.readouterr().out
    assert run(["envs", "remove", "Walk", *more, "--forget"]) == 0
    assert "Removed" in capsys.readouterr().out
    assert not list((tmp_path / "cache" / "environments").iterdir())
    assert run(["envs", "remove", "Walk", *more]) == 0 and "is not here" in capsys.readouterr().out


@pytest.mark.parametrize("name, says", [("Walc", "Did you mean Walk?"), ("Swim", f"(there is {OTHERS})")])
def test_a_failed_download_is_reported_in_one_line(manifest, capsys, name, says):
    assert run(["envs", "fetch", name, "--manifest", manifest]) == 1
    said = capsys.readouterr().err
    assert says in said and "lanista envs: error: " in said and "Traceback" not in said

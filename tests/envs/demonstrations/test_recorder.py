"""The recorder writes the observations and actions of agents, episode by episode."""

from pathlib import Path

import numpy as np
from lanista.envs.demonstrations import recorder as recorder_module
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.demonstrations.recorder import DemonstrationRecorder
from lanista.envs.scenes.in_process import make_in_process
from line_game import LineGame
from mlagents_envs.base_env import ActionTuple

NAME = "Tiny?team=0"


def play(env, recorder, steps: int, **options) -> list:
    """Take random actions; returns the (observation, reward, action) of each step, per finished episode."""
    random = np.random.default_rng(1)
    env.reset()
    open_episodes: dict[int, list] = {}
    finished = []
    for _ in range(steps):
        for name in env.behavior_specs:
            spec = env.behavior_specs[name]
            decisions, terminals = env.get_steps(name)
            recorder.end(name, spec, terminals)
            for row, agent in enumerate(terminals.agent_id.tolist()):
                if agent in open_episodes:
                    last = (terminals.obs[0][row].copy(), terminals.reward[row], None)
                    finished.append([*open_episodes.pop(agent), last])
            actions = spec.action_spec.random_action(len(decisions))
            actions = ActionTuple(
                random.uniform(-1, 1, actions.continuous.shape).astype(np.float32), actions.discrete
            )
            recorder.act(name, spec, decisions, actions, **options)
            for row, agent in enumerate(decisions.agent_id.tolist()):
                pair = (decisions.obs[0][row].copy(), decisions.reward[row], actions.continuous[row].copy())
                open_episodes.setdefault(agent, []).append(pair)
            env.set_actions(name, actions)
        env.step()
    return finished


def game(**options) -> LineGame:
    return LineGame(3, [NAME], agents=3, max_len=6, cont=1, **options)


def test_every_finished_episode_is_recorded_exactly(tmp_path: Path) -> None:
    with DemonstrationRecorder(tmp_path / "demos") as recorder:
        finished = play(game(), recorder, 40)
    (path,) = recorder.paths
    assert path == tmp_path / "demos" / "Tiny.demo"
    demo = read_demonstration(path)
    assert len(finished) > 5 and len(demo.episode_starts) == demo.metadata.episodes == len(finished)
    pairs = [pair for episode in finished for pair in episode]
    np.testing.assert_array_equal(demo.obs[0], [obs for obs, _, _ in pairs])
    np.testing.assert_array_equal(demo.reward, [reward for _, reward, _ in pairs])
    acted = ~demo.done
    np.testing.assert_array_equal(
        demo.continuous[acted], [action for _, _, action in pairs if action is not None]
    )
    mean = sum(float(reward) for _, reward, _ in pairs) / len(finished)
    assert demo.metadata.mean_reward == np.float32(mean)


def test_only_selected_agents_are_recorded(tmp_path: Path) -> None:
    with DemonstrationRecorder(tmp_path) as recorder:
        play(game(), recorder, 20, wanted={1})
    assert set(read_demonstration(recorder.paths[0]).agent_id.tolist()) == {1}


def test_an_episode_that_is_cut_off_ends_interrupted(tmp_path: Path) -> None:
    env, recorder = game(), DemonstrationRecorder(tmp_path)
    env.reset()
    spec = env.behavior_specs[NAME]
    for step in range(3):
        decisions, _ = env.get_steps(NAME)
        action = ActionTuple(np.zeros((3, 1), np.float32))
        recorder.act(NAME, spec, decisions, action, cut={0} if step == 2 else ())
        env.set_actions(NAME, action)
        env.step()
    recorder.close()
    demo = read_demonstration(recorder.paths[0])
    assert demo.done.tolist() == demo.interrupted.tolist() == [False, False, True]


def test_a_reset_of_the_environment_drops_what_was_unfinished(tmp_path: Path) -> None:
    with DemonstrationRecorder(tmp_path) as recorder:
        env = game()
        assert not play(env, recorder, 2), "no episode has ended"
        recorder.reset()
        finished = play(env, recorder, 30)
    demo = read_demonstration(tmp_path / "Tiny.demo")
    pairs = [pair for episode in finished for pair in episode]
    np.testing.assert_array_equal(demo.obs[0], [obs for obs, _, _ in pairs])


def test_behaviors_and_teams_have_separate_files_and_later_recordings_are_numbered(tmp_path: Path) -> None:
    for _ in range(2):
        with DemonstrationRecorder(tmp_path) as recorder:
            play(LineGame(3, ["Tiny?team=0", "Tiny?team=1"], agents=2, max_len=4, cont=1), recorder, 12)
    names = ["Tiny-team1.demo", "Tiny-team1_1.demo", "Tiny.demo", "Tiny_1.demo"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_recorder_beside_another_takes_the_next_name(tmp_path: Path, monkeypatch) -> None:
    """Both have looked which names are free before either has made its file."""
    free = recorder_module.free_path

    def taken_at_once(folder: Path, behavior: str) -> Path:
        path = free(folder, behavior)
        if path.name == "Tiny.demo":
            folder.mkdir(exist_ok=True)
            path.write_bytes(b"another's")
        return path

    monkeypatch.setattr(recorder_module, "free_path", taken_at_once)
    with DemonstrationRecorder(tmp_path) as recorder:
        play(game(), recorder, 12)
    assert [path.name for path in recorder.paths] == ["Tiny_1.demo"]
    assert (tmp_path / "Tiny.demo").read_bytes() == b"another's"


def test_a_link_that_leads_nowhere_is_a_name_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "Tiny.demo").symlink_to(tmp_path / "elsewhere")
    with DemonstrationRecorder(tmp_path) as recorder:
        play(game(), recorder, 12)
    assert [path.name for path in recorder.paths] == ["Tiny_1.demo"] and not (tmp_path / "elsewhere").exists()


def test_without_a_finished_episode_no_file_is_written(tmp_path: Path) -> None:
    with DemonstrationRecorder(tmp_path / "demos") as recorder:
        play(game(), recorder, 2)
    assert recorder.paths == [] and not (tmp_path / "demos").exists()


def test_images_are_stored_as_png(tmp_path: Path) -> None:
    env = make_in_process("scene:grid?size=small", seed=1)
    with DemonstrationRecorder(tmp_path) as recorder:
        play(env, recorder, 60)
    demo = read_demonstration(recorder.paths[0], images="uint8")
    (images,) = (obs for obs in demo.obs if obs.ndim == 4)
    assert images.dtype == np.uint8 and 0 < images.mean() < 255
    assert recorder.paths[0].stat().st_size < images.size

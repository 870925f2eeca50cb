"""The tasks whose speed is measured: the kinds that Unity's users train, most of them with few agents.

Lanista and ML-Agents train the same processes of a scene with the same settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from results import BF16, LANISTA, PEER, ROOT, THREADED
from side_by_side import Case

SETTINGS = Path(__file__).parent / "settings"
SCALE = (12, 32, 64, 128, 256, 512, 1024)
"""Numbers of agents of `ball`."""
ONE = {"trainers": (LANISTA, PEER)}
"""Of a task that is not measured with other ways to train."""
ALONE = {"trainers": (LANISTA,)}
"""Of a task that ML-Agents has no trainer or network for."""
LARGE_BUFFER = {"batch_size": 256, "num_epoch": 1, "buffer_size": 10_240}


def settings_of(file: Path, behavior: str | None = None) -> dict[str, Any]:
    """Of a behavior in a configuration, or of a file that holds nothing else."""
    found: dict[str, Any] = yaml.safe_load(file.read_text())
    return found["behaviors"][behavior] if behavior else found


def preset(scene: str, behavior: str) -> dict[str, Any]:
    """Unity's own settings of a behavior, for PPO."""
    return settings_of(ROOT / "config" / "ppo" / f"{scene}.yaml", behavior)


def task(
    name: str,
    agents: int,
    scene: str,
    behavior: str,
    settings: Mapping[str, Any],
    length: tuple[int, int],
    engine: Mapping[str, Any],
    what: str,
    *,
    wanted: float | None = None,
    hyperparameters: Mapping[str, Any] = {},
    network: Mapping[str, Any] = {},
    **keys: Any,
) -> Case:
    """A task.

    Args:
        name: In the rows and the table.
        agents: That decide in a step of the engine.
        scene: The engine's.
        behavior: That is trained.
        settings: Its settings.
        length: Agent-steps of a run, and of a summary.
        engine: Options of the scene.
        what: It is, for readers.
        wanted: At least so many times ML-Agents' rate.
        hyperparameters: In place of those of the settings.
        network: The same of `network_settings`.
        keys: Of `Case`.
    """
    own = {**settings, "max_steps": length[0], "summary_freq": length[1]}
    own["hyperparameters"] = {**own["hyperparameters"], **hyperparameters}
    own["network_settings"] = {**own["network_settings"], **network}
    options = [word for key, value in engine.items() for word in (f"--{key}", str(value))]
    if wanted is not None:
        keys["aims"] = {LANISTA: wanted}
    return Case(name, agents, scene, behavior, own, options, label=(name, what), **keys)


def ball(agents: int, wanted: float | None = None, **keys: Any) -> Case:
    """Unity's 3DBall with its own settings."""
    settings = preset("ball3d", "3DBall")
    what = f"PPO, {agents:,} agents, vectors, continuous"
    # The process of `threaded` takes a second to start, which is not to count for much.
    length, engine = (96_000 if agents < 100 else 288_000, settings["summary_freq"]), {"areas": agents}
    return task(
        f"ball {agents}", agents, "ball3d", "3DBall", settings, length, engine, what, wanted=wanted, **keys
    )


def team(members: int) -> Case:
    """Teams that cost next to nothing."""
    settings = settings_of(SETTINGS / "poca_teams.yaml")
    what = f"POCA, 96 agents in teams of {members}, discrete"
    engine = {"members": members, "agents": 96}
    length, trainers = (51_200, 10_240), (LANISTA, PEER, BF16, THREADED)
    return task(f"teams of {members}", 96, "team", "Team", settings, length, engine, what, trainers=trainers)


def tasks() -> list[Case]:
    """All of them, in the order of the table."""
    return [*vectors(), *teams(), *memories(), *games(), *senses(), *cameras()]


def vectors() -> list[Case]:
    """Agents that observe a few numbers."""
    sac = settings_of(SETTINGS / "sac_ball3d.yaml")
    return [
        ball(12, 9),
        ball(128, 17),
        ball(1024, 28),
        *(ball(agents, **ALONE) for agents in SCALE if agents not in (12, 128, 1024)),
        task(
            *("ball SAC", 12, "ball3d", "3DBall", sac, (24_000, 2_000), {"areas": 12}),
            what="SAC, 12 agents, vectors, continuous",
            wanted=8,
            **ONE,
        ),
        task(
            *("basic DQN", 12, "basic", "Basic", settings_of(ROOT / "config/dqn/basic.yaml", "Basic")),
            *((24_000, 2_000), {"areas": 12}),
            what="DQN, 12 agents, vectors, discrete",
            **ALONE,
        ),
        task(
            *("large PPO", 12, "ball3d", "3DBall", preset("ball3d", "3DBall")),
            *((61_440, 20_480), {"areas": 12}),
            what="PPO, 12 agents, 3 x 512 units, minibatches of 2,048",
            hyperparameters={"batch_size": 2_048, "buffer_size": 20_480},
            network={"hidden_units": 512, "num_layers": 3},
            **ONE,
        ),
        task(
            *("large SAC", 12, "ball3d", "3DBall", sac, (6_000, 1_000), {"areas": 12}),
            what="SAC, 12 agents, 2 x 256 units, minibatches of 256",
            hyperparameters={"batch_size": 256},
            network={"hidden_units": 256},
            **ONE,
        ),
        task(
            *("basic SAC", 12, "basic", "Basic", sac, (10_000, 1_000), {"areas": 12}),
            what="SAC, 12 agents, vectors, discrete",
            **ONE,
        ),
    ]


def teams() -> list[Case]:
    """Agents that earn as groups."""
    poca = settings_of(SETTINGS / "poca_teams.yaml")
    return [
        task(
            *("escape", 24, "dungeon-escape", "DungeonEscape", poca, (51_200, 10_240), {"areas": 8}),
            what="POCA, 8 groups of 3 whose members leave, 7 discrete actions, 2 x 256 units",
            wanted=6,
            trainers=(LANISTA, PEER, BF16, THREADED),
        ),
        task(
            *("escape, memory", 24, "dungeon-escape", "DungeonEscape", poca, (15_360, 5_120), {"areas": 8}),
            what="POCA as in escape, LSTM of 128 over sequences of 32",
            network={"memory": {"sequence_length": 32, "memory_size": 128}},
            **ONE,
        ),
        team(3),
        team(8),
        team(20),
    ]


def memories() -> list[Case]:
    """Agents that have to remember."""
    hallway = ("hallway", "Hallway", preset("hallway", "Hallway"))
    signals = {**hallway[2]["reward_signals"], "curiosity": {"strength": 0.02}}
    curious = {**hallway[2], "reward_signals": signals}
    return [
        task(
            *("memory", 16, *hallway, (40_960, 5_120), {"areas": 16}),
            what="PPO, 16 agents, LSTM of 128 over sequences of 16, discrete",
            wanted=6,
            network={"memory": {"sequence_length": 16, "memory_size": 128}},
        ),
        task(
            *("memory, GRU", 16, *hallway, (40_960, 5_120), {"areas": 16}),
            what="PPO, 16 agents, GRU of 128 over sequences of 16, discrete",
            network={"memory": {"sequence_length": 16, "memory_size": 128, "memory_type": "gru"}},
            **ALONE,
        ),
        task(
            *("hallway", 16, *hallway, (61_440, 5_120), {"areas": 16}),
            what="PPO, 16 agents, LSTM of 128 over sequences of 64, discrete",
        ),
        task(
            *("curiosity", 16, *hallway[:2], curious, (20_480, 5_120), {"areas": 16}),
            what="PPO as in hallway, with the reward signal curiosity",
            **ONE,
        ),
    ]


def games() -> list[Case]:
    """Agents that play against each other."""
    tennis = preset("tennis", "Tennis")
    duel = tennis | {"self_play": tennis["self_play"] | {"save_steps": 5_000, "team_change": 20_000}}
    return [
        task(
            *("duel", 16, "duel", "Duel", duel, (81_920, 10_240), {"areas": 8}),
            what="PPO with self-play, 8 arenas of 2, 2 continuous and 2 discrete actions, 2 x 256 units",
            wanted=9,
            network={"hidden_units": 256},
            **ONE,
        ),
        task(
            *("tennis", 128, "tennis", "Tennis", tennis, (240_000, 20_000), {"areas": 64}),
            what="PPO with self-play, 64 courts of 2, continuous",
            **ONE,
        ),
    ]


def senses() -> list[Case]:
    """Agents with rays, grids and entities."""
    small_wall = preset("wall-jump", "SmallWallJump") | {"max_steps": 32_768, "summary_freq": 8_192}
    small_buffer = {"batch_size": 512, "buffer_size": 5_120}
    return [
        task(
            *("walls", 24, "wall-jump", "BigWallJump", preset("wall-jump", "BigWallJump")),
            *((16_384, 4_096), {"areas": 24}),
            what="PPO, 24 agents of two behaviors, rays, 4 discrete branches",
            others={"SmallWallJump": small_wall},
            **ONE,
        ),
        task(
            *("food", 20, "food", "FoodCollector", preset("food", "FoodCollector")),
            *((20_480, 5_120), {"areas": 4}),
            hyperparameters=small_buffer,
            what="PPO, 20 agents, a grid sensor of 40 x 40 x 5, continuous and discrete",
            **ONE,
        ),
        task(
            *("sorter", 8, "sorter", "Sorter", preset("sorter", "Sorter"), (20_480, 5_120), {"areas": 8}),
            hyperparameters=small_buffer,
            what="PPO, 8 agents, 20 entities by attention, 3 discrete branches",
            **ONE,
        ),
    ]


def cameras() -> list[Case]:
    """Agents that see pictures."""
    grid = preset("grid", "GridWorld")
    square = {"areas": 16, "height": 84, "width": 84}
    return [
        task(
            *("grid of 9", 9, "grid", "GridWorld", grid, (12_000, 1_000), {"areas": 9}),
            what="PPO, 9 cameras of 84 x 64 as PNG, a goal, masks",
            **ONE,
        ),
        task(
            *("grid", 16, "grid", "GridWorld", grid, (6_400, 1_280), square),
            what="PPO, 16 cameras of 84 x 84 as PNG, a goal, masks",
            wanted=3,
            memory_aim=1 / 3,
            trainers=(LANISTA, PEER, BF16, THREADED),
        ),
        task(
            *("grid, large buffer", 16, "grid", "GridWorld", grid, (21_000, 1_000), square),
            what="the same with 10,240 steps in the buffer",
            hyperparameters=LARGE_BUFFER,
            memory_aim=1 / 3,
            **ONE,
        ),
    ]

"""SAC beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/replay_speed.py [--rounds 3] [--steps 24000] [--again]

Both train the same processes of scene:ball3d (12 agents) with ML-Agents' own settings for 3DBall, one after
the other and in turns; figures are medians of the rounds, ratios medians of the ratios within a round. Steps
per second count from the first summary to the last. What docs/results/replay-speed.csv already holds is not
measured again without `--again`. Writes that file and docs/results/replay-speed.md.
"""

from side_by_side import Comparison, main

PAGE = """# Speed of SAC

Written by `python tests/benchmarks/replay_speed.py` from replay-speed.csv; every run in it is there.

SAC of Lanista and of ML-Agents 1.1.0 train the same processes of `scene:ball3d` (12 agents) with the settings
that ML-Agents ships for 3DBall: 2 layers of 64 units, `batch_size: 64`, `buffer_size: 200000`,
`steps_per_update: 10`. In turns; medians, ratios within a round. Rates and processor time count from the
first summary to the last; memory is the peak of all of a trainer's processes together, without the engine's.
"Threaded" is `threaded: true`. {busy}

{table}

At `steps_per_update: 10` every agent-step pays for a tenth of a gradient step on 64 rows. Where that is
computed is told in [the architecture](../architecture.md): in closed form, for networks of dense layers on
vectors. How fast batches are drawn from a replay, and what one takes of memory, is measured by
`python tests/benchmarks/replay.py`.
"""
SETTINGS = {
    "trainer_type": "sac",
    "hyperparameters": {
        "learning_rate": 3.0e-4,
        "learning_rate_schedule": "constant",
        "batch_size": 64,
        "buffer_size": 200_000,
        "buffer_init_steps": 0,
        "tau": 0.005,
        "steps_per_update": 10.0,
        "save_replay_buffer": False,
        "init_entcoef": 0.5,
        "reward_signal_steps_per_update": 10.0,
    },
    "network_settings": {"normalize": True, "hidden_units": 64, "num_layers": 2},
    "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
    "time_horizon": 1000,
}


if __name__ == "__main__":
    task = Comparison(
        *("SAC on ball3d", "ball3d"),
        agents=12,
        areas=12,
        behavior="3DBall",
        settings=SETTINGS,
        steps=24_000,
        aim=6,
        name="replay-speed",
        page=PAGE,
    )
    main(task, __doc__)

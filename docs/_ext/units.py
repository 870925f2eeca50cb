"""The units of all settings that are numbers, for docs/configuration.md."""

_KEYS = {
    "port": "base_port",
    "steps": (
        "batch_size buffer_init_steps buffer_size n_step samples_per_update sequence_length time_horizon"
    ),
    "factor": "beta entropy_coefficient init_entcoef inverse_temperature strength value_coefficient",
    "share": (
        "burn_in_ratio clip_end epsilon epsilon_end epsilon_start expectile held_out noise_theta "
        "play_against_latest_model_ratio share tau"
    ),
    "frames/s": "capture_frame_rate target_frame_rate",
    "trainer steps": (
        "checkpoint_interval epsilon_decay_steps max_steps noise_decay_steps save_steps steps "
        "summary_freq team_change test_frequency"
    ),
    "units": "encoding_size hidden_units",
    "processes": "env_workers learners",
    "frames": "frame_stack",
    "factor per decision": "gamma lambd",
    "gradient steps": "gradient_steps policy_delay target_update_interval",
    "pixels": "height width",
    "agents' decisions": "inference_steps",
    "Elo": "initial_elo",
    "checkpoints": "keep_best keep_checkpoints",
    "per gradient step": "critic_learning_rate learning_rate",
    "restarts": "max_lifetime_restarts restarts_rate_limit_n",
    "agents": "max_num_agents",
    "the parameter's": "max_value mean min_value st_dev value",
    "numbers": "memory_size",
    "norm": "max_grad_norm",
    "gradient": "adam_epsilon",
    "nats": "target_entropy target_kl",
    "ln of the deviation": "initial_log_std",
    "policy's units": "action_range",
    "episodes": "min_lesson_length test_episodes",
    "half the action's range": "noise_end noise_start target_noise target_noise_clip",
    "areas": "num_areas",
    "environments": "num_envs",
    "passes": "num_epoch critic_epochs",
    "layers": "num_layers",
    "threads": "num_threads",
    "exponent": "prioritized_alpha prioritized_beta",
    "level": "quality_level",
    "processors": "ray_cpus",
    "seconds": "noise_dt ray_wait restarts_rate_limit_period_s timeout_wait",
    "steps per gradient step": "reward_signal_steps_per_update steps_per_update",
    "seed": "seed",
    "reward of an episode": "stop_at_reward",
    "steps of the acting team": "swap_steps",
    "agent's decisions": "resample_interval test_max_decisions",
    "the measure's": "threshold",
    "times real time": "time_scale",
    "snapshots": "window",
}

UNITS = {key: unit for unit, keys in _KEYS.items() for key in keys.split()}
"""The unit of each key. A step is one decision of one agent; docs/configuration.md has the words."""

"""The id `lanista/Unity-v0` for `gymnasium.make` and `make_vec`; importing this registers it."""

from gymnasium import register

UNITY = "lanista/Unity-v0"

register(
    UNITY,
    entry_point="lanista.envs.wrappers.make:make_gym",
    vector_entry_point="lanista.envs.wrappers.make:make_vector",
)

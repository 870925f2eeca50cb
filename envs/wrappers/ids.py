"""The id `lanista/Unity-v0` for `gymnasium.make` and `make_vec`, registered on import."""

from gymnasium import register

UNITY = "lanista/Unity-v0"

register(
    UNITY,
    entry_point="lanista.envs.wrappers.make:make_gym",
    vector_entry_point="lanista.envs.wrappers.make:make_vector",
)

"""The hyperparameters of POCA."""

from ..ppo.settings import ClippedObjectiveSettings


class POCASettings(ClippedObjectiveSettings):
    """Posthumous credit assignment."""

    yaml_order = (
        "batch_size",
        "buffer_size",
        "learning_rate",
        "beta",
        "epsilon",
        "lambd",
        "num_epoch",
        "learning_rate_schedule",
        "beta_schedule",
        "epsilon_schedule",
    )

"""The seeds of a run's parts."""

_SEEDS = 2**31


def seed_of(run_seed: int, number: int) -> int:
    """The seed of a run's part of this number: run_seed + number, from 0 again where 31 bits end.

    That is what a message to an engine holds.
    """
    return (run_seed + number) % _SEEDS

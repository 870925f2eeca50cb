"""The surroundings of a trainer under test: recorded statistics and events, fixed rewards."""


class Record:
    """Statistics in the order of the calls."""

    def __init__(self):
        self.calls = []

    def add_stat(self, key, value, aggregation):
        self.calls.append([key, value, aggregation.name])

    def add_stats(self, key, values, aggregation):
        self.calls += [[key, float(v), aggregation.name] for v in values]

    def set_stat(self, key, value):
        self.calls.append([key, value, "MOST_RECENT"])


class Events:
    def __init__(self, drop_after_checkpoint=False):
        self.calls = []
        self.drop = drop_after_checkpoint

    def on_summary(self, step):
        self.calls.append(("summary", step))

    def on_checkpoint(self):
        self.calls.append(("checkpoint",))
        return self.drop

    def on_steps_processed(self):
        pass

    def on_update(self, metrics):
        self.calls.append(("updated", metrics))


def given_signals(signals):
    """Settings and stand-ins of the signals of a case of the reference data, by their names."""
    chosen = {name: {key: each[key] for key in ("gamma", "strength")} for name, each in signals.items()}
    if "gail" in chosen:
        chosen["gail"]["demo_path"] = "-"
    return chosen, {name: GivenReward(name in ("curiosity", "rnd")) for name in signals}


class GivenReward:
    """A reward signal whose rewards are those of the reference data."""

    def __init__(self, ignores_done=False):
        self.ignores_done = ignores_done
        self.given = None

    def evaluate(self, rollout):
        return self.given

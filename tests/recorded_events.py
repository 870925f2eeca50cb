"""A callback that records every event of a run."""

from lanista.trainers.callbacks import Callback
from lanista.trainers.callbacks.dispatcher import HOOKS


class Recorder(Callback):
    """Has every hook, records its events, and returns the answer that a test gives for a hook."""

    def __init__(self, **answers):
        self.answers = answers
        self.events = []

    def record(self, event):
        self.events.append(event)
        return self.answers.get(event.hook)

    def of(self, hook):
        """The events of one hook, in order."""
        return [event for event in self.events if event.hook == hook]


for _hook in HOOKS:
    setattr(Recorder, _hook, Recorder.record)

import pytest
from stub_rollouts import BUILD_ROLLOUT, rollout_of


@pytest.fixture
def gathered(monkeypatch):
    """Let trainers take `StubTrajectory`s; the lengths of those of each rollout."""
    calls = []

    def gather(trajectories, with_teammates=True):
        calls.append([len(t) for t in trajectories])
        return rollout_of(calls[-1])

    monkeypatch.setattr(BUILD_ROLLOUT, gather)
    return calls

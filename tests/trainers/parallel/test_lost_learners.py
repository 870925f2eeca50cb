"""An update in which a learner gets lost has not been: the state is that from before it."""

import signal
import sys

import numpy as np
import psutil
import pytest
from lanista.trainers.trainer.distributed.leader import LearnerTeam
from lanista.trainers.utils.data_parallel import LearnerLostError
from learner_teams import numbers
from torch import distributed

if sys.platform == "win32":
    pytest.skip("signals are sent to processes", allow_module_level=True)

PPO = "ppo", "batch_size: 31, buffer_size: 120, num_epoch: 2, learning_rate: 0.003", "", {}
REASONS = {
    signal.SIGKILL: r"^The learner 1 of 2 \(process \d+, cpu\) [^.]*: it was ended by signal 9 \(SIGKILL\)",
    signal.SIGSTOP: r"^The learner 1 of 2 \(process \d+, cpu\) did not .* within 2 s: it is alive",
}


@pytest.mark.parametrize("sign", REASONS)
def test_the_update_in_hand_is_undone(record, tmp_path, sign):
    recording = record(*PPO)
    with LearnerTeam(2, "cpu", tmp_path / "logs", 1, patience=2.0) as team:
        leading = recording.leading(team)
        recording.feed(leading, rollouts=len(recording.rollouts) // 2)
        assert leading.algorithm.optimizer.adam.steps > 0
        while len(leading.buffer) <= leading.settings.hyperparameters.buffer_size:
            leading.process(recording.rollouts[0])
        before = numbers(leading.state_dict())
        psutil.Process(team._processes[0].pid).send_signal(sign)
        with pytest.raises(LearnerLostError, match=REASONS[sign]):
            leading._learn()
        behind = numbers(leading.state_dict())
        assert before.keys() == behind.keys() and len(before) > 20
        for path in before:
            np.testing.assert_array_equal(behind[path], before[path], err_msg=path)
        recording.feed(alone := recording.trainer())
        assert alone.algorithm.optimizer.adam.steps > 0, "who learns alone does not miss it"
    assert not distributed.is_initialized()

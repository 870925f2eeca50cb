"""As run_peer.py, but every checkpoint is followed by a restart of the engines.

A run that is killed after a checkpoint and resumed has new engines too, and nothing else should tell the two
apart.
"""

import run_peer  # noqa: F401 (patches torch.onnx, and cleans the path)
from mlagents.trainers import learn
from mlagents.trainers.trainer.rl_trainer import RLTrainer
from mlagents.trainers.trainer_controller import TrainerController

due = []
checkpoint, advance = RLTrainer._checkpoint, TrainerController.advance


def checkpoint_and_note(trainer):
    saved = checkpoint(trainer)
    due.append(saved)
    return saved


def advance_and_restart(controller, environments):
    steps = advance(controller, environments)
    if due:
        due.clear()
        environments._drain_step_queue()
        for index, worker in enumerate(environments.env_workers):
            worker.request_close()
            environments.step_queue.get()  # it says that it has closed
            worker.process.join()
            environments.env_workers[index] = environments.create_worker(
                index, environments.step_queue, environments.env_factory, environments.run_options
            )
        controller._reset_env(environments)  # which drops unfinished trajectories
    return steps


RLTrainer._checkpoint, TrainerController.advance = checkpoint_and_note, advance_and_restart

if __name__ == "__main__":
    learn.main()

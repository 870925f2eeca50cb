"""The checkpoints of one behavior in a run: saving, exporting, initializing and resuming."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlagents_envs.base_env import BehaviorSpec

from ..callbacks.events import CheckpointSaved
from ..checkpoints.compatibility import SETTINGS, Change, changed_settings, recorded_in, refused
from ..checkpoints.file import MISFITS, CheckpointError, load_checkpoint, save_checkpoint
from ..checkpoints.manager import CheckpointManager
from ..checkpoints.metadata import KEY as BRAIN
from ..checkpoints.metadata import describe_behavior
from ..checkpoints.resuming import LESSONS
from ..checkpoints.rules import Resumed
from ..checkpoints.starting import start_from
from ..checkpoints.transfer import initial_checkpoint, lacks, unfit
from ..networks.custom import not_exportable
from ..networks.multi_actor import export_suffixes, exported_networks
from ..policies.policy import Policy
from ..rewards.base import NetworkSignal
from ..settings.errors import dotted
from ..utils import distributed
from ..utils.text import typed
from .context import RunContext
from .distributed import rank_file, rank_state, with_rank_state
from .schedules import EvaluationSchedule
from .self_play.manager import SelfPlayManager
from .trainer import Trainer

logger = logging.getLogger(__name__)

ELO = "elo"
"""ML-Agents' key in training_status.json."""
DEMONSTRATIONS = "demonstrations"
"""The entry of a checkpoint that identifies what `lanista clone` has learned from."""
SELF_PLAY = "self_play"
"""The entry of a checkpoint that holds the rating and the opponents."""


class LearnerCheckpointer:
    """Writes and reads the checkpoints of one behavior's trainer and policy, and exports its models."""

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        run: RunContext,
        trainer: Trainer,
        policy: Policy,
        evaluation_schedule: EvaluationSchedule,
        self_play: SelfPlayManager | None = None,
    ) -> None:
        """Prepare to save.

        Args:
            name, spec, run, trainer: the behavior's; the network of the trainer's algorithm is saved.
            policy: the one that acts, whose generator is saved.
            evaluation_schedule: when the next one falls due, which is saved too.
            self_play: its self-play, of which rating and opponents are saved too.
        """
        self.name = name
        self.spec = spec
        self.run = run
        self.trainer = trainer
        self.policy = policy
        self.evaluation_schedule = evaluation_schedule
        self.self_play = self_play
        self.saved_step: int | None = None
        """The step of the newest one; None if this process has written none."""
        self.newly_saved = False
        """One was written since the run's last resume point."""
        self._best_score: float | None = None
        """The mean reward or rating that makes the current policy one of the best; None if it is not."""
        self._saved_score: float | None = None
        self._compares_groups = False
        """Whether the best policies are those whose groups earn most, not those whose agents do."""
        self.settings = trainer.settings
        self.network = trainer.algorithm.network
        self.exports_onnx = not not_exportable(self.network)
        self.checkpoints = CheckpointManager(
            name,
            run.folder,
            self.settings.keep_checkpoints,
            run.status,
            export_suffixes(self.network),
            self.settings.keep_best,
        )

    # Saving ---------------------------------------------------------------------------------------------

    def compare_with_best(self, mean_reward: float | None) -> bool:
        """Whether the policy, which is then saved, is one of the best, by its mean reward or its rating.

        `mean_reward`: by which policies are compared without self-play; None: it is not known yet.
        """
        score = mean_reward if mean_reward is None or self.self_play is None else self.self_play.elo
        by_groups = self.self_play is None and self.trainer.episodes.history.by_groups
        if by_groups and not self._compares_groups:
            self.checkpoints.best.reset()
        self._compares_groups = by_groups
        admitted = score is not None and self.checkpoints.best.admits(score)
        self._best_score = score if admitted else None
        return admitted

    def save(self, due: bool = True, *, final: bool = False) -> bool:
        """Write a checkpoint and its model; whether that succeeded. A full disk costs a warning.

        Args:
            due: it is one of those that `keep_checkpoints` counts.
            final: the run ends with it.
        """
        self.trainer.finish_update()
        step, reward = self.trainer.step, self.trainer.episodes.history.recent_mean()
        score, self._best_score = self._best_score, None
        if distributed.rank():
            written = self._save_rank()
            if written:
                self.saved_step, self.newly_saved = step, True
            return written
        export = self._export if self.exports_onnx else None
        if self.self_play is not None:
            self.run.status.set(self.name, ELO, self.self_play.elo)
        saved = self.checkpoints.save(
            step, self._state(score), reward, export, best_metric=score, due=due, final=final
        )
        if saved is not None:
            self.trainer.save_beside(self.checkpoints.folder)
            self.trainer.on_saved()
            self.saved_step, self._saved_score, self.newly_saved = step, score, True
            self.run.display.checkpoint(self.name, step)
            self._notify_callbacks(step, reward, due)
        return saved is not None

    def save_with_others(self) -> bool:
        """Write only what `--resume` needs, because another behavior has saved; whether that succeeded."""
        self.trainer.finish_update()
        if distributed.rank():
            return self._save_rank()
        step = self.trainer.step
        if self.self_play is not None:
            self.run.status.set(self.name, ELO, self.self_play.elo)
        # Nothing may be learned since the last checkpoint, which then remains one of the best if it was.
        score = self._saved_score if step == self.saved_step else None
        if not self.checkpoints.save_weights(step, self._state(score)):
            return False
        self.trainer.save_beside(self.checkpoints.folder)
        self.trainer.on_saved()
        return True

    def save_now(self) -> Path | None:
        """Save a checkpoint for a callback; the path of its weights, None if that failed."""
        return self.weights(self.trainer.step) if self.save() else None

    @property
    def folder(self) -> Path:
        """The folder of the behavior's checkpoints."""
        return self.checkpoints.folder

    def weights(self, step: int) -> Path:
        """The numbered checkpoint of a step."""
        return self.folder / f"{self.name}-{step}.pt"

    def _notify_callbacks(self, step: int, reward: float | None, due: bool) -> None:
        weights = self.weights(step)
        names = [f"{weights.stem}{suffix}.onnx" for suffix in self.checkpoints.suffixes]
        brains = tuple(path for path in map(self.folder.joinpath, names) if path.exists())
        callbacks = self.run.callbacks
        by_groups = self.trainer.episodes.history.by_groups
        callbacks.dispatch(CheckpointSaved(self.name, step, weights, brains, reward, due, by_groups))
        callbacks.save_states()

    def _state(self, score: float | None) -> dict[str, Any]:
        """The contents of a checkpoint."""
        return {
            **self.trainer.state_dict(),
            "acting": self.policy.generator.get_state(),
            BRAIN: self._description(),
            "judged": score,
            **self._evaluation_state(),
            **({} if self.self_play is None else {SELF_PLAY: self.self_play.state_dict()}),
            **({LESSONS: self.run.curriculum.state()} if self.run.curriculum.lessons else {}),
        }

    def _description(self) -> dict[str, Any]:
        return describe_behavior(self.name, self.spec, self.settings, self.network)

    def _evaluation_state(self) -> dict[str, Any]:
        schedule = self.evaluation_schedule
        if not schedule.enabled:
            return {}
        return {"test_due": schedule.next_step, "last_test": schedule.last_step}

    def load_exporter(self) -> None:
        """Import what writes models: what cannot be loaded is said now, not at the first checkpoint."""
        if self.exports_onnx:
            from ..policies.onnx import export  # noqa: F401

    def _export(self, path: Path) -> None:
        """Export the ONNX files of a checkpoint, of which `path` is the (first) one."""
        from ..policies.onnx.export import export_brain
        from ..policies.onnx.graph import BrainVerificationError

        step, reward = self.trainer.step, self.trainer.episodes.history.recent_mean()
        for suffix, brain in exported_networks(self.network).items():
            file = path.with_name(f"{path.stem}{suffix}.onnx")
            try:
                export_brain(brain, file, behavior=self.name, step=step, reward=reward)
                logger.info("Exported %s", file)
            except BrainVerificationError as error:
                logger.error("The brain %s was not written; the checkpoint itself is. %s", file, error)

    def finish(self, saved: bool) -> Path:
        """Copy the model of the last save to `<run>/<behavior>.onnx`; its path, or the checkpoint's.

        Args:
            saved: whether the last save succeeded.

        Raises:
            CheckpointError: the weights or the model could not be written.
        """
        if distributed.rank():
            return rank_file(self.folder)
        brain = self.checkpoints.finish()
        if not saved:
            remains = (
                "Older checkpoints are as they were; --resume goes on from the last."
                if self.checkpoints.any_saved
                else "The run has no checkpoint: free some space or make its folder writable; train again."
            )
            raise CheckpointError(
                f"{self.name}: the weights at the end of the run, step {self.trainer.step}, were not saved: "
                f"see the warning before. {remains}"
            )
        if brain is None and self.exports_onnx:
            raise CheckpointError(
                f"{self.name}: the weights at the end of the run, step {self.trainer.step}, are saved, but "
                f"not their brain: see the message before. {self.run.folder / self.name}.onnx, if it is "
                "there, is of an older checkpoint. `lanista export` makes a brain of a checkpoint."
            )
        return brain or self.checkpoints.latest_path

    # With other ranks -----------------------------------------------------------------------------------

    def _save_rank(self) -> bool:
        """Write what this rank has for itself; rank 0 writes the checkpoint. Whether it was written.

        Where a rank was lost nothing is: rank 0, which may be that one, saves at another step, if at all.
        """
        if not distributed.connected():
            return False
        file = rank_file(self.folder)
        whole = self._state(None)
        state = {"step": self.trainer.step, BRAIN: whole[BRAIN], **self._rank_state(whole)}
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            save_checkpoint(file, state)
            folder = file.with_suffix("")
            folder.mkdir(exist_ok=True)
            self.trainer.save_beside(folder)
        except OSError as error:
            logger.warning("%s could not be written (%s). Training continues.", file, error)
            return False
        return True

    def synchronize(self) -> None:
        """Give every rank the weights, statistics and opponents of rank 0.

        A rank of a resumed run continues with its own buffers and random states, where it saved them at the
        same step; they are lost if rank 0 was saved alone since, as when another rank was killed.
        """
        state = distributed.broadcast(self._state(None) if distributed.rank() == 0 else {})
        if distributed.rank() == 0:
            self.trainer.shared_moments.rebase()
            return
        own, file = self._rank_state(self._state(None)), rank_file(self.folder)
        saved = load_checkpoint(file, within=self.run.folder) if self.run.resume and file.exists() else {}
        changed = self._changed_settings(saved.pop(BRAIN, None))
        saved.pop("reward_scale", None)  # of a release whose ranks did not share it
        fits = saved.pop("step", None) == state["step"] and saved.keys() == own.keys()
        state = with_rank_state(state, saved if fits else own)
        self.trainer.load_state_dict(state)
        self.policy.generator.set_state(state["acting"])
        if self.self_play is not None:
            self.self_play.load_state_dict(state[SELF_PLAY])
        if fits:
            self._restore_steps(changed, file.with_suffix(""))

    def _rank_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return rank_state(state, self.trainer.algorithm.generators())

    # Initializing and resuming --------------------------------------------------------------------------

    def restore(self) -> None:
        """Load the checkpoint that the run resumes, or the weights that it starts from.

        Raises:
            CheckpointError: weights are missing or do not fit.
        """
        if distributed.rank():  # `synchronize` follows
            return
        if self.run.resume and self.checkpoints.any_saved:
            self._resume()
            return
        if self.run.resume:
            logger.warning("%s: the run had saved no checkpoint yet; training starts from step 0.", self.name)
        start, init_path = self.run.initialize_from, self.settings.init_path
        if self.run.training and init_path is None and start is not None and lacks(start, self.name):
            # Those that are listed were looked for before the run.
            logger.warning("%s: %s has no such behavior; it starts with random weights.", self.name, start)
            return
        path = initial_checkpoint(self.name, init_path, start)
        if path is not None:
            start_from(path, self.trainer, self._description())
            logger.info("%s: starting training from step 0 with the weights of %s.", self.name, path)
        elif not self.run.training:
            logger.warning(
                "%s: there are no weights to load; it acts with random ones. Give the trained run's "
                "--run-id with --resume, or --initialize-from.",
                self.name,
            )

    def _resume(self) -> None:
        state = self.checkpoints.load()
        self._require_same_command(state)
        changed = self._changed_settings(state.get(BRAIN))
        misfits = self._unfit(state)
        if misfits or refused(changed, misfits):
            raise self._mismatch_error(changed, misfits)
        try:
            self.trainer.load_state_dict(state)
            self._compares_groups = self.self_play is None and self.trainer.episodes.history.by_groups
            self.policy.generator.set_state(state["acting"])
            if self.self_play is not None:
                self._resume_self_play(self.self_play, state)
            self.evaluation_schedule.restore(self.trainer.step, state.get("test_due"), state.get("last_test"))
        except MISFITS as error:
            cause = f"{type(error).__name__}: {error}".splitlines()[0]
            raise self._mismatch_error(changed, [cause]) from error
        for change in changed:
            if change.rule.resumed in (Resumed.WARNED, Resumed.UNUSED):
                logger.warning("%s: %s: %s.", self.name, change, change.rule.why)
        if self.run.training:
            self._restore_steps(changed, self.checkpoints.folder)
            self.checkpoints.best.resume(self.trainer.step, state.get("judged"))
            evaluated = "test_due" in state
            if self.evaluation_schedule.enabled != evaluated:  # rewards of evaluations do not compare
                self.checkpoints.best.reset()
        logger.info("%s: resuming training from step %d.", self.name, self.trainer.step)
        if self.run.training and not self.trainer.should_still_train:
            self._warn_nothing_left()

    def _require_same_command(self, state: Mapping[str, Any]) -> None:
        """Refuse to go on with a run of `lanista clone` in an environment, and the reverse."""
        cloned = DEMONSTRATIONS in state
        if cloned is not self.trainer.from_demonstrations:
            run = self.run.folder.name
            made, resumed = ("lanista clone", "lanista-learn")[:: 1 if cloned else -1]
            raise CheckpointError(
                f"{self.name}: the run {run} was made by {made}, and {resumed} cannot resume it. Begin a new "
                f"run with its weights: --run-id NEW --initialize-from {run}."
            )

    def _changed_settings(self, saved: Any) -> list[Change]:
        """What the checkpoint depends on that has changed since it was saved."""
        is_old = not (isinstance(saved, Mapping) and SETTINGS in saved)
        try:
            written = recorded_in(self.run.recorded, self.name, self.settings) if is_old else {}
            return changed_settings(saved, self._description(), written)
        except MISFITS as error:
            raise CheckpointError(
                f"{self.name}: the saved run cannot be resumed: the description of its network in the "
                f"checkpoint ({BRAIN!r}) is not what it should be ({type(error).__name__}: {error}). Restore "
                f"the file from a copy, or begin a new run: --initialize-from {self.run.folder.name}."
            ) from error

    def _unfit(self, state: Mapping[str, Any]) -> list[str]:
        """The parts of a checkpoint whose weights do not fit the behavior's networks, with the reasons."""
        parts = unfit(self.trainer.algorithm.modules(), state)
        for name, signal in self.trainer.learned.items():
            if isinstance(signal, NetworkSignal):
                saved = state.get(f"signal:{name}")
                found = unfit(signal.networks, saved if isinstance(saved, Mapping) else {})
                parts += [f"signal:{name}.{part}" for part in found]
        return parts

    def _restore_steps(self, changed: Sequence[Change], folder: Path) -> None:
        """Load the steps beside a checkpoint in `folder`, and drop those that do not fit changed settings."""
        dropped, why = self.trainer.drop_unfit_steps(changed)
        if dropped:
            logger.warning(
                "%s: %s steps that waited for the next update are dropped: %s.",
                self.name,
                f"{dropped:,}",
                why,
            )
        self.trainer.load_beside(folder, changed)

    def _resume_self_play(self, self_play: SelfPlayManager, state: Mapping[str, Any]) -> None:
        """Restore the opponents; only the rating if the checkpoint has none."""
        if SELF_PLAY in state:
            self_play.load_state_dict(state[SELF_PLAY])
            return
        elo = self.run.status.get(self.name, ELO)
        if isinstance(elo, (int, float)):
            self_play.pool.reset_ratings(float(elo))  # all that a run of ML-Agents leaves of its self-play

    def _warn_nothing_left(self) -> None:
        """Warn why a resumed run has nothing left to train."""
        key, value = self.trainer.limit
        path = typed([dotted(("behaviors", self.name, *key.split(".")))])
        logger.warning(
            "%s: has reached %s (%s): nothing is left to train. To continue, raise it with --set %s=...",
            self.name,
            key,
            value,
            path,
        )

    def _mismatch_error(self, changed: Sequence[Change], misfits: Sequence[str]) -> CheckpointError:
        """The error for an intact checkpoint of another network or program; `misfits`: of which parts."""
        causes = ", ".join(map(str, refused(changed, misfits)))
        if causes:
            run = self.run.folder.name
            return CheckpointError(
                f"{self.name}: the saved run cannot be resumed: {causes}. Set that back, or begin a new run: "
                f"--run-id NEW, with --initialize-from {run} for the weights that fit."
            )
        since = f"Since then {', '.join(map(str, changed[:8]))}. " if changed else ""
        return CheckpointError(
            f"{self.name}: the saved run cannot be resumed, because its checkpoint does not fit: "
            f"{misfits[0].rstrip('.')}. {since}Use the settings that it was made with (network_settings, "
            "reward_signals and trainer_type; they are in its configuration.yaml) and an environment with "
            "the same observations and actions."
        )

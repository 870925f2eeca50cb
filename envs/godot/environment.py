"""A Godot game as a BaseEnv."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from mlagents_envs.base_env import ActionTuple, BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

from ..base import BehaviorSteps, EngineStatistics
from ..engines.connection import EngineConnection
from ..engines.environment import Answer, EngineEnvironment
from ..engines.options import UNCHANGED, Connect, EngineOptions
from ..errors import RefusedByAddonError, WireError
from ..images import Images
from ..side_channels import Parameters, SideChannel
from ..validation import NonFinitePolicy
from .launch import launch
from .messages import make_messages, parse_message

logger = logging.getLogger(__name__)

_REFUSED = re.compile(r"^(?!.*WARNING).*\bLanista: (.+)$", re.MULTILINE)
"""What the addon prints, as an error of Godot's, before it ends a game with status 1."""


@dataclass(frozen=True, slots=True)
class GodotMessage:
    """The agents of one message."""

    steps: dict[str, BehaviorSteps]
    done: ClassVar[bool] = True

    def result(self) -> GodotMessage:
        """Itself."""
        return self


class GodotEnvironment(EngineEnvironment[GodotMessage]):
    """A Godot game and its agents, launched or met in the editor.

    It speaks with the plugin godot_rl_agents, and with Lanista's addon, which the game's answer tells apart.

    Args:
        path: `godot:PATH` of an exported game or of a project's folder, with options as in
            `godot:PATH?scene=res://train.tscn&action_repeat=4`; `godot:` alone waits for the editor.
        worker_id: Which of several environments this is; added to the port, and part of the log's name.
        base_port: The port of worker 0. Without it the editor gets 11008, and a game the first free port
            from 11009 + worker_id on.
        seed: For the game's random numbers.
        no_graphics: Launch the game without a window, and without cameras.
        real_time: Let the game run as fast as a player would see it, instead of as fast as it can.
        timeout_wait: Seconds that the game has for its start and for each answer.
        additional_args: More arguments for the game.
        log_folder: Where the game's output is written, as `Player-<worker_id>.log`; made if it is missing.
        listen: The address on which the game calls; `localhost` is reachable from this machine alone, and
            always listened on as well.
        allow: Networks (CIDR) from which it may call besides this machine. Those that contain 127.0.0.1 let
            any program of this machine call, not only the one that was launched.
        non_finite: What to do about NaN and infinities, `stop` or `zero`; None lets them pass.
        engine_name: The environment's name in messages.
        images: The type in which `get_steps` returns images: `float32` in 0 to 1, or `uint8`.
        connect: Connects to a game that was started elsewhere, in place of `path` and all options of its
            launch; its argument is to be called when the game's process ends, if that can be known.

    Raises:
        ValueError: `non_finite` is none of these, or `allow` has what is no network.
        UnityEnvironmentException: There is no such game, project or engine; or the game ended.
        UnityWorkerInUseException: The port is taken.
        UnityTimeOutException: The game did not connect in time.
        UnityCommunicationException: What the game sent cannot be read.
    """

    def __init__(
        self,
        path: str,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,
        *,
        real_time: bool = False,
        timeout_wait: float = 60,
        additional_args: Sequence[str] | None = None,
        log_folder: str | Path | None = None,
        listen: str = "localhost",
        allow: Sequence[str] = (),
        non_finite: str | None = NonFinitePolicy.STOP.value,
        engine_name: str | None = None,
        images: Images = "float32",
        connect: Connect | None = None,
    ) -> None:
        options = EngineOptions.of(
            path=path,
            worker_id=worker_id,
            base_port=base_port,
            seed=seed,
            no_graphics=no_graphics,
            configuration=UNCHANGED._replace(time_scale=1.0 if real_time else None),
            timeout_wait=timeout_wait,
            additional_args=additional_args,
            log_folder=log_folder,
            listen=listen,
            allow=allow,
            non_finite=non_finite,
            engine_name=engine_name,
            images=images,
            connect=connect,
        )
        self._open(options, ())

    def _open(self, options: EngineOptions, side_channels: Sequence[SideChannel]) -> None:
        self.specs: dict[str, BehaviorSpec] = {}
        super().__init__(options.name, options.timeout_wait, self.specs, options.non_finite)
        self.worker_id = options.worker_id
        self._images = options.images
        self._parameters = Parameters()
        self._changed: set[str] = set()
        self._connect(options.connect or partial(launch, options), self._greet)

    def _greet(self, connection: EngineConnection) -> None:
        """Read what the game tells of its agents. It was asked for that when it called."""
        info = parse_message(self._await_message(connection), self.name)
        try:
            self._messages = make_messages(info, self.name, self._images)
        except WireError as error:
            raise self._with_script_errors(error, connection) from error
        self.specs.update(self._messages.specs)
        connection.stage = self.terms.idle
        if "lanista" in info:
            plugin = f"Lanista's addon {info.get('addon_version', '')}"
        else:
            plugin = "godot_rl_agents"
            self._warn_of_another_version(connection.output())
        logger.info("Connected to a Godot game with %s", plugin)

    def _warn_of_another_version(self, output: str) -> None:
        """The plugin compares versions, and says so in its log alone."""
        mismatch = re.search(r"^.*mismatch.*$", output, re.MULTILINE)
        if mismatch is not None:
            logger.warning(
                "%s: The game's plugin speaks another version of the protocol (%s); where something is "
                "amiss, update the plugin to godot_rl_agents 0.8.",
                self.name,
                mismatch[0].strip(),
            )

    def _encode_reset(self) -> bytes:
        self._changed.update(self._parameters.sampled)
        return self._messages.encode_reset(self._take_parameters())

    def _encode_step(self, actions: Mapping[str, ActionTuple]) -> bytes:
        return self._messages.encode_step(actions, self._take_parameters())

    def _read(self, data: bytes) -> Answer[GodotMessage] | None:
        message = parse_message(data, self.name)
        try:
            reply = self._messages.answer(message)
            if reply is None:
                return GodotMessage(self._messages.read(message))
        except WireError as error:
            raise self._with_script_errors(error, self._connection) from error
        self._connection.reply(reply)
        return None

    def _check(self, message: GodotMessage) -> None:
        """Behaviors that were described in it are known from now on."""
        if len(self._messages.specs) > len(self.specs):
            self.specs.update(self._messages.specs)
        if self._parameters.sampled and any(len(terminals) for _, terminals in message.steps.values()):
            self._changed.update(self._parameters.sampled)

    def statistics(self) -> EngineStatistics:
        """What the game's code has reported since the last call; only Lanista's addon can."""
        return self._messages.take_statistics()

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters; they arrive with the next step or reset.

        Args:
            parameters: Numbers, or samplers as in the configuration, of which a value is drawn for every
                reset, and whenever an episode has ended.

        Raises:
            UnityEnvironmentException: The game's plugin is godot_rl_agents, which takes none.
        """
        if parameters and not self._messages.takes_parameters:
            raise UnityEnvironmentException(
                f"{self.name}: the plugin godot_rl_agents takes no environment parameters, and "
                f"{', '.join(parameters)} should be set. Use Lanista's addon in the game "
                f"(docs/godot-addon.md), "
                "or remove environment_parameters."
            )
        self._parameters.take(parameters)
        self._changed.update(parameters)

    def _take_parameters(self) -> dict[str, float]:
        changed, self._changed = self._changed, set()
        return {key: self._parameters.get(key, 0.0) for key in sorted(changed)}

    def _await_message(self, connection: EngineConnection) -> bytes:
        try:
            return super()._await_message(connection)
        except UnityEnvironmentException as error:
            found = _REFUSED.findall(str(error)) if connection.exit_code == 1 else []
            if not found:
                raise
            raise RefusedByAddonError(
                f"{self.name}: Lanista's addon has ended the game: {found[-1].rstrip('.')}.\n{error}"
            ) from error

    def _with_script_errors(self, error: WireError, connection: EngineConnection) -> WireError:
        """The error, with the last kind of error that the game has printed: it is often the cause."""
        printed = connection.errors()
        return type(error)(f"{error} The game wrote: {printed[-1]}") if printed else error

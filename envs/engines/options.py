"""How an environment is opened: one value, made once of settings, flags or keywords, and passed whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..images import Images
from ..side_channels.engine_configuration import EngineConfig
from ..validation import NonFinitePolicy
from .address import AllowedNetworks
from .connection import EngineConnection
from .engine_errors import EngineErrors

SCENE = "scene:"
"""The prefix of Lanista's own scenes."""

REGISTRY = "registry:"
"""The prefix of environments that a registry names."""

HOSTED = "hosted:"
"""The prefix of environments in Python that run as an engine: `hosted:gymnasium:CartPole-v1`."""

Connect = Callable[[Callable[[], None]], EngineConnection]
"""A function that connects to an engine; its argument is called when the engine's process ends."""

Transport = Literal["lean", "grpcio"]
"""The gRPC server that engines call: Lanista's own, or grpcio's."""

UNCHANGED = EngineConfig(None, None, None, None, None, None)
"""The configuration that leaves everything as the engine has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Which environment to open, and how. Each kind of environment reads what concerns it."""

    path: str | None = None
    """The environment to open, as after `--env`; None for the Unity Editor."""
    additional_args: tuple[str, ...] = ()
    """More arguments for the environment."""
    worker_id: int = 0
    """The number of this environment among several; added to the port, and part of the log's name."""
    base_port: int | None = None
    """The port of worker 0; None for the Editor's own, or the first free one."""
    seed: int = 0
    num_areas: int = 1
    """How many copies of its training area an environment makes, if it can; 1 leaves it to the arguments."""
    timeout_wait: float = 60
    """Seconds that the engine has for its start and for each answer."""
    no_graphics: bool = False
    """Whether the environment has no window."""
    no_graphics_monitor: bool = False
    """Whether the environment has no window unless it is worker 0."""
    configuration: EngineConfig = UNCHANGED
    """The engine's screen, quality and clocks; of a Godot game, whether it keeps to the clock."""
    log_folder: Path | None = None
    """The folder for the log of the engine's process; made if it is missing."""
    listen: str = "localhost"
    """The address on which the engine calls, besides those of this machine alone."""
    allow: tuple[str, ...] = ()
    """The networks (CIDR) from which the engine may call besides this machine."""
    transport: Transport = "lean"
    """The gRPC server that the engine calls."""
    connect: Connect | None = None
    """A function that connects to an engine started elsewhere, in place of launching one."""
    engine_name: str | None = None
    """The environment's name in messages; None: `environment 0`, with its worker ID."""
    errors: EngineErrors | None = None
    """Where the errors go that the engine prints; None: the environment has a place of its own."""
    non_finite: str | None = NonFinitePolicy.STOP.value
    """What an engine's environment does about NaN and infinities; None lets them pass."""
    images: Images = "float32"
    """The type in which `get_steps` returns images."""
    hosted: bool = False
    """Whether an environment in Python gets a process of its own, with a path that begins with `HOSTED`."""
    drawn: bool = False
    """Whether an environment that can be stepped in this process is, and has a method `draw`."""
    with_state: bool = False
    """Whether agents of an environment in Python observe the global state, see `make_source`."""
    self_play: bool | None = False
    """Whether one policy plays all seats of a turn-based game in Python, see `make_source`."""

    @classmethod
    def of(cls, **keywords: Any) -> EngineOptions:
        """Make options of keyword arguments as users give them: any sequences, and a folder as text.

        Raises:
            TypeError: There is no such option.
        """
        for key in ("additional_args", "allow"):
            if key in keywords:
                keywords[key] = tuple(keywords[key] or ())
        if keywords.get("log_folder") is not None:
            keywords["log_folder"] = Path(keywords["log_folder"])
        return cls(**keywords)

    @property
    def name(self) -> str:
        """The environment's name in messages."""
        return self.engine_name or f"environment {self.worker_id}"

    @property
    def is_scene(self) -> bool:
        """Whether the environment is one of Lanista's own scenes."""
        return self.path is not None and self.path.strip().startswith(SCENE)

    @property
    def windowless(self) -> bool:
        """Whether the environment is launched without a window."""
        return self.no_graphics or (self.no_graphics_monitor and self.worker_id != 0)

    @property
    def real_time(self) -> bool:
        """Whether a Godot game keeps to the clock."""
        return self.configuration.time_scale == 1

    @property
    def networks(self) -> AllowedNetworks:
        """The networks from which the engine may call besides this machine.

        Raises:
            ValueError: An entry of `allow` is not a network.
        """
        return AllowedNetworks.parse(self.allow)

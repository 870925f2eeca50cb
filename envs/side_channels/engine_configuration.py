"""Screen, quality and clocks of the engine."""

import uuid
from enum import IntEnum
from typing import NamedTuple

from mlagents_envs.exception import UnitySideChannelException

from .messages import OutgoingMessage
from .side_channel import OutgoingSideChannel


class EngineConfig(NamedTuple):
    """All engine settings that a trainer can change."""

    width: int | None
    """The width of the window, in pixels; only together with the height."""
    height: int | None
    quality_level: int | None
    """The index of one of the project's quality levels."""
    time_scale: float | None
    """Seconds of game time per second of real time; 20 in training."""
    target_frame_rate: int | None
    """Frames per second that the engine tries to draw; -1 for as many as it can."""
    capture_frame_rate: int | None
    """Frames per second of game time, however long they take to draw; 0 follows the clock."""

    @staticmethod
    def default_config() -> "EngineConfig":
        """The settings with which training starts."""
        return EngineConfig(80, 80, 1, 20.0, -1, 60)


class EngineConfigurationChannel(OutgoingSideChannel):
    """Sets the engine's screen, quality and clocks, one message for each setting."""

    class ConfigurationType(IntEnum):
        """The first number of a message: which setting it contains."""

        SCREEN_RESOLUTION = 0
        QUALITY_LEVEL = 1
        TIME_SCALE = 2
        TARGET_FRAME_RATE = 3
        CAPTURE_FRAME_RATE = 4

    def __init__(self) -> None:
        super().__init__(uuid.UUID("e951342c-4f7e-11ea-b238-784f4387d1f7"))

    def set_configuration_parameters(
        self,
        width: int | None = None,
        height: int | None = None,
        quality_level: int | None = None,
        time_scale: float | None = None,
        target_frame_rate: int | None = None,
        capture_frame_rate: int | None = None,
    ) -> None:
        """Set all parameters that are not None; for their meaning see the fields of `EngineConfig`.

        Raises:
            UnitySideChannelException: A width without a height, or the reverse. Nothing is sent then.
        """
        if (width is None) != (height is None):
            raise UnitySideChannelException(
                f"The screen resolution needs width and height together, but the width is {width} and the "
                f"height {height}."
            )
        kinds = self.ConfigurationType
        if width is not None and height is not None:
            self._send(kinds.SCREEN_RESOLUTION, int(width), int(height))
        if quality_level is not None:
            self._send(kinds.QUALITY_LEVEL, int(quality_level))
        if time_scale is not None:
            self._send(kinds.TIME_SCALE, float(time_scale))
        if target_frame_rate is not None:
            self._send(kinds.TARGET_FRAME_RATE, int(target_frame_rate))
        if capture_frame_rate is not None:
            self._send(kinds.CAPTURE_FRAME_RATE, int(capture_frame_rate))

    def set_configuration(self, config: EngineConfig) -> None:
        """Set everything that is not None in `config`."""
        self.set_configuration_parameters(**config._asdict())

    def _send(self, kind: ConfigurationType, *values: int | float) -> None:
        message = OutgoingMessage()
        message.write_int32(kind)
        for value in values:
            if isinstance(value, float):
                message.write_float32(value)
            else:
                message.write_int32(value)
        self.queue_setting(kind, message)

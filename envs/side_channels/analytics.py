"""The training analytics that ML-Agents' trainers send to Unity, for scripts that want to send them too.

Lanista registers none of these channels and sends none of these messages: in the Editor, Unity's package
forwards them to its usage statistics. Names that users chose are sent as keyed hashes.
"""

import hashlib
import hmac
import json
import platform
import uuid
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage

from ..protocol.handshake import PACKAGE_VERSION
from ..protocol.messages import TrainingBehaviorInitialized, TrainingEnvironmentInitialized
from .messages import OutgoingMessage
from .side_channel import OutgoingSideChannel

CHANNEL_ID = uuid.UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")
UNKNOWN = "Unknown"

_HASH_KEY = b"unity.ml-agents"
_NAMED_BY_USERS = frozenset({"behaviors", "environment_parameters"})
"""Mappings of a configuration whose keys are names."""
_NAMES_AND_PATHS = frozenset(
    {"run_id", "initialize_from", "results_dir", "env_path", "init_path", "demo_path", "name", "behavior"}
)
"""Keys of a configuration whose values are names or paths."""


class _AnalyticsChannel(OutgoingSideChannel):
    """Sends messages of the protocol, each packed with its type."""

    CHANNEL_ID = CHANNEL_ID

    def __init__(self) -> None:
        super().__init__(CHANNEL_ID)

    def _send(self, message: Any) -> None:
        packed = AnyMessage()
        packed.Pack(message)
        outgoing = OutgoingMessage()
        outgoing.set_raw_bytes(packed.SerializeToString())
        self.queue_message_to_send(outgoing)


class DefaultTrainingAnalyticsSideChannel(_AnalyticsChannel):
    """The analytics of a script: the versions in use."""

    def environment_initialized(self) -> None:
        """The engine is connected."""
        self._send(
            TrainingEnvironmentInitialized(
                mlagents_version="Custom",
                mlagents_envs_version=PACKAGE_VERSION,
                python_version=platform.python_version(),
                torch_version=UNKNOWN,
                torch_device_type=UNKNOWN,
            )
        )


class TrainingAnalyticsSideChannel(_AnalyticsChannel):
    """The analytics of a trainer: versions, settings, and each behavior whose training starts."""

    def environment_initialized(self, run_options: Mapping[str, Any], device: str = UNKNOWN) -> None:
        """A run has begun, with these settings (as in its configuration.yaml) on this device (`cpu`)."""
        self._send(
            TrainingEnvironmentInitialized(
                mlagents_version=PACKAGE_VERSION,
                mlagents_envs_version=PACKAGE_VERSION,
                python_version=platform.python_version(),
                torch_version=_torch_version(),
                torch_device_type=device,
                num_envs=_within(run_options, "env_settings").get("num_envs", 1),
                num_environment_parameters=len(_within(run_options, "environment_parameters")),
                run_options=json.dumps(anonymous(run_options)),
            )
        )

    def training_started(self, behavior_name: str, trainer_settings: Mapping[str, Any]) -> None:
        """A behavior will be trained, with these settings (as below its name in configuration.yaml)."""
        network = _within(trainer_settings, "network_settings")
        signals, units = _within(trainer_settings, "reward_signals"), network.get("hidden_units", 0)
        listed = isinstance(units, list)
        self._send(
            TrainingBehaviorInitialized(
                behavior_name=hashed(behavior_name),
                trainer_type=trainer_settings.get("trainer_type", ""),
                extrinsic_reward_enabled="extrinsic" in signals,
                gail_reward_enabled="gail" in signals,
                curiosity_reward_enabled="curiosity" in signals,
                rnd_reward_enabled="rnd" in signals,
                behavioral_cloning_enabled=trainer_settings.get("behavioral_cloning") is not None,
                recurrent_enabled=network.get("memory") is not None,
                visual_encoder=network.get("vis_encode_type", ""),
                num_network_layers=len(units) if listed else network.get("num_layers", 0),
                num_network_hidden_units=max(units) if listed else units,
                trainer_threaded=bool(trainer_settings.get("threaded")),
                self_play_enabled=trainer_settings.get("self_play") is not None,
                config=json.dumps(anonymous(trainer_settings)),
            )
        )


def hashed(text: str) -> str:
    """A name made unreadable, always in the same way: HMAC-SHA256 in hexadecimal digits."""
    return hmac.new(_HASH_KEY, text.encode(), hashlib.sha256).hexdigest()


def anonymous(settings: Any) -> Any:
    """A copy of settings in which names and paths are hashed, and arguments of the environment left out."""
    if isinstance(settings, (list, tuple)):
        return [anonymous(item) for item in settings]
    if not isinstance(settings, Mapping):
        return settings
    result: dict[str, Any] = {}
    for key, value in settings.items():
        if key in _NAMED_BY_USERS and isinstance(value, Mapping):
            result[key] = {hashed(name): anonymous(item) for name, item in value.items()}
        elif key in _NAMES_AND_PATHS and isinstance(value, str):
            result[key] = hashed(value)
        else:
            result[key] = None if key == "env_args" else anonymous(value)
    return result


def _within(settings: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return settings.get(key) or {}


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return UNKNOWN

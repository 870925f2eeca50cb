"""The server of a run whose engines connect by themselves, as its settings describe it."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

from ...envs.base import BehaviorName
from ...envs.engines import ports
from ...envs.engines.address import AllowedNetworks, join_address, split_address
from ...envs.engines.connection import EngineConnection
from ...envs.engines.engine_errors import EngineErrors
from ...envs.engines.listening import listen
from ...envs.manager.manager import EnvManager
from ...envs.opening import open_environment
from ...envs.remote.handshake import AccessRules, AttachedEngine
from ...envs.remote.server import AttachServer, OnEngine
from ...envs.remote.source import AttachSource
from ...envs.remote.tls import (
    NoCryptographyError,
    file_fingerprint,
    require_cryptography,
    self_signed,
    server_context,
)
from ...envs.remote.tokens import VARIABLE, TokenError, find_token, write_token
from ...envs.validation import NonFinitePolicy
from ..runner.engine_options import engine_options
from ..settings.errors import Problem, TrainerConfigError
from ..settings.models.behavior import TrainerSettings
from ..settings.models.run import EnvironmentSettings
from ..settings.options import RunOptions
from ..utils.distributed import seed_of
from ..utils.errors import TrainerError

logger = logging.getLogger(__name__)

T = TypeVar("T")


def check_attaching(options: RunOptions) -> None:
    """Refuse settings with which the server could not work, before anything is written.

    Raises:
        TrainerConfigError: Settings conflict, or a file cannot be used.
        UnityEnvironmentException: The address cannot be listened on.
        PortInUseError: Another process listens there.
    """
    env = options.env_settings
    if options.repeatable:
        raise _wrong(
            "listen",
            f"found {env.listen} and --deterministic, which answers environments in their order; engines "
            "that come and go have none. For actions without chance, set network_settings.deterministic",
        )
    _check_credentials(env)
    for listener in _at_the_address(env, listen):
        listener.close()


def make_attach_server(env: EnvironmentSettings, on_engine: OnEngine) -> AttachServer:
    """The server, which listens but does not accept engines yet; logs which ones it will accept.

    Raises:
        TrainerConfigError, UnityEnvironmentException, PortInUseError: As `check_attaching`.
    """
    relays = _make_credentials(env)
    rules = AccessRules(AllowedNetworks.parse(env.allow or ()), relays.context)
    server = _at_the_address(
        env, lambda host, port: AttachServer(host, port, rules, token=relays.token, on_engine=on_engine)
    )
    _announce(env, server, rules, relays)
    return server


def make_attached(
    options: RunOptions, seed: int, *, spin: bool, errors: EngineErrors | None = None
) -> EnvManager:
    """The environments of a run whose engines run already and connect by themselves.

    Args:
        options: The run's.
        seed: The run's.
        spin: As for `EnvManager`.
        errors: Where errors go that are heard of the engines.
    """
    env, given = options.env_settings, engine_options(options, errors)

    def make(index: int, engine: AttachedEngine) -> BaseEnv:
        name = f"environment {index} ({engine.where})"

        def connect(on_exit: Callable[[], None]) -> EngineConnection:
            connection = engine.connection(name, given.timeout_wait)
            connection.introduction = []  # kept back: its behaviors may be refused
            return connection

        its = replace(
            given, path=engine.file_name, seed=seed_of(seed, index), engine_name=name, connect=connect
        )
        return open_environment(its)

    return EnvManager(
        None,
        env.num_envs,
        source=AttachSource(partial(make_attach_server, env), make, NewBehaviors(options).refusal),
        non_finite=NonFinitePolicy(env.non_finite),
        spin=spin,
    )


class NewBehaviors:
    """Decides whether an engine with a new behavior may join.

    A behavior that the configuration does not list, or that cannot be trained, is reported to the engine that
    has it; the run of the other engines continues. The first engine of a run ends it with an error instead.

    Args:
        options: The run's.
    """

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._tried: dict[str, tuple[BehaviorSpec, str | None]] = {}

    def refusal(self, behavior_id: str, spec: BehaviorSpec, among_others: bool) -> str | None:
        """Why an engine with this behavior cannot take part; None if it can."""
        options, name = self._options, BehaviorName.parse(behavior_id).name
        settings = options.behaviors.get(name, options.default_settings)
        if settings is None and options.file is not None:
            return (
                f"its behavior {name} is not in the configuration {options.file} (listed: "
                f"{', '.join(options.behaviors) or 'none'}); add an entry for it, or default_settings"
            )
        if not among_others:
            return None
        known, reason = self._tried.get(name, (None, None))
        if known != spec:
            # Torch is loaded in a run, but need not be for a check of the address.
            from ..checkpoints.run_folder import require_folder_name
            from ..trainer.factory import untrainable

            try:
                require_folder_name(name)
            except TrainerError as error:
                return str(error)
            reason = untrainable(spec, settings or TrainerSettings())
            self._tried[name] = spec, reason
        return None if reason is None else f"its behavior {name} cannot be trained: {reason}"


@dataclass(frozen=True)
class _Relays:
    """How relays are authenticated, and how they authenticate the server."""

    context: ssl.SSLContext | None = None
    """None if relays are not accepted."""
    fingerprint: str = ""
    token: str | None = field(default=None, repr=False)


def _check_credentials(env: EnvironmentSettings) -> None:
    """Check what `_make_credentials` needs, without creating anything."""
    token = _token(env)
    if token is None and env.token_file is None:
        if env.tls_cert is not None:
            raise _wrong(
                "tls_cert",
                f"found {env.tls_cert}, and no token for relays, which it would be for: give --token-file "
                f"too, or set {VARIABLE}",
            )
        return
    if token is None and not (folder := Path(str(env.token_file)).expanduser().parent).is_dir():
        raise _wrong("token_file", f"found {env.token_file}; there is no folder {folder} to make it in")
    if env.tls_cert is not None:
        _load_certificate(env, env.tls_cert)
        return
    try:
        require_cryptography()
    except NoCryptographyError as error:
        raise _wrong("token_file", str(error)) from error


def _make_credentials(env: EnvironmentSettings) -> _Relays:
    token = _token(env)
    if token is None:
        if env.token_file is None:
            return _Relays()
        try:
            token = write_token(env.token_file)
        except TokenError as error:
            raise _wrong("token_file", str(error)) from error
        logger.info("A token for relays was made: %s (of mode 0600).", env.token_file)
    if env.tls_cert is not None:
        return _Relays(*_load_certificate(env, env.tls_cert), token)
    return _Relays(*self_signed(split_address(env.listen)[0]), token)


def _token(env: EnvironmentSettings) -> str | None:
    try:
        return find_token(env.token_file, os.environ)
    except TokenError as error:
        raise _wrong("token_file", str(error)) from error


def _load_certificate(env: EnvironmentSettings, certificate: str) -> tuple[ssl.SSLContext, str]:
    try:
        return server_context(certificate, env.tls_key), file_fingerprint(certificate)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        if isinstance(error, ssl.SSLError):
            known = error.reason is not None and error.reason != "PEM_LIB"
            cause = (
                str(error.reason).replace("_", " ").lower() if known else "it is no certificate with its key"
            )
        key = "" if env.tls_key is None else f" with the key {env.tls_key}"
        raise _wrong(
            "tls_cert",
            f"found {certificate}{key}, which cannot be used: {cause}. A PEM "
            "file with the certificate is expected, and its private key, without a password, in the same "
            "file or in tls_key (--tls-key)",
        ) from error


def _at_the_address(env: EnvironmentSettings, listens: Callable[[str, int], T]) -> T:
    host, port = split_address(env.listen)
    try:
        return ports.claim(
            partial(listens, host),
            port or 0,
            search=False,
            remedy="End it, or choose another port in listen (--listen).",
        )
    except OSError as error:
        raise UnityEnvironmentException(
            f"cannot listen on the address {env.listen!r} (listen, --listen): {error.strerror or error}. "
            "Give localhost, an address of this machine, or 0.0.0.0 for all of them, each with a port."
        ) from error


def _announce(env: EnvironmentSettings, server: AttachServer, rules: AccessRules, relays: _Relays) -> None:
    host = split_address(env.listen)[0]
    logger.info("Engines of this machine take part by calling port %d of localhost.", server.port)
    if rules.networks.allowed:
        logger.info("So do engines from %s, in plain text and without authentication.", rules.networks)
    if relays.context is not None:
        shown = "--token-file FILE" if env.token_file is None else f"--token-file {env.token_file}"
        logger.info(
            "Engines on other machines take part through a relay next to them: "
            "lanista relay %s %s --fingerprint %s",
            join_address(host if _is_one_address(host) else "ADDRESS-OF-THIS-MACHINE", server.port),
            shown,
            relays.fingerprint,
        )
    elif not rules.networks.allowed and not _is_loopback(host):
        logger.warning(
            "No other machine's engines can connect: give --token-file for relays, or --allow for networks."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_one_address(host: str) -> bool:
    return host not in ("0.0.0.0", "::", "localhost")  # noqa: S104 (nothing is bound here)


def _wrong(key: str, message: str) -> TrainerConfigError:
    return TrainerConfigError([Problem(("env_settings", key), message)])

"""The settings of a run: its environments, engine, files and device, and which of them exclude each other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from ....envs.engines.address import AllowedNetworks, split_address
from ....envs.godot import is_godot, is_godot_editor
from ....envs.python import in_process
from ....envs.unity.names import is_unreal_editor
from ....envs.utils.file_names import refused_by_windows
from ..base import (
    Arguments,
    Flag,
    Integer,
    Number,
    Settings,
    Text,
    WireInteger,
    WireNumber,
    own,
    refuse,
    wrong,
)
from ..errors import Problem

WINDOWS = os.name == "nt"

DEVICE = r"(cpu|cuda|mps|xpu)(:[0-9]+)?"
"""What `torch_settings.device` takes."""
MOST_AREAS = 1_000_000
"""The most copies of its area that an environment is asked for: no machine holds more."""


class EnvironmentSettings(Settings):
    """The environments, where steps come from."""

    env_path: Text | None = None
    """A Unity executable, godot:PATH for a Godot project or game, unreal:PATH for a game of Unreal (godot: or
    unreal: alone waits for that engine's editor), scene:NAME for an embedded scene, registry:NAME for one
    that is downloaded, gymnasium:ID or pettingzoo:MODULE for an environment of Gymnasium or PettingZoo,
    python:MODULE:FUNCTION for what a function of your own makes. Not given: wait for the Unity Editor."""
    env_args: Arguments | None = None
    """Arguments for the environment itself. As a flag it must be the last: it takes the rest of the line."""
    base_port: Integer = Field(default=5005, ge=1, le=65535)
    """The port of the first environment; the others get the ports after it. The Unity Editor
    always uses 5004; if no other port is chosen, Unreal's editor uses 5004 too, and Godot's 11008."""
    num_envs: Integer = Field(default=1, ge=1)
    """Number of environments that run in parallel."""
    env_workers: Integer = own(0, ge=0)
    """Number of processes that each host one environment, for those in Python (gymnasium:, pettingzoo:,
    python:). 0: num_envs of them are stepped within the run's own process."""
    num_areas: Annotated[Integer, Field(le=MOST_AREAS)] = 1
    """Number of training areas that each environment is asked to make."""
    timeout_wait: Integer = Field(default=60, ge=1)
    """Seconds to wait for an environment to start or to answer; also for another process that learns for
    the run and shows no sign of life (at least 5)."""
    seed: Integer = Field(default=-1, ge=-1, le=2**31 - 1)
    """Seed of the run; environment k gets seed + k. -1: a random one."""
    max_lifetime_restarts: Integer = Field(default=10, ge=-1)
    """How often each environment may be restarted after a failure, in total. -1: no limit."""
    restarts_rate_limit_n: Integer = Field(default=1, ge=-1)
    """The same limit within one period of restarts_rate_limit_period_s. -1: no limit."""
    restarts_rate_limit_period_s: Integer = Field(default=60, ge=1)
    """Length of that period in seconds."""
    non_finite: Literal["stop", "drop", "zero"] = own("stop")
    """For NaN or infinite observations and rewards. stop: end the run, naming sensor and agent; drop: discard
    the agent's unfinished trajectory; zero: replace them by zero."""
    engine_errors: Literal["warn", "stop", "ignore"] = own("warn")
    """For errors that engines print, such as exceptions in a game's scripts. warn: tell the first of each
    kind, and count all; stop: end the run after the first, saved, with exit status 1; ignore: do not read
    what engines print."""
    listen: Text = own("localhost")
    """An address at which environments reach the trainer, in addition to localhost, which those on this
    machine use. localhost: this machine only. As ADDRESS:PORT (IPv6 in brackets), without --env: train on
    engines that already run and connect there by themselves; any number may come and go, and the run starts
    when num_envs have connected."""
    transport: Literal["lean", "grpcio"] = own("lean")
    """The gRPC server that environments connect to. lean: Lanista's own, which is faster; grpcio: for a proxy
    or an engine that needs a full gRPC server."""
    allow: Arguments | None = own(None)
    """Networks (CIDR) from which engines may connect in plain text to `listen`, in addition to this machine.
    127.0.0.1: any program of this machine may call in place of an engine that the trainer has started, as one
    in a container does. The flag takes one network and may be repeated."""
    token_file: Text | None = own(None)
    """The file with the token that `lanista relay` presents for engines on other machines; it is created if
    it does not exist. The variable LANISTA_TOKEN may hold the token instead. Without either, no relay is
    accepted."""
    tls_cert: Text | None = own(None)
    """The trainer's certificate for relays (PEM). Not given: one is generated for the run."""
    tls_key: Text | None = own(None)
    """The private key of tls_cert (PEM), if that file does not contain it."""
    ray: Text | None = own(None, min_length=1)
    """Run the environments on the nodes of a Ray cluster: auto for the one that this machine belongs to,
    HOST:PORT of its head, or local to try it on this machine."""
    ray_cpus: Number = own(1.0, gt=0)
    """CPUs that Ray reserves for each environment."""
    ray_listen: Text | None = own(None, min_length=1)
    """ADDRESS or ADDRESS:PORT of this machine at which the nodes reach the trainer. Not given: its address
    in the cluster, and any free port."""
    ray_wait: Integer = own(0, ge=0)
    """For a cluster that scales automatically: seconds to wait until it has room for all environments."""

    @field_validator("num_areas")
    @classmethod
    def _some_area(cls, value: int) -> int:
        if value < 1:
            raise wrong(f"found {value}; num_areas must be set to a positive number >= 1")
        return value

    @field_validator("listen")
    @classmethod
    def _an_address(cls, value: str) -> str:
        try:
            split_address(value)
        except ValueError as error:
            raise wrong(str(error)) from None
        return value

    @field_validator("allow")
    @classmethod
    def _networks(cls, value: list[str] | None) -> list[str] | None:
        try:
            AllowedNetworks.parse(value or ())
        except ValueError as error:
            raise wrong(str(error)) from None
        return value

    @model_validator(mode="after")
    def _engines_of_one_kind(self) -> EnvironmentSettings:
        problems = [*attach_problems(self), *cluster_problems(self), *hosting_problems(self)]
        problems += [*transport_problems(self), *godot_problems(self)]
        if problems:
            raise refuse(type(self).__name__, *problems)
        return self

    @property
    def environments(self) -> int:
        """How many environments the run steps, wherever that is."""
        return self.env_workers or self.num_envs

    @property
    def attaches(self) -> bool:
        """Whether engines connect by themselves."""
        return self.env_path is None and split_address(self.listen)[1] is not None

    @property
    def editor(self) -> bool:
        """Whether it is an editor that plays the game and calls: there is one."""
        if self.env_path is None:
            return not self.attaches
        return is_godot_editor(self.env_path) or is_unreal_editor(self.env_path)


class EngineSettings(Settings):
    """How the engine runs."""

    width: WireInteger = 84
    """Width of the window in pixels."""
    height: WireInteger = 84
    """Height of the window in pixels."""
    quality_level: WireInteger = 5
    """Unity's quality level."""
    time_scale: WireNumber = 20.0
    """How much faster than real time the engine may run. A frame, and so an Update() of Unity, then lasts
    time_scale / capture_frame_rate seconds of game time: 1/3 s with 20 and 60, 16.7 steps of physics."""
    target_frame_rate: WireInteger = -1
    """Target frame rate in frames per second. -1: as many as possible."""
    capture_frame_rate: WireInteger = 60
    """Frames per second: each lasts time_scale / capture_frame_rate seconds of game time. 0: as long as it
    really took, times time_scale."""
    no_graphics: Flag = False
    """Run without graphics. Camera observations are not available then."""
    no_graphics_monitor: Flag = False
    """Run without graphics, except the first environment."""


class CheckpointSettings(Settings):
    """The name of a run, what it starts from and where its files go."""

    run_id: Text = Field(default="ppo", min_length=1)
    """Name of the run; its results are written to a folder of this name."""
    initialize_from: Text | None = None
    """Start with the weights of another run: its run_id, its folder, or one checkpoint (.pt)."""
    load_model: Flag = False
    """Deprecated: use resume."""
    resume: Flag = False
    """Resume the run of this name."""
    force: Flag = False
    """Start over although a run of this name exists; the old one is set aside."""
    train_model: Flag = False
    """Deprecated, without effect: training is the default."""
    inference: Flag = False
    """Act without learning."""
    inference_steps: Integer | None = own(None, ge=1)
    """Agents' decisions of each behavior after which --inference ends by itself. Not given: it continues
    until it is stopped."""
    results_dir: Text = "results"
    """Folder that contains the runs' folders."""

    @field_validator("run_id")
    @classmethod
    def _within_the_results(cls, value: str) -> str:
        parts = re.split(r"[/\\]" if WINDOWS else "/", value)
        if any(part.strip() in ("", ".", "..") or not part.isprintable() for part in parts):
            raise wrong(
                f"found {value!r}; it names a folder within results_dir (--results-dir): give a name such as "
                "ball-1, without a slash at either end"
            )
        for cause in filter(None, map(refused_by_windows, parts if WINDOWS else [])):
            raise wrong(f"found {value!r}, which names a folder: {cause}")
        return value

    @model_validator(mode="after")
    def _steps_of_inference(self) -> CheckpointSettings:
        if self.inference_steps is not None and not self.inference:
            message = (
                f"found {self.inference_steps}, and no `inference` (--inference), which it belongs to. How "
                "long a behavior is trained is said by its max_steps"
            )
            raise self._refusal("inference_steps", message)
        return self

    @property
    def write_path(self) -> str:
        """The run's folder."""
        return str(Path(self.results_dir) / self.run_id)

    @property
    def maybe_init_path(self) -> str | None:
        """The folder of the run to start from, if any."""
        return (
            str(Path(self.results_dir) / self.initialize_from) if self.initialize_from is not None else None
        )

    @property
    def run_logs_dir(self) -> str:
        """The folder of the run's logs; here for scripts that read ML-Agents' settings object."""
        return str(Path(self.write_path) / "run_logs")


class TorchSettings(Settings):
    """Where torch computes."""

    device: Text | None = None
    """cpu, cuda, cuda:1, mps. Not given: cuda if there is one, else cpu."""
    num_threads: Integer | None = own(None, ge=1, le=1024)
    """CPU threads of a policy update. Not given: 1 if minibatches are small (with a memory: single steps of
    their sequences) and networks read vectors alone, else as many as there are processors, at most 4; 1 with
    --deterministic. With threaded: true one less, or 1 in a thread. Acting uses one."""
    learners: Integer = own(1, ge=1, le=64)
    """Processes that train together: the environments are divided among them, and gradients are averaged in
    every optimizer step. With cuda each uses a GPU of its own. See docs/learners.md."""
    precision: Literal["float32", "bf16"] = own("float32")
    """The number format of a policy update's matrix products. bf16 is faster for wide networks if the device
    supports it, and less exact; acting and brains stay in float32."""

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(DEVICE, value):
            raise wrong(f"found {value!r}; expected cpu, cuda, cuda:N, mps or xpu")
        return value


FOR_RELAYS = ("token_file", "tls_cert", "tls_key")
OF_THE_CLUSTER = ("ray_cpus", "ray_listen", "ray_wait")


def _problem(env: EnvironmentSettings, key: str, why: str) -> Problem:
    """That the value of `key` was found; `why` is the rest of the sentence."""
    value = getattr(env, key)
    shown = ", ".join(value) if isinstance(value, list) else value
    return Problem((key,), f"found {shown}{why}")


def attach_problems(env: EnvironmentSettings) -> Iterator[Problem]:
    """What is wrong with the settings about engines that connect by themselves."""
    host, port = split_address(env.listen)
    if port is None:
        why = (
            ", and no port in `listen`: this is about engines that run already and connect by themselves. "
            f"Give --listen ADDRESS:PORT too, such as {host}:5004"
        )
        if env.allow is not None and not _may_be_called(env, host):
            unreached = (
                ", and the nodes of a cluster take calls from 127.0.0.1 alone: name that, or leave this out"
                if env.ray is not None
                else f", and listen (--listen) is {host}, which no other machine reaches: give an address of "
                "this one too, such as --listen 0.0.0.0"
            )
            yield _problem(env, "allow", why if env.env_path is None else unreached)
        for key in FOR_RELAYS:
            if getattr(env, key) is not None:
                yield _problem(env, key, why)
    elif env.env_path is not None:
        why = (
            "; an address with a port is where engines connect that run already, and with env_path (--env) "
            f"the trainer starts them itself. Leave one of them out, or give --listen {host} and --base-port"
        )
        yield _problem(env, "listen", why)
    if env.tls_key is not None and env.tls_cert is None:
        why = ", and no tls_cert (--tls-cert), the certificate that it belongs to"
        yield _problem(env, "tls_key", why)
    if env.num_envs > 1 and env.editor:
        why = (
            "; num_envs must be 1 if env_path is not set: there is one Editor. Name an executable or a scene "
            "with --env, or give --listen ADDRESS:PORT for engines that run already."
        )
        if env.env_path is not None:
            why = f"; {env.env_path} is the game that the one editor plays. Name a project or a game after it"
        yield _problem(env, "num_envs", why)


def _may_be_called(env: EnvironmentSettings, host: str) -> bool:
    """Whether an engine that the trainer starts, or the Editor, can call from a network of `allow`."""
    networks = AllowedNetworks.parse(env.allow or ())
    own = any(networks.names(loopback) for loopback in ("127.0.0.1", "::1"))
    return own or (env.ray is None and host != "localhost")


def cluster_problems(env: EnvironmentSettings) -> Iterator[Problem]:
    """What is wrong with the settings about a cluster."""
    if env.ray is None:
        for key in OF_THE_CLUSTER:
            if getattr(env, key) != type(env).model_fields[key].default:
                yield _problem(env, key, ", and no `ray` (--ray), the cluster that it is about")
    elif env.env_path is None or env.editor:
        why = "; the nodes of a cluster start environments, and no env_path (--env) says which: name an "
        yield _problem(env, "ray", f"{why}executable or a scene")
    elif env.listen != "localhost" and not env.attaches:  # with a port it does not go with env_path anyway
        why = (
            "; the nodes of a cluster reach the trainer at the address that ray_listen (--ray-listen) names: "
            "leave this one out"
        )
        yield _problem(env, "listen", why)


def transport_problems(env: EnvironmentSettings) -> Iterator[Problem]:
    """What is wrong with the choice of the gRPC server."""
    if env.transport == "lean":
        return
    if env.attaches or env.ray is not None:
        why = (
            f", and {'listen has a port' if env.attaches else 'ray is given'}: connections of engines on "
            "other machines are checked before a gRPC server gets them, which only the lean one allows. "
            "Leave this key out"
        )
        yield _problem(env, "transport", why)
    elif is_godot(env.env_path):
        yield _problem(env, "transport", "; Godot games do not speak gRPC: leave this key out")
    elif in_process(env.env_path) and not env.env_workers:
        why = f"; {env.env_path} is stepped in this process, without gRPC. Leave this key out, or give "
        yield _problem(env, "transport", f"{why}env_workers")


def godot_problems(env: EnvironmentSettings) -> Iterator[Problem]:
    """What Godot games do not have."""
    if not is_godot(env.env_path):
        return
    if env.num_areas > 1:
        why = "; a Godot game does not copy its training area: put several into the scene, or give num_envs"
        yield _problem(env, "num_areas", why)


def hosting_problems(env: EnvironmentSettings) -> Iterator[Problem]:
    """What is wrong with the settings about hosted environments."""
    if not env.env_workers:
        return
    if not in_process(env.env_path):
        several = f"num_envs: {env.env_workers} (--num-envs) starts so many"
        unhosted = f"{env.env_path}, which is a process of its own anyway; {several}"
        why = "no env_path (--env)" if env.env_path is None else unhosted
        hosted = "gymnasium:ID, pettingzoo:MODULE and python:MODULE:FUNCTION"
        yield _problem(env, "env_workers", f", and {why}. Hosted are {hosted}")
    elif env.num_envs > 1:
        why = (
            f", and num_envs {env.num_envs}: give env_workers for environments in processes of their own, or "
            "num_envs for environments within the run's process, not both"
        )
        yield _problem(env, "env_workers", why)

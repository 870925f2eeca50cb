"""Nothing in the core waits for ever: every wait has a limit, or stands here with what ends it."""

import ast
from pathlib import Path

import pytest
from house import House
from waiting import Waits

HOUSE = House(Path(__file__).parents[1])
FOUND = {HOUSE.module(path): Waits(HOUSE.trees[path]) for path in HOUSE.files if path not in HOUSE.tools}
"""What waits, by module."""

NOT_BLOCKING = "the socket does not block"
DECODED = "images are decoded in this thread too, and by others in no time that an engine could stretch"
OWN_THREAD = "a thread of its own, which nothing waits for without a limit"
OF_AN_ENGINE = "the other side, an engine's, whose trainer's end breaks the connection; the reaper ends it"
SERVES = "`stop`, or Ctrl-C: a command that serves a page does nothing else"
CALLS = {
    "envs.demonstrations.demonstration _decode: "
    "ImageDecodeJob(columns.images, ImageCache(), None).result()": DECODED,
    "envs.engines.environment EngineEnvironment.receive: pending.result()": DECODED,
    "envs.engines.callers Callers._hear: caller.connection.recv(_READ)": NOT_BLOCKING,
    "envs.engines.callers Callers.wait: self._wakeup_receiver.recv(_READ)": NOT_BLOCKING,
    "envs.engines.listening accept: listener.accept()": "a selector has told of the client",
    "envs.engines.listening first_byte: connection.recv(1, socket.MSG_PEEK)": NOT_BLOCKING,
    "envs.engines.process EngineProcess._read: os.read(stream.fileno(), 65536)": OWN_THREAD,
    "envs.engines.process EngineProcess._wait: os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)": (
        OWN_THREAD
    ),
    "envs.engines.process EngineProcess._wait: self._process.wait()": OWN_THREAD,
    "envs.engines.selector EventSelector._take_posted: self._wakeup_reader.recv(4096)": NOT_BLOCKING,
    "envs.engines.socket_groups SocketGroups.select: (used or self._groups)[0].select(timeout)": (
        "its timeout, as that of any selector: those who call it have one"
    ),
    "envs.godot.session GodotClient.read: self.stream.recv(_READ)": NOT_BLOCKING,
    "envs.grpc.client EngineEndpoint._exchange: connection.sendall(out)": OF_AN_ENGINE,
    "envs.grpc.client EngineEndpoint._exchange: "
    "self._spin_wait.wait(partial(_receive, connection), math.inf)": OF_AN_ENGINE,
    "envs.grpc.client _receive: connection.recv(_READ)": OF_AN_ENGINE,
    "envs.grpc.client _receive: connection.recv(_READ, _DONT_WAIT)": OF_AN_ENGINE,
    "envs.grpc.grpcio_server GrpcioSession._exchange: self._awaited.wait()": (
        "a thread of grpcio's, which the trainer's first look at the port, or the end of the server ends"
    ),
    "envs.grpc.grpcio_server GrpcioSession._exchange: call.ended.wait()": (
        "a thread of grpcio's, which the answer, the end of the client, or that of the server ends"
    ),
    "envs.grpc.grpcio_server _DaemonThreads._run: self._jobs.get()": OWN_THREAD,
    "envs.grpc.grpcio_server GrpcioSession.pump: self._wakeup_reader.recv(4096)": NOT_BLOCKING,
    "envs.grpc.server Peer._receive: self.stream.recv(_READ)": NOT_BLOCKING,
    "envs.grpc.server Peer._receive_greeting: self.stream.recv(size)": NOT_BLOCKING,
    "envs.manager.worker EnvLauncher._run: self._jobs.get()": OWN_THREAD,
    "envs.protocol.decoder Decoder.decode: self.start(data).result()": DECODED,
    "envs.protocol.decoder PendingMessage.result: self.job.result()": DECODED,
    "envs.protocol.images ImageDecodeJob.result: self._finished.wait()": DECODED,
    "trainers.checkpoints.run_folder _lock: lock.acquire()": "a ProcessLock says at once whether it is free",
    "trainers.cli.runs.record is_locked: lock.acquire()": "a ProcessLock says at once whether it is free",
    "trainers.cli.page_server PageServer._answer: connection.sendall(answer)": "the connection has a limit",
    "trainers.cli.page_server PageServer.serve: self._callers.wait()": SERVES,
    "trainers.runner.learner_program main: listener.accept()": (
        "its run, which has started it to connect; where that has died, the reaper ends this process"
    ),
    "trainers.trainer.on_policy OnPolicyTrainer.finish_update: self.learner_process.result()": (
        "it looks whether the process lives, and whether the run is to end"
    ),
    "trainers.trainer.thread LearnerThread._learn: self._may_learn.wait()": (
        "who pauses a thread lets it go on, whatever happens meanwhile"
    ),
    "trainers.utils.channel Channel.receive: self._connection.recv_bytes()": (
        "the run has looked for the message before; for its learner the end of the run ends the connection"
    ),
    "trainers.utils.distributed _gpus_are_done: work.wait()": "it is over",
    "trainers.utils.distributed _is_over: work.wait()": "it is over",
    "trainers.utils.trust _asked: sys.stdin.readline()": "a user at the terminal, who is asked",
}
"""Calls without a limit: the module, the function, the call, and what ends it."""

DEADLINE = "a deadline"
BY_ENGINE = "each message has the engine's timeout"
BYTES = "there are no more bytes, and the socket does not block"
ASKS_MANAGER = "the limits of engines, or `should_stop`"
OTHERS = "the others' signs of life, and their limits once the run is to end"
LOOPS = {
    "agent_processor.queues AgentManagerQueue.put": "it asks whether the run is to end",
    "envs.engines.connection EngineConnection._quit": DEADLINE,
    "envs.engines.connection EngineConnection.receive": DEADLINE,
    "envs.engines.line_scanner LineScanner._read_all": "there are no more lines; it only lets others go on",
    "envs.engines.listener _ListenerThread._run": OWN_THREAD,
    "envs.engines.process EngineProcess._read": OWN_THREAD,
    "envs.engines.selector EventSelector._take_posted": BYTES,
    "envs.engines.session SocketSession._wait": DEADLINE,
    "envs.engines.socket_groups SocketGroups.select": DEADLINE,
    "envs.godot.session GodotClient.read": BYTES,
    "envs.godot.session GodotSession.close": DEADLINE,
    "envs.grpc.client EngineEndpoint._exchange": OF_AN_ENGINE,
    "envs.grpc.client EngineEndpoint.connect": DEADLINE,
    "envs.grpc.grpcio_server GrpcioSession.pump": BYTES,
    "envs.grpc.server Peer._receive": BYTES,
    "envs.grpc.server ServerSession._send_goaway": DEADLINE,
    "envs.manager.manager EnvManager._await_enough": "`should_stop`",
    "envs.manager.manager EnvManager._launch_all": ASKS_MANAGER,
    "envs.manager.manager EnvManager.reset": ASKS_MANAGER,
    "envs.manager.manager EnvManager.wait": "its timeout, without which the core does not call it",
    "envs.python.call_watch CallWatch._watch": OWN_THREAD,
    "envs.unity.handshake Handshake._attempt": BY_ENGINE,
    "trainers.cli.play.film Window.add": "a user who opens the page, or Ctrl-C: both are said",
    "trainers.cli.page_server PageServer.serve": SERVES,
    "trainers.runner.controller TrainerController._train": "it is the run, which asks all the time",
    "trainers.runner.evaluation.rollout EvaluationRollout.run": "`should_stop`, and a limit of steps",
    "trainers.runner.learner_program serve": "the run's end of the connection, which its death closes too",
    "trainers.runner.ranks RankProcesses.await_ready": OTHERS,
    "trainers.runner.ranks RankProcesses.describe": DEADLINE,
    "trainers.trainer.learner_process LearnerProcess._connect": OTHERS,
    "trainers.trainer.learner_process LearnerProcess._receive": OTHERS,
    "trainers.trainer.thread LearnerThread._drain_until_stopped": "the run's end",
    "trainers.trainer.thread LearnerThread.pause": "the end of an update; a thread that has failed or ended",
    "trainers.trainer.thread LearnerThread._learn": "the run's end",
    "trainers.trainer.thread stop_all": "its timeout, or the end of an update; Ctrl-C is heard meanwhile",
    "trainers.utils.atomic_files _replace": DEADLINE,
    "trainers.utils.distributed _collective": OTHERS,
    "trainers.utils.distributed _gpus_are_done": DEADLINE,
    "trainers.utils.distributed _wait_beside": OTHERS,
    "trainers.utils.heartbeat Heartbeat.run": OWN_THREAD,
    "trainers.utils.heartbeat await_end": DEADLINE,
}
"""Loops around waits that have limits: the module, the function, and what ends them."""


def test_every_call_without_a_limit_is_known_with_what_ends_it():
    assert {f"{module} {wait}" for module, waits in FOUND.items() for wait in waits.endless} == CALLS.keys()


def test_every_loop_around_waits_is_known_with_what_ends_it():
    assert {f"{module} {name}" for module, waits in FOUND.items() for name in waits.loops} == LOOPS.keys()


def test_nothing_waits_while_it_holds_a_lock():
    assert [f"{module} {wait}" for module, waits in FOUND.items() for wait in waits.locked] == []


def waits_in(text: str) -> Waits:
    body = "\n".join(f"    {line}" for line in text.splitlines())
    return Waits(ast.parse(f"lock = Lock()\ndef f(a, late: float | None = None):\n{body}"))


@pytest.mark.parametrize(
    ("call", "endless"),
    [
        ("a.get()", True),
        ("a.get(True)", True),
        ("a.get(timeout=1)", False),
        ("a.get('key')", False),
        ("a.join()", True),
        ("a.join(late)", True),
        ("a.join(1.0)", False),
        ("', '.join(a)", False),
        ("os.path.join(a, a)", False),
        ("a.wait()", True),
        ("a.wait(None)", True),
        ("a.wait(math.inf)", True),
        ("a.wait(timeout=late)", True),
        ("a.wait(0.5)", False),
        ("a.wait_for(f)", True),
        ("a.wait_for(f, 2)", False),
        ("a.acquire()", True),
        ("a.acquire(blocking=False)", False),
        ("a.acquire(False)", False),
        ("a.acquire(timeout=1)", False),
        ("a.accept()", True),
        ("a.accept(b, c)", False),
        ("a.recv(1)", True),
        ("a.select()", True),
        ("a.select(0)", False),
        ("a.communicate()", True),
        ("a.communicate(timeout=2)", False),
        ("a.result()", True),
        ("a.result(3)", False),
        ("subprocess.run(a)", True),
        ("subprocess.run(a, timeout=3)", False),
        ("os.waitid(1, 2, 3)", True),
        ("input()", True),
    ],
)
def test_calls_without_a_limit_are_found(call, endless):
    assert [str(wait) for wait in waits_in(call).endless] == ([f"f: {call}"] if endless else [])


@pytest.mark.parametrize(
    ("text", "loops", "locked"),
    [
        ("while a:\n    time.sleep(1)", ["f"], []),
        ("while a:\n    a.pop()", [], []),
        ("while not a.wait(1):\n    pass", ["f"], []),
        ("while a:\n    while a:\n        a.receive()", ["f"], []),
        ("with lock:\n    a.wait(1)", [], ["f: a.wait(1)"]),
        ("with lock:\n    lock.wait(1)", [], []),
        ("with a:\n    a.b.wait(1)", [], []),
        ("for line in a.stdout:\n    pass", [], []),
    ],
)
def test_loops_around_waits_and_waits_under_locks_are_found(text, loops, locked):
    waits = waits_in(text)
    assert (waits.loops, [str(wait) for wait in waits.locked]) == (loops, locked)
    assert bool(waits.endless) is ("stdout" in text)

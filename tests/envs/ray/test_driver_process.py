"""The learner's end of the driver process, with small programs as drivers."""

import queue
import sys
import threading
import time

import pytest
from lanista.envs.errors import ClusterError, NoRoomError
from lanista.envs.ray.driver_process import CallFailedError, DriverProcess

TIMEOUT = 30.0
ECHO = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if call["do"] == "die":
        sys.exit("the head is gone")
    if call["do"] == "sleep":
        continue
    answers = {
        "echo": {"result": call["with"]},
        "fail": {"error": "it broke", "kind": "failed"},
        "babble": {"result": "went on"},
        "full": {"error": "no nodes", "kind": "no room"},
    }
    if call["do"] == "babble":
        print("no JSON")
        print("[]")
    print(json.dumps({"event": "heard", "key": call["do"]}))
    print(json.dumps({"id": call["id"], **answers[call["do"]]}), flush=True)
"""


@pytest.fixture
def events():
    return queue.SimpleQueue()


@pytest.fixture
def driver(events):
    driver = DriverProcess(events.put, [sys.executable, "-c", ECHO])
    yield driver
    driver.close()


def test_answers_and_events_arrive(driver, events):
    assert driver.call("echo", TIMEOUT, key="a", cpus=0.5) == {"key": "a", "cpus": 0.5}
    assert events.get(timeout=TIMEOUT) == {"event": "heard", "key": "echo"}


def test_errors_are_of_two_kinds(driver):
    with pytest.raises(CallFailedError, match="it broke"):
        driver.call("fail", TIMEOUT)
    with pytest.raises(NoRoomError, match="no nodes"):
        driver.call("full", TIMEOUT)


def test_an_invalid_line_does_not_stop_the_reader(driver, caplog):
    assert driver.call("babble", TIMEOUT) == "went on"
    assert "no JSON" in caplog.text


def test_an_event_handler_that_fails_does_not_stop_the_reader():
    def fail(event):
        if event["event"] == "heard":
            raise KeyError(event["key"])

    driver = DriverProcess(fail, [sys.executable, "-c", ECHO])
    assert driver.call("echo", TIMEOUT) == {}
    assert driver.call("echo", TIMEOUT) == {}
    driver.close()


class SlowlyReadDriver(DriverProcess):
    """Its output arrives, as on a busy machine, after its end was noticed."""

    def _read_stderr(self) -> None:
        time.sleep(0.3)
        super()._read_stderr()


@pytest.mark.parametrize("program", [ECHO, "raise SystemExit('the head is gone')"], ids=["called", "idle"])
def test_the_reason_of_its_end_is_read_before_it_is_reported(events, program):
    driver = SlowlyReadDriver(events.put, [sys.executable, "-c", program])
    with pytest.raises(ClusterError, match="the head is gone"):
        driver.call("die", TIMEOUT)
    driver.close()


def test_a_call_times_out_and_the_next_one_works(driver):
    with pytest.raises(TimeoutError):
        driver.call("sleep", 0.1)
    assert driver.call("echo", TIMEOUT) == {}, "it still answers"


def test_the_end_of_the_driver_fails_all_calls(driver, events):
    waiting = threading.Thread(target=lambda: events.put(_error(driver, "sleep")))
    waiting.start()
    with pytest.raises(ClusterError, match=r"Ray has ended its own process.*the head is gone"):
        driver.call("die", TIMEOUT)
    waiting.join(TIMEOUT)
    received = [events.get(timeout=TIMEOUT) for _ in range(2)]
    assert {"event": "end"} in received
    assert any(isinstance(each, ClusterError) for each in received)
    assert not driver.alive
    with pytest.raises(ClusterError):
        driver.call("echo", TIMEOUT)


def _error(driver, what):
    try:
        driver.call(what, TIMEOUT)
    except Exception as error:
        return error


def test_closing_ends_the_driver_and_all_calls(driver, events):
    waiting = threading.Thread(target=lambda: events.put(_error(driver, "sleep")))
    waiting.start()
    time.sleep(0.2)
    driver.close()
    waiting.join(TIMEOUT)
    assert not waiting.is_alive() and not driver.alive

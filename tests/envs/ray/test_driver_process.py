"""The learner's end of Ray's driver, with drivers that are small programs."""

import queue
import sys
import threading
import time

import pytest
from lanista.envs.errors import ClusterError, NoRoomError
from lanista.envs.ray.driver_process import CallFailedError, DriverProcess

PATIENCE = 30.0
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
    assert driver.call("echo", PATIENCE, key="a", cpus=0.5) == {"key": "a", "cpus": 0.5}
    assert events.get(timeout=PATIENCE) == {"event": "heard", "key": "echo"}


def test_refusals_are_of_two_kinds(driver):
    with pytest.raises(CallFailedError, match="it broke"):
        driver.call("fail", PATIENCE)
    with pytest.raises(NoRoomError, match="no nodes"):
        driver.call("full", PATIENCE)


def test_a_line_that_cannot_be_used_does_not_make_it_deaf(driver, caplog):
    assert driver.call("babble", PATIENCE) == "went on"
    assert "no JSON" in caplog.text


def test_an_event_that_fails_does_not_make_it_deaf():
    def fail(event):
        if event["event"] == "heard":
            raise KeyError(event["key"])

    driver = DriverProcess(fail, [sys.executable, "-c", ECHO])
    assert driver.call("echo", PATIENCE) == {}
    assert driver.call("echo", PATIENCE) == {}
    driver.close()


def test_nobody_waits_longer_than_he_will(driver):
    with pytest.raises(TimeoutError):
        driver.call("sleep", 0.1)
    assert driver.call("echo", PATIENCE) == {}, "it can be asked further"


def test_who_waits_for_a_driver_that_ends_is_told(driver, events):
    waiting = threading.Thread(target=lambda: events.put(_error(driver, "sleep")))
    waiting.start()
    with pytest.raises(ClusterError, match=r"Ray has ended its own process.*the head is gone"):
        driver.call("die", PATIENCE)
    waiting.join(PATIENCE)
    told = [events.get(timeout=PATIENCE) for _ in range(2)]
    assert {"event": "end"} in told
    assert any(isinstance(each, ClusterError) for each in told)
    assert not driver.alive
    with pytest.raises(ClusterError):
        driver.call("echo", PATIENCE)


def _error(driver, what):
    try:
        driver.call(what, PATIENCE)
    except Exception as error:
        return error


def test_closing_ends_it_and_all_that_wait(driver, events):
    waiting = threading.Thread(target=lambda: events.put(_error(driver, "sleep")))
    waiting.start()
    time.sleep(0.2)
    driver.close()
    waiting.join(PATIENCE)
    assert not waiting.is_alive() and not driver.alive

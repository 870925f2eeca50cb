"""The queues keep the order, never block without a bound, and hold producers up with one."""

import threading
import time

import pytest
from lanista.agent_processor.queues import AgentManagerQueue


def test_first_in_first_out() -> None:
    queue: AgentManagerQueue[int] = AgentManagerQueue("B?team=0")
    for i in range(5):
        queue.put(i)
    assert (queue.behavior_id, queue.maxlen, queue.qsize(), queue.empty()) == ("B?team=0", 0, 5, False)
    assert queue.get_nowait() == 0
    assert queue.drain() == [1, 2, 3, 4]
    assert queue.drain() == []
    assert queue.empty()


def test_an_empty_queue_says_so() -> None:
    queue: AgentManagerQueue[int] = AgentManagerQueue("B?team=0")
    with pytest.raises(AgentManagerQueue.Empty, match="B"):
        queue.get_nowait()


@pytest.mark.parametrize("take", ["get_nowait", "drain"])
def test_a_full_queue_holds_the_producer_until_there_is_room(take: str) -> None:
    queue: AgentManagerQueue[int] = AgentManagerQueue("B?team=0", maxlen=2)
    most = 0

    def produce() -> None:
        for i in range(100):
            queue.put(i)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    got: list[int] = []
    while len(got) < 100:
        time.sleep(0.0001)
        most = max(most, queue.qsize())
        if take == "drain":
            got += queue.drain()
        elif not queue.empty():
            got.append(queue.get_nowait())
    producer.join()
    assert got == list(range(100))
    assert most <= 2


def test_many_producers_lose_nothing() -> None:
    queue: AgentManagerQueue[int] = AgentManagerQueue("B?team=0", maxlen=3)
    threads = [
        threading.Thread(target=lambda k=k: [queue.put(100 * k + i) for i in range(100)], daemon=True)
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    got: list[int] = []
    while len(got) < 400:
        time.sleep(0.0001)
        got += queue.drain()
    assert sorted(got) == list(range(400))
    assert all([x for x in got if x // 100 == k] == list(range(100 * k, 100 * k + 100)) for k in range(4))


def test_a_producer_that_waits_goes_on_beyond_the_bound_when_the_run_is_to_end() -> None:
    ends = threading.Event()
    queue: AgentManagerQueue[int] = AgentManagerQueue("B?team=0", 2, ends.is_set)
    producer = threading.Thread(target=lambda: [queue.put(i) for i in range(5)], daemon=True)
    producer.start()
    while queue.qsize() < 2:
        time.sleep(0.0001)
    assert producer.is_alive()
    ends.set()
    producer.join(60)
    assert queue.drain() == list(range(5))

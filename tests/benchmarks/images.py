"""What compressed images cost on their way from an engine's message to a trainer, on this machine.

    python tests/benchmarks/images.py [--agents 9] [--messages 100]

Images are 84 x 64 x 3: a grid of colored squares, a shaded ground, or noise. "In place" decodes a message in
the main thread; "by threads" lets the pool do it while the main thread waits, as in `lanista-learn`, where it
would answer other engines; its processor time is printed too. No two images are equal, so that nothing is
saved by an earlier decoding; "stacked" repeats two of its three frames, as stacked sensors do.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

import numpy as np
from lanista.agent_processor.blocks import RowLayout
from lanista.envs.protocol import images as decoding
from lanista.envs.protocol.decoder import Decoder, PendingMessage
from script_options import parse_options
from specs import spec_of_shapes
from wiremessages import agent, brain, compressed, message

HEIGHT, WIDTH = 64, 84

Draw = Callable[[np.random.Generator], np.ndarray]


def grid(rng: np.random.Generator) -> np.ndarray:
    image = np.full((HEIGHT, WIDTH, 3), 220, np.uint8)
    image[::12], image[:, ::12] = 90, 90
    for color in ((200, 30, 30), (30, 30, 200), (30, 160, 30)):
        y, x = rng.integers(0, HEIGHT - 10), rng.integers(0, WIDTH - 10)
        image[y : y + 10, x : x + 10] = color
    return image


def ground(rng: np.random.Generator) -> np.ndarray:
    slopes = rng.random((2, 1, 1, 3)) * 2
    shades = np.arange(HEIGHT)[:, None, None] * slopes[0] + np.arange(WIDTH)[None, :, None] * slopes[1]
    return np.clip(shades + rng.normal(0, 2, shades.shape), 0, 255).astype(np.uint8)


def noise(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def messages_of(draw: Draw, agents: int, count: int, frames: int = 1) -> list[bytes]:
    """Messages of a behavior; with several frames those of a stacked sensor, the newest last."""
    rng = np.random.default_rng(0)
    seen = [[draw(rng) for _ in range(count + frames)] for _ in range(agents)]
    shape = (3 * frames, HEIGHT, WIDTH)
    return [
        message(
            *(
                agent(compressed(shape, of_one[step : step + frames], properties=(1, 2, 2)), id=i)
                for i, of_one in enumerate(seen)
            ),
            brains=(brain(),) * (step == 0),
        )
        for step in range(count)
    ]


def by_threads(decoder: Decoder, data: bytes) -> None:
    done = threading.Event()
    message = decoder.start(data, done.set)
    if isinstance(message, PendingMessage):
        if not message.done:
            done.wait()
        message.result()


def measure(sent: list[bytes], decode: Callable[[Decoder, bytes], object]) -> tuple[float, float]:
    """Seconds a message, and of these the main thread's processor time; the best of five rounds."""
    best = (float("inf"), float("inf"))
    for _ in range(5):
        decoder = Decoder(images="uint8")
        decoder.decode(sent[0])
        wall, cpu = time.perf_counter(), time.thread_time()
        for data in sent[1:]:
            decode(decoder, data)
        taken = time.perf_counter() - wall, time.thread_time() - cpu
        best = min(best[0], taken[0] / len(sent[1:])), min(best[1], taken[1] / len(sent[1:]))
    return best


def rows(agents: int, count: int) -> Iterator[tuple[str, float, float]]:
    """Microseconds an image: name, wall, main thread."""
    kinds: list[tuple[str, Draw, int]] = [("grid", grid, 1), ("ground", ground, 1), ("noise", noise, 1)]
    for name, draw, frames in [*kinds, ("grid, stacked", grid, 3)]:
        sent = messages_of(draw, agents, count, frames)
        images = agents * frames
        worth = decoding.WORTH_A_THREAD
        decoding.WORTH_A_THREAD = sys.maxsize
        wall, cpu = measure(sent, lambda decoder, data: decoder.decode(data))
        decoding.WORTH_A_THREAD = worth
        yield f"{name}, in place", wall / images * 1e6, cpu / images * 1e6
        wall, cpu = measure(sent, by_threads)
        yield f"{name}, by threads", wall / images * 1e6, cpu / images * 1e6


def stored() -> str:
    """The bytes of a row of the store, by what it keeps a camera as."""
    spec = spec_of_shapes([(3, HEIGHT, WIDTH)], branches=(5,))
    sizes = []
    for as_bytes in (True, False):
        layout = RowLayout.of(spec, as_bytes=(as_bytes,))
        sizes.append(4 * layout.words + layout.flags)
    return f"a row of the store with one such camera: {sizes[0]:,} bytes; as float32 {sizes[1]:,}"


def main() -> None:
    given = parse_options(__doc__, agents=9, messages=100)
    pixels = HEIGHT * WIDTH
    print(f"{'an image of 84 x 64 x 3':28} {'us':>8} {'main thread us':>15} {'million pixels/s':>17}")
    for name, wall, cpu in rows(given.agents, given.messages):
        print(f"{name:28} {wall:8.1f} {cpu:15.1f} {pixels / wall:17.1f}")
    print(stored())


if __name__ == "__main__":
    main()

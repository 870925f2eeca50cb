"""Draws godot_chase.gif: what the four agents of tests/godot's chase see of themselves, as a picture.

    python docs/pictures/godot_chase.py BRAIN.onnx 'godot:PROJECT?scene=res://game/chase.tscn'

The scene itself has nothing to look at; a headless engine would not draw it.
"""

import sys
from pathlib import Path

from lanista.envs.godot.environment import GodotEnvironment
from lanista.trainers.policies.onnx.runtime import Brain
from PIL import Image, ImageDraw

SIDE, DECISIONS, GAP = 120, 240, 8
BODY, FRUIT, GROUND, LINE = (32, 96, 200), (220, 80, 40), (250, 250, 248), (205, 205, 200)


def panel(obs: list[float]) -> Image.Image:
    """One agent's box, from its own place and that of its fruit, each -1 to 1."""
    image = Image.new("RGB", (SIDE, SIDE), GROUND)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, SIDE - 1, SIDE - 1), outline=LINE)
    x, y, fruit_x, fruit_y = ((value + 1) / 2 * (SIDE - 1) for value in obs)
    draw.ellipse((fruit_x - 4, fruit_y - 4, fruit_x + 4, fruit_y + 4), fill=FRUIT)
    draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=BODY)
    return image


def main() -> None:
    """Play, draw, save."""
    brain, frames = Brain(sys.argv[1]), []
    env = GodotEnvironment(sys.argv[2], no_graphics=True, seed=3)
    env.reset()
    for _ in range(DECISIONS):
        name = next(iter(env.behavior_specs))
        decisions, _ = env.get_steps(name)
        frame = Image.new("RGB", (len(decisions) * (SIDE + GAP) - GAP, SIDE), "white")
        for k, obs in enumerate(decisions.obs[0].tolist()):
            frame.paste(panel(obs), (k * (SIDE + GAP), 0))
        frames.append(frame.quantize(16))
        env.set_actions(name, brain.act(decisions, deterministic=True))
        env.step()
    env.close()
    path = Path(__file__).with_name("godot_chase.gif")
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=50, loop=0, optimize=True)


if __name__ == "__main__":
    main()

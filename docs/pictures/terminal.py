"""Paints what stands on a terminal as a PNG, for the README.

    tmux new-session -d -x 112 -y 20 -s run 'lanista-learn config/ppo/ball3d.yaml --env scene:ball3d'
    tmux capture-pane -e -p -t run > screen.ansi
    python docs/pictures/terminal.py screen.ansi docs/pictures/display.png

Needs matplotlib, for the font that it brings along.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from rich.ansi import AnsiDecoder
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import MONOKAI as THEME

SIZE = 26
CELL = (16, 34)
MARGIN = 28
BACKGROUND = (17, 19, 24)
FOREGROUND = (214, 218, 226)
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
SHADES = {8: (104, 112, 128), 10: (122, 214, 120), 14: (92, 205, 230), 3: (229, 181, 103)}
"""Colours for some of the terminal's sixteen, by number; the others are the theme's."""


def colour(wanted: Color | None) -> tuple[int, int, int]:
    """Red, green, blue."""
    if wanted is None or wanted.is_default:
        return FOREGROUND
    if wanted.number in SHADES:
        return SHADES[wanted.number]
    return tuple(wanted.get_truecolor(THEME))  # type: ignore[return-value]


def braille(draw: ImageDraw.ImageDraw, x: int, y: int, character: str, fill: tuple[int, int, int]) -> None:
    """The dots of a Braille character, which few fonts have."""
    bits = ord(character) - 0x2800
    for column, masks in enumerate(((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))):
        for row, mask in enumerate(masks):
            if bits & mask:
                cx, cy = x + 4 + 8 * column, y + 4 + (CELL[1] * row) / 4
                draw.ellipse((cx - 2.6, cy - 2.6, cx + 2.6, cy + 2.6), fill=fill)


def paint(text: str, width: int) -> Image.Image:
    """The picture of an ANSI text of `width` columns."""
    lines = list(AnsiDecoder().decode(text.rstrip()))
    while lines and not lines[0].plain.strip():
        lines.pop(0)
    size = (2 * MARGIN + CELL[0] * width, 2 * MARGIN + CELL[1] * len(lines))
    picture = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(picture)
    fonts = {
        bold: ImageFont.truetype(str(FONTS / f"DejaVuSansMono{'-Bold' if bold else ''}.ttf"), SIZE)
        for bold in (False, True)
    }
    console = Console(width=width)
    for row, line in enumerate(lines):
        column = 0
        for segment in Segment.simplify(console.render(line, console.options)):
            style = segment.style or Style.null()
            for character in segment.text.rstrip("\n"):
                x, y = MARGIN + CELL[0] * column, MARGIN + CELL[1] * row
                if "\u2800" <= character <= "\u28ff":
                    braille(draw, x, y, character, colour(style.color))
                elif character in "│┤":
                    draw.line((x + 8, y, x + 8, y + CELL[1]), colour(style.color), 2)
                    if character == "┤":
                        draw.line((x, y + 17, x + 8, y + 17), colour(style.color), 2)
                elif character != " ":
                    draw.text((x, y), character, colour(style.color), fonts[bool(style.bold)])
                column += 1
    return picture


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("screen", type=Path, help="what `tmux capture-pane -e -p` printed")
    parser.add_argument("picture", type=Path, help="the PNG to write")
    parser.add_argument("--width", type=int, default=112, help="columns of the terminal (112)")
    arguments = parser.parse_args()
    picture = paint(arguments.screen.read_text(encoding="utf-8"), arguments.width)
    picture.quantize(64).save(arguments.picture, optimize=True)


if __name__ == "__main__":
    main()

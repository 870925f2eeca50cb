"""Text that was read from files, as it may be shown, and commands, as they may be typed."""

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence


def harmless(text: str) -> str:
    r"""`text` with everything that a terminal or a browser would act on as its code, such as `\x1b`.

    These are control characters, among them those that begin ANSI escapes; characters without a shape, among
    them those that turn the direction of writing; and lone surrogates, which stand for undecodable bytes.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def typed(words: Sequence[str]) -> str:
    """A command, quoted for the system's shell: that of Windows does not know single quotes."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def words(command: str, windows: bool = os.name == "nt") -> list[str]:
    """The words of a command, as a shell parts them; on Windows a backslash is part of a path.

    Raises:
        ValueError: a quote has no end.
    """
    lexer = shlex.shlex(command, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if windows:
        lexer.escape = ""
    return list(lexer)


def wrapped(text: str, indent: str) -> str:
    """A paragraph for standard output: on a terminal broken between words, further lines indented."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size()[0]
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )

"""What the user should know about a configuration that is read nevertheless."""

import logging
from typing import Any

logger = logging.getLogger(__name__)


class Notes:
    """Collects warnings while a configuration is read, each once, in order."""

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Keep `text` unless it is known."""
        self.texts[text] = None

    def report(self) -> None:
        """Log everything as warnings, and forget it."""
        for text in self.texts:
            logger.warning("%s", text)
        self.texts.clear()


def note(info: Any, text: str) -> None:
    """Add a warning to the validation's `Notes` (its context), or log it at once when there are none.

    Args:
        info: a pydantic ValidationInfo, or None outside a validation.
        text: the warning.
    """
    name = getattr(info, "field_name", None)
    text = f"{name}: {text}" if name else text
    context = getattr(info, "context", None)
    if isinstance(context, Notes):
        context.add(text)
    else:
        logger.warning("%s", text)

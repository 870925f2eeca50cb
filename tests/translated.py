"""Engines' messages in other dialects than Unity's."""

from typing import Any

from lanista.envs.protocol import messages
from lanista.envs.protocol.dialect import UNITY, Dialect


def spoken(data: bytes, dialect: Dialect) -> bytes:
    """Unity's message in another dialect, as far as that has the fields."""
    if dialect is UNITY:
        return data
    result = dialect.messages.UnityMessageProto()
    _translate(messages.UnityMessageProto.FromString(data), result, dialect)
    return result.SerializeToString(deterministic=True)


def _translate(source: Any, target: Any, dialect: Dialect) -> None:
    for field, value in source.ListFields():
        if not dialect.has(source.DESCRIPTOR.name, field.name):
            continue
        slot = getattr(target, field.name)
        if hasattr(value, "items"):  # a map
            for key in value:
                _translate(value[key], slot[key], dialect)
        elif hasattr(value, "add"):  # a list of messages
            for each in value:
                _translate(each, slot.add(), dialect)
        elif hasattr(value, "extend"):
            slot.extend(value)
        elif field.message_type:
            slot.SetInParent()
            _translate(value, slot, dialect)
        else:
            setattr(target, field.name, value)

"""The protocol's message classes, built when this module is imported.

They come from `communicator.binpb`, the compiled form of the `.proto` files, through protobuf's public
reflection and not through generated code: protobuf refuses code that another major version's compiler
wrote, descriptors are read by all of them. The pool is private, so that an installed ML-Agents, which
registers messages of the same names in the default pool, can be imported beside this.

`generate.py` writes the descriptors and the types in `messages.pyi`.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

_PACKAGE = "communicator_objects"
_UNSENT = 1 << 28


def build(numbers: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Every message class and enum by its name, and the enums' values by theirs.

    Args:
        numbers: For messages whose fields have other numbers, the number of each field. One that is left out
            gets a number that nobody sends, so that it reads as its default.
    """
    descriptors = descriptor_pb2.FileDescriptorSet.FromString(
        files(__package__).joinpath("communicator.binpb").read_bytes()
    )
    pool = descriptor_pool.DescriptorPool()
    for file in descriptors.file:  # in the order of their imports
        for message in file.message_type:
            if message.name in numbers:
                _renumber(message, numbers[message.name])
        pool.AddSerializedFile(file.SerializeToString())
    found: dict[str, Any] = {}
    for file in descriptors.file:
        for message in file.message_type:
            found[message.name] = _message_class(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}"))
        for enum in file.enum_type:
            wrapper = EnumTypeWrapper(pool.FindEnumTypeByName(f"{_PACKAGE}.{enum.name}"))
            found[enum.name] = wrapper
            found.update(wrapper.items())
    return found


def _renumber(message: descriptor_pb2.DescriptorProto, numbers: Mapping[str, int]) -> None:
    del message.reserved_range[:]
    for field in message.field:
        field.number = numbers.get(field.name, _UNSENT | field.number)


def _message_class(descriptor: Descriptor) -> Any:
    """The class of a message, with those of the messages within it as attributes."""
    result = message_factory.GetMessageClass(descriptor)
    for nested in descriptor.nested_types:
        if not hasattr(result, nested.name):  # protobuf's Python implementation leaves them out
            setattr(result, nested.name, _message_class(nested))
    return result


globals().update(build({}))

"""Rebuilds `communicator.binpb` and `messages.pyi` from the `.proto` files.

A developer's tool, `python -m lanista.envs.protocol.generate`: it needs grpcio-tools, which users do not
install. Run it after a change of a `.proto` file.
"""

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)

FOLDER = Path(__file__).parent
DESCRIPTORS = FOLDER / "communicator.binpb"
TYPES = FOLDER / "messages.pyi"

_SCALARS = {
    FieldDescriptorProto.TYPE_FLOAT: "float",
    FieldDescriptorProto.TYPE_INT32: "int",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "str",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
    FieldDescriptorProto.TYPE_ENUM: "int",
}


def compile_protos() -> FileDescriptorSet:
    """Every `.proto` file, compiled by protoc. Raises RuntimeError if one is not accepted."""
    from grpc_tools import protoc  # type: ignore[import-untyped,unused-ignore]

    root = FOLDER / "proto"
    protos = sorted(str(path.relative_to(root)) for path in root.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "set.binpb"
        arguments = ["protoc", f"-I{root}", "--include_imports", f"--descriptor_set_out={target}", *protos]
        if protoc.main(arguments) != 0:
            raise RuntimeError("protoc refused the .proto files; its messages are above.")
        return FileDescriptorSet.FromString(target.read_bytes())


def _short(type_name: str) -> str:
    return type_name.removeprefix(".communicator_objects.")


def _is_map(message: DescriptorProto, field: FieldDescriptorProto) -> DescriptorProto | None:
    for nested in message.nested_type:
        if nested.options.map_entry and _short(field.type_name).endswith("." + nested.name):
            return nested
    return None


def _field_type(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    if field.type != FieldDescriptorProto.TYPE_MESSAGE:
        name = _SCALARS[field.type]
        return f"RepeatedScalarFieldContainer[{name}]" if field.label == field.LABEL_REPEATED else name
    entry = _is_map(message, field)
    if entry is not None:
        return f"MessageMap[str, {_short(entry.field[1].type_name)}]"
    name = _short(field.type_name)
    return f"RepeatedCompositeFieldContainer[{name}]" if field.label == field.LABEL_REPEATED else name


def _message_lines(message: DescriptorProto, indent: str) -> Iterable[str]:
    yield f"{indent}class {message.name}(Message):"
    inner = indent + "    "
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _message_lines(nested, inner)
    for field in message.field:
        yield f"{inner}{field.name}: {_field_type(message, field)}"
    yield f"{inner}def __init__(self, **fields: Any) -> None: ..."
    yield f"{inner}@classmethod"
    yield f"{inner}def FromString(cls, s: bytes) -> Self: ..."


def _enum_lines(enum: EnumDescriptorProto) -> Iterable[str]:
    yield f"{enum.name}: EnumTypeWrapper"
    yield from (f"{value.name}: int" for value in enum.value)


def type_stub(descriptors: FileDescriptorSet) -> str:
    """The types of every message class, as the text of a stub file."""
    lines = [
        "# Written by `python -m lanista.envs.protocol.generate`; do not edit.",
        "# ruff: noqa",
        "# fmt: off",
        "from collections.abc import Mapping",
        "from typing import Any",
        "",
        "from google.protobuf.internal.containers import (",
        "    MessageMap,",
        "    RepeatedCompositeFieldContainer,",
        "    RepeatedScalarFieldContainer,",
        ")",
        "from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper",
        "from google.protobuf.message import Message",
        "from typing_extensions import Self",
        "",
        "",
        "def build(numbers: Mapping[str, Mapping[str, int]]) -> dict[str, Any]: ...",
        "",
    ]
    for file in descriptors.file:
        for enum in file.enum_type:
            lines += _enum_lines(enum)
        for message in file.message_type:
            lines += ["", *_message_lines(message, "")]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write both files."""
    descriptors = compile_protos()
    DESCRIPTORS.write_bytes(descriptors.SerializeToString(deterministic=True))
    TYPES.write_text(type_stub(descriptors), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes ONNX graphs. Independent of torch's exporters, which change from release to release."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

OPSET = 9
"""What every Unity package since Barracuda imports."""
IR_VERSION = 4
FLOAT = int(TensorProto.FLOAT)
INT64 = int(TensorProto.INT64)
BATCH = "batch"
"""The symbolic name of the first axis of everything that has one row per agent."""


class GraphBuilder:
    """Collects the nodes of one graph. Values are known by their names, as in ONNX itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[NodeProto] = []
        self._initializers: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._used: set[str] = set()

    def input(self, name: str, *row: int) -> str:
        """Declare a float32 input [batch, *row]. One that no node reads is left out of the file."""
        self._inputs.append(helper.make_tensor_value_info(name, FLOAT, [BATCH, *row]))
        return name

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Store an array and return its name: `name`, or one like it where that is taken.

        float64 becomes float32.
        """
        taken, plain = {tensor.name for tensor in self._initializers}, name
        for number in itertools.count(2):
            if name not in taken:
                break
            name = f"{plain}.{number}"
        stored = np.ascontiguousarray(value, dtype=np.float32 if value.dtype == np.float64 else value.dtype)
        self._initializers.append(numpy_helper.from_array(stored, name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Append a node with one output, and return that output's name (`name`, or one made up)."""
        output = name or f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(operator, list(inputs), [output], name=f"node_{output}", **attributes)
        )
        self._used.update(inputs)
        return output

    def add_many(self, operator: str, *inputs: str, outputs: Sequence[str], **attributes: Any) -> None:
        """Append a node with several outputs. An input of "" is one that the operator may do without."""
        self._nodes.append(
            helper.make_node(operator, list(inputs), list(outputs), name=f"node_{outputs[0]}", **attributes)
        )
        self._used.update(inputs)

    def shape(self, sizes: Sequence[int]) -> str:
        """A constant for Reshape; -1 stands for what is left."""
        tensor = numpy_helper.from_array(np.array(sizes, np.int64))
        return self.add("Constant", value=tensor)

    def scalar(self, value: float) -> str:
        """A float32 constant without dimensions."""
        tensor = numpy_helper.from_array(np.array(value, np.float32))
        return self.add("Constant", value=tensor)

    def output(self, value: str, shape: Sequence[int | str], dtype: int = FLOAT) -> None:
        """Declare that `value` leaves the graph, in the order of these calls."""
        self._outputs.append(helper.make_tensor_value_info(value, dtype, list(shape)))

    def constant_output(self, name: str, value: NDArray[np.float32]) -> None:
        """An output that is a stored array: engines read it without running anything."""
        self.add("Identity", self.constant(f"{name}.value", value), name=name)
        self.output(name, value.shape)

    def build(self, producer: str, version: str, metadata: Mapping[str, str]) -> ModelProto:
        """The finished model."""
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [value for value in self._inputs if value.name in self._used],
            self._outputs,
            self._initializers,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name=producer,
            producer_version=version,
        )
        model.ir_version = IR_VERSION
        helper.set_model_props(model, dict(metadata))
        return model

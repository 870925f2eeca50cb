"""Agents that wait for decisions, and graphs of brains to inspect and to damage."""

import numpy as np
import onnxruntime
from mlagents_envs.base_env import DecisionSteps
from onnx import numpy_helper


def decisions(obs, ids=None, mask=None):
    """Agents with these observations, one array per sensor; their ids count from 0 unless given."""
    count = len(obs[0])
    ids, zeros = np.arange(count) if ids is None else np.array(ids), np.zeros(count, np.float32)
    return DecisionSteps(obs, zeros, ids.astype(np.int32), mask, np.zeros(count, np.int32), zeros)


def random_obs(shapes, rows, seed=0):
    """Standard normal observations, [rows, *shape] each."""
    random = np.random.default_rng(seed)
    return [random.standard_normal((rows, *shape), dtype=np.float32) for shape in shapes]


def session_of(model):
    """Runs a graph."""
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def change(model, name, function):
    """Replace a stored array."""
    (tensor,) = (t for t in model.graph.initializer if t.name == name)
    tensor.CopyFrom(numpy_helper.from_array(function(numpy_helper.to_array(tensor)), name))


def node(model, operator, index=0):
    """One of the nodes of an operator."""
    return [n for n in model.graph.node if n.op_type == operator][index]


def rename(model, old, new):
    """Rename a value everywhere but in the declared outputs."""
    for n in model.graph.node:
        n.input[:] = [new if name == old else name for name in n.input]
        n.output[:] = [new if name == old else name for name in n.output]

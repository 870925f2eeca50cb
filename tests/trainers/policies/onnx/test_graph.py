"""Brains keep to what Unity's packages import, in their operators and in these' parameters.

The lists are those of the packages' own documentation: com.unity.sentis 2.1, which com.unity.ai.inference 2.4
took over, and com.unity.barracuda 2.0.
"""

import numpy as np
import onnxruntime
import pytest
import torch
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.policies.onnx.export import build_brain
from lanista.trainers.policies.onnx.graph import IMPORTABLE
from lanista.trainers.settings.models.networks import NetworkSettings
from onnx import TensorProto
from specs import spec_of_shapes

pytestmark = pytest.mark.slow

_SENTIS = """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli Cast
CastLike Ceil Celu Clip Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum
DepthToSpace Div Dropout Einsum Elu Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND Gemm
GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample Hardmax HardSigmoid HardSwish Identity
InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LRN LSTM
MatMul Max MaxPool Mean Min Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or Pad Pow PRelu
RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2
ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu
Reshape Resize RoiAlign Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh
Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile
TopK Transpose Trilu Unsqueeze Upsample Where Xor
"""
SENTIS = set(_SENTIS.split())
_OF_ML_AGENTS = """
Add ArgMax Cast Clip Concat Constant Conv Div Exp Gemm Identity LSTM LeakyRelu Less Log MatMul MaxPool Mul
Multinomial Pow RandomNormalLike ReduceMean ReduceSum Relu Reshape Sigmoid Slice Softmax Sqrt Squeeze Sub
Tanh Transpose Unsqueeze
"""
OF_ML_AGENTS = set(_OF_ML_AGENTS.split())
"""What every brain that ML-Agents has ever exported is made of; with `Elu` alone besides, ours are too."""
NOT_READ = {
    "MaxPool": {"ceil_mode", "dilations", "storage_order"},
    "Constant": {"sparse_value", "value_string"},
}
"""Parameters that the importers do not heed."""

SENSES = {
    "vectors": ([(3,), (2,)], (), {}),
    "simple": ([(3, 20, 20)], (), {}),
    "nature_cnn": ([(1, 36, 36)], (), {"vis_encode_type": "nature_cnn"}),
    "resnet": ([(6, 15, 15), (2,)], (), {"vis_encode_type": "resnet"}),
    "match3": ([(3, 5, 6)], (), {"vis_encode_type": "match3"}),
    "fully_connected": ([(3, 4, 4)], (), {"vis_encode_type": "fully_connected"}),
    "entities": ([(4, 3), (2,), (3, 2)], (), {}),
    "a goal": ([(3,), (2,), (3, 20, 20)], (0, 1), {}),
    "layers": ([(3,)], (), {"activation": "elu", "layer_norm": True, "num_layers": 3}),
    "gelu": ([(3,)], (), {"activation": "gelu"}),
}
MEMORIES = {"feedforward": None, "lstm": {"memory_size": 6}, "gru": {"memory_size": 6, "memory_type": "gru"}}
HYBRID, CONTINUOUS, DISCRETE = (2, (3, 2)), (2, ()), (0, (4,))
HEADS = {
    "hybrid": (HYBRID, HeadConfig()),
    "continuous": (CONTINUOUS, HeadConfig()),
    "discrete": (DISCRETE, HeadConfig()),
    "sac": (HYBRID, HeadConfig(squashed=True, sigma_of_state=True)),
    "td3": (CONTINUOUS, HeadConfig(deterministic=True)),
    "dqn": ((0, (3, 2)), HeadConfig(values=1, dueling=True)),
}


def built(senses, memory, head):
    shapes, goals, settings = SENSES[senses]
    (continuous, branches), kind = HEADS[head]
    chosen = {"hidden_units": 8, "normalize": True, "memory": MEMORIES[memory]} | settings
    spec = spec_of_shapes(shapes, goals, continuous, branches)
    network = Actor(spec, NetworkSettings.model_validate(chosen), torch.Generator().manual_seed(0), head=kind)
    return build_brain(network, behavior="Any"), network


def inputs_of(session, rows, fill):
    return {v.name: np.full((rows, *v.shape[1:]), fill, np.float32) for v in session.get_inputs()}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("senses", SENSES)
def test_every_combination_is_imported_and_runs_for_one_agent_and_for_many(senses, memory, head):
    """Newer packages run a model once, with zeros, masks among them, to read its constants."""
    model, network = built(senses, memory, head)
    used = {node.op_type for node in model.graph.node}
    assert used <= SENTIS & IMPORTABLE and used <= OF_ML_AGENTS | {"Elu"}
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 9)]
    for node in model.graph.node:
        assert not node.domain
        assert not {a.name for a in node.attribute} & NOT_READ.get(node.op_type, set()), node.op_type
    kinds = {TensorProto.FLOAT, TensorProto.INT64}
    assert {tensor.data_type for tensor in model.graph.initializer} <= kinds
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    action = network.spec.action_spec
    sizes = {"version_number": [1], "memory_size": [1]}
    if action.continuous_size:
        sizes["continuous_action_output_shape"] = [1]
    if action.discrete_size:
        sizes["discrete_action_output_shape"] = [1, action.discrete_size]
    for rows in (1, 64):
        widths = {"continuous_actions": action.continuous_size, "discrete_actions": action.discrete_size}
        expected = dict(sizes)
        for name, width in widths.items():
            if width:
                expected |= {name: [rows, width], f"deterministic_{name}": [rows, width]}
        if network.memory_size:
            expected["recurrent_out"] = [rows, 1, network.memory_size]
        found = dict(zip(names, session.run(names, inputs_of(session, rows, 0.0))))
        assert {name: list(value.shape) for name, value in found.items()} == expected
        assert all(np.isfinite(value).all() for value in found.values())


def test_the_list_that_exports_are_checked_by_is_within_both_packages():
    assert IMPORTABLE <= SENTIS
    assert not {"GRU", "RNN", "If", "Loop", "Scan", "EyeLike"} & IMPORTABLE

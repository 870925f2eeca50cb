"""Which ONNX operators Unity imports."""

from collections import Counter

from onnx import ModelProto

# Barracuda 2.0's list. All but ImageScaler, which is left out here, are also imported by Sentis 2.1 and
# Inference Engine 2.4, so a brain of these runs in every Unity project that ML-Agents' packages support.
# fmt: off
IMPORTABLE = frozenset((
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat", "Constant", "ConstantOfShape",
    "Conv", "ConvTranspose", "Cos", "Cosh", "DepthToSpace", "Div", "Dropout", "Elu", "Equal", "Exp",
    "Expand", "Flatten", "Floor", "Gather", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater",
    "Identity", "InstanceNormalization", "LRN", "LSTM", "LeakyRelu", "Less", "LessOrEqual", "Log",
    "LogSoftmax", "MatMul", "Max", "MaxPool", "Mean", "Min", "Mul", "Multinomial", "Neg",
    "NonMaxSuppression", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow", "RandomNormal",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Reciprocal", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape", "Resize", "Round", "Selu", "Shape",
    "Sigmoid", "Sin", "Sinh", "Slice", "Softmax", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum",
    "Tan", "Tanh", "Tile", "TopK", "Transpose", "Unsqueeze", "Upsample", "Where", "Xor",
))
# fmt: on


def not_importable(model: ModelProto) -> Counter[str]:
    """The operators of `model` that not every Unity package imports, each with the number of its nodes."""
    return Counter(
        f"{node.domain}.{node.op_type}".lstrip(".")
        for node in model.graph.node
        if node.domain or node.op_type not in IMPORTABLE
    )

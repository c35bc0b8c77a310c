"""What cannot be right, and why: exporters that fail or change a model, operators refused.

A part of the message stands for the reason: a case that fails in another way is wrong, and so is
one that has come to work.
"""

from __future__ import annotations

_EXPORT, _DECOMPOSE, _CONVERT = (
    f"This is step {step}/3 of exporting the model to ONNX" for step in (1, 2, 3)
)
_SIZES = "Could not guard on data-dependent expression Eq(u0, 1)"
_UNFOLD = "ONNX export of operator Unfold, input size not accessible"
_POOL = "ONNX export of operator adaptive_avg_pool2d, output size that are not factor"
_ENCODER = "'aten::_transformer_encoder_layer_fwd' to ONNX opset version 17"
_COUNTS = "'aten::histc' to ONNX opset version 17"
_FOLD = "'aten::col2im' to ONNX opset version 17"

NOT_EXPORTED: dict[str, str] = {
    "alexnet:onnx-legacy": _POOL,
    "cohere:onnx-legacy": "input_shape_value == reshape_value || input_shape_value == 1",
    "deepseek_v3:onnx-dynamo": _CONVERT,
    "deepseek_v3:onnx-legacy": _COUNTS,
    "encodec_encoder:onnx-dynamo": _EXPORT,
    "encodec_encoder:torch-export": _SIZES,
    "encoder:onnx-legacy": _ENCODER,
    "encoder_norm_first:onnx-legacy": _ENCODER,
    "fnet:onnx-legacy": "'aten::fft_fftn' to ONNX opset version 17",
    "folded_windows:onnx-legacy": _FOLD,
    "gpt_oss:onnx-dynamo": _CONVERT,
    "gpt_oss:onnx-legacy": _COUNTS,
    "halonet:onnx-legacy": _UNFOLD,
    "longformer:onnx-dynamo": _EXPORT,
    "longformer:torch-export": _SIZES,
    "mixtral:onnx-dynamo": _CONVERT,
    "mixtral:onnx-legacy": _COUNTS,
    "mobilevitv2:onnx-legacy": _FOLD,
    "nest:onnx-dynamo": _CONVERT,
    "nystromformer:onnx-dynamo": _EXPORT,
    "nystromformer:onnx-legacy": "The size of tensor a (4) must match the size of tensor b (12)",
    "nystromformer:torch-export": "Attempting to broadcast a dimension of length 12 at -2",
    "prophetnet:onnx-dynamo": _DECOMPOSE,
    "pvt_v2:onnx-legacy": _POOL,
    "qwen2_moe:onnx-dynamo": _CONVERT,
    "qwen2_moe:onnx-legacy": _COUNTS,
    "transformer:onnx-legacy": _ENCODER,
    "twins:onnx-dynamo": _CONVERT,
    "univnet:onnx-legacy": _UNFOLD,
    "volo:onnx-legacy": _FOLD,
    "whisper:onnx-legacy": "'aten::diff' to ONNX opset version 17",
    "xlnet:onnx-dynamo": _DECOMPOSE,
}


# Each part of these messages must be in what is said. With `fallback="onnxruntime"` they are right.
REFUSED: dict[str, str | tuple[str, ...]] = {
    "wav2vec2_masked:onnx-dynamo": "ScatterND op requires the updates tensor",
}
# Files that ONNX Runtime does not take either.
INVALID: dict[str, str | tuple[str, ...]] = {
    "canine:onnx-legacy": "its inputs do not fit",
    "falcon_alibi:onnx-legacy": "element type complex128 is not supported",
    "mamba2:onnx-legacy": "its inputs do not fit",
    "patchtsmixer:onnx-legacy": "its inputs do not fit",
    "patchtst:onnx-legacy": "its inputs do not fit",
}

# Models that their exporter writes as others: what is compiled must be as ONNX Runtime runs it.
CHANGED_BY_EXPORTER = frozenset(
    {
        "gpt2_left_padded:onnx-dynamo",  # rows that are padding
        "llama_left_padded:onnx-dynamo",  # rows that are padding
        "longformer:onnx-legacy",  # traced: the number of windows is a constant
    }
)

"""What cannot be right, and why: exporters that fail, operators that are refused.

A part of the message stands for the reason: a case that fails in another way is wrong, and so is
one that has come to work.
"""

from __future__ import annotations

NOT_EXPORTED: dict[str, str] = {
    "mobilevitv2:onnx-legacy": "'aten::col2im' to ONNX opset version 17 is not supported",
    "whisper:onnx-legacy": "'aten::diff' to ONNX opset version 17 is not supported",
    "mixtral:onnx-legacy": "'aten::histc' to ONNX opset version 17 is not supported",
    "fnet:onnx-legacy": "'aten::fft_fftn' to ONNX opset version 17 is not supported",
    "encoder:onnx-legacy": "'aten::_transformer_encoder_layer_fwd' to ONNX opset version 17",
}

REFUSED: dict[str, str] = {
    "lstm:onnx-legacy": "unsupported operators: LSTM",
    "lstm:onnx-dynamo": "unsupported operators: LSTM",
    "lstm_bidirectional:onnx-legacy": "unsupported operators: LSTM",
    "lstm_bidirectional:onnx-dynamo": "unsupported operators: LSTM",
    "sequencer:onnx-legacy": "unsupported operators: LSTM",
    "sequencer:onnx-dynamo": "unsupported operators: LSTM",
    "gru:onnx-legacy": "unsupported operators: GRU",
    "wav2vec2_masked:onnx-dynamo": "ScatterND op requires the updates tensor",
    "falcon_alibi:onnx-legacy": "output has unsupported type tensor(complex128)",
    "squeeze_excite:torch-export": "amax.default",
    "folded_windows:onnx-dynamo": "unsupported operators: Col2Im",
}

"""Nodes that no compiler here has, left to ONNX Runtime within the model: `fallback="onnxruntime"`.

A segment is all of them that need no result of ours between them. It is one call, of a model of its
own whose bytes are a weight.
"""

OR_LEAVE = 'or compile with fallback="onnxruntime"'  # ends the remedy of what can leave

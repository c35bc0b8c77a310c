"""A model compiled as users do, its results compared with ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from support.kernels import stitch_case as sc


def checked(model: onnx.ModelProto, bound: float = 1e-5) -> set[str]:
    """Return the names of the model's kernels, its results compared with ONNX Runtime's."""
    inputs = sc.zoo.random_inputs(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    results = zip(names, session.run(names, inputs), strict=True)
    built = sc.compiled(model, 2)
    sc.assert_close(built.model.run(inputs), {n: np.asarray(a, "f8") for n, a in results}, bound)
    return {gvar.name_hint for gvar in built.mod.get_global_vars()}

"""The steps of a run, most telling first: what its time ends is left to the next run."""

from __future__ import annotations

from dataclasses import dataclass

import zoo

DTYPES = ("float32", "float16", "bfloat16")
# Transformers are deployed in halves, the others of the papers' tables in floats.
MODELS = {
    "bert": "float16",
    "dien_like": "float32",
    "gpt2": "float16",
    "vit": "float16",
    "crnn_like": "float32",
    "resnet50": "float16",
    "mobilenetv2": "float16",
    "encoder_decoder": "float16",
}
TRACED = ("softmax", "layernorm", "row_and_column", "squeeze_excite", "gru_cell", "crnn_like")
SANITIZED = ("softmax", "groupnorm", "row_and_column", "mean_variance", "mha_1", "mlp_1")
KINDS = ("numbers", "row", "model", "traffic", "memcheck", "racecheck")


@dataclass(frozen=True)
class Step:
    """One thing that is asked of the GPU: of a subgraph or a model, in a float type."""

    kind: str
    name: str
    dtype: str

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}/{self.dtype}"


def steps() -> list[Step]:
    """Return all steps in the order that they are run in."""
    found = [Step("numbers", name, dtype) for dtype in DTYPES for name in zoo.SUBGRAPHS]
    found += [Step("row", name, "float32") for name in zoo.SUBGRAPHS]
    found += [Step("model", name, dtype) for name, dtype in MODELS.items()]
    found += [Step("traffic", name, "float32") for name in TRACED]
    found += [Step("row", name, "float16") for name in zoo.SUBGRAPHS]
    found += [Step("memcheck", name, "float32") for name in SANITIZED]
    found += [Step("racecheck", name, "float32") for name in SANITIZED]
    return found

"""Every architecture by name."""

from __future__ import annotations

from wild.architecture import Architecture
from wild.plain import PLAIN
from wild.speech import SPEECH
from wild.text_decoders import TEXT_DECODERS
from wild.text_encoders import TEXT_ENCODERS
from wild.text_pairs import TEXT_PAIRS
from wild.timm_images import TIMM
from wild.torchvision_images import TORCHVISION
from wild.vision import VISION

ARCHITECTURES: dict[str, Architecture] = {
    **TEXT_ENCODERS,
    **TEXT_DECODERS,
    **TEXT_PAIRS,
    **SPEECH,
    **VISION,
    **TIMM,
    **TORCHVISION,
    **PLAIN,
}

"""What a GPU was measured to take, in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path

from .cuda import CudaProfile
from .profile import ProfileError, read_profile
from .profile.reader import Reader

FORMAT = 1
_SHARES = ("l2_share", "wmma_share")
_TOP = {"format": int, "gpu": dict, "command": str, "figures": dict}
_GPU = {"name": str, "arch": str}


@dataclass(frozen=True)
class GpuProfile:
    """Figures of a GPU by its name and arch, such as "sm_90", and the command that made them."""

    name: str
    arch: str
    command: str
    figures: CudaProfile

    def to_json(self) -> dict:
        """Return the profile as JSON types, `from_json`'s inverse."""
        gpu = {"name": self.name, "arch": self.arch}
        figures = asdict(self.figures)
        return {"format": FORMAT, "gpu": gpu, "command": self.command, "figures": figures}

    @classmethod
    def from_json(cls, data: object, source: str) -> GpuProfile:
        """Return the profile in `data`, read from `source`.

        Raises: ProfileError for a missing, superfluous or impossible value, or another format.
        """
        reader = Reader(source)
        top = reader.record(data, "the profile", _TOP)
        if top["format"] != FORMAT:
            raise reader.refused("format", f"is {top['format']}, this release reads {FORMAT}")
        gpu = reader.record(top["gpu"], "gpu", _GPU)
        names = [field.name for field in fields(CudaProfile)]
        figures = reader.record(top["figures"], "figures", dict.fromkeys(names, float))
        known = {name: reader.positive(value, name) for name, value in figures.items()}
        for share in _SHARES:
            if known[share] > 1:
                raise reader.refused(share, "is above 1")
        return cls(gpu["name"], gpu["arch"], top["command"], CudaProfile(**known))


def load_gpu_profile(path: Path, arch: str) -> GpuProfile:
    """Return the profile in a file.

    Raises: ProfileError if it is missing, none of this format, or of another arch.
    """
    profile = GpuProfile.from_json(read_profile(path), str(path))
    if profile.arch != arch:
        rule = f"is of {profile.arch}, the target is {arch}"
        raise ProfileError(f"profile {path}", rule, "measure with calibrate --target cuda")
    return profile

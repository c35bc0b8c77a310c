"""What a machine was measured to do: bandwidths, vector throughputs, cost of a parallel region."""

from .profile import FORMAT, LEVELS, OP_KINDS, Bandwidth, Profile
from .reader import ProfileError
from .store import default_profile, load_profile, read_profile, refuse_cpu
from .thresholds import Thresholds

__all__ = [
    "FORMAT",
    "LEVELS",
    "OP_KINDS",
    "Bandwidth",
    "Profile",
    "ProfileError",
    "Thresholds",
    "default_profile",
    "load_profile",
    "read_profile",
    "refuse_cpu",
]

"""What a machine was measured to do: bandwidths, vector throughputs, cost of a parallel region."""

from .profile import FORMAT, LEVELS, OP_KINDS, Bandwidth, Profile, ProfileError
from .store import default_profile, load_profile, refuse_cpu

__all__ = [
    "FORMAT",
    "LEVELS",
    "OP_KINDS",
    "Bandwidth",
    "Profile",
    "ProfileError",
    "default_profile",
    "load_profile",
    "refuse_cpu",
]

"""Graph-level fusion for Relax: `import relay_passes as relay; relay.transform.StitchOps()`."""

from . import transform

__all__ = ["transform"]

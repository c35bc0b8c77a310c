"""What `shapes=` asks for: one shape an input, or a list of shapes, which make a model each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_stitch.errors import StitchError

Shapes = Mapping[str, Sequence[int | str] | Sequence[Sequence[int]]]


def shape_sets(shapes: Shapes | None) -> list[dict[str, Sequence[int | str]] | None]:
    """Return the shapes of each model that is asked for, by input.

    An input with one shape has it in all of them.

    Raises: StitchError for lists of different lengths, empty ones, and the same shapes twice.
    """
    if shapes is None:
        return [None]
    lists = {name: list(shape) for name, shape in shapes.items() if _is_list(shape)}
    counts = {name: len(several) for name, several in lists.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise StitchError("shapes", f"lists of different lengths: {told}", "give as many of each")
    sets = [
        {name: lists[name][number] if name in lists else shape for name, shape in shapes.items()}
        for number in range(next(iter(counts.values()), 1))
    ]
    seen = {tuple(tuple(shape) for shape in each.values()) for each in sets}
    if len(seen) < len(sets):
        raise StitchError("shapes", "some are there twice", "give each once")
    return sets


def _is_list(shape: Sequence) -> bool:
    return len(shape) > 0 and all(isinstance(each, (list, tuple)) for each in shape)

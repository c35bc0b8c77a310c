"""Attention in one pass over blocks of keys: the sizes that it may have."""

from __future__ import annotations

from ...kernel_ir.expr import dtype_bytes
from ...patterns.attention_masks import why_none_hidden
from ...patterns.match_attention import Attention
from ..facts.streaming import are_transposed, refuse_streaming
from ..plan.decisions import AttentionDecisions
from ..plan.streaming_attention import StreamingAttention

_MOST_ROWS = 32  # of a register tile, emitted one after the other


def streaming_form(
    attention: Attention | str, decided: AttentionDecisions, vector_bytes: int
) -> StreamingAttention | str:
    """Return attention in tiles of these sizes, or why it can't run so."""
    if isinstance(attention, str):
        return attention
    reason = refuse_streaming(attention) or _refuse_sizes(attention, decided)
    if reason is not None:
        return reason
    if decided.skips and (why := why_none_hidden(attention)) is not None:
        return why
    return StreamingAttention(
        attention,
        decided.rows,
        decided.blocks,
        decided.block_keys,
        decided.lanes,
        decided.column_lanes,
        vector_bytes // dtype_bytes(attention.dtype),
        are_transposed(attention),
        decided.skips,
    )


def _refuse_sizes(at: Attention, decided: AttentionDecisions) -> str | None:
    rows, blocks, lanes = decided.rows, decided.blocks, decided.lanes
    if not 1 <= rows <= _MOST_ROWS or blocks < 1 or rows * blocks > at.row.extent:
        return f"{blocks} blocks of {rows} rows of {at.row.extent}"
    for width, extent in ((lanes, at.key.extent), (decided.column_lanes, at.column.extent)):
        if width < 1 or width & (width - 1) or width > extent:
            return f"{width} lanes along {extent} positions"
    if lanes == 1 and are_transposed(at):
        return "keys are transposed into panels of two lanes or more"
    if decided.block_keys < lanes or decided.block_keys % lanes:
        return f"blocks of {decided.block_keys} keys are no whole panels of {lanes}"
    return None

"""Blocks whose streamed updates all reach the page, however fast one follows the other."""

from __future__ import annotations

from typing import Any

import gradio as gr
from gradio.blocks import BlockFunction
from gradio.components.base import _Keywords
from gradio.state_holder import SessionState


class StreamedBlocks(gr.Blocks):
    """Sends each changed output of a generator whole, instead of what changed within it.

    Gradio's browser side patches the last answer where it stands. An answer that still waits
    for its turn to be drawn, because the page is busy with the one before, is patched away by
    the next: its update is lost. A whole answer takes nothing from another. And a generator that
    ends without an answer would empty all its outputs; here it leaves them as they are.
    """

    def handle_streaming_diffs(
        self,
        block_fn: BlockFunction,
        data: list[Any],
        session_hash: str | None,
        run: str | None,
        final: bool,
        simple_format: bool = False,
    ) -> list[Any]:
        """As Gradio's own; what differs from the answer before is told as if there were none."""
        before = self.pending_diff_streams.get(session_hash, {}).get(run, [])
        if not final:  # Gradio ends a run by telling what was told last
            for index, (old, new) in enumerate(zip(before, data, strict=False)):
                if old != new:
                    before[index] = None
        return super().handle_streaming_diffs(
            block_fn, data, session_hash, run, final, simple_format
        )

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: Any, state: SessionState | None
    ) -> list[Any]:
        """As Gradio's own; the end of a generator is no answer, so it changes no output.

        Where there were answers before, `handle_streaming_diffs` puts the last in its place.
        """
        data = await super().postprocess_data(block_fn, predictions, state)
        each = predictions if isinstance(predictions, (list, tuple)) else [predictions]
        if each and all(one is _Keywords.FINISHED_ITERATING for one in each):
            return [gr.skip() for _ in data]
        return data

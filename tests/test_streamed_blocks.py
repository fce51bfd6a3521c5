"""A generator's answers travel whole: one that follows at once takes nothing from the last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from app.page import Page
from app.streamed_blocks import StreamedBlocks

SAME: dict[str, Any] = {"__type__": "update"}


def tell(demo: gr.Blocks, *answers: list[Any]) -> list[list[Any]]:
    function = next(iter(demo.fns.values()))
    return [
        demo.handle_streaming_diffs(function, list(answer), "session", "run", final=last)
        for answer, last in zip(answers, [False] * (len(answers) - 1) + [True], strict=True)
    ]


def page() -> StreamedBlocks:
    with StreamedBlocks(analytics_enabled=False) as demo:
        image, text = gr.HTML(), gr.HTML()
        gr.Button().click(lambda: ("", ""), None, [image, text])
    return demo


def test_a_changed_answer_is_told_whole_and_an_unchanged_one_not_at_all() -> None:
    dim = {**SAME, "elem_classes": ["stale"]}
    full = {**SAME, "value": {"path": "map.png"}, "elem_classes": []}
    first, second, third, last = tell(page(), [dim, "a"], [full, "ab"], [SAME, "ab"], [SAME, "ab"])
    assert first == [dim, "a"]
    assert second == [[["replace", [], full]], [["replace", [], "ab"]]]
    assert third == [[["replace", [], SAME]], []]
    assert last == [SAME, "ab"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_generator_without_an_answer_changes_nothing(count: int) -> None:
    def nothing() -> Iterator[Any]:
        yield from ()

    for kind, left in ((StreamedBlocks, SAME), (gr.Blocks, None)):  # Gradio alone empties them
        with kind(analytics_enabled=False) as demo:
            gr.Button().click(nothing, None, [gr.HTML() for _ in range(count)])
        function = next(iter(demo.fns.values()))
        answer = asyncio.run(demo.process_api(function, [], state=SessionState(demo)))
        assert answer["data"] == [left] * count


def test_gradio_alone_would_patch_an_answer_where_it_stands() -> None:
    """When this fails Gradio tells answers otherwise, and `StreamedBlocks` may go."""
    with gr.Blocks(analytics_enabled=False) as demo:
        text = gr.HTML()
        gr.Button().click(lambda: "", None, text)
    _, second, _ = tell(demo, [SAME], [{**SAME, "value": "x"}], [SAME])
    assert second == [[["add", ["value"], "x"]]]


def test_the_page_is_made_of_them() -> None:
    assert isinstance(Page().demo, StreamedBlocks)

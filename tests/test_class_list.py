"""The list of the most likely classes: its numbers, and names that are no markup."""

from __future__ import annotations

import pytest

from app.class_list import html, percent


@pytest.mark.parametrize(
    ("share", "printed"),
    [
        (0.0, "0.0 %"),
        (1e-9, "&lt;0.1 %"),
        (0.0006, "0.1 %"),
        (0.0234, "2.3 %"),
        (0.9531, "95.3 %"),
        (0.99997, "&gt;99.9 %"),
        (1.0, "100.0 %"),
    ],
)
def test_probabilities_have_one_decimal(share: float, printed: str) -> None:
    assert percent(share) == printed


def test_a_name_is_text() -> None:
    shown = html({"<b>owl</b>": 0.75, "cat": 0.25})
    assert "&lt;b&gt;owl&lt;/b&gt;" in shown
    assert [f"data-index='{i}'" in shown for i in range(3)] == [True, True, False]

"""What the pictures of a model's patch embedding are drawn from: its filters and positions."""

from __future__ import annotations

from torch import Tensor

from explainers.models.errors import ModelError
from explainers.registry import YES, Support
from explainers.sentence import Sentence


class EmbeddingViews:
    """Filters and learned positions; a family fills in where they are."""

    def _filters(self) -> Tensor | None:
        return None

    def _positions(self) -> Tensor | None:
        return None

    def _positions_grid(self) -> tuple[int, int]:
        raise NotImplementedError

    def filters_support(self) -> Support:
        if self._filters() is not None:
            return YES
        return Support(
            False,
            Sentence(
                "no_filters",
                "This model's patch embedding does not read RGB patches with one linear "
                "projection, so it has no filters to show.",
            ),
        )

    def patch_filters(self) -> Tensor:
        """The patch embedding's filters (D, 3, height, width)."""
        return _demand(self._filters(), self.filters_support())

    def positions_support(self) -> Support:
        if self._positions() is not None:
            return YES
        return Support(
            False,
            Sentence(
                "no_positions",
                "This model learns no position embedding for its patches (it has none, or "
                "positions enter inside attention), so there is no similarity to show.",
            ),
        )

    def position_grid(self) -> tuple[int, int]:
        """Rows and columns of the stored position embeddings."""
        _demand(self._positions(), self.positions_support())
        return self._positions_grid()

    def patch_positions(self) -> Tensor:
        """The learned positions of the patches (rows · columns, D), prefix rows excluded."""
        table = _demand(self._positions(), self.positions_support())
        rows, columns = self._positions_grid()
        return table.detach().reshape(-1, table.shape[-1])[-rows * columns :]


def _demand(tensor: Tensor | None, support: Support) -> Tensor:
    if tensor is None:
        raise ModelError(support.reason)
    return tensor

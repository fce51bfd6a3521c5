"""How a photo is looked at: at the model's own size, as a whole at a long side, or in windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from explainers.forecast import Forecast, forecast, forecast_windows
from explainers.image import Photo
from explainers.memory_limit import demand_memory
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.pace import Pace
from explainers.separate_looks import SeparateLooks

Kind = Literal["own", "whole", "windows"]


@dataclass(frozen=True)
class Look:
    """kind: "own" (the model's own size and crop), "whole" (one look at the whole photo, nothing
    cut) or "windows" (separate looks, see `SeparateLooks`). long_side: pixels of the photo's
    longer side, None for its own ("whole") or for two windows along the short one."""

    kind: Kind = "own"
    long_side: int | None = None

    def model(self, vit: VisionModel, photo: Photo) -> VisionModel:
        """The model that answers for the photo: at the photo's size for a whole look."""
        return vit.whole(photo, self.long_side) if self.kind == "whole" else vit

    def windows(self, vit: VisionModel, photo: Photo) -> SeparateLooks | None:
        """The windows of a look that has some."""
        return SeparateLooks(vit, photo, self.long_side) if self.kind == "windows" else None

    def forecast(self, vit: VisionModel, photo: Photo, pace: Pace) -> Forecast:
        """What the look costs. ModelError where the model cannot look so, or memory is too small.

        It is told before anything large is run: where only one pass shows whether the model takes
        the size, that is run once the memory allows it.
        """
        windows = self.windows(vit, photo)
        if windows is not None:
            told = forecast_windows(windows, pace)
        else:
            told = forecast(vit, photo, pace, self.long_side, whole=self.kind == "whole")
        try:
            demand_memory(vit, photo, pace, told)
        except ModelError:
            if self.kind == "whole":
                _demand_sizes(vit, photo)
            raise
        if self.kind == "whole":
            self.model(vit, photo)  # refuses models of one size
        return told


def _demand_sizes(vit: VisionModel, photo: Photo) -> None:
    """Raise ModelError for a model of one size, to which no other one that fits is proposed."""
    try:
        vit.whole(photo, 2 * max((vit.native or vit).preprocessing.size))
    except ModelError as error:
        if error.args[0].key == "size_fixed":
            raise

"""VisionModel: a module with all that is needed to read it, and `wrap_model`."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from explainers.image import Geometry, Photo
from explainers.models import sizes
from explainers.models.adapters import YES, Adapter, Grid
from explainers.models.errors import ModelError
from explainers.models.labels import find_class
from explainers.models.preprocessing import Preprocessing
from explainers.models.quantised import NO_GRADIENTS, is_quantised, running, tensors_of
from explainers.models.refusals import INFERENCE, NO_CLASSES, NO_HALF, TIED, TRAINING
from explainers.registry import Support, find_method
from explainers.sentence import Sentence

if TYPE_CHECKING:
    from explainers.trace import Trace


@dataclass(eq=False)
class VisionModel:
    """A Vision Transformer ready to be looked into.

    labels: one for each class, or None where they are not known. classes: 0 for a model
    without a head. trained_grids: the (rows, columns) it was trained or measured at, or None
    where that is not known.
    """

    module: nn.Module
    name: str
    preprocessing: Preprocessing
    adapter: Adapter
    classes: int
    labels: tuple[str, ...] | None = None
    trained_grids: tuple[Grid, ...] | None = None
    notes: tuple[Sentence, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    attention_check: Support | None = None
    """Whether attention computed again is the attention used; None before the first trace."""
    native: VisionModel | None = field(default=None, repr=False)
    """The model as it was loaded, where this is it at another size (see `at_size`)."""
    sized: dict[tuple[int, int], Adapter] = field(default_factory=dict, init=False, repr=False)
    """What reads it at sizes that one pass has shown it takes."""

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.module.parameters()).dtype

    @cached_property
    def weights_hash(self) -> str:
        """SHA-256 (hex) over names, shapes and bytes of the weights as loaded, computed once."""
        if self.native is not None:
            return self.native.weights_hash
        digest = hashlib.sha256()
        for name, value in sorted(self.module.state_dict().items()):
            for tensor in tensors_of(value):
                digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype};".encode())
                plain = tensor.detach().cpu().contiguous().flatten()
                digest.update(plain.view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def prepare(self, photos: Sequence[Photo]) -> tuple[Tensor, list[Geometry]]:
        """Model-input pixels (B, 3, h, w) in the model's precision, and each photo's geometry."""
        pixels = torch.stack([self.preprocessing(photo) for photo in photos])
        geometries = [self.preprocessing.geometry(photo, self.adapter.patch) for photo in photos]
        return pixels.to(self.device, self.dtype), geometries

    def logits(self, pixels: Tensor, keep: Tensor | None = None) -> Tensor:
        """One pass of the model: (B, classes), or its pooled features where it has no head.

        keep: (B, n), the patches whose tokens the model is given, where not all of them
        (see `Adapter.forward_tokens`).
        """
        if self.module.training:
            raise ModelError(TRAINING.reason)
        try:
            with running(self.module):
                if keep is None:
                    answer = self.adapter.run(self.module, pixels)
                else:
                    answer = self.adapter.forward_tokens(pixels, keep)
        except ModelError:
            raise
        except (AttributeError, TypeError) as error:
            if not is_quantised(self.module):
                raise
            raise ModelError(
                Sentence(
                    "quantised_refuses",
                    "{name} does not run with rounded weights ({reason}): a part of it takes a "
                    "linear layer's weight itself. Round the layers of its MLPs only.",
                    name=self.name,
                    reason=str(error).split("\n")[0].rstrip("."),
                )
            ) from error
        except (AssertionError, IndexError, RuntimeError, ValueError) as error:  # its own refusals
            height, width = pixels.shape[-2:]
            raise ModelError(
                Sentence(
                    "model_refuses",
                    "{name} could not be run on an input of {height}×{width} pixels ({reason}); "
                    "check its parts, and wrap it with the size that it was built for.",
                    name=self.name,
                    height=height,
                    width=width,
                    reason=str(error).split("\n")[0].rstrip(".") or type(error).__name__,
                )
            ) from error
        if not isinstance(answer, Tensor):
            raise ModelError(
                Sentence(
                    "model_answer",
                    "The model answered with {kind}; expected one tensor (photos, classes).",
                    kind=type(answer).__name__,
                )
            )
        return answer

    def trace(
        self,
        photos: Photo | Sequence[Photo],
        keep: Collection[str] = (),
        gradients: bool = False,
    ) -> Trace:
        """Run the model once on one photo or several, and keep what explanations need.

        gradients: a gradient method comes next, on this one photo; see `tracing.trace`.
        """
        from explainers.tracing import trace

        return trace(self, photos, keep, gradients)

    def at_size(self, size: int | tuple[int, int]) -> VisionModel:
        """The same weights at another input size (height, width): see `sizes.at_size`."""
        return sizes.at_size(self, size)

    def whole(self, photo: Photo, long_side: int | None = None) -> VisionModel:
        """The same weights at the size of one whole photo, nothing cut: see `sizes.whole`."""
        return sizes.whole(self, photo, long_side)

    def supports(self, method: str, row: int | None = None) -> Support:
        """Whether a method works for this model; falsy with the reason when it does not.

        row: the token whose look is asked for, where it is not the one that decides.
        """
        needs = find_method(method).needs
        if self.module.training:
            return TRAINING
        for need in needs:
            if need in ("decision", "look") and row is not None:
                continue
            support = self._offers(need)
            if not support:
                return support
        return YES

    def _offers(self, need: str) -> Support:
        if need == "decision":
            return self.adapter.decision_support()
        if need == "look":
            return self.adapter.look_support()
        if need == "readout":
            return self.adapter.readout_support()
        if need == "features":
            return TIED if self._tied else self.adapter.features_support()
        if need == "class":
            return YES if self.classes else NO_CLASSES
        if need == "gradients":
            if is_quantised(self.module):
                return NO_GRADIENTS
            if any(parameter.is_inference() for parameter in self.module.parameters()):
                return INFERENCE
            return self.adapter.gradients_support()
        if need == "float32":
            return YES if self.dtype.itemsize >= torch.float32.itemsize else NO_HALF
        if need == "chain":
            return self.adapter.chain_support()
        if need == "merge":
            return self.adapter.merge_support()
        if self.attention_check is None:
            try:
                self.trace(_noise(self.preprocessing.size))
            except ModelError as error:
                return Support(False, error.args[0])
        return YES if self.attention_check is None else self.attention_check

    @cached_property
    def _tied(self) -> bool:
        """Whether a weight that names a place in the model is used in other places too."""
        owners = Counter(
            id(parameter)
            for module in self.module.modules()
            for parameter in module.parameters(recurse=False)
        )
        return any(owners[place] > 1 for place in self.adapter.watch())

    def label(self, index: int) -> str:
        """The label of a class, or "class 7" where labels are not known."""
        return self.labels[index] if self.labels else f"class {index}"

    def find_class(self, text: str | int) -> int:
        """The index of a class given as index or label (any comma part, any case).

        Raises ValueError for none or several hits, and lists them.
        """
        return find_class(self.labels, self.classes, text)


def _noise(size: tuple[int, int]) -> Photo:
    """A photo of fixed noise, to try a model on."""
    drawn = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    return Photo(drawn, "noise", ())

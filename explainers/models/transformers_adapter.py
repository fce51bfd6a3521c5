"""Hugging Face transformers: ViT, DeiT, BEiT, DINOv2 (with registers too), CLIP's vision side.

Nothing here imports transformers: a module that came from it brings its configuration along.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from explainers.models.adapters import YES, Adapter, BlockParts, Pooling
from explainers.models.errors import ModelError
from explainers.models.own_heads import said_classes
from explainers.registry import Support
from explainers.sentence import Sentence

READ = (
    *("vit", "vit_msn", "deit", "beit", "data2vec-vision", "dinov2", "dinov2_with_registers"),
    *("clip", "clip_vision_model"),
)
"""The `model_type` of the configurations whose models are read."""

_NORM1 = ("layernorm_before", "layer_norm1", "norm1")
_NORM2 = ("layernorm_after", "layer_norm2", "norm2")
_PROJECTION = ("attention.o_proj", "self_attn.out_proj", "attention.output.dense")
_ANSWERS = ("logits", "image_embeds", "pooler_output")


class TransformersAdapter(Adapter):
    """Reads the configuration and the parts that transformers' image models have in common."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._core = core = _core(module)
        self.family = f"transformers {type(module).__name__}"
        self.blocks = tuple(
            BlockParts(_part(block, _NORM1), _part(block, _NORM2), _projection(block))
            for block in _blocks(core)
        )
        self.heads = core.config.num_attention_heads
        classifies = "ForImageClassification" in type(module).__name__
        if classifies:  # DeiT's for a teacher has two, as wide as each other
            named = "classifier" if hasattr(module, "classifier") else "cls_classifier"
            self.head = getattr(module, named)
        self.classes = said_classes(self.head)
        distilled = hasattr(core.embeddings, "distillation_token")
        registers = getattr(core.config, "num_register_tokens", 0)
        self.prefix_names = (
            "CLS",
            *(("DIST",) if distilled else ()),
            *(f"register {i + 1}" for i in range(registers)),
        )
        self.prefix = len(self.prefix_names)
        self._convolution = _convolution(core.embeddings)
        height, width = self._convolution.kernel_size
        self.patch = int(height), int(width)
        side = core.config.image_size
        self.input_size = (side, side) if isinstance(side, int) else (int(side[0]), int(side[1]))
        self._sizes = "interpolate_pos_encoding" in inspect.signature(module.forward).parameters
        self.pooling, self.pooling_name = self._pooling()

    def _pooling(self) -> tuple[Pooling, str]:
        """Which tokens feed the answer, as each class's own forward pass has it."""
        kind = type(self._module).__name__
        if kind == "DeiTForImageClassificationWithTeacher":
            return "distilled", "CLS and DIST"
        if kind == "CLIPForImageClassification":
            return "avg", "avg"
        if kind.startswith("Dinov2") and self.head is not None:
            return "other", "CLS beside the mean of the patches"
        if getattr(getattr(self._core, "pooler", None), "layernorm", None) is not None:
            return "avg", "avg"  # BEiT's mean pooling
        return "token", "token"

    def run(self, module: nn.Module, pixels: Tensor) -> Tensor:
        """The answer (B, classes), or the pooled features (B, width) of a model without a head.

        Stored positions are interpolated for another size, where the model knows how.
        """
        other = tuple(pixels.shape[-2:]) != self.input_size
        options = {"interpolate_pos_encoding": True} if self._sizes and other else {}
        found = module(pixels, return_dict=True, **options)
        for name in _ANSWERS:
            answer = found.get(name)
            if answer is not None:
                return answer
        pooled: Tensor = found["last_hidden_state"][:, 0]
        return pooled

    # -- the head ------------------------------------------------------------------------------

    def readout_support(self) -> Support:
        if self.classes and self.pooling != "other":
            return YES
        return Adapter.readout_support(self)

    def read_out(self, stream: Tensor) -> Tensor:
        module, core = self._module, self._core
        vector = stream.mean(1)
        if type(module).__name__ != "CLIPForImageClassification":
            vector = core.layernorm(vector)  # BEiT with mean pooling has an identity here
        if self.pooling == "distilled":
            return (module.cls_classifier(vector) + module.distillation_classifier(vector)) / 2
        if self.pooling == "avg" and hasattr(core, "pooler"):
            vector = core.pooler.layernorm(vector)
        answer: Tensor = module.classifier(vector)
        return answer

    # -- figure 7 ------------------------------------------------------------------------------

    def _filters(self) -> Tensor | None:
        weight = self._convolution.weight.detach()
        return weight if weight.shape[1] == 3 else None

    def _positions(self) -> Tensor | None:
        embeddings = self._core.embeddings
        if hasattr(embeddings, "position_embedding"):  # CLIP's, an nn.Embedding
            table: Tensor = embeddings.position_embedding.weight
            return table
        return getattr(embeddings, "position_embeddings", None)

    def _positions_grid(self) -> tuple[int, int]:
        return self.grid(self.input_size or (0, 0))


def from_transformers(module: nn.Module) -> bool:
    """Whether a module's class is one of transformers, or derives from one."""
    return any(kind.__module__.startswith("transformers.") for kind in type(module).__mro__)


def adapt_transformers(module: Any) -> TransformersAdapter:
    """The adapter of a module of transformers; ModelError names the ones that are read."""
    config = getattr(module, "config", None)
    kind = getattr(config, "model_type", type(module).__name__)
    if kind not in READ or not _reads_photos(module) or _core(module) is None:
        raise ModelError(
            Sentence(
                "transformers_not_read",
                "{family} of transformers ({kind}) is not read; ForImageClassification, bare and "
                "projecting vision models of {read} are. Of CLIPModel, take its vision_model.",
                family=type(module).__name__,
                kind=kind,
                read=", ".join(READ),
            )
        )
    return TransformersAdapter(module)


def config_labels(module: Any) -> tuple[str, ...] | None:
    """The class names in the configuration; None where it only counts them."""
    named = getattr(module.config, "id2label", None)
    if not isinstance(named, Mapping) or not named:
        return None
    labels = tuple(str(named.get(i, named.get(str(i), ""))) for i in range(len(named)))
    counted = tuple(f"LABEL_{i}" for i in range(len(named)))
    return None if labels == counted or not all(labels) else labels


def _reads_photos(module: Any) -> bool:
    name = type(module).__name__
    ends = ("ForImageClassification", "WithTeacher", "VisionModel", "WithProjection")
    bare = name.endswith("Model") and name != "CLIPModel" and "Text" not in name
    return bare or (name.endswith(ends) and "Text" not in name)


def _core(module: Any) -> Any:
    """The bare model inside: the outermost part that owns embeddings."""
    return next((part for part in module.modules() if hasattr(part, "embeddings")), None)


def _blocks(core: Any) -> nn.ModuleList:
    return next(part for part in core.modules() if isinstance(part, nn.ModuleList))


def _part(block: nn.Module, names: tuple[str, ...]) -> nn.Module:
    return next(getattr(block, name) for name in names if hasattr(block, name))


def _projection(block: nn.Module) -> nn.Module:
    """The layer that reads the merged heads."""
    parts = dict(block.named_modules())
    return next(parts[name] for name in _PROJECTION if name in parts)


def _convolution(embeddings: nn.Module) -> nn.Conv2d:
    return next(part for part in embeddings.modules() if isinstance(part, nn.Conv2d))

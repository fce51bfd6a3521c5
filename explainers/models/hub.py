"""Models of the Hub: which file a name stands for, whether it is here, and how to get it."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from explainers.models.download import Progress, TransferError, download
from explainers.models.errors import ModelError
from explainers.models.hub_cache import WEIGHTS, cache_folder, cached_file
from explainers.models.hub_errors import explain_failure
from explainers.scalars import shown
from explainers.sentence import Sentence

if TYPE_CHECKING:
    from timm.models import PretrainedCfg

CONFIG = "config.json"
_SCHEMES = ("hf-hub:", "hf_hub:")


@dataclass(frozen=True)
class Source:
    """Where a model lies on the Hub.

    name: the full name, tag included. files: what has to be in the cache, weights last.
    """

    name: str
    repo: str
    files: tuple[str, ...]
    revision: str = "main"


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT as it is now, else the client's default."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def source(name: str) -> Source:
    """Where the model called ``name`` lies: a timm name (tag optional), or hf-hub:owner/model.

    Raises ModelError for anything else, naming what comes near.
    """
    for scheme in _SCHEMES:
        if name.lower().startswith(scheme):
            return _repository(name, name[len(scheme) :])
    if "://" in name or "/" in name or "\\" in name or ".." in name or ":" in name:
        raise ModelError(
            Sentence(
                "model_name_place",
                "{name!r} is neither the name of a model nor a weights file; expected a timm "
                "name, hf-hub:owner/model, or a path that ends in .safetensors. Weights are "
                "never loaded straight from an address.",
                name=name,
            )
        )
    return _timm_source(name)


def _repository(name: str, rest: str) -> Source:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    repo, _, revision = rest.partition("@")
    try:
        validate_repo_id(repo)
        sound = "/" in repo and ".." not in revision and not revision.startswith("/")
    except HFValidationError:
        sound = False
    if not sound:
        raise ModelError(
            Sentence(
                "model_name_hub",
                "{name!r} is not a place on the hub; expected hf-hub:owner/model or "
                "hf-hub:owner/model@revision.",
                name=name,
            )
        )
    return Source(f"hf-hub:{rest}", repo, (CONFIG, WEIGHTS), revision or "main")


def _timm_source(name: str) -> Source:
    from timm.models import get_deprecated_models

    architecture = name.split(".", 1)[0]
    renamed = get_deprecated_models().get(architecture)
    config = timm_config(renamed or name)
    if config is None or not config.hf_hub_id:
        raise ModelError(
            Sentence(
                "model_no_weights",
                "No trained weights of {name} are on the hub; give a .safetensors file of your "
                "own with this architecture.",
                name=name,
            )
        )
    full = f"{config.architecture}.{config.tag}" if config.tag else name
    repo, _, revision = config.hf_hub_id.partition("@")
    weights = (config.hf_hub_filename or WEIGHTS).replace(".bin", ".safetensors")
    return Source(full, repo, (weights,), revision or "main")


def timm_config(name: str) -> PretrainedCfg | None:
    """timm's configuration of a name (tag optional); None where it has none.

    Raises ModelError, with the nearest names, for an unknown architecture or tag.
    """
    import timm
    from timm.models import get_pretrained_cfg

    architecture = name.split(".", 1)[0]
    near: list[str] = []
    if timm.is_model(architecture):
        try:
            return get_pretrained_cfg(name)
        except RuntimeError:  # no such tag
            near = timm.list_pretrained(f"{architecture}.*")
    known = [*timm.list_models(), *timm.list_pretrained(), "embedded", "auto"]
    near = near or difflib.get_close_matches(name.lower(), known, n=4)
    if not near:
        raise ModelError(
            Sentence(
                "model_unlike",
                "No model is called {name!r}, and no name comes near; give 'embedded', a timm name "
                "such as vit_base_patch16_224, hf-hub:owner/model or a .safetensors file.",
                name=shown(name),
            )
        )
    raise ModelError(
        Sentence(
            "model_unknown",
            "No model is called {name!r}; nearest names: {near}.",
            name=shown(name),
            near=", ".join(near[:6]),
        )
    )


def cached_weights(name: str, cache_dir: str | Path | None = None) -> Path | None:
    """The weights of a model where all its files are in the cache, else None; no network."""
    place = source(name)
    found = [cached_file(place.repo, file, place.revision, cache_dir) for file in place.files]
    return found[-1] if all(found) else None


def is_cached(name: str, cache_dir: str | Path | None = None) -> bool:
    """Whether a model can be loaded without a network. Raises ModelError for unknown names."""
    return cached_weights(name, cache_dir) is not None


def fetch(name: str, progress: Progress | None = None, cache_dir: str | Path | None = None) -> Path:
    """Download what the cache lacks of a model; the path of its weights. See `fetch_file`."""
    place = source(name)
    return [fetch_file(place, file, progress, cache_dir) for file in place.files][-1]


def fetch_file(
    place: Source,
    file: str,
    progress: Progress | None = None,
    cache_dir: str | Path | None = None,
) -> Path:
    """A file of a model: from the cache without a look at the network, else downloaded.

    ``progress(done, total)`` counts bytes (0 = not known yet) and cancels by raising. Raises
    ModelError, in one sentence, whatever goes wrong between here and the hub.
    """
    folder, hub = cache_folder(cache_dir), endpoint()
    path = cached_file(place.repo, file, place.revision, folder)
    if path is not None:
        return path
    try:
        return download(
            place.repo,
            file,
            folder=folder,
            endpoint=hub,
            revision=place.revision,
            progress=progress,
            check=_check_sent if file.endswith(".safetensors") else None,
        )
    except TransferError as failed:
        cause = failed.__cause__ or failed
        raise ModelError(explain_failure(cause, place.name, place.repo, file, hub)) from cause


def _check_sent(path: Path) -> None:
    """Like `check_weights`, for bytes that never become a file of the cache."""
    try:
        check_weights(path)
    except ModelError as error:
        raise ModelError(
            Sentence(
                "hub_sent_other",
                "What the hub sent is not a weights file (perhaps the page of a login or a "
                "proxy), so it was thrown away; check HF_ENDPOINT and the network.",
            )
        ) from error


def check_weights(path: Path) -> None:
    """Raise ModelError when a file is not whole, readable safetensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            if file.keys():
                return
    except OSError as error:
        raise ModelError(
            Sentence(
                "weights_unreadable",
                "The weights file {path} cannot be read ({reason}); check that it is there and "
                "may be read.",
                path=str(path),
                reason=error.strerror or str(error),
            )
        ) from error
    except (SafetensorError, UnicodeDecodeError) as error:
        raise _not_weights(path) from error
    raise _not_weights(path)


def _not_weights(path: Path) -> ModelError:
    return ModelError(
        Sentence(
            "weights_not_safetensors",
            "{path} holds no weights: it is not a whole safetensors file. Delete it and fetch or "
            "save it again.",
            path=str(path),
        )
    )

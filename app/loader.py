"""Which model a name of the page's menu stands for, and how it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.work import Report
from explainers import ModelError, VisionModel, load_model
from explainers.models.catalogue import CATALOGUE, EMBEDDED, PREFERRED
from explainers.models.devices import find_device, find_precision
from explainers.sentence import Sentence


@dataclass(frozen=True)
class Given:
    """The model named on the command line: a file, or a name that is allowed to be fetched."""

    name: str
    source: str
    arch: str | None = None
    labels: str | None = None
    device: str = "auto"
    dtype: str = "float32"

    def problem(self) -> str | None:
        """Why this cannot be loaded, where that is plain at once: no such file, or no device."""
        for path in (self.source if is_path(self.source) else None, self.labels):
            if path is not None and not Path(path).is_file():
                return f"There is no file {path}; check --model and --labels."
        try:
            find_precision(self.dtype, find_device(self.device))
        except ModelError as error:
            return str(error)
        return None


def resolve(
    model: str,
    arch: str | None = None,
    labels: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
) -> Given:
    """What ``--model`` asks for; "auto" is the preferred model where it is here already."""
    if model == "auto":
        preferred = next(entry for entry in CATALOGUE if entry.name == PREFERRED)
        model = PREFERRED if preferred.state() == "cached" else EMBEDDED
    name = Path(model).name if is_path(model) else model
    return Given(name, model, arch, labels, device, dtype)


class Loader:
    """Loads models for the pool. Visitors reach names only: paths are the owner's to give."""

    def __init__(self, given: Given) -> None:
        self._given: Mapping[str, Given] = {given.name: given}
        self._place = {"device": given.device, "dtype": given.dtype}

    def __call__(self, name: str, report: Report, download: bool) -> VisionModel:
        given = self._given.get(name)
        if given is not None:
            return load_model(
                given.source, arch=given.arch, labels=given.labels, progress=report, **self._place
            )
        if is_path(name):
            raise ModelError(
                Sentence(
                    "page_model_path",
                    "This page takes the names of models, not files; start it with "
                    "--model FILE to use a file of your own.",
                )
            )
        return load_model(name, progress=report, download=download, **self._place)


def is_path(name: str) -> bool:
    """Whether a model is named by a file rather than by a name of the hub."""
    lowered = name.lower()
    if lowered.startswith(("hf-hub:", "hf_hub:")):
        return False
    endings = (".safetensors", ".pth", ".pt", ".bin", ".ckpt")
    return lowered.endswith(endings) or "/" in name or "\\" in name

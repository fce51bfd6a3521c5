"""The recipe of maps: what made them, as a small file, and making the very same maps again.

A recipe holds the maps' own provenance and nothing else: no photo, no date, no path. Every file
of maps that ViTScope saves carries it too, so each of them can be given in place of a recipe.
(Not to be confused with `explainers.models.recipe`, which is about building a model.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explainers.heatmap import HeatMap
from explainers.methods.explain import versions
from explainers.registry import find_method
from explainers.render.export import write_file
from explainers.render.metadata import read_metadata
from explainers.render.npz import to_json
from explainers.scalars import real_number
from explainers.sentence import Sentence

__all__ = ["MapRecipe", "RecipeError", "open_recipe", "recipe_of", "save_recipe"]

MOST = 1000
"""Maps of one recipe."""

MOST_THREADS = 512
"""More cannot be begun on every machine, and a failure to begin one ends the process."""

AIMS = ("target", "against")


class RecipeError(ValueError):
    """A recipe cannot be read or followed; the message is one plain sentence."""


@dataclass(frozen=True)
class MapRecipe:
    """How maps were made: the provenance of each. single: one map alone, not a list of one."""

    maps: tuple[Mapping[str, Any], ...]
    single: bool = False

    def to_json(self) -> str:
        """The contents of a recipe file."""
        what: dict[str, Any] = {"map": self.maps[0]} if self.single else {"maps": self.maps}
        return to_json({"vitscope_recipe": 1, **what}) + "\n"

    @property
    def photos(self) -> tuple[str, ...]:
        """The hashes of the photos it needs, each once."""
        return tuple(dict.fromkeys(made["photo_sha256"] for made in self.maps))

    def aged(self) -> Sentence | None:
        """What to expect where other versions made the maps: None for the same ones."""
        here, then = versions(), self.maps[0]["versions"]
        if all(made["versions"] == here for made in self.maps):
            return None
        names = [name for name in here if then.get(name) != here[name]] or ["vitscope"]
        return Sentence(
            "recipe_versions",
            "The recipe was made with {then}, and here is {here}; the last digits may differ.",
            then=", ".join(f"{name} {then.get(name, 'unknown')}" for name in names),
            here=", ".join(f"{name} {here[name]}" for name in names),
        )


def recipe_of(heats: HeatMap | Sequence[HeatMap]) -> MapRecipe:
    """The recipe of one map, or of several."""
    single = isinstance(heats, HeatMap)
    given = [heats] if isinstance(heats, HeatMap) else heats
    maps = [plain(made) for made in _flat([heat.provenance for heat in given])]
    return MapRecipe(tuple(maps), single and len(maps) == 1)


def save_recipe(heats: HeatMap | Sequence[HeatMap], path: str | Path) -> Path:
    """Write the recipe of maps as a JSON file; SaveError where it cannot be written."""
    return write_file(Path(path), recipe_of(heats).to_json().encode())


def open_recipe(path: str | Path) -> MapRecipe:
    """The recipe in a recipe file, or in a file of maps: .npz, .png, .pdf, .svg or .tiff.

    Every value is checked. Raises RecipeError where there is none in it.
    """
    path = Path(path)
    try:
        path.stat()  # of a file that is not there, this is what is wrong
        if path.suffix.lower() == ".json":
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            found = read_metadata(path)
    except OSError as error:
        raise RecipeError(
            Sentence(
                "recipe_unreadable",
                "{path} cannot be read ({reason}); check the name of the recipe.",
                path=str(path),
                reason=error.strerror or str(error),
            )
        ) from error
    except (ValueError, RecursionError) as error:
        raise _none(path) from error
    if not isinstance(found, dict):
        raise _none(path)
    several = found.get("maps")
    if isinstance(several, list):
        maps, single = several, False
    elif "map" in found or "method" in found or "view" in found:
        maps, single = [found.get("map", found)], True
    else:  # of a list of maps: name → provenance
        maps, single = list(found.values()), False
    maps = list(_flat(maps))
    if not 1 <= len(maps) <= MOST:
        raise _none(path)
    for made in maps:
        _check(made, path)
    return MapRecipe(tuple(maps), single and len(maps) == 1)


def plain(made: Mapping[str, Any]) -> dict[str, Any]:
    """As it comes back from a file: lists for tuples, plain numbers."""
    plain: dict[str, Any] = json.loads(to_json(made))
    return plain


def _flat(maps: Sequence[Any], depth: int = 0) -> Iterator[Any]:
    """The maps themselves, where some of them were made of others (a consensus, a difference)."""
    for made in maps:
        if isinstance(made, Mapping) and isinstance(made.get("of"), list) and depth < 3:
            yield from _flat(made["of"], depth + 1)
        else:
            yield made


def _check(made: Any, path: Path) -> None:
    """Every value that `replay` uses is of its kind; RecipeError."""
    fine = (
        isinstance(made, dict)
        and all(isinstance(made.get(name), str) for name in _TEXTS)
        and all(isinstance(made.get(name), dict) for name in ("preprocessing", "versions"))
        and _size(made["preprocessing"].get("size"))
        and _setting_names(made.get("parameters"))
        and all(name in made and (made[name] is None or _aim(made[name])) for name in AIMS)
        and _whole(made.get("threads"), 1, MOST_THREADS)
        and ("windows" not in made or _windows(made["windows"]))
    )
    if not fine:
        raise _none(path)
    find_method(made["method"])


_TEXTS = ("model", "loaded_weights_sha256", "precision", "photo_sha256", "method")


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _size(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_whole(v, 1, 99999) for v in value)


def _aim(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _whole(value.get("index"), 0, 10**9)
        and isinstance(value.get("label"), str)
    )


def _windows(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and (value.get("long_side") is None or _whole(value["long_side"], 1, 10**6))
        and real_number(value.get("overlap")) is not None
    )


def _setting_names(value: Any) -> bool:
    """Names of settings only: a recipe may not name the other arguments of `explain`."""
    return isinstance(value, dict) and not {"progress", "trace", "target", "against"} & {*value}


def _none(path: Path) -> RecipeError:
    return RecipeError(
        Sentence(
            "recipe_none",
            "{path} holds no recipe that can be followed; give a recipe (.json) or a file of maps "
            "(.npz, .png, .pdf, .svg, .tiff) that ViTScope saved.",
            path=path.name,
        )
    )

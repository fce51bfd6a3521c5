"""``/replay``: the maps of a recipe made again, from the same photo and the same weights."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import torch

from app import api_fields as fields
from app import link_reading
from app.api_call import calling, loaded, new_file, scene_of, worked
from app.api_fields import MODEL
from app.api_offer import offer
from app.comparison import MODELS, MOST
from app.desks import Desk
from app.files import PhotoFiles, adopt, unpacked_size
from app.link_events import LARGEST
from app.look_control import LONGEST
from app.scene import Scene
from app.studio import Studio
from app.work import Report
from explainers import HeatMap, Photo, VisionModel
from explainers.look import Look
from explainers.recipe import MapRecipe, RecipeError, open_recipe
from explainers.render.npz import npz_bytes
from explainers.replay import replay
from explainers.sentence import Sentence
from explainers.window_places import OVERLAP


def add(studio: Studio) -> None:
    """Add it."""

    def replay_recipe(
        request: gr.Request, recipe: str | None, photo: str | None
    ) -> tuple[str, list[str]]:
        """Make the maps of a recipe again: the same numbers, bit for bit, on the same machine.

        Args:
            recipe: a recipe, as /recipe makes it, or any file of maps that ViTScope saved
            photo: the file of the photo that they were made from

        Returns:
            maps: the numbers of all maps with what made them, as NPZ
            notes: what may make the last digits differ; empty where nothing does
        """
        with calling(studio, request) as desk:
            read = read_recipe(desk, recipe)
            scene = scene_of(studio, desk, photo, MODEL)
            taken = studio.photo(desk, str(scene.photo))
            heats, notes = made_again(studio, desk, read, taken)
            contents = npz_bytes(heats[0] if read.single else heats)
            name = f"{Path(taken.name).stem or 'photo'}-maps.npz"
            return new_file(desk, name, contents), [str(note) for note in notes]

    asked = [PhotoFiles(label="recipe", file_count="single"), fields.photo()]
    offer("replay", replay_recipe, asked, [gr.File(label="maps"), gr.JSON(label="notes")])


def read_recipe(desk: Desk, file: str | None) -> MapRecipe:
    """The recipe in an uploaded file, of no more than the page makes at once. ValueError."""
    if file is None:
        raise RecipeError(Sentence("api_no_recipe", "No recipe came; give a file as recipe."))
    path = adopt(file, desk.folder)
    if unpacked_size(path) > LARGEST:
        raise ValueError(link_reading.no_view(path))
    recipe = open_recipe(path)
    models = {made["model"] for made in recipe.maps}
    if len(recipe.maps) > MOST or len(models) > MODELS:
        raise RecipeError(
            Sentence(
                "api_recipe_many",
                "The recipe has {maps} maps of {models} models; {most} maps of {most_models} "
                "models are made at once here.",
                maps=len(recipe.maps),
                models=len(models),
                most=MOST,
                most_models=MODELS,
            )
        )
    return recipe


def made_again(
    studio: Studio, desk: Desk, recipe: MapRecipe, photo: Photo
) -> tuple[list[HeatMap], list[Sentence]]:
    """The maps, and what may make their last digits differ. ValueError where they cannot be made.

    All visitors share torch's threads: where the recipe was made with another number of them,
    the maps are made with those there are.
    """
    vits = {made["model"]: loaded(studio, desk, made["model"]) for made in recipe.maps}
    for made in recipe.maps:
        demand_room(studio, vits[made["model"]], photo, made)
    threads = torch.get_num_threads()
    notes = [note for note in (recipe.aged(), _other_threads(recipe, threads)) if note]
    here = replace(recipe, maps=tuple({**made, "threads": threads} for made in recipe.maps))

    def load(name: str, size: Any = None, dtype: Any = None) -> VisionModel:
        """The page's own model; its precision is the owner's to choose, and `replay` checks it."""
        if size is not None:
            raise RecipeError(_size(name, size))
        return vits[name]

    def work(report: Report) -> list[HeatMap]:
        report(0, 1)
        return replay(here, photo, load)

    key = "replay", here.to_json(), photo.sha256
    heats = worked(
        studio, desk, key, work, lambda heats: sum(10_000 + heat.values.nbytes for heat in heats)
    )
    return heats, notes


def demand_room(studio: Studio, vit: VisionModel, photo: Photo, made: Any) -> None:
    """ModelError where the memory does not allow a map's look; RecipeError where the page has
    no such look."""
    size = made["preprocessing"]["size"]
    if "windows" in made:
        if made["windows"]["overlap"] != OVERLAP:
            raise RecipeError(_size(vit.name, size))
        look = Look("windows", made["windows"]["long_side"])
    elif tuple(size) == tuple(vit.preprocessing.size):
        return
    else:
        longest = max(photo.height, photo.width)
        sides = zip(size, (photo.height, photo.width), strict=True)
        side = max(math.ceil(pixels * longest / own) for pixels, own in sides)
        if side > LONGEST:
            raise RecipeError(_size(vit.name, size))
        look = Look("whole", max(side, *vit.adapter.patch))
    studio.forecast(vit, photo, Scene(model=vit.name, look=look))


def _size(name: str, size: Any) -> Sentence:
    height, width = size
    return Sentence(
        "api_recipe_size",
        "In this recipe {name} looks at {height}×{width} pixels in a way that this page does not; "
        "replay it with python -m explainers replay.",
        name=name,
        height=height,
        width=width,
    )


def _other_threads(recipe: MapRecipe, here: int) -> Sentence | None:
    then = sorted({made["threads"] for made in recipe.maps} - {here})
    if not then:
        return None
    return Sentence(
        "api_recipe_threads",
        "The recipe was made with {then} threads, and here are {here}; the last digits may differ.",
        then=", ".join(map(str, then)),
        here=here,
    )

"""`replay`: the maps of a recipe made again."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from explainers.command.terminal import CommandError, Exit, download_bar, say, warn
from explainers.image import load_photo
from explainers.models.loading import load_model
from explainers.models.vision_model import VisionModel
from explainers.recipe import open_recipe
from explainers.render.export import save, save_all
from explainers.replay import replay
from explainers.sentence import Sentence


def replay_recipe(options: argparse.Namespace) -> Exit:
    """Make the maps again and write them. Raises ValueError where the recipe is not followed."""
    recipe = open_recipe(options.recipe)
    names = {made["model"] for made in recipe.maps}
    if options.model is not None and len(names) > 1:
        raise CommandError(
            Sentence(
                "command_replay_models",
                "The maps of this recipe are of {count} models ({names}), so --model cannot "
                "stand for one; leave it out.",
                count=len(names),
                names=", ".join(sorted(names)),
            )
        )
    if options.out.suffix.lower() != ".npz" and not recipe.single:
        raise CommandError(
            Sentence(
                "command_replay_several",
                "This recipe makes {count} maps, which only an .npz file holds together; name "
                "one with --out.",
                count=len(recipe.maps),
            )
        )
    photos = [load_photo(path) for path in options.photo]
    aged = recipe.aged()
    if aged is not None:
        warn(str(aged))
    opened = partial(
        load_model,
        arch=options.arch,
        labels=options.labels,
        progress=download_bar(options.quiet),
        allow_pickle=True,
    )

    def load(name: str, **as_then: Any) -> VisionModel:
        return opened(options.model or name, **as_then)

    heats = replay(recipe, photos, load)
    path = save(heats[0], options.out) if recipe.single else save_all(heats, options.out)
    say(f"{len(heats)} {'map' if len(heats) == 1 else 'maps'} made again: {path}")
    return Exit.DONE

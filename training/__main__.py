"""``python -m training train|finetune|evaluate|recipe``, also under ``torchrun``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from explainers.models.loading import load_model
from explainers.models.vision_model import VisionModel
from training import recipe
from training.arguments import TWINS, model_arguments, parse, plan_of
from training.data import ImageSet, read_data, read_split
from training.errors import TrainingError
from training.loop import Run, evaluate
from training.models import Learner, fine_tuned, new_learner
from training.processes import World, device, joined
from training.saving import MODEL, STATE

DONE, FAILED, INTERRUPTED = 0, 2, 130
_logger = logging.getLogger("training")


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the flags ask; 0, or 2 after one sentence on standard error, or 130."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    _logger.setLevel(logging.INFO)
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        with joined() as world:
            if options.command == "evaluate":
                _evaluate(options, world)
            elif options.command == "recipe":
                _follow(options, world)
            else:
                _train(options, world)
    except KeyboardInterrupt:
        _logger.error("Interrupted; the same command with --resume goes on.")
        return INTERRUPTED
    except (ValueError, OSError) as error:
        _logger.error("%s", error)
        return FAILED
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    return DONE


def _follow(options: argparse.Namespace, world: World) -> None:
    """Convert, fine-tune, export, and test what was exported."""
    plan = recipe.read_recipe(options.recipe)
    if world.first:
        start = recipe.start(plan, options)
        _logger.info("Backbone: %s", start)
    world.wait()
    _train(parse(recipe.words(plan, options)), world)
    if not world.first:
        return
    images = read_split(options.data, None, options.test_images)
    path = recipe.export(plan, options, images.names)
    _logger.info("Exported: %s", path)
    place = device(options.device, world)
    for size in dict.fromkeys((plan.sizes[-1], plan.size)):
        vit = load_model(path, size=size, device="cpu")
        vit.module.to(place)
        found = evaluate(vit.module, matched(images, vit), vit.preprocessing, None, place)
        _tell(f"{path.name} at {size} px", len(images), found)


def _train(options: argparse.Namespace, world: World) -> None:
    plan = plan_of(options)
    if (options.out / STATE).exists() and not options.resume:
        raise TrainingError(
            f"{options.out} holds a run already; add --resume to go on with it, or choose "
            "another --out."
        )
    images = read_data(options.data, options.images, options.test_images)
    learner, settings = _learner(options, images[0])
    run = Run(
        learner,
        images,
        plan,
        options.out,
        settings=settings,
        world=world,
        device=device(options.device, world),
        save_every=options.save_every,
        quiet=options.quiet,
    )
    if options.resume:
        run.resume()
    if world.first:
        count = sum(p.numel() for p in learner.module.parameters())
        _logger.info(
            "%d of %d parameters are trained, on %d images of %d classes, from step %d of %d.",
            *(learner.trained_parameters(), count, len(images[0]), len(learner.classes)),
            *(run.progress.step, run.steps),
        )
    last = run.fit()[-1]
    if world.first:
        _logger.info(
            "After %d epochs: test accuracy %.2f %%, loss %.3f. Model: %s",
            *(last["epoch"], 100 * last["test_accuracy"], last["test_loss"], options.out / MODEL),
        )


def _learner(options: argparse.Namespace, train: ImageSet) -> tuple[Learner, dict[str, object]]:
    """What is trained, and the settings beyond the plan that a checkpoint must agree on."""
    if options.command == "train":
        arguments = model_arguments(options)
        learner = new_learner(TWINS[options.model], arguments, train.classes, options.seed)
        return learner, {"model": options.model, **arguments}
    vit = _load(options)
    frozen = options.backbone == "frozen"
    learner = fine_tuned(vit, train.classes, frozen, options.freeze_blocks)
    settings = {"size": list(learner.preprocessing.size), "backbone": options.backbone}
    return learner, {"model": vit.name, **settings, "freeze_blocks": options.freeze_blocks}


def _evaluate(options: argparse.Namespace, world: World) -> None:
    vit = _load(options)
    images = matched(read_split(options.data, options.split, options.images), vit)
    place = device(options.device, world)
    vit.module.to(place)
    found = evaluate(vit.module, images, vit.preprocessing, world, place, options.bf16)
    if world.first:
        _tell(vit.name, len(images), found)


def _tell(name: str, images: int, found: dict[str, float]) -> None:
    _logger.info(
        "%s on %d images: top-1 %.2f %%, top-5 %.2f %%, loss %.4f",
        *(name, images, 100 * found["top1"], 100 * found["top5"], found["loss"]),
    )


def matched(images: ImageSet, vit: VisionModel) -> ImageSet:
    """The images with the model's own indices of their classes.

    Raises TrainingError where the classes are not the model's.
    """
    if len(images.classes) != vit.classes:
        raise TrainingError(
            f"{vit.name} knows {vit.classes} classes and the data have {len(images.classes)}; "
            "evaluate it on the classes that it was trained on, or fine-tune it."
        )
    if vit.labels is None:
        return images
    # A WordNet id is a class's name, or stands for the name that the data give it.
    called = [
        name if name in vit.labels else images.names.get(name, name) for name in images.classes
    ]
    unknown = sorted(set(called) - set(vit.labels))
    if unknown:
        raise TrainingError(
            f"{vit.name} has no class {unknown[0]!r} (its first is {vit.labels[0]!r}); the class "
            "folders must have the names of its labels."
        )
    index = [vit.labels.index(name) for name in called]
    return ImageSet(images.photos, images.targets.new_tensor(index)[images.targets], vit.labels)


def _load(options: argparse.Namespace) -> VisionModel:
    return load_model(options.model, arch=options.arch, size=options.size, device="cpu")


if __name__ == "__main__":
    sys.exit(main())

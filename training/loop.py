"""The training loop, and the test of a model on a set of images."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from explainers.models.preprocessing import Preprocessing
from training import curves, saving
from training.batches import (
    DROPOUT,
    PIXELS,
    drawn_from,
    epoch_batches,
    generator,
    test_batches,
    training_batch,
)
from training.data import ImageSet
from training.errors import TrainingError
from training.models import Learner, check_later_size, checkpoint_blocks, set_dropout
from training.plan import Plan, optimiser
from training.processes import World
from training.saving import MODEL, STATE, Progress

TEST_BATCH = 256
REDRAW = 30.0  # seconds between two drawings of the curves: a short epoch takes less than one


class Run:
    """One run: its model, images and plan, and the folder that its files go to.

    folder: model.safetensors, resume.safetensors and history.csv after every epoch, curves.png
    now and then and at the end; resume.safetensors also every ``save_every`` steps (0: never).
    """

    def __init__(
        self,
        learner: Learner,
        images: tuple[ImageSet, ImageSet],
        plan: Plan,
        folder: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        world: World | None = None,
        device: torch.device | str = "cpu",
        save_every: int = 0,
        quiet: bool = False,
    ) -> None:
        self.learner, self.plan, self.folder = learner, plan, folder
        self.train, self.test = images
        self.settings = {**(settings or {}), **vars(plan), "images": len(self.train)}
        self.world, self.device = world or World(), torch.device(device)
        self.save_every, self.quiet = save_every, quiet
        self.part = self.world.part(plan.batch)
        self.epoch_steps = len(self.train) // plan.batch
        if not self.epoch_steps:
            raise TrainingError(
                f"There are {len(self.train)} training images and a batch takes {plan.batch}; "
                "make --batch smaller."
            )
        self.steps = plan.steps or plan.epochs * self.epoch_steps
        if plan.later_size:
            check_later_size(learner.module, plan.later_size)
        learner.module.to(self.device)
        set_dropout(learner.module, plan.dropout)
        if plan.checkpointing:
            checkpoint_blocks(learner.module)
        self.optimiser = optimiser(learner.module, plan)
        self.progress = Progress()
        self.drawn = time.monotonic()

    def resume(self) -> None:
        """Go on from where the folder's state says, or from the beginning where it has none."""
        path = self.folder / STATE
        if path.is_file():
            saved = saving.load_state(path, self.learner, self.optimiser, self.settings)
            self.progress = saved
            if not self.world.first:
                self.progress.sums = [0.0, 0.0, 0.0]  # the first process has those of all

    def fit(self) -> list[dict[str, float]]:
        """Train to the end; the history, a row an epoch. Torch's generators stay as they were."""
        module: nn.Module = self.learner.module
        if self.world.size > 1:
            module = DistributedDataParallel(module)
        devices = [self.device] if self.device.type == "cuda" else []
        with (
            torch.random.fork_rng(devices),
            tqdm(
                total=self.steps,
                initial=self.progress.step,
                disable=self.quiet or not self.world.first,
                unit="step",
                dynamic_ncols=True,
            ) as bar,
        ):
            while self.progress.step < self.steps:
                self._epoch(module, bar)
        return self.progress.history

    def _epoch(self, module: nn.Module, bar: Any) -> None:
        """The rest of the epoch, from the step that the run has come to."""
        started = time.perf_counter()
        epoch, done = divmod(self.progress.step, self.epoch_steps)
        bar.set_description(f"epoch {epoch + 1}/{math.ceil(self.steps / self.epoch_steps)}")
        self.learner.train_mode()
        batches = epoch_batches(len(self.train), self.plan.batch, self.plan.seed, epoch)
        for indices in batches[done : self.steps - epoch * self.epoch_steps]:
            self._step(module, epoch, indices)
            self.progress.step += 1
            sums = self.progress.sums
            bar.set_postfix(loss=f"{sums[0] / sums[2]:.3f}", refresh=False)
            bar.update()
            if self.save_every and self.progress.step % self.save_every == 0:
                self._save_state()
        self._finish_epoch(epoch, time.perf_counter() - started)

    def preprocessing(self, step: int) -> Preprocessing:
        """How a step's images are given to the model: from some step on they may be larger."""
        plan, usual = self.plan, self.learner.preprocessing
        if not plan.later_size or step < round(plan.later_from * self.steps):
            return usual
        return replace(usual, size=(plan.later_size, plan.later_size))

    def _step(self, module: nn.Module, epoch: int, indices: torch.Tensor) -> None:
        plan, step = self.plan, self.progress.step
        draws = generator(plan.seed, PIXELS, epoch, step)
        pixels, targets = training_batch(
            self.train,
            indices,
            self.part,
            self.preprocessing(step),
            draws,
            plan,
        )
        targets = targets.to(self.device)
        for group in self.optimiser.param_groups:
            group["lr"] = plan.rate_at(step, self.steps) * group["part"]
        torch.manual_seed(drawn_from(plan.seed, DROPOUT, step, self.world.rank))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=plan.bf16):
            logits = module(pixels.to(self.device))
            loss = F.cross_entropy(logits.float(), targets, label_smoothing=plan.smoothing)
        self.optimiser.zero_grad()
        loss.backward()
        if plan.clip:
            nn.utils.clip_grad_norm_(module.parameters(), plan.clip)
        self.optimiser.step()
        value = loss.item()
        if not math.isfinite(value):
            raise TrainingError(
                f"The loss is {value} at step {step + 1}; a lower --rate or a longer --warmup "
                "keeps it finite. What was saved before is whole."
            )
        hits = (logits.argmax(1) == targets).sum().item()
        for i, number in enumerate((value * len(targets), hits, len(targets))):
            self.progress.sums[i] += number

    def _finish_epoch(self, epoch: int, seconds: float) -> None:
        started = time.perf_counter()
        loss, hits, count = self.world.summed(self.progress.sums, self.device)
        tested = evaluate(
            self.learner.module,
            self.test,
            self.preprocessing(self.progress.step - 1),
            self.world,
            self.device,
            self.plan.bf16,
        )
        step = self.progress.step
        row = {
            "epoch": epoch + 1,
            "step": step,
            "rate": self.plan.rate_at(step - 1, self.steps),
            "train_loss": loss / count,
            "train_accuracy": hits / count,
            "test_loss": tested["loss"],
            "test_accuracy": tested["top1"],
            "seconds": round(seconds + time.perf_counter() - started, 2),
        }
        self.progress.history.append(row)
        self.progress.sums = [0.0, 0.0, 0.0]
        self._save_state()
        if self.world.first:
            saving.save_model(self.folder / MODEL, self.learner, self.settings)
            curves.write_csv(self.folder / "history.csv", self.progress.history)
            now = time.monotonic()
            if step == self.steps or now - self.drawn > REDRAW:
                curves.draw(self.folder / "curves.png", self.progress.history)
                self.drawn = now

    def _save_state(self) -> None:
        total = self.world.summed(self.progress.sums, self.device)
        self.progress.sums = total if self.world.first else [0.0, 0.0, 0.0]
        if self.world.first:
            path = self.folder / STATE
            saving.save_state(path, self.learner, self.optimiser, self.progress, self.settings)
        self.world.wait()


@torch.no_grad()
def evaluate(
    module: nn.Module,
    images: ImageSet,
    preprocessing: Preprocessing,
    world: World | None = None,
    device: torch.device | str = "cpu",
    bf16: bool = False,
) -> dict[str, float]:
    """Mean loss, and the parts of images (0..1) whose class is the first or among the first 5."""
    world, device = world or World(), torch.device(device)
    module.eval()
    loss = top1 = top5 = 0.0
    mine = range(len(images))[world.rank :: world.size]
    for pixels, targets in test_batches(images, mine, TEST_BATCH, preprocessing):
        targets = targets.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = module(pixels.to(device)).float()
        loss += F.cross_entropy(logits, targets, reduction="sum").item()
        best = logits.topk(min(5, logits.shape[1]), dim=1).indices == targets[:, None]
        top1 += best[:, 0].sum().item()
        top5 += best.sum().item()
    loss, top1, top5 = world.summed([loss, top1, top5], device)
    count = len(images)
    return {"loss": loss / count, "top1": top1 / count, "top5": top5 / count}

"""Recipes: maps made again are the same bytes; whatever differs is refused in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from explainers import HeatMap, VisionModel, explain, load_photo, wrap_model
from explainers.__main__ import main
from explainers.recipe import MapRecipe, RecipeError, open_recipe, recipe_of, save_recipe
from explainers.render.npz import npz_bytes, read_npz
from explainers.replay import replay
from explainers.separate_looks import SeparateLooks
from explainers.views.agreement import agreement
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
LION = Path("app/examples/lion.jpg")
METHODS = {
    "attention": {"block": 1, "head": 0},
    "rollout": {"discard": 0.5},
    "relevance": {},
    "saliency": {"resolution": "patch"},
    "smoothgrad": {"samples": 3, "seed": 5},
    "rise": {"masks": 12, "seed": 3},
    "kernel_shap": {"samples": 40, "seed": 2},
}


def tiny(**changes: Any) -> VisionModel:
    return wrap_model(tiny_vit(**changes), labels=LABELS, name="tiny")


def load(name: str, **as_then: Any) -> VisionModel:
    assert name == "tiny"
    return tiny(**as_then)


def made(method: str, **given: Any) -> HeatMap:
    heat = explain(method, tiny().trace(PHOTO), **given)
    assert isinstance(heat, HeatMap)
    return heat


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bytes_again(method: str, tmp_path: Path) -> None:
    given: dict[str, Any] = METHODS[method]
    classes = {} if method in ("attention", "rollout") else {"target": "lion", "against": 0}
    heat = made(method, **classes, **given)
    path = save_recipe(heat, tmp_path / "recipe.json")
    torch.rand(3)  # whatever else has been drawn meanwhile
    (again,) = replay(open_recipe(path), PHOTO, load)
    assert npz_bytes(again) == npz_bytes(heat)


def test_seeds_make_a_difference() -> None:
    heat = made("rise", masks=12, seed=3)
    recipe = recipe_of(heat)
    changed = {**recipe.maps[0], "parameters": {**recipe.maps[0]["parameters"], "seed": 4}}
    (other,) = replay(replace(recipe, maps=(changed,)), PHOTO, load)
    assert not np.array_equal(other.values, heat.values)


@pytest.mark.parametrize("suffix", [".json", ".npz", ".png", ".pdf", ".svg", ".tiff"])
def test_every_file_of_a_map_is_a_recipe(suffix: str, tmp_path: Path) -> None:
    heat = made("relevance", target=2)
    path = tmp_path / f"map{suffix}"
    if suffix == ".json":
        save_recipe(heat, path)
    else:
        heat.save(path)
    recipe = open_recipe(path)
    assert recipe == recipe_of(heat)
    assert recipe.aged() is None
    (again,) = replay(recipe, PHOTO, load)
    assert npz_bytes(again) == npz_bytes(heat)


def test_a_list_of_maps_keeps_its_order_and_names(tmp_path: Path) -> None:
    heats = [made("rollout"), made("attention"), made("rollout", discard=0.3)]
    path = tmp_path / "maps.npz"
    path.write_bytes(npz_bytes(heats))
    for recipe in (open_recipe(path), open_recipe(save_recipe(heats, tmp_path / "maps.json"))):
        assert not recipe.single
        assert npz_bytes(replay(recipe, PHOTO, load)) == npz_bytes(heats)
    alone = tmp_path / "list_of_one.npz"
    alone.write_bytes(npz_bytes(heats[:1]))
    assert npz_bytes(replay(open_recipe(alone), PHOTO, load)) == alone.read_bytes()


def test_a_map_made_of_maps_gives_those(tmp_path: Path) -> None:
    heats = [made("rollout"), made("attention")]
    agreement(heats).consensus.save(tmp_path / "consensus.png")
    recipe = open_recipe(tmp_path / "consensus.png")
    assert [one["method"] for one in recipe.maps] == ["rollout", "attention"]
    assert npz_bytes(replay(recipe, PHOTO, load)) == npz_bytes(heats)


@pytest.mark.parametrize("named", [None, "lion"])
def test_a_photo_looked_at_whole_or_in_windows(named: str | None, tmp_path: Path) -> None:
    whole = tiny().whole(PHOTO, 24)
    heats = [
        explain("relevance", whole.trace(PHOTO), named),
        SeparateLooks(tiny(), PHOTO, 32).explain("relevance", named),
        SeparateLooks(tiny(), PHOTO, overlap=0.5).explain("rollout"),
        SeparateLooks(tiny(), PHOTO, 32).explain("smoothgrad", 1, 2, samples=2, seed=7),
    ]
    recipe = open_recipe(save_recipe(heats, tmp_path / "recipe.json"))  # type: ignore[arg-type]
    again = replay(recipe, PHOTO, load)
    assert npz_bytes(again) == npz_bytes(heats)  # type: ignore[arg-type]


def test_a_recipe_holds_no_photo_date_or_path(tmp_path: Path) -> None:
    text = save_recipe(made("rollout"), tmp_path / "recipe.json").read_text()
    assert str(tmp_path) not in text
    assert "20" + "26" not in text
    assert {*json.loads(text)["map"]} == {
        *("model", "loaded_weights_sha256", "precision", "photo_sha256", "preprocessing"),
        *("geometry", "method", "parameters", "target", "against", "threads", "versions"),
    }


def test_another_photo_other_weights_and_other_labels_are_refused() -> None:
    recipe = recipe_of(made("relevance", target=2))
    other = load_photo(tiny_photo_array(seed=9), name="other.png")
    with pytest.raises(RecipeError, match=r"made from another photo than other\.png"):
        replay(recipe, other, load)
    with pytest.raises(RecipeError, match="other weights than those of tiny here"):
        replay(recipe, PHOTO, lambda name, **_: tiny(seed=1))
    renamed = wrap_model(tiny_vit(), labels=(*LABELS[::-1][:2], "x", "y", "z"), name="tiny")
    with pytest.raises(RecipeError, match="Class 2 is espresso in the recipe and x here"):
        replay(recipe, PHOTO, lambda name, **_: renamed)
    cropped = replace(renamed, preprocessing=replace(renamed.preprocessing, crop_pct=0.5))
    with pytest.raises(RecipeError, match="prepares photos here in another way"):
        replay(recipe, PHOTO, lambda name, **_: cropped)
    double = {**recipe.maps[0], "precision": "float32"}
    with pytest.raises(RecipeError, match="made in float32, and tiny is here in float64"):
        replay(replace(recipe, maps=(double,)), PHOTO, lambda name, **_: tiny())


def test_threads_are_those_of_the_recipe_and_then_as_before() -> None:
    seen: list[int] = []
    before = torch.get_num_threads()
    recipe = recipe_of(made("rollout"))
    asked = {**recipe.maps[0], "threads": 3}
    (heat,) = replay(replace(recipe, maps=(asked,)), PHOTO, load)
    seen.append(heat.provenance["threads"])
    assert seen == [3]
    assert torch.get_num_threads() == before


def test_other_versions_are_told() -> None:
    recipe = recipe_of(made("rollout"))
    old = {**recipe.maps[0], "versions": {**recipe.maps[0]["versions"], "torch": "2.1"}}
    note = MapRecipe((old,), True).aged()
    assert note is not None
    assert note.startswith("The recipe was made with torch 2.1, and here is torch")


@pytest.mark.parametrize(
    "contents",
    [
        "",
        "[]",
        "{}",
        '{"maps": []}',
        '{"map": 3}',
        '{"map": {"method": "rollout"}}',
        '{"maps": [{"of": [{"of": [{"of": [{"of": []}]}]}]}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_recipe_is_refused(contents: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(contents)
    with pytest.raises(RecipeError, match=r"recipe\.json holds no recipe"):
        open_recipe(path)


def test_forged_values_are_refused(tmp_path: Path) -> None:
    fine = recipe_of(made("rollout"))
    for name, value in {
        "threads": 4096,
        "model": ["embedded"],
        "target": {"index": "0", "label": "x"},
        "parameters": {"progress": 3},
        "preprocessing": {"size": [224]},
        "versions": "none",
    }.items():
        path = tmp_path / "recipe.json"
        path.write_text(MapRecipe(({**fine.maps[0], name: value},), True).to_json())
        with pytest.raises(RecipeError, match="holds no recipe"):
            open_recipe(path)
    for name in fine.maps[0].keys() - {"geometry"}:
        missing = {key: value for key, value in fine.maps[0].items() if key != name}
        path.write_text(MapRecipe((missing,), True).to_json())
        with pytest.raises(RecipeError, match="holds no recipe"):
            open_recipe(path)
    path.write_text(MapRecipe(({**fine.maps[0], "method": "magic"},), True).to_json())
    with pytest.raises(ValueError, match="There is no method 'magic'"):
        open_recipe(path)
    Image.new("RGB", (4, 4)).save(tmp_path / "plain.png")
    for name in ("plain.png", "plain.bmp"):
        (tmp_path / name).touch()
        with pytest.raises(RecipeError, match="holds no recipe"):
            open_recipe(tmp_path / name)
    with pytest.raises(RecipeError, match="cannot be read"):
        open_recipe(tmp_path / "nothing.json")


def test_command_line_round_trip(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """explain --recipe for two photos and a file of weights, then replay from each kind of file."""
    module = tiny_vit(dtype=torch.float32)
    weights = tmp_path / "own.safetensors"
    config = {"architecture": "vit_tiny_patch16_224", "model_args": dict(TINY)}
    save_file(module.state_dict(), weights, {"config": json.dumps(config)})
    (tmp_path / "config.json").write_text(json.dumps(config))
    photos = [root / LION, root / "app/examples/koala.jpg"]
    out = tmp_path / "maps"
    common = ["--model", str(weights), "--quiet"]
    code = main(
        [
            *("explain", *map(str, photos), "--out", str(out), "--format", "both", "--recipe"),
            *("--methods", "rollout,smoothgrad", "--set", "smoothgrad.samples=3", *common),
        ]
    )
    assert code == 0, capsys.readouterr().err
    for source in ("json", "npz"):
        for method in ("rollout", "smoothgrad"):
            file = out / f"koala.jpg.{method}"
            again = tmp_path / "again.npz"
            arguments = ["replay", f"{file}.{source}", "--photo", str(photos[1]), "--out"]
            assert main([*arguments, str(again), *common]) == 0, capsys.readouterr().err
            assert again.read_bytes() == Path(f"{file}.npz").read_bytes()
    recipe = str(out / "lion.jpg.rollout.png")
    again = tmp_path / "again.png"
    assert main(["replay", recipe, "--photo", str(photos[0]), "--out", str(again), *common]) == 0
    assert again.is_file()
    capsys.readouterr()
    assert main(["replay", recipe, "--photo", str(photos[1]), *common]) == 2
    assert "another photo than koala.jpg" in capsys.readouterr().err
    both = save_recipe([made("rollout"), made("attention")], tmp_path / "both.json")
    assert main(["replay", str(both), "--photo", str(photos[0]), "--out", "x.png", *common]) == 2
    assert "which only an .npz file holds together" in capsys.readouterr().err


TINY = {
    "img_size": [16, 16],
    "patch_size": 4,
    "embed_dim": 16,
    "depth": 3,
    "num_heads": 2,
    "num_classes": 5,
}


def test_embedded_model_again(tmp_path: Path, root: Path, embedded: VisionModel) -> None:
    trace = embedded.trace(load_photo(root / LION))
    heats = [explain(name, trace) for name in ("rollout", "grad_cam", "feature_pca")]
    path = tmp_path / "maps.npz"
    path.write_bytes(npz_bytes(heats))  # type: ignore[arg-type]
    assert (
        main(["replay", str(path), "--photo", str(root / LION), "--out", str(path), "--quiet"]) == 0
    )
    assert path.read_bytes() == npz_bytes(heats)  # type: ignore[arg-type]
    assert {"rollout", "grad_cam", "feature_pca"} < {*read_npz(path)}

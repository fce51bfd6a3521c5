"""Fetching models from a hub: one served on 127.0.0.1 that is slow, breaks off, lies, refuses."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants, hf_hub_download

from explainers.models import download, hub, loading
from explainers.models.catalogue import CATALOGUE
from explainers.models.errors import ModelError
from explainers.models.loading import auto_name, load_model
from explainers.sentence import Sentence
from tests.small_hub import TINY, TINY_REPO, SmallHub, tiny_module, tiny_weights, within

WEIGHTS = (TINY_REPO, "model.safetensors")
CONTENT = tiny_weights()


class Stop(Exception):  # noqa: N818
    """What a Cancel button raises."""


@pytest.fixture(autouse=True)
def _only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches outside 127.0.0.1, and none waits long for it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: tuple[str, int]) -> None:
        assert address[0] == "127.0.0.1", f"a test reached for {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.5)
    monkeypatch.setattr(download, "PAUSE", 0.01)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SmallHub]:
    """A hub that has timm's test model, and an empty cache; both through the environment."""
    with SmallHub({WEIGHTS: CONTENT}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        yield server


def take_the_network_away(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """From now on every use of the network fails; the list holds the attempts."""
    attempts: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        attempts.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return attempts


def key_of(error: pytest.ExceptionInfo[ModelError]) -> str:
    sentence = error.value.args[0]
    assert isinstance(sentence, Sentence)
    return sentence.key


def leftovers(cache: Path) -> list[str]:
    """Names of the files in all blob folders."""
    return sorted(path.name for path in cache.glob("*/blobs/*"))


def test_a_model_is_fetched_with_progress_and_then_needs_no_network(
    small: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    assert not hub.is_cached(TINY)
    vit = load_model("test_vit", progress=lambda done, total: seen.append((done, total)))
    assert vit.name == TINY
    assert hub.is_cached(TINY)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    pixels = torch.rand(1, 3, 160, 160)
    with torch.inference_mode():
        assert torch.equal(vit.logits(pixels), tiny_module()(pixels))
    assert not vit.module.training
    assert not any(parameter.requires_grad for parameter in vit.module.parameters())
    assert vit.labels is not None
    assert vit.labels[1] == "goldfish, Carassius auratus"
    assert vit.notes == ()
    assert vit.trained_grids == ((10, 10),)
    assert "file" not in vit.module.pretrained_cfg

    requests = len(small.requests)
    attempts = take_the_network_away(monkeypatch)
    assert load_model(TINY).weights_hash == vit.weights_hash
    assert load_model(TINY, download=False).weights_hash == vit.weights_hash
    assert attempts == []
    assert len(small.requests) == requests


def test_the_hubs_own_client_finds_what_was_fetched(small: SmallHub, tmp_path: Path) -> None:
    path = hub.fetch(TINY)
    own = hf_hub_download(*WEIGHTS, cache_dir=tmp_path / "cache", local_files_only=True)
    assert Path(own) == path
    assert path.read_bytes() == CONTENT


def test_the_cache_folder_follows_argument_and_environment(
    small: SmallHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fetch(TINY, cache_dir=tmp_path / "mine")
    assert hub.is_cached(TINY, tmp_path / "mine")
    assert not hub.is_cached(TINY)
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    hub.fetch(TINY)
    assert list((tmp_path / "home" / "hub").glob("models--*"))


def test_weights_that_lie_behind_a_redirect(small: SmallHub) -> None:
    with SmallHub(dict(small.files)) as cdn:
        small.cdn = cdn
        assert hub.fetch(TINY).read_bytes() == CONTENT
        assert len(cdn.sent()) == 1


def test_a_broken_transfer_goes_on_where_it_stopped(small: SmallHub) -> None:
    small.mode, small.breaks = "breaks", 2
    assert hub.fetch(TINY).read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert small.sent() == [None, f"bytes={half}-", f"bytes={half + (len(CONTENT) - half) // 2}-"]


def test_a_transfer_that_stays_broken_fails_and_resumes_later(
    small: SmallHub, tmp_path: Path
) -> None:
    small.mode = "breaks"
    small.files[WEIGHTS] = CONTENT
    with pytest.raises(ModelError, match=r"broke off after .* of 1\.5 MB") as error:
        load_model(TINY)
    assert key_of(error) == "hub_broken_off"
    assert not hub.is_cached(TINY)
    (kept,) = (tmp_path / "cache").glob("*/blobs/*.incomplete")
    size = kept.stat().st_size
    assert 0 < size < len(CONTENT)
    small.mode = "ok"
    assert hub.fetch(TINY).read_bytes() == CONTENT
    assert small.sent()[-1] == f"bytes={size}-"


def test_a_server_without_ranges_starts_over(small: SmallHub) -> None:
    small.mode = "breaks"
    with pytest.raises(ModelError):
        hub.fetch(TINY)
    small.mode = "norange"
    assert hub.fetch(TINY).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "key"),
    [
        (404, "hub_missing"),
        (401, "hub_refused"),
        (403, "hub_refused"),
        (500, "hub_trouble"),
        (429, "hub_trouble"),
    ],
)
def test_refusals_are_plain_sentences(small: SmallHub, status: int, key: str) -> None:
    small.status = status
    with pytest.raises(ModelError) as error:
        load_model(TINY)
    assert key_of(error) == key
    assert not hub.is_cached(TINY)


def test_a_refusal_after_the_announcement(small: SmallHub, tmp_path: Path) -> None:
    small.mode = "busy"
    with pytest.raises(ModelError, match="answered 503"), within(3):
        load_model(TINY)
    small.mode = "ok"
    assert hub.fetch(TINY).read_bytes() == CONTENT


def test_no_network(small: SmallHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(ModelError, match="cannot be reached") as error, within(3):
            load_model(TINY)
    assert key_of(error) == "hub_unreachable"


def test_offline_by_choice(small: SmallHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE") as error:
        load_model(TINY)
    assert key_of(error) == "hub_offline"
    assert small.requests == []


def test_not_a_hub(small: SmallHub) -> None:
    small.mode = "plain"
    with pytest.raises(ModelError, match="HF_ENDPOINT") as error:
        load_model(TINY)
    assert key_of(error) == "hub_not_a_hub"


def test_a_page_instead_of_weights_never_enters_the_cache(small: SmallHub, tmp_path: Path) -> None:
    small.files[WEIGHTS] = b"<html>Please log in to the wireless network</html>"
    with pytest.raises(ModelError, match="not a weights file") as error:
        load_model(TINY)
    assert key_of(error) == "hub_sent_other"
    assert not hub.is_cached(TINY)
    assert leftovers(tmp_path / "cache") == []


def test_damaged_bytes_never_enter_the_cache(small: SmallHub, tmp_path: Path) -> None:
    small.mode = "lies"
    with pytest.raises(ModelError) as error:
        load_model(TINY)
    assert key_of(error) == "hub_damaged"
    assert leftovers(tmp_path / "cache") == []
    small.mode = "ok"
    assert load_model(TINY).classes == 1000


def test_weights_of_another_model(small: SmallHub) -> None:
    small.files[WEIGHTS] = tiny_weights(TINY, embed_dim=32)
    with pytest.raises(ModelError, match="do not fit") as error:
        load_model(TINY)
    assert key_of(error) == "weights_unfit"
    words = str(error.value)
    assert "cls_token is 1×1×32 in the file and 1×1×64 in the model" in words
    assert words.count(" in the file") == 3


def test_a_damaged_cached_copy_is_named(small: SmallHub) -> None:
    hub.fetch(TINY).write_bytes(CONTENT[:1000])
    with pytest.raises(ModelError, match="Delete it") as error:
        load_model(TINY)
    assert key_of(error) == "weights_not_safetensors"


def test_a_slow_server_shows_progress_and_can_be_cancelled(small: SmallHub) -> None:
    small.mode = "slow"
    seen: list[int] = []

    def watch(done: int, total: int) -> None:
        seen.append(done)
        if done > 150_000:
            raise Stop

    with pytest.raises(Stop), within(2):
        load_model(TINY, progress=watch)
    assert len(set(seen)) >= 3
    assert not hub.is_cached(TINY)
    small.mode = "ok"
    assert load_model(TINY).classes == 1000
    assert small.sent()[-1] is not None  # went on behind what had arrived


def test_a_silent_server_does_not_delay_a_cancel(
    small: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 5)
    small.mode = "stalls"
    half = threading.Event()

    def watch(done: int, total: int) -> None:
        if done >= len(CONTENT) // 2:
            half.set()
            raise Stop

    with within(2), pytest.raises(Stop):
        load_model(TINY, progress=watch)
    assert half.is_set()


def test_a_silent_server_is_given_up(small: SmallHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    small.mode = "stalls"
    small.files[WEIGHTS] = CONTENT[:4]  # half of two bytes is one, half of one is none
    with within(5), pytest.raises(ModelError) as error:
        load_model(TINY)
    assert key_of(error) == "hub_broken_off"


def test_two_at_once_fetch_it_once(small: SmallHub) -> None:
    small.mode = "slow"
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(hub.fetch(TINY))) for _ in range(3)]
    for thread in threads:
        thread.start()
    small.mode = "ok"
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 3
    assert len(small.sent()) == 1


def test_auto_never_asks_the_network(small: SmallHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PREFERRED", TINY)
    assert auto_name() == "embedded"
    assert small.requests == []
    path = hub.fetch(TINY)
    requests = len(small.requests)
    assert auto_name() == TINY
    assert load_model().name == TINY
    path.write_bytes(CONTENT[:1000])  # damaged: said in the log, and embedded again
    assert auto_name() == "embedded"
    assert load_model().name == "embedded"
    assert len(small.requests) == requests


def test_download_can_be_forbidden(small: SmallHub) -> None:
    with pytest.raises(ModelError, match="not on this machine") as error:
        load_model(TINY, download=False)
    assert key_of(error) == "model_not_here"
    assert small.requests == []


def test_a_family_that_is_not_read_is_refused_before_its_download(small: SmallHub) -> None:
    with pytest.raises(ModelError) as error:
        load_model("resnet18.a1_in1k")
    assert key_of(error) == "family_unknown"
    assert small.requests == []


@pytest.mark.parametrize("scheme", ["hf-hub:", "hf_hub:"])
def test_a_repository_by_its_id(small: SmallHub, scheme: str) -> None:
    labels = [f"thing {i}" for i in range(1000)]
    config = {
        "architecture": "test_vit",
        "num_classes": 1000,
        "label_names": labels,
        "pretrained_cfg": {"input_size": [3, 160, 160], "mean": [0.1, 0.2, 0.3], "std": [1, 1, 1]},
    }
    small.files["someone/things", "config.json"] = json.dumps(config).encode()
    small.files["someone/things", "model.safetensors"] = CONTENT
    vit = load_model(f"{scheme}someone/things")
    assert vit.name == "hf-hub:someone/things"
    assert vit.labels == tuple(labels)
    assert vit.preprocessing.mean == (0.1, 0.2, 0.3)
    assert hub.is_cached("hf-hub:someone/things")
    before = len(small.requests)
    assert load_model("hf-hub:someone/things").weights_hash == vit.weights_hash
    assert len(small.requests) == before


def test_a_repository_of_another_library(small: SmallHub) -> None:
    config = {"architectures": ["ViTForImageClassification"]}
    small.files["someone/things", "config.json"] = json.dumps(config).encode()
    with pytest.raises(ModelError, match="not a model of timm") as error:
        load_model("hf-hub:someone/things")
    assert key_of(error) == "hub_not_timm"
    assert small.sent() == []


def test_another_revision(small: SmallHub) -> None:
    config = {"architecture": "test_vit", "input_size": [3, 160, 160]}
    small.files["someone/things", "config.json"] = json.dumps(config).encode()
    small.files["someone/things", "model.safetensors"] = CONTENT
    vit = load_model("hf-hub:someone/things@v2")
    assert vit.name == "hf-hub:someone/things@v2"
    assert any("/resolve/v2/" in path for _, path, _ in small.requests)
    assert vit.notes[0].key == "labels_assumed"


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("vit_base_patch16_244", "model_unknown", "vit_base_patch16_224"),
        ("Embeded", "model_unknown", "embedded"),
        ("vit_base_patch16_224.nonsense", "model_unknown", "augreg2_in21k_ft_in1k"),
        ("vit_base_r26_s32_224", "model_no_weights", ".safetensors"),
        ("https://somewhere.example/model.safetensors", "model_name_place", "address"),
        ("timm/vit_base_patch16_224", "model_name_place", "hf-hub:owner/model"),
        ("../../etc/passwd", "model_name_place", "neither"),
        ("hf-hub:../secrets", "model_name_hub", "owner/model"),
        ("hf-hub:owner", "model_name_hub", "owner/model"),
        ("hf-hub:owner/model@../../x", "model_name_hub", "revision"),
        ("local-dir:weights", "model_name_place", "neither"),
        ("", "model_unlike", "hf-hub:owner/model"),
    ],
)
def test_names_that_are_none(
    monkeypatch: pytest.MonkeyPatch, name: str, key: str, words: str
) -> None:
    attempts = take_the_network_away(monkeypatch)
    with pytest.raises(ModelError) as error:
        load_model(name)
    assert key_of(error) == key
    assert words in str(error.value)
    assert attempts == []


def test_a_renamed_model_is_found() -> None:
    assert hub.source("vit_base_patch16_224_in21k").name == "vit_base_patch16_224.augreg_in21k"


def test_every_name_of_the_catalogue_is_a_model_that_is_read(tmp_path: Path) -> None:
    from explainers.models.build import skeleton
    from explainers.models.recipe import Recipe

    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE) >= 12
    for entry in CATALOGUE:
        if entry.name == "embedded":
            assert entry.state(tmp_path) == "embedded"
            continue
        assert entry.state(tmp_path) == "download"
        assert hub.source(entry.name) == hub.Source(
            entry.name, f"timm/{entry.name}", ("model.safetensors",)
        )
        module = skeleton(Recipe(entry.name))
        megabytes = sum(tensor.numel() for tensor in module.state_dict().values()) * 4e-6
        assert entry.megabytes == pytest.approx(megabytes, rel=0.02)


def test_the_catalogue_sees_the_cache(tmp_path: Path) -> None:
    entry = CATALOGUE[2]
    repository = tmp_path / f"models--timm--{entry.name}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    (repository / "snapshots" / "abc" / "model.safetensors").write_bytes(b"weights")
    assert entry.state(tmp_path) == "cached"

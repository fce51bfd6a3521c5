"""Fetching models from a hub that is slow, breaks off, redirects or is asked twice at once."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants, hf_hub_download

from explainers.models import download, hub
from explainers.models.errors import ModelError
from explainers.models.loading import load_model
from tests.hub_of_one import (
    CONTENT,
    WEIGHTS,
    _only_this_machine,
    key_of,
    small,
    take_the_network_away,
)
from tests.small_hub import TINY, SmallHub, tiny_module, within


class Stop(Exception):  # noqa: N818
    """What a Cancel button raises."""


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

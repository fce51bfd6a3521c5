"""Hubs that refuse, lie or cannot be reached: a plain sentence, and nothing in the cache."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from explainers.models import hub, loading
from explainers.models.errors import ModelError
from explainers.models.loading import auto_name, load_model
from tests.hub_of_one import CONTENT, WEIGHTS, _only_this_machine, key_of, small
from tests.small_hub import TINY, SmallHub, tiny_weights, within


def leftovers(cache: Path) -> list[str]:
    """Names of the files in all blob folders."""
    return sorted(path.name for path in cache.glob("*/blobs/*"))


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

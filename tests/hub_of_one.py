"""A hub on 127.0.0.1 that has one model, and tests that reach no other machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from explainers.models import download
from explainers.models.errors import ModelError
from explainers.sentence import Sentence
from tests.small_hub import TINY_REPO, SmallHub, tiny_weights

WEIGHTS = (TINY_REPO, "model.safetensors")
CONTENT = tiny_weights()


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

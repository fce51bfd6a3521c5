"""The command line of `python app.py`, for people who serve the page to others."""

from __future__ import annotations

from importlib.machinery import ModuleSpec

import pytest

from app import options
from app.options import mcp_problem, parse, serving


def test_nothing_is_asked_of_visitors_unless_told() -> None:
    told = serving(parse([]))
    assert told["auth"] is None
    assert told["max_file_size"] == "64mb"
    assert told["mcp_server"] is False
    assert told["root_path"] is None


def test_flags_reach_the_server() -> None:
    flags = ["--auth", "ann:a:b", "--root-path", "/look", "--max-upload", "8", "--mcp"]
    told = serving(parse([*flags, "--port", "7861"]))
    assert told["auth"] == ("ann", "a:b")
    assert told["root_path"] == "/look"
    assert told["max_file_size"] == "8mb"
    assert told["mcp_server"] is True
    assert told["server_port"] == 7861


def test_the_environment_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITSCOPE_AUTH", "ann:secret")
    monkeypatch.setenv("VITSCOPE_MAX_UPLOAD", "16")
    told = serving(parse([]))
    assert told["auth"] == ("ann", "secret")
    assert told["max_file_size"] == "16mb"


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--auth", "ann", "expected NAME:PASSWORD"),
        ("--auth", ":secret", "expected NAME:PASSWORD"),
        ("--max-upload", "0", "whole number of MB from 1"),
        ("--max-upload", "lots", "whole number of MB from 1"),
    ],
)
def test_wrong_values_are_one_sentence(
    flag: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse([flag, value])
    assert said in capsys.readouterr().err


def test_a_password_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--auth", "verysecret"])
    assert "verysecret" not in capsys.readouterr().err


def test_tools_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "find_spec", lambda _: None)
    assert mcp_problem(False) is None
    assert "pip install" in str(mcp_problem(True))
    monkeypatch.setattr(options, "find_spec", lambda name: ModuleSpec(name, None))
    assert mcp_problem(True) is None

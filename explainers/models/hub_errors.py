"""What goes wrong between here and the Hub, each in one plain sentence."""

from __future__ import annotations

from explainers.sentence import Sentence


def explain_failure(error: BaseException, name: str, repo: str, file: str, hub: str) -> Sentence:
    """One sentence on an error of the Hub's client, the network or the disk."""
    from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return Sentence(
            "hub_offline",
            "{name} is not on this machine, and HF_HUB_OFFLINE forbids fetching it; unset it, "
            "or choose a model that is here.",
            name=name,
        )
    if isinstance(error, HfHubHTTPError):
        return _refusal(error.response.status_code, repo, file, hub)
    if isinstance(error, (HTTPError, ConnectionError)):
        return Sentence(
            "hub_unreachable",
            "{name} is not on this machine and the hub ({hub}) cannot be reached; check the "
            "network, or choose a model that is here.",
            name=name,
            hub=hub,
        )
    if isinstance(error, OSError):
        return Sentence(
            "hub_disk",
            "{name} could not be kept in the cache ({reason}); make room, or set HF_HOME to "
            "another folder.",
            name=name,
            reason=error.strerror or type(error).__name__,
        )
    return Sentence(
        "hub_failed",
        "Fetching {name} failed ({reason}); try again, or choose a model that is here.",
        name=name,
        reason=f"{type(error).__name__}: {error}",
    )


def _refusal(status: int, repo: str, file: str, hub: str) -> Sentence:
    if status in (401, 403):
        return Sentence(
            "hub_refused",
            "The hub does not give out {repo}: it is private, gated or does not exist. Accept "
            "its terms on its page and log in with `hf auth login`, then try again.",
            repo=repo,
        )
    if status == 404:
        return Sentence(
            "hub_missing",
            "The hub ({hub}) has no {file} for {repo}; check the name, or choose another model.",
            hub=hub,
            file=file,
            repo=repo,
        )
    return Sentence(
        "hub_trouble",
        "The hub ({hub}) answered {status} instead of sending {repo}; try again later.",
        hub=hub,
        status=status,
        repo=repo,
    )

"""The Hub client's cache on disk: a repository's blobs, the commits that name them, and refs.

models--owner--model/blobs/<etag>   snapshots/<commit>/<file> → blob   refs/<branch> = commit
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from pathlib import Path

WEIGHTS = "model.safetensors"
"""The file name of weights on the Hub."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """The Hub client's cache: ``cache_dir``, else HF_HUB_CACHE, HF_HOME/hub, its default."""
    from huggingface_hub import constants

    home = os.environ.get("HF_HOME")
    folder = cache_dir or os.environ.get("HF_HUB_CACHE") or (home and Path(home, "hub"))
    return Path(folder or constants.HF_HUB_CACHE).expanduser()


def cached_file(
    repo: str, filename: str, revision: str = "main", cache_dir: str | Path | None = None
) -> Path | None:
    """A file of the Hub's cache, or None; never asks the network."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(
        repo, filename, cache_dir=cache_folder(cache_dir), revision=revision
    )
    return Path(found) if isinstance(found, str) else None


def part(blob: Path) -> Path:
    """Where the bytes of an unfinished download lie."""
    return blob.with_name(f"{blob.name}.incomplete")


def announced(path: Path, etag: str) -> bool:
    """Whether a file is the one that was announced, as far as its ETag can tell.

    Large files of the Hub have their SHA-256 as ETag; a mirror's other ETags say nothing.
    """
    if not _SHA256.fullmatch(etag):
        return True
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == etag


def publish(blob: Path, pointer: Path) -> None:
    """Make ``pointer``, the file's place in a commit, lead to ``blob``."""
    if pointer.exists():
        return
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.unlink(missing_ok=True)  # a dangling link
    try:
        pointer.symlink_to(os.path.relpath(blob, pointer.parent))
    except OSError:  # a file system without links
        os.replace(blob, pointer)


def refer(reference: Path, commit: str) -> None:
    """Note which commit a branch or tag stands for; a reader never sees half a note."""
    reference.parent.mkdir(parents=True, exist_ok=True)
    new = reference.with_name(f"{reference.name}.{uuid.uuid4().hex}.new")
    new.write_text(commit, encoding="ascii")
    os.replace(new, reference)

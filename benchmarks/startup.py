"""Seconds from `python app.py` to its first page.

python -m benchmarks.startup [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def first_page() -> float:
    """Start the app, ask for its page until it answers, stop it."""
    port = free_port()
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "0"}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "app.py"], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        while time.perf_counter() - start < 120:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                    answer.read()
                return time.perf_counter() - start
            except (urllib.error.URLError, ConnectionError):
                if process.poll() is not None:
                    raise SystemExit("app.py ended before it answered") from None
                time.sleep(0.05)
        raise SystemExit("no page within two minutes")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    times = [first_page() for _ in range(parser.parse_args().runs)]
    spread = f"{min(times):.1f} to {max(times):.1f}"
    print(f"first page after {statistics.median(times):.1f} s (median of {len(times)}, {spread})")


if __name__ == "__main__":
    main()

"""What a look costs, told beforehand: N, N², seconds and megabytes, and what fits in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from explainers import ModelError, Photo, wrap_model
from explainers.forecast import forecast, forecast_windows
from explainers.free_memory import free_bytes
from explainers.memory_limit import demand_memory, largest_long_side
from explainers.pace import Pace, measure_pace
from explainers.separate_looks import SeparateLooks
from tests.tiny import tiny_photo_array, tiny_vit

PACE = Pace(
    per_token=1e-3,
    per_pair=1e-6,
    kept=100.0,
    kept_pairs=0.0,
    beside=50.0,
    beside_pixel=10.0,
    prefix=1,
)
PHOTO = Photo(tiny_photo_array(60, 80))


def test_the_numbers_are_those_of_the_grid() -> None:
    vit = wrap_model(tiny_vit())
    told = forecast(vit, PHOTO, PACE, 48)  # 36×48 pixels, patches of 4
    assert (told.grid, told.tokens, told.pairs) == ((9, 12), 109, 109**2)
    assert told.seconds == pytest.approx(0.109 + 1e-6 * 109**2, abs=0.05)
    # a small photo: Pillow's copy of it (4 bytes a pixel) outweighs the tiny model's tokens
    assert told.bytes == max(109 * 150 + 36 * 48 * 10, 4 * (60 * 80 + 60 * 48 + 2 * 36 * 48))
    trace = vit.whole(PHOTO, 48).trace(PHOTO)
    assert (trace.grid, trace.tokens) == (told.grid, told.tokens)
    assert told.sentence.startswith("9×12 patches: N = 109 tokens, N² = 11,881; about 0.1")
    assert told.sentence.endswith(" MB.")


def test_the_models_own_size_is_forecast_too() -> None:
    told = forecast(wrap_model(tiny_vit()), PHOTO, PACE, whole=False)
    assert (told.grid, told.tokens) == ((4, 4), 17)


def test_windows_are_forecast_together() -> None:
    looks = SeparateLooks(wrap_model(tiny_vit()), PHOTO)
    told = forecast_windows(looks, PACE)
    assert (told.looks, told.grid, told.tokens) == (len(looks), (4, 4), 17)
    assert told.seconds == pytest.approx(len(looks) * (0.017 + 1e-6 * 17**2), abs=0.05)
    assert told.sentence.startswith(f"{len(looks)} windows of 4×4 patches: N = 17 tokens each")


@pytest.mark.parametrize("variant", [{}, {"reg_tokens": 2}, {"global_pool": "avg"}])
def test_what_a_trace_keeps_is_counted_to_the_byte(variant: dict[str, Any]) -> None:
    vit = wrap_model(tiny_vit(**variant))
    pace = measure_pace(vit)
    for long_side in (16, 32, 64):
        trace = vit.whole(PHOTO, long_side).trace(PHOTO)
        held = sum(call.q.nbytes + call.k.nbytes for call in trace.calls)
        assert pace.kept_bytes(trace.tokens) == held
    assert pace.prefix == vit.adapter.prefix
    assert pace.per_pair > 0
    assert pace.per_token >= 0


def test_beside_the_trace_stands_the_widest_block() -> None:
    pace = measure_pace(wrap_model(tiny_vit(dtype=torch.float32)))
    assert pace.beside == 4 * (3 * 16 + 2 * 64)  # width 16, an MLP of 64


def test_measuring_leaves_the_model_as_it_was() -> None:
    module = tiny_vit()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.random.get_rng_state()
    measure_pace(wrap_model(module))
    assert all(torch.equal(before[name], t) for name, t in module.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())


# Memory


def test_a_look_that_fits_is_not_refused() -> None:
    vit = wrap_model(tiny_vit())
    told = forecast(vit, PHOTO, PACE, 48)
    demand_memory(vit, PHOTO, PACE, told, free=int(told.bytes / 0.8) + 1)


@pytest.mark.parametrize("free", [100_000, 1_000_000, 7_654_321])
def test_the_largest_look_that_fits_is_proposed(free: int) -> None:
    vit = wrap_model(tiny_vit())
    told = forecast(vit, PHOTO, PACE, 4000)
    with pytest.raises(ModelError, match="the largest that fits is a long side of") as caught:
        demand_memory(vit, PHOTO, PACE, told, free)
    largest: Any = caught.value.args[0].values["largest"]

    def held(side: int) -> float:  # the slow twin: straight from the definition
        rows, columns = 60 * side // 80 // 4, side // 4
        rows = max(rows, 1)
        return (1 + rows * columns) * 150.0 + rows * columns * 16 * 10

    fitting = [side for side in range(4, 4000, 4) if held(side) <= 0.8 * free]
    assert largest == max(fitting)
    assert largest_long_side(vit, PHOTO, PACE, 0.8 * free) == largest


def test_where_nothing_fits_that_is_said() -> None:
    vit = wrap_model(tiny_vit())
    with pytest.raises(ModelError, match="not even the smallest"):
        demand_memory(vit, PHOTO, PACE, forecast(vit, PHOTO, PACE, 4000), free=100)


def test_attention_that_is_kept_whole_counts_by_pairs() -> None:
    """A relative bias is held for every pair of tokens."""
    pace = Pace(0, 0, 100.0, 8.0, 50.0, 10.0, 1)
    assert pace.kept_bytes(10) == 1000 + 800


def machine(folder: Path, available: int) -> Path:
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:  {available} kB\n")
    return folder


def test_free_memory_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    proc = machine(tmp_path / "proc", 5000)
    assert free_bytes(torch.device("cpu"), proc, tmp_path / "none") == 5000 * 1024
    assert free_bytes(torch.device("cpu"), tmp_path / "no", tmp_path / "none") is None
    assert (free_bytes(torch.device("cpu")) or 0) > 1_000_000


@pytest.mark.parametrize("version", [1, 2])
def test_a_containers_limit_counts(tmp_path: Path, version: int) -> None:
    proc, cgroup = machine(tmp_path / "proc", 5000), tmp_path / "cgroup"
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    line = "0::/one/two" if version == 2 else "4:cpu,memory:/one/two"
    (proc / "self" / "cgroup").write_text(f"9:pids:/\n{line}\n")
    root = cgroup if version == 2 else cgroup / "cpu,memory"
    for folder, limit in ((root / "one" / "two", "max"), (root / "one", str(3_000_000))):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names[0]).write_text(limit + "\n")
        (folder / names[1]).write_text("2500000\n")
        (folder / "memory.stat").write_text(f"anon 1\n{names[2]} 400000\n")
    assert free_bytes(torch.device("cpu"), proc, cgroup) == 900_000


def test_a_photo_too_large_to_resize_is_forecast_without_doing_it() -> None:
    vit = wrap_model(tiny_vit())
    told = forecast(vit, Photo(np.zeros((10, 10, 3), np.uint8)), PACE, 1_000_000)
    assert told.tokens == 250_000**2 + 1
    assert told.sentence

"""Stream-K: each K tile of each output tile is computed once, evenly, and summed by one worker."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk.schedulers.stream_k import FixUp, StreamK, TilePart, stream_k

plans = st.builds(
    stream_k, st.integers(0, 60), st.integers(1, 20), st.integers(1, 24), full_share=st.booleans()
)


@given(plans)
def test_each_k_tile_of_each_tile_is_computed_once(plan: StreamK) -> None:
    seen = Counter(
        (part.tile, k)
        for worker in range(plan.workers)
        for part in plan.work_of(worker)
        for k in range(part.k_begin, part.k_end)
    )
    assert seen == {(tile, k): 1 for tile in range(plan.tiles) for k in range(plan.k_tiles)}


@given(plans)
def test_workers_have_equally_much_but_for_one_k_tile(plan: StreamK) -> None:
    loads = [sum(map(len, plan.work_of(worker))) for worker in range(plan.workers)]
    assert max(loads) - min(loads) <= 1
    assert max(loads) == plan.makespan
    # No plan of whole tiles is done earlier, and nothing can be done before the mean.
    assert plan.makespan <= -(-plan.tiles // plan.workers) * plan.k_tiles
    assert plan.makespan == -(-plan.tiles * plan.k_tiles // plan.workers)


@given(plans)
def test_every_tile_in_parts_has_one_owner_who_waits_for_first_parts_alone(plan: StreamK) -> None:
    work = [plan.work_of(worker) for worker in range(plan.workers)]
    cut = {p.tile for parts in work for p in parts if len(p) < plan.k_tiles}
    fix_ups = plan.fix_ups()
    assert [f.tile for f in fix_ups] == sorted(cut)
    for fix_up in fix_ups:
        workers = (fix_up.owner, *fix_up.others)
        parts = [next(p for p in work[w] if p.tile == fix_up.tile) for w in workers]
        # In the order of K, from end to end.
        assert parts[0].k_begin == 0 and parts[-1].k_end == plan.k_tiles
        assert all(a.k_end == b.k_begin for a, b in pairwise(parts))
        assert all(work[w][0] == part for w, part in zip(fix_up.others, parts[1:], strict=True))


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 24))
def test_a_full_share_cuts_a_tile_in_three_parts_at_most(
    tiles: int, k_tiles: int, workers: int
) -> None:
    plan = stream_k(tiles, k_tiles, workers)
    if tiles >= workers:
        assert all(len(fix_up.others) <= 2 for fix_up in plan.fix_ups())
        assert plan.streamed == 0 or workers < plan.streamed < 2 * workers


def test_small_plans_by_hand() -> None:
    plan = stream_k(5, 4, 4, full_share=False)  # one wave of 4, and one tile dealt to 4 workers
    assert plan.work_of(0) == [TilePart(0, 0, 1), TilePart(1, 0, 4)]
    assert plan.work_of(3) == [TilePart(0, 3, 4), TilePart(4, 0, 4)]
    assert plan.fix_ups() == [FixUp(0, 0, (1, 2, 3))]
    assert plan.makespan == 5  # two waves of whole tiles take 8
    shared = stream_k(3, 4, 2)  # all three tiles, six K tiles each
    assert shared.work_of(0) == [TilePart(0, 0, 4), TilePart(1, 0, 2)]
    assert shared.work_of(1) == [TilePart(1, 2, 4), TilePart(2, 0, 4)]
    assert shared.fix_ups() == [FixUp(1, 0, (1,))]
    assert stream_k(8, 4, 4).fix_ups() == []


def test_wrong_arguments_are_named() -> None:
    for arguments, words in (
        ((1, 0, 1), "k_tiles is 0"),
        ((1, 1, 0), "workers is 0"),
        ((-1, 1, 1), "tiles is -1"),
    ):
        with pytest.raises(ValueError, match=words):
            stream_k(*arguments)
    with pytest.raises(ValueError, match="the other 3 of 5 tiles are no multiple of 2 workers"):
        StreamK(5, 4, 2, 2)
    with pytest.raises(ValueError, match="worker is 4; needs 0 to 3"):
        stream_k(4, 1, 4).share(4)

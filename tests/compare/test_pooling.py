"""What is pooled from two parts is what would have been gathered from the whole."""

from dataclasses import replace
from typing import Any

import pytest

from federico.compare.pooling import pooled
from federico.compare.result import Entry, Result, gather
from federico.compare.study import Study
from federico.report.old.summary import Curve, Trust


def of_seed(played: Any, tiny: Any, seed: int) -> Result:
    """What the runs of one seed give alone."""
    study: Study = tiny(seeds=[seed])
    found = gather(study, played.folder)
    assert found is not None
    return found


def test_two_seeds_pooled_are_two_seeds_gathered(played: Any, tiny: Any) -> None:
    first, second = (of_seed(played, tiny, seed) for seed in (0, 1))
    for entry in played.result.entries:
        if entry.at == "best":  # tuned on the first seed of a study, which is not the same here
            continue
        place = entry.row, entry.column, entry.at
        a, b = first.entry(*place), second.entry(*place)
        assert a is not None
        assert b is not None
        found = pooled(a, b)
        assert found.by_seed == entry.by_seed
        assert found.by_client == pytest.approx(entry.by_client)
        assert found.curve.rounds == entry.curve.rounds
        assert found.curve.mean == pytest.approx(entry.curve.mean)
        assert found.curve.sd == pytest.approx(entry.curve.sd)
        assert found.bytes_moved == pytest.approx(entry.bytes_moved)
        assert found.processor_seconds == pytest.approx(entry.processor_seconds)
        assert (found.trust is None) == (entry.trust is None)
        if found.trust and entry.trust:
            assert found.trust.collaborators == pytest.approx(entry.trust.collaborators)
            assert found.trust.on_friends == pytest.approx(entry.trust.on_friends)


def entry_of(result: Result, seeds: list[float], curve: Curve) -> Entry:
    return replace(
        result.entries[0],
        by_seed=dict(enumerate(seeds)),
        curve=curve,
        bytes_moved=[0.0] * len(curve.rounds),
        processor_seconds=[0.0] * len(curve.rounds),
    )


def test_parts_of_different_size_count_by_their_runs(result: Result) -> None:
    two = entry_of(result, [1.0, 3.0], Curve([4], [2.0], [2**0.5]))
    one = replace(entry_of(result, [8.0], Curve([2, 4], [0.0, 8.0], [0.0, 0.0])), by_seed={7: 8.0})
    found = pooled(two, one)
    assert found.by_seed == {0: 1.0, 1: 3.0, 7: 8.0}
    assert found.curve.rounds == [4]
    assert found.curve.mean == [pytest.approx(4)]
    assert found.curve.sd == [pytest.approx(13**0.5)]


def test_a_diverged_run_leaves_no_spread(result: Result) -> None:
    sane, lost = (
        entry_of(result, [value], Curve([4], [value], [0.0])) for value in (1.0, float("nan"))
    )
    assert pooled(sane, replace(lost, by_seed={7: float("nan")})).curve.sd == [0.0]


def test_trust_that_only_one_part_has_is_kept(result: Result) -> None:
    known = replace(result.entries[0], trust=Trust(None, 2.0))
    for trust in (None, Trust(1.0, 2.0)):
        other = replace(known, by_seed={7: 0.5, 8: 0.5}, trust=trust)
        assert pooled(known, other).trust == Trust(None, 2.0)

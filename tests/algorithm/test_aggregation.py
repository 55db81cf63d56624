import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.algorithm.aggregation import coefficients_at_owner, shares
from federico.types import FloatArray, IntArray

Coefficients = dict[tuple[int, int], float]
"""By (owner, contributor)."""


def columns(coefficients: Coefficients) -> tuple[IntArray, IntArray, FloatArray]:
    owners, contributors = np.array(list(coefficients), dtype=np.int64).reshape(-1, 2).T
    return owners, contributors, np.array(list(coefficients.values()))


many = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 4)), st.floats(1e-9, 1e6), min_size=1, max_size=15
)


@given(many, st.floats(0, 1))
def test_shares_sum_to_one_per_owner(coefficients: Coefficients, anchor: float) -> None:
    owners, contributors, values = columns(coefficients)
    totals = np.bincount(owners, shares(owners, contributors, values, anchor))
    np.testing.assert_allclose(totals[np.unique(owners)], 1)


@given(many)
def test_without_an_anchor_shares_are_proportional_to_coefficients(
    coefficients: Coefficients,
) -> None:
    owners, contributors, values = columns(coefficients)
    totals = {
        b: sum(c for (owner, _), c in coefficients.items() if owner == b) for b, _ in coefficients
    }
    expected = [c / totals[b] for (b, _), c in coefficients.items()]
    np.testing.assert_allclose(shares(owners, contributors, values), expected, rtol=1e-9)


@given(many, st.floats(0, 1))
def test_an_owners_own_share_is_at_least_the_anchor(
    coefficients: Coefficients, anchor: float
) -> None:
    owners, contributors, values = columns(coefficients)
    plain, anchored = (
        shares(owners, contributors, values),
        shares(owners, contributors, values, anchor),
    )
    for (b, i), before, after in zip(coefficients, plain, anchored, strict=True):
        if b == i:
            assert after == pytest.approx(max(before, anchor))
        elif (b, b) not in coefficients:
            assert after == before, "nothing of its own to hold on to"


@given(many, st.floats(0, 0.99))
def test_an_anchor_leaves_the_others_proportions_alone(
    coefficients: Coefficients, anchor: float
) -> None:
    owners, contributors, values = columns(coefficients)
    plain, anchored = (
        shares(owners, contributors, values),
        shares(owners, contributors, values, anchor),
    )
    for b in np.unique(owners):
        others = (owners == b) & (contributors != b)
        if others.any() and plain[others].sum() > 1e-6:
            np.testing.assert_allclose(
                anchored[others] / anchored[others].sum(),
                plain[others] / plain[others].sum(),
                rtol=1e-6,
            )


def test_an_anchor_lifts_the_own_share_and_leaves_the_rest_to_the_others() -> None:
    owners, contributors, values = columns({(0, 0): 1.0, (0, 1): 1.0, (0, 2): 2.0, (3, 1): 5.0})
    assert shares(owners, contributors, values).tolist() == [0.25, 0.25, 0.5, 1.0]
    anchored = shares(owners, contributors, values, anchor=0.4)
    np.testing.assert_allclose(anchored, [0.4, 0.2, 0.4, 1.0], rtol=1e-15)


# Who has a say.

claims = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=9)


def test_an_owner_and_its_senders_agree_on_the_less() -> None:
    # What three senders claim, and what the owner's trust in each comes to; it never met the last.
    sent = np.array([10.0, 2.0, 5.0])
    allowed = np.array([4.0, 8.0, 0.0])
    assert coefficients_at_owner(sent, allowed, "mutual").tolist() == [4, 2, 0]
    assert coefficients_at_owner(sent, allowed, "owner").tolist() == [4, 8, 0]
    assert coefficients_at_owner(sent, allowed, "sender").tolist() == [10, 2, 5]


@given(claims)
def test_mutual_is_never_above_either_side(claims: list[tuple[float, float]]) -> None:
    sent, allowed = np.array(claims).T
    agreed = coefficients_at_owner(sent, allowed, "mutual")
    assert (agreed <= sent).all()
    assert (agreed <= allowed).all()
    assert ((agreed == sent) | (agreed == allowed)).all()


@given(claims, st.floats(1, 1e9) | st.just(np.inf))
def test_whoever_claims_more_gets_no_more_than_the_owner_allows(
    claims: list[tuple[float, float]], factor: float
) -> None:
    sent, allowed = np.array(claims).T
    boasted = np.maximum(sent, 1.0) * factor
    assert (coefficients_at_owner(boasted, allowed, "mutual") <= allowed).all()
    assert coefficients_at_owner(boasted, allowed, "owner").tolist() == allowed.tolist()


def test_a_claim_that_is_no_number_counts_for_nothing() -> None:
    agreed = coefficients_at_owner(np.array([np.nan]), np.array([3.0]), "mutual")
    assert not (agreed > 0).any()

"""What FedeRiCo keeps to itself: private models, held-out samples and what was found with them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from federico.exchange.protocol import Updates
from federico.exchange.simulated import SimulatedExchange
from federico.learning.bank import Bank
from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.federico import Federico
from federico.methods.method import Method, Mixtures

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Method]

SIZES = (12, 9, 15, 11)
ROUNDS = 10


class RecordingExchange(SimulatedExchange):
    """Remembers the owner of every model that is asked for, and all updates that are sent."""

    def __init__(self, bank: Bank, participants: int) -> None:
        super().__init__(bank, participants)
        self.named: set[int] = set()
        self.sent: list[Updates] = []

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        self.named |= set(wanted.owners.tolist())
        return super().pull(round_index, wanted)

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        self.named |= set(visits.owners.tolist())
        return super().read_models(round_index, visits)

    def push(self, round_index: int, updates: Updates) -> None:
        self.named |= set(updates.owners.tolist()) | set(updates.contributors.tolist())
        self.sent.append(updates)
        super().push(round_index, updates)


@pytest.fixture
def federico(method: Build, blobs: Clients) -> Federico:
    """With default options, before its first round, among four peers that record what is sent."""
    built = method("federico", blobs(SIZES), hidden=(6,), rounds=ROUNDS, connect=RecordingExchange)
    assert isinstance(built, Federico)
    return built


def exchange_of(federico: Federico) -> RecordingExchange:
    assert isinstance(federico.exchange, RecordingExchange)
    return federico.exchange


def test_private_models_are_never_asked_for_nor_sent(federico: Federico) -> None:
    private = {model.owner for model in federico.context.models if model.private_to is not None}
    assert len(private) == 2 * len(SIZES), "each peer has one, and the twin it is judged by"
    for round_index in range(1, ROUNDS + 1):
        federico.round(round_index)
        federico.predictors(round_index)
    assert exchange_of(federico).named == set(range(len(SIZES)))


def test_what_is_sent_counts_trust_times_samples_in_training(federico: Federico) -> None:
    """The coefficient tells nothing else: neither gains nor what the private model is worth."""
    for round_index in range(1, ROUNDS + 1):
        is_judging = federico.evidence.is_judging and round_index <= federico.last_judging_round
        federico.round(round_index)
        updates = exchange_of(federico).sent[-1]
        for owner, peer, coefficient in zip(
            updates.owners, updates.contributors, updates.coefficients, strict=True
        ):
            row = federico.posteriors[peer]
            trust = row.weights[row.peers == owner][0]
            held_out = federico.learner.held_out[peer] if is_judging else 0
            assert coefficient == pytest.approx(trust * (SIZES[peer] - held_out))


def test_held_out_samples_move_no_model_while_they_judge(method: Build, blobs: Clients) -> None:
    """Other inputs in their place would change trust, but not what is learned from the rest."""
    first = method("federico", blobs(SIZES), rounds=ROUNDS)
    judging = first.learner.data["held_out"]
    batch = next(judging.in_stored_order(np.array([0]), size=99))
    held_out = judging.inputs(batch.index)[0].numpy()  # [samples, inputs]

    rows = []
    for spoiled in (False, True):
        clients = blobs(SIZES)
        if spoiled:
            x, _ = clients[0].train
            is_held_out = (x[:, None] == held_out[None]).all(2).any(1)
            assert 0 < is_held_out.sum() < len(x)
            x[is_held_out] += 1
        federico = method("federico", clients, rounds=ROUNDS)
        federico.round(1)  # alone: nobody is trusted or distrusted yet
        rows.append(federico.bank.rows.clone())

    own, private, judged = rows[0][0], rows[0][4], rows[0][8]
    assert torch.equal(own, rows[1][0])
    assert torch.equal(judged, rows[1][8])
    assert not torch.equal(private, rows[1][4]), "it has nothing to judge: it learns from all"


def test_all_samples_are_trained_on_once_trust_is_final(federico: Federico) -> None:
    assert federico.learner.samples.tolist() == [10, 7, 12, 10], "no batch of one sample is left"
    for round_index in range(1, ROUNDS + 1):
        federico.round(round_index)
    assert not federico.evidence.is_judging
    assert federico.learner.samples.tolist() == list(SIZES)


def test_no_gain_rises_once_trust_is_final(federico: Federico) -> None:
    rounds = range(1, ROUNDS + 1)
    play = iter(rounds)
    while federico.evidence.is_judging:
        federico.round(next(play))
    final = {i: gains.gain.copy() for i, gains in federico.evidence.gains.items()}
    together = federico.private.together.copy()

    later = list(play)
    assert later
    for round_index in later:
        federico.round(round_index)
        for i, gains in federico.evidence.gains.items():
            known = np.isfinite(final[i])
            assert (gains.gain[known] <= final[i][known]).all()
        assert (federico.private.together <= together).all()


def test_a_model_that_moves_away_loses_its_weight_in_what_a_peer_predicts_with(
    method: Build, blobs: Clients
) -> None:
    federico = method("federico", blobs((42, 49, 45, 41)), hidden=(6,), rounds=ROUNDS)
    for round_index in range(1, ROUNDS + 1):
        federico.round(round_index)
    before = federico.predictors(ROUNDS)
    assert weight_of_others_on(before, 2) > 0.4, "others than its owner trust it"

    federico.bank.hosted_rows[2].mul_(-3)
    after = federico.predictors(ROUNDS)
    assert weight_of_others_on(after, 2) < weight_of_others_on(before, 2) - 0.1


@pytest.mark.parametrize("judging", [0.4, 1.0])
@pytest.mark.parametrize("played", [3, ROUNDS], ids=["early", "at the end"])
@pytest.mark.parametrize("start", ["independent", "same"])
def test_a_model_that_was_exchanged_after_it_was_judged_predicts_nothing(
    method: Build, blobs: Clients, judging: float, played: int, start: str
) -> None:
    federico = method(
        "federico", blobs(SIZES), hidden=(6,), rounds=ROUNDS, judging=judging, start=start
    )
    for round_index in range(1, played + 1):
        federico.round(round_index)
    before = federico.predictors(played)
    assert (before.visits.owners != before.visits.clients).any(), "somebody trusts another"

    # All models but the private ones: nobody is left to take the weight of those exchanged.
    federico.bank.hosted_rows[: len(SIZES)].fill_(torch.nan)
    after = federico.predictors(played)
    assert (after.visits.owners == after.visits.clients).all()
    assert after.alone is not None
    assert (after.alone.weights == 1).all()


def weight_of_others_on(mixtures: Mixtures, owner: int) -> float:
    """What the model of this owner counts for in the mixtures of all others together."""
    visits = mixtures.visits
    is_of_another = (visits.owners == owner) & (visits.clients != owner)
    return float(mixtures.weights[is_of_another].sum())


def test_more_rounds_than_first_planned_keep_the_final_trust(method: Build, blobs: Clients) -> None:
    """Trust was final by the first plan, and what was held out is trained on: no way back."""
    planned = method("federico", blobs(SIZES), hidden=(6,), rounds=5)
    for round_index in range(1, 6):
        planned.round(round_index)
    assert isinstance(planned, Federico)
    assert not planned.evidence.is_judging
    final = {i: gains.ceiling.copy() for i, gains in planned.evidence.gains.items()}

    longer = method("federico", blobs(SIZES), hidden=(6,), rounds=50)
    longer.restore({key: value.clone() for key, value in planned.state().items()})
    assert isinstance(longer, Federico)
    for round_index in range(6, 12):
        longer.round(round_index)
        assert not longer.evidence.is_judging
        for i, gains in longer.evidence.gains.items():
            assert np.array_equal(gains.ceiling, final[i])


def test_more_rounds_before_trust_is_final_make_it_final_later(
    method: Build, blobs: Clients
) -> None:
    planned = method("federico", blobs(SIZES), hidden=(6,), rounds=5)
    planned.round(1)
    longer = method("federico", blobs(SIZES), hidden=(6,), rounds=10)
    longer.restore({key: value.clone() for key, value in planned.state().items()})
    assert isinstance(longer, Federico)
    final = []
    for round_index in range(2, 11):
        longer.round(round_index)
        final.append(not longer.evidence.is_judging)
    assert final.index(True) + 2 == longer.last_judging_round + 1 == 5


class LateExchange(SimulatedExchange):
    """Nobody can be reached before round 8."""

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        if round_index < 8:
            wanted = wanted[np.flatnonzero(wanted.owners == wanted.clients)]
        return super().pull(round_index, wanted)


def test_who_meets_others_only_after_trust_is_final_finds_collaborators(
    method: Build, blobs: Clients
) -> None:
    federico = method("federico", blobs(SIZES), rounds=ROUNDS, connect=LateExchange)
    assert isinstance(federico, Federico)
    for round_index in range(1, 8):
        federico.round(round_index)
    assert not federico.evidence.is_judging
    assert federico.private.together.tolist() == [0] * len(SIZES), "nobody to learn with"

    for round_index in range(8, ROUNDS + 1):
        federico.round(round_index)
    assert all(len(row.peers) > 1 for row in federico.posteriors.values())
    assert (federico.private.together > 0).any()


def test_once_trust_is_final_nobody_gets_surer_of_its_collaborators(federico: Federico) -> None:
    play = iter(range(1, ROUNDS + 1))
    while federico.evidence.is_judging:
        federico.round(next(play))
    final = federico.private.chance.copy()
    assert np.isfinite(final).any()
    for round_index in play:
        played = federico.round(round_index)
        said = federico.predictors(round_index).alone
        assert played.together_chance is not None
        assert said is not None
        assert said.together_chance is not None
        for chance in (played.together_chance, said.together_chance):
            known = np.isfinite(final) & np.isfinite(chance)
            assert (chance[known] <= final[known]).all()


def test_a_peer_that_resumes_from_an_older_version_does_not_say_how_sure_it_is(
    federico: Federico, method: Build, blobs: Clients
) -> None:
    """It does not know how sure it was when its trust became final."""
    for round_index in range(1, ROUNDS):
        federico.round(round_index)
    older = federico.state()
    del older["state.chance"], older["state.chance_ceiling"]

    resumed = method("federico", blobs(SIZES), hidden=(6,), rounds=ROUNDS)
    resumed.restore(older)
    played = resumed.round(ROUNDS)
    assert played.together_chance is not None
    assert np.isnan(played.together_chance).all()
    expected = federico.round(ROUNDS)
    assert played.together is not None
    assert expected.together is not None
    assert played.together.tolist() == expected.together.tolist()
    assert torch.equal(resumed.bank.rows, federico.bank.rows)

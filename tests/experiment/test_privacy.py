"""What clients send with `[privacy]`, in whole rounds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import federico
from federico.data.from_python import dataset_from_clients
from federico.errors import ConfigError, RunError
from federico.exchange.protocol import Hosting, Updates
from federico.exchange.simulated import SimulatedExchange
from federico.experiment.build import Setup, prepare
from federico.experiment.config import Experiment
from federico.learning.bank import Bank
from federico.learning.privacy import PrivacyAccount
from federico.methods.federico import Federico
from federico.site.privacy_ledger import note_restored, open_account, recall_spent

Tiny = Callable[..., Experiment]


class Watched(SimulatedExchange):
    """Remembers who has sent others anything trained on its samples."""

    def __init__(self, bank: Bank, participants: int) -> None:
        super().__init__(bank, participants)
        self.contributors: set[int] = set()

    def push(self, round_index: int, updates: Updates) -> None:
        to_others = updates.contributors != updates.owners
        self.contributors |= set(updates.contributors[to_others].tolist())
        super().push(round_index, updates)


def some_clients(*samples: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    clients = {}
    for place, count in enumerate(samples):
        x = random.normal(size=(count, 4)).astype(np.float32)
        clients[f"c{place}"] = (x, (x[:, 0] > 0).astype(np.int64))
    return clients


def setup_of(tiny: Tiny, *samples: int, **settings: Any) -> Setup:
    experiment = tiny(
        data={"kind": "python"},
        partition={"kind": "natural"},
        model={"kind": "python"},
        split={"test_fraction": 0.5},
        **settings,
    )
    dataset = dataset_from_clients(some_clients(*samples))
    return prepare(experiment, 0, dataset=dataset, factory=lambda: nn.Linear(4, 2))


@pytest.mark.parametrize("method", ["federico", "fedavg"])
def test_a_client_with_hardly_any_samples_sends_nothing(tiny: Tiny, method: str) -> None:
    setup = setup_of(tiny, 80, 80, 2, methods=[method], rounds=3)
    made: list[Watched] = []

    def connect(bank: Bank, participants: int) -> Watched:
        made.append(Watched(bank, participants))
        return made[-1]

    playing = setup.hosted_method(method, Hosting(3), connect)
    for round_index in (1, 2, 3):
        playing.round(round_index)
    assert made[0].contributors == {0, 1}


def test_a_client_with_hardly_any_samples_trains_its_own_model_which_nobody_gets(
    tiny: Tiny,
) -> None:
    setup = setup_of(tiny, 40, 40, 2, rounds=4, federico={"epsilon": 1.0})
    before = setup.method("federico").bank.copy_rows()
    playing = setup.method("federico")
    for round_index in range(1, 5):
        playing.round(round_index)
        assert 2 not in playing.predictors(round_index).visits.owners[:-1]
    assert playing.bank.copy_rows()[2].ne(before[2]).any(), "its own model learns from its sample"

    assert isinstance(playing, Federico)
    for shown in (0, 1):
        assert 2 not in playing.posteriors[shown].peers
    assert {0, 1, 2} == set(playing.posteriors[2].peers.tolist()), "it pulls the models of others"


def test_the_floor_can_be_lowered(tiny: Tiny) -> None:
    setup = setup_of(tiny, 40, 40, 2, rounds=2, privacy={"least_samples": 1})
    playing = setup.method("federico")
    assert isinstance(playing, Federico)
    for round_index in (1, 2):
        playing.round(round_index)
    assert 2 in playing.posteriors[0].peers


def test_a_client_whose_budget_is_used_up_sends_nothing_more_and_goes_on_pulling(
    tmp_path: Path,
) -> None:
    run = federico.run(
        clients=some_clients(60, 60, 60),
        model=lambda: nn.Linear(4, 2),
        directory=tmp_path,
        rounds=6,
        methods=["federico"],
        privacy={"epsilon": 6.0, "noise": 2.0},
        federico={"neighbors": 2},
    )
    records = run.records("federico")
    spent = np.array([record.epsilon for record in records])
    assert (np.diff(spent, axis=0) >= 0).all()
    assert (spent[0] > 0).all()
    assert (spent[-1] <= 6).all()
    assert (spent[-1] == spent[-2]).all(), "nothing more was sent in the last round"
    assert min(records[-1].received) > 0, "but models were pulled"
    assert {record.delta for record in records} == {1e-5}


def test_noise_is_the_same_for_the_same_seed_and_a_run_resumes_its_account(tiny: Tiny) -> None:
    setup = setup_of(tiny, 40, 40, 40, rounds=4, privacy={"epsilon": 8.0})
    straight = setup.method("federico")
    straight.round(1)
    saved = straight.state()
    straight.round(2)

    resumed = setup.method("federico")
    resumed.restore(saved)
    resumed.round(2)
    assert resumed.bank.copy_rows().eq(straight.bank.copy_rows()).all()
    assert resumed.learner.account is not None
    assert straight.learner.account is not None
    assert resumed.learner.account.spent().tolist() == straight.learner.account.spent().tolist()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"federico": {"m_step": "gradient"}}, "FedeRiCo"),
        ({"methods": ["fedem"]}, "FedEM"),
        ({"training": {"class_weights": "balanced"}}, "class_weights"),
    ],
)
def test_what_the_accountant_cannot_cover_is_refused(
    tiny: Tiny, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"privacy\.epsilon: .*{said}"):
        setup_of(tiny, 40, 40, 40, privacy={"epsilon": 8.0}, **settings)


def test_a_site_remembers_what_it_has_spent_and_draws_new_noise(tiny: Tiny, tmp_path: Path) -> None:
    setup = setup_of(tiny, 40, 40, 40, rounds=4, privacy={"epsilon": 8.0})
    first = open_account(setup, 1, tmp_path)
    assert first is not None
    setup.hosted_method("federico", Hosting(3, 1, 3), Watched, account=first)
    first.charge(np.array([1]), np.array([20]))

    again = open_account(setup, 1, tmp_path)
    assert again is not None
    setup.hosted_method("federico", Hosting(3, 1, 3), Watched, account=again)
    recall_spent(again, 1, 4, tmp_path)
    assert again.steps[1].tolist() == first.steps[1].tolist() != [0, 0]
    assert again.rules.secret != first.rules.secret

    (tmp_path / "privacy.json").write_text("{")
    with pytest.raises(RunError, match=r"privacy\.json: cannot be read"):
        recall_spent(again, 1, 4, tmp_path)


@pytest.mark.parametrize(("rounds_since", "charged"), [(0, 0), (2, 2), (None, None)])
def test_a_ledger_out_of_a_backup_charges_what_may_have_been_spent_since(
    tiny: Tiny, tmp_path: Path, rounds_since: int | None, charged: int | None
) -> None:
    setup = setup_of(tiny, 40, 40, 40, rounds=4, privacy={"epsilon": 8.0})

    def start() -> PrivacyAccount:
        account = open_account(setup, 1, tmp_path)
        assert account is not None
        setup.hosted_method("federico", Hosting(3, 1, 3), Watched, account=account)
        recall_spent(account, 1, 4, tmp_path)
        return account

    first = start()
    first.charge(np.array([1]), np.array([16]))
    known = first.steps[1].sum()
    note_restored(tmp_path, rounds_since)

    restored = start()
    since = restored.steps[1].sum() - known
    if charged is None:
        assert not restored.affordable(1, 1, 16)
    else:
        visits = charged * restored.rules.planned_visits // 4
        assert since == visits * restored.steps_per_epoch(20)
    assert start().steps[1].tolist() == restored.steps[1].tolist(), "charged once"


def test_a_backup_from_before_anything_was_sent_is_charged_too(tiny: Tiny, tmp_path: Path) -> None:
    setup = setup_of(tiny, 40, 40, 40, rounds=4, privacy={"epsilon": 8.0})
    note_restored(tmp_path, None)
    account = open_account(setup, 1, tmp_path)
    assert account is not None
    setup.hosted_method("federico", Hosting(3, 1, 3), Watched, account=account)
    recall_spent(account, 1, 4, tmp_path)
    assert not account.affordable(1, 1, 16)


def test_with_sgd_more_samples_are_needed_to_send_than_with_adam(tiny: Tiny) -> None:
    for optimizer, least in (("adam", 10), ("sgd", 40)):
        for samples, sends in ((least - 1, False), (least, True)):
            training = {"optimizer": {"kind": optimizer}}
            # Half of them are for testing.
            setup = setup_of(tiny, 2 * samples, 100, methods=["fedavg"], training=training)
            method = setup.method("fedavg")
            assert (0 in method.sendable(method.to_shared())) is sends

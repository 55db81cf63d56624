from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ByteSize

from federico.errors import ConfigError
from federico.experiment import memory_plan
from federico.experiment.build import Setup
from federico.experiment.memory_plan import SESSION_BYTES, peer_outlook, peer_storage, plan_peer
from federico.methods.federico_options import FedericoOptions
from federico.network.limits import Limits
from federico.site.prepare import prepare_site
from federico.site.site_file import Site

ROW = 4 * (64 * 6 + 6 + 6 * 10 + 10)


@pytest.fixture
def setup(north: Site) -> Setup:
    return prepare_site(north)


def allowed(site: Site, size: int) -> Site:
    return replace(site, options=site.options.model_copy(update={"memory": ByteSize(size)}))


def test_a_peer_holds_its_own_models_and_not_those_of_all(setup: Setup) -> None:
    parts = plan_peer(setup, Limits()).parts
    assert parts["models"] == (1 + 2 + 2) * ROW, "its own, two private ones and two others"
    assert parts["optimizers"] == 2 * 5 * ROW
    assert parts["checkpoint"] == (3 + 2 * 5) * ROW, "no models of others"
    assert parts["updates"] == 0, "they wait in files"


def test_with_the_papers_rule_there_are_no_private_models(north: Site) -> None:
    paper = north.federation.model_copy(update={"federico": FedericoOptions(preset="paper")})
    parts = plan_peer(prepare_site(replace(north, federation=paper)), Limits()).parts
    assert parts["models"] == 3 * ROW, "its own and two others"
    assert parts["optimizers"] == 2 * 3 * ROW
    assert parts["checkpoint"] == (1 + 2 * 3) * ROW


def test_all_models_that_are_met_are_at_hand_when_a_peer_predicts(north: Site) -> None:
    method = north.federation.federico.model_copy(
        update={"optimizer_state": "fresh", "neighbors": 1}
    )
    site = replace(north, federation=north.federation.model_copy(update={"federico": method}))
    parts = plan_peer(prepare_site(site), Limits()).parts
    assert parts["models"] == (1 + 2 + 2) * ROW, "both others, though one at a time is trained"


def test_a_fresh_optimizer_takes_room_while_it_is_there(north: Site) -> None:
    method = north.federation.federico.model_copy(update={"optimizer_state": "fresh"})
    site = replace(north, federation=north.federation.model_copy(update={"federico": method}))
    parts = plan_peer(prepare_site(site), Limits()).parts
    assert parts["models"] == (1 + 2 + 2) * ROW
    assert parts["optimizers"] == 2 * 2 * ROW, "those of the private models are kept"
    assert parts["updates"] == 2 * 3 * ROW
    assert parts["checkpoint"] == (3 + 2 * 2) * ROW


def test_chunks_on_their_way_count_and_a_model_in_other_numbers_too(setup: Setup) -> None:
    limits = Limits(window=3, chunk_bytes=1 << 12)
    assert plan_peer(setup, limits).parts["network"] == SESSION_BYTES + 2 * 2 * 3 * (1 << 12)
    halved = limits.model_copy(update={"precision": "float16"})
    assert (
        plan_peer(setup, halved).parts["network"]
        == SESSION_BYTES + 2 * 2 * 3 * (1 << 12) + ROW // 2
    )


def test_what_fits_lies_in_memory_and_what_does_not_on_the_disk(
    north: Site, setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    north.state.mkdir()
    assert peer_storage(setup, Limits(), north.state).scratch is None
    assert "are kept in memory" in peer_outlook(setup, Limits(), north.state)
    needed = plan_peer(setup, Limits())
    monkeypatch.setattr(memory_plan, "plan_peer", lambda *_: needed)
    monkeypatch.setattr(memory_plan, "memory_limit", lambda *_: needed.total - 1)
    assert peer_storage(setup, Limits(), north.state).scratch == north.state
    assert "are kept on disk" in caplog.text
    assert "are kept on disk" in peer_outlook(setup, Limits(), north.state)


def test_what_fits_nowhere_is_refused(north: Site, tmp_path: Path) -> None:
    small = allowed(north, 1 << 20)
    setup = prepare_site(small)
    for ask in (peer_storage, peer_outlook):
        with pytest.raises(
            ConfigError, match=r"even with all models on the disk; there is 0\.01 GiB"
        ):
            ask(setup, Limits(), small.state)

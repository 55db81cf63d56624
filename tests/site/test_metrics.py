"""What a monitoring system is told of a site."""

from dataclasses import replace

from federico.network.waits import Wait
from federico.runs.comparison import Comparison
from federico.site.metrics import StatusCollector
from federico.site.status import Status

COMPARED = Comparison(
    alone={"accuracy": 0.7, "loss": 0.9},
    together={"accuracy": 0.8, "loss": 0.5},
    used={"accuracy": 0.8, "loss": 0.5},
    together_share=0.9,
    together_chance=0.84,
)
STATUS = Status(
    federation="hospitals",
    name="Basel",
    pid=1,
    phase="training",
    updated=1.0,
    round=3,
    rounds=9,
    figures={"accuracy": 0.8, "loss": 0.5},
    evaluated=3,
    comparison=COMPARED,
)


def told(status: Status) -> dict[str, float]:
    found = {}
    for family in StatusCollector(lambda: status).collect():
        for sample in family.samples:
            found[sample.name] = sample.value
    return found


def test_it_is_told_how_much_collaborators_count_and_how_sure_that_is() -> None:
    values = told(STATUS)
    assert values["federico_together_share"] == 0.9
    assert values["federico_together_chance"] == 0.84


def test_what_a_site_does_not_know_it_does_not_tell() -> None:
    values = told(replace(STATUS, comparison=replace(COMPARED, together_chance=None)))
    assert "federico_together_chance" not in values
    assert "federico_together_share" in values
    assert "federico_together_share" not in told(replace(STATUS, comparison=None))


def test_a_wait_that_began_after_the_status_was_written_has_taken_no_time() -> None:
    later = Wait("Bern", "its model", since=STATUS.updated + 5, until=STATUS.updated + 60)
    assert told(replace(STATUS, waits=[later]))["federico_waiting_seconds"] == 0

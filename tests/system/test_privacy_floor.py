"""What a real peer sends whose samples are fewer than the floor of its federation."""

from pathlib import Path

from peers import Federation, small

MODEL_BYTES = 4840
"""Of the small model; what does not change travels once."""


def test_with_too_few_samples_a_real_peer_sends_nothing_that_it_has_trained(tmp_path: Path) -> None:
    """Its model stays as everybody's starts, and it offers no updates; it still learns."""
    few = {"privacy": {"least_samples": 1000}, "federico": {"neighbors": 1}}
    with Federation(tmp_path, small(2, rounds=6, **few)) as federation:
        for site in federation:
            site.set(keep_serving=2.0)
        federation.start()
        federation.succeeds()
        for site in federation:
            last = site.records[-1]
            assert sum(record.sent[int(site.name)] for record in site.records) <= MODEL_BYTES
            assert last.alone is not None
            assert last.alone["accuracy"][0] > 0.2, "the private model is trained"

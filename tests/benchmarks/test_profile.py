from benchmarks.growth import raw_experiment
from benchmarks.profile import share_of_operations
from federico.experiment.build import prepare
from federico.experiment.config import validate


def test_shares_are_of_the_whole_and_the_largest_come_first() -> None:
    method = prepare(validate(raw_experiment({"clients": 4, "hidden": 8}, 2)), 0).method("federico")
    rows = share_of_operations(method, 2)
    shares = [share for _, share in rows]
    assert abs(sum(shares) - 1) < 1e-9
    assert shares == sorted(shares, reverse=True)
    assert any("mm" in name for name, _ in rows)

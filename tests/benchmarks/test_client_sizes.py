"""The benchmark of what clients of very different sizes get."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.client_sizes import CLIENTS_OF_EACH, SIZES, clients_of_all_sizes, main, table
from benchmarks.page import DOCS
from tests.benchmarks.test_made_data import OUTCOME


def test_there_are_clients_of_ten_samples_and_of_ten_thousand() -> None:
    made = clients_of_all_sizes(np.random.default_rng(0))
    sizes = [len(client.train[1]) for client in made.values()]
    assert sizes == list(SIZES) * CLIENTS_OF_EACH
    assert {min(sizes), max(sizes)} == {10, 10_000}


def test_each_size_has_a_line_of_means_and_its_worst_client() -> None:
    first = replace(OUTCOME, trained=[10, 10_000], alone=[0.7, 0.9], gain=[0.1, 0.0])
    second = replace(first, gain=[-0.02, 0.002], together_share=[0.8, 0.1])
    assert table([first, second]).splitlines()[2:] == [
        "| 10 | 70.0 | +4.0 | -2.0 | 70 % |",
        "| 10,000 | 90.0 | +0.1 | +0.0 | 30 % |",
    ]


def test_the_page_on_the_method_has_the_table_of_what_is_stored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--stored"])
    page = (DOCS / "explanation-method-federico.md").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert "| 2,000 |" in printed
    assert printed in page


def test_seeds_of_which_nothing_is_stored_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--stored", "--seeds", "7"])
    assert "benchmarks/made_data.json has nothing of these seeds" in capsys.readouterr().err

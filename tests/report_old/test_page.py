import re
from collections.abc import Callable
from pathlib import Path

import pytest

from federico.report.old.page import page
from federico.report.old.summary import summarize
from federico.runs.layout import RunDir


def written(path: Path) -> str:
    return page(summarize(RunDir(path)), {"overview": b"png"})


def test_names_and_commands_are_escaped(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    names = ["<script>alert(1)</script>", "b", "c"]
    posterior = [{names[0]: 0.5, "b": 0.5}, {"b": 0.5, names[0]: 0.5}, {"c": 1.0}]
    write_cell(
        {"accuracy": [0.5] * 3, "posterior": posterior}, clients=names, command='run "<img src=x>"'
    )
    html = written(tmp_path)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; learns with b" in html
    assert "<script" not in html
    assert "<img src=x" not in html
    assert "&lt;img src=x&gt;" in html


def test_nothing_is_loaded_from_elsewhere(simulated: Path) -> None:
    html = written(simulated)
    assert re.findall(r'(?:src|href)="(?!data:image/png;base64,)[^"]*"', html) == []
    assert not re.search(r"https?://|url\(|@import", html)
    assert 'src="data:image/png;base64,cG5n"' in html


def test_the_best_method_stands_out(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell({"accuracy": [0.5] * 3})
    write_cell({"accuracy": [0.6] * 3}, method="local")
    assert re.findall(r'<tr class="best"><td>(\w+)', written(tmp_path)) == ["Local"]


def test_settings_hashes_versions_and_command_are_there(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({})
    html = written(tmp_path)
    assert "<tr><td>optimizer.kind</td><td>sgd</td></tr>" in html
    assert "<tr><td>drop</td><td>not set</td></tr>" in html
    assert "<tr><td>dtype</td><td>float32</td></tr>" in html
    assert "<code>d0</code>" in html
    assert "<code>p0</code>" in html
    assert "<dt>federico</dt><dd>0.1.0</dd>" in html
    assert "<code>federico run made-up.toml</code>" in html


def test_the_options_of_all_methods_are_shown(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({}, options={"federico": {"debias": True}})
    write_cell({}, method="fedavg_plus", options={"fedavg_plus": {"tune": [1, 2]}})
    html = written(tmp_path)
    assert "<tr><td>debias</td><td>yes</td></tr>" in html
    assert "<tr><td>tune</td><td>1, 2</td></tr>" in html


def test_versions_that_changed_on_the_way_are_all_named(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell({}, seed=0)
    write_cell({}, seed=1, versions={"federico": "0.2.0"})
    assert "<dt>federico</dt><dd>0.1.0, 0.2.0</dd>" in written(tmp_path)


@pytest.mark.parametrize(("other", "said"), [("p0", False), ("p1", True)])
def test_it_is_said_when_clients_differ_from_seed_to_seed(
    tmp_path: Path, write_cell: Callable[..., None], other: str, said: bool
) -> None:
    write_cell({}, seed=0)
    write_cell({}, seed=1, partition_hash=other)
    assert ("shares out the data anew" in written(tmp_path)) is said


def test_an_unfinished_run_says_so(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell(*[{}] * 4, finished=False)
    assert '<p class="note">Not finished: FedeRiCo with seed 0 is at round 4.</p>' in written(
        tmp_path
    )

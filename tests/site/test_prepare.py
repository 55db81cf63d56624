from pathlib import Path

import numpy as np
import pytest

from federico.errors import ConfigError, DataError
from federico.experiment.build import Setup, prepare
from federico.experiment.config import validate
from federico.site.local_federation import create_federation
from federico.site.prepare import prepare_site
from federico.site.site_file import Site, load_site


def test_a_site_has_the_part_a_simulation_would_give_it(
    sites: dict[str, Path], setup_of_three: Setup
) -> None:
    for place, (name, file) in enumerate(sites.items()):
        mine = prepare_site(load_site(file))
        own, simulated = mine.clients[place], setup_of_three.clients[place]
        assert own.id == simulated.id == name
        np.testing.assert_array_equal(own.train.x, simulated.train.x)
        np.testing.assert_array_equal(own.test.y, simulated.test.y)


def test_of_the_others_it_has_names_and_nothing_else(north: Site) -> None:
    setup = prepare_site(north)
    assert setup.shares.ids == ("0", "1", "2")
    assert [len(client.train) + len(client.test) > 0 for client in setup.clients] == [
        True,
        False,
        False,
    ]
    assert not any("'1'" in warning for warning in setup.warnings)


def test_without_a_partition_all_data_is_the_sites(north: Site) -> None:
    options = north.options.model_copy(update={"partition": None})
    own = prepare_site(Site(options, north.federation, north.folder)).clients[0]
    assert len(own.train) + len(own.test) == 200


def test_a_part_that_does_not_exist_is_refused(north: Site) -> None:
    options = north.options.model_copy(update={"client": "7"})
    with pytest.raises(ConfigError, match="no such client; it has 0, 1, 2"):
        prepare_site(Site(options, north.federation, north.folder))


def test_data_that_was_not_agreed_on_is_refused(north: Site) -> None:
    sample = north.federation.sample.model_copy(update={"input_shape": (65,)})
    federation = north.federation.model_copy(update={"sample": sample})
    with pytest.raises(DataError, match=r"shape \(64,\), the federation agreed on \(65,\)"):
        prepare_site(Site(north.options, federation, north.folder))


def test_chunks_too_small_for_the_model_are_refused_before_the_start(north: Site) -> None:
    """One message could not announce them all."""
    large = north.federation.model.model_copy(update={"hidden": (6000, 5600)})
    tiny = north.federation.limits.model_copy(update={"chunk_bytes": 1024})
    federation = north.federation.model_copy(update={"model": large, "limits": tiny})
    with pytest.raises(ConfigError, match=r"limits.chunk_bytes = 1024: .* set it to \d+ or more"):
        prepare_site(Site(north.options, federation, north.folder))


def test_a_site_turns_its_images_as_a_simulation_would(tmp_path: Path) -> None:
    tables = {
        "name": "turned",
        "methods": ["federico"],
        "split": {"samples": 200},
        "partition": {"kind": "rotated", "clients": 3},
        "model": {"kind": "mlp", "hidden": [6]},
    }
    simulated = prepare(validate(tables), 0)
    for place, file in enumerate(create_federation(tmp_path, simulated).values()):
        own = prepare_site(load_site(file)).clients[place]
        np.testing.assert_array_equal(own.train.x, simulated.clients[place].train.x)
        np.testing.assert_array_equal(own.test.x, simulated.clients[place].test.x)

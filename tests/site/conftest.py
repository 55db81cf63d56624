"""A federation laid out on disk: three sites with keys and files, no process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from federico.experiment.build import Setup, prepare
from federico.experiment.config import validate
from federico.network.presence import Presence
from federico.network.session import close, open_session
from federico.site.local_federation import create_federation
from federico.site.site_file import Site, load_site


@pytest.fixture(scope="session")
def setup_of_three() -> Setup:
    return prepare(
        validate(
            {
                "name": "small",
                "methods": ["federico"],
                "rounds": 3,
                "split": {"samples": 200},
                "partition": {"kind": "label-groups", "clients": 3, "groups": 2},
                "model": {"kind": "mlp", "hidden": [6]},
            }
        ),
        0,
    )


@pytest.fixture
def sites(tmp_path: Path, setup_of_three: Setup) -> dict[str, Path]:
    """The site files by name."""
    return create_federation(tmp_path, setup_of_three)


@pytest.fixture
def listening() -> Callable[[Site], object]:
    """Makes a site be there, as a peer would, as long as a block lasts."""

    @contextmanager
    def listen(site: Site) -> Iterator[None]:
        session = open_session(site.identity, site.addresses, site.federation.roster)
        presence = Presence(session, site.federation.roster, site.name)
        try:
            yield
        finally:
            presence.close()
            close(session)

    return listen


@pytest.fixture
def north(sites: dict[str, Path]) -> Site:
    return load_site(sites["0"])

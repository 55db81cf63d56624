import pytest

from federico.errors import RunError
from federico.site.site_file import Site
from federico.site.state_folder import open_state_folder


def test_one_process_at_a_time(north: Site) -> None:
    with (
        open_state_folder(north),
        pytest.raises(RunError, match="another process"),
        open_state_folder(north),
    ):
        pass


def test_a_state_belongs_to_one_version_of_the_federation_file(north: Site) -> None:
    with open_state_folder(north):
        pass
    with open_state_folder(north):
        pass
    other = Site(north.options, north.federation.model_copy(update={"seed": 1}), north.folder)
    with (
        pytest.raises(RunError, match="another version of the federation file"),
        open_state_folder(other),
    ):
        pass

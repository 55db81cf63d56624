import pytest

from federico.errors import ConfigError
from federico.network.roster import Roster


def test_everything_of_a_member_is_below_its_key() -> None:
    roster = Roster("study", bytes(32), ("a", "b"))
    keys = [
        roster.requests_key("a"),
        roster.request_key("a", "b", "request-model"),
        roster.alive_key("a"),
        roster.finished_key("a", 3),
    ]
    assert all(key.startswith(f"{roster.member_key('a')}/") for key in keys)
    assert roster.member_key("a").startswith(f"{roster.root}/")


@pytest.mark.parametrize("name", ["", "a/b", "*", "a b", "-a", "a$", "x" * 65, "a\n"])
def test_a_name_that_is_no_key_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="letters, digits"):
        Roster("study", bytes(32), ("a", name))


def test_no_two_have_one_name() -> None:
    with pytest.raises(ConfigError, match="a name of its own"):
        Roster("study", bytes(32), ("a", "b", "a"))
    with pytest.raises(ConfigError, match="a name of its own"):
        Roster("study", bytes(32), ("a", "b"), relays=("b",))


@pytest.mark.parametrize(
    "ending",
    ["*/request-model", "b/*", "b/**", "b$*/request-model", "**", "b", "b/request-model/more"],
)
def test_a_key_that_is_not_exactly_one_members_request_is_nobodys(ending: str) -> None:
    roster = Roster("study", bytes(32), ("a", "b"))
    requests = roster.requests_key("a")
    assert roster.visitor_of(f"{requests}/b/request-model", "a") == "b"
    assert roster.visitor_of(f"{requests}/{ending}", "a") is None

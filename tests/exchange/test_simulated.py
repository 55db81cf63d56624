import pytest

from federico.exchange.protocol import Exchange
from federico.exchange.simulated import SimulatedExchange
from tests.support.exchange_contract import (
    Connect,
    ExchangeContract,
    PartOfModelContract,
    updates_of,
)


class TestSimulatedExchange(ExchangeContract, PartOfModelContract):
    @pytest.fixture
    def connect(self) -> Connect:
        return SimulatedExchange

    def test_collecting_before_anybody_pushed_is_a_mistake(self, exchange: Exchange) -> None:
        with pytest.raises(AssertionError, match="after push"):
            exchange.collect(1)

    def test_one_can_collect_only_once(self, exchange: Exchange) -> None:
        exchange.push(1, updates_of([(0, 1)]))
        exchange.collect(1)
        with pytest.raises(AssertionError, match="after push"):
            exchange.collect(1)

"""Until its members turn hostile, the exchange of an attack is one like any other."""

import numpy as np
import pytest

from federico.attacks.exchange import HostileExchange
from federico.attacks.options import AttackOptions
from federico.exchange.protocol import Exchange
from federico.exchange.simulated import SimulatedExchange
from federico.learning.bank import Bank
from tests.support.exchange_contract import Connect, ExchangeContract, PartOfModelContract


def refuse() -> None:
    raise AssertionError("nobody is hostile yet")


def connect_before_the_attack(bank: Bank, participants: int) -> Exchange:
    """An exchange whose members turn hostile after all rounds that the contract plays."""
    inner = SimulatedExchange(bank, participants)
    attack = AttackOptions(kind="absent", from_round=1000)
    return HostileExchange(inner, bank, attack, np.array([1]), 0, refuse, 2)


class TestHostileExchange(ExchangeContract, PartOfModelContract):
    @pytest.fixture
    def connect(self) -> Connect:
        return connect_before_the_attack

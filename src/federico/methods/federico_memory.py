"""How much FedeRiCo holds at its peak, which the memory plan asks before anything starts."""

from math import ceil

from federico.methods.accepting import OWNERS
from federico.methods.federico_options import FedericoOptions
from federico.methods.method import Needs


def memory_needs(options: FedericoOptions, clients: int, rounds: int) -> Needs:
    """Every peer trains what it visits, and may keep an optimizer for every model it meets."""
    sampling_rounds = max(0, rounds - options.solo_rounds)
    visited = 0
    if sampling_rounds > 0:
        visited = clients * options.most_neighbors(clients)
    visits = clients + visited

    private = 0
    private_updates = 0
    if options.has_private_models(clients):
        private = 2 * clients
        # Those of the private models, or of their twins, while what was sent is under way.
        private_updates = clients

    copies = 0
    if options.judges_updates(clients):
        copies = min(clients, OWNERS)  # what models were before an update was tried
    if options.accept in ("median", "trimmed"):
        copies += visits + clients

    # Every visit may be to a model not met before, until all have met. A peer that
    # predicts, or judges for the last time, has all trusted models at hand at once.
    meetings = visited * _meeting_rounds(options, sampling_rounds)
    all_meetings = clients * (clients - 1)
    met = min(all_meetings, meetings)

    updates = visits
    pairs = clients + private + met
    fresh = 0
    if options.m_step == "gradient":
        updates = visits + clients  # beside the gradients sent, their sum at each owner
        pairs = clients + private
    elif options.optimizer_state == "fresh":
        pairs = private
        fresh = visits

    return Needs(
        models=clients + private,
        updates=updates,
        pairs=pairs,
        fresh=fresh,
        private_updates=private_updates,
        copies=copies,
        met=met,
    )


def _meeting_rounds(options: FedericoOptions, sampling_rounds: int) -> int:
    """The largest number of rounds in which a peer may visit models it has never visited."""
    if options.sampler != "epsilon_greedy" or options.strangers != "cautious":
        return sampling_rounds

    # Only a uniform draw reaches strangers. Twice the expected number of such rounds covers chance,
    # and one more the first round.
    exploring = ceil(2 * options.epsilon * sampling_rounds) + 1
    return min(sampling_rounds, exploring)

"""Training alone: what every method has to beat."""

from typing import Any

from federico.methods.method import Method, Mixtures, Round


class Local(Method):
    """Each client trains its own model on its own data; no messages."""

    name = "local"
    title = "Local"
    summary = "Every client trains alone. FedeRiCo with 0 neighbors is the same thing."

    @classmethod
    def is_accountable(cls, options: Any) -> bool:
        """Others see nothing but models that were trained."""
        return True

    def round(self, round_index: int) -> Round:
        """Local epochs of every client on its own model."""
        deltas = self.train(round_index, self.to_own())
        self.move_own_models(deltas)
        return Round()

    def predictors(self, round_index: int) -> Mixtures:
        """Every client's own model."""
        return self.read(round_index, self.to_own())

"""How the best learning rate of a row in a column was found."""

from dataclasses import dataclass

from federico.compare.study import Column, Row, Study


@dataclass(frozen=True)
class Tuned:
    """The rate that was chosen, and how every rate scored on the clients' validation parts."""

    row: str
    column: str
    settings: str
    """A hash of every setting of the first tuning run that can change a number."""
    rounds: int
    seeds: list[int]
    scores: dict[float, float]
    """The figure after the last round by rate, mean over seeds."""
    rate: float
    """The best of them; of equals the first, as the file lists them."""
    save: int = 0
    """In a saved result: the place of what says where this comes from, in its list of saves."""

    def answers(self, study: Study, row: Row, column: Column) -> bool:
        """Whether tuning this row and column of the study would be the same again."""
        cells = study.tuning_cells(row, column)
        asked = row.name, column.name, cells[0].settings, cells[0].experiment.rounds
        return (
            asked == (self.row, self.column, self.settings, self.rounds)
            and list(self.scores) == list(study.compare.tuning.rates)
            # Not which seeds: for runs that are added nothing is tuned again.
            and len(self.seeds) == len({cell.seed for cell in cells})
        )

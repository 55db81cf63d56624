"""Add a result to the one that was saved before, so that a table can grow over days and machines.

An entry (a row in a column at a learning rate) of the earlier result is kept where the new one has none and the study
still describes it: same method, same settings. Runs of other seeds are added to it. One that was run anew replaces the
earlier, unless that has more rounds, or runs of seeds that the new one lacks. An entry that was only read again, from
the same runs, keeps saying where it first came from.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

from federico.compare.pooling import pooled
from federico.compare.result import Entry, Result, compared
from federico.compare.saved import Save, Saved, rounded, this_save
from federico.compare.study import At, Study
from federico.compare.studydir import StudyDir
from federico.compare.tuning import Tuned
from federico.report.old.summary import title_of
from federico.report.old.words import count

Place: TypeAlias = tuple[str, str, At]


@dataclass(frozen=True)
class Sum:
    """Both results in one."""

    saves: list[Save]
    result: Result
    notes: list[str]
    """What a person should know: which entries were dropped or kept, and why."""


def add(study: Study, folder: StudyDir, result: Result, command: str, earlier: Saved | None) -> Sum:
    """The result just gathered, by this command, and the earlier one."""
    new, before = rounded(result), [] if earlier is None else earlier.saves
    old = replace(new, entries=[], tuned=[]) if earlier is None else earlier.result
    entries = _entries(study, old, new, len(before))
    tuned = [*_tuned(new, old, entries, len(before))]
    save = this_save(command, _seconds(study, folder, entries, tuned, len(before)))
    seeds = sorted({*new.seeds, *(seed for entry in entries for seed in entry.by_seed)})
    together = rounded(
        compared(replace(_about(old, new, entries), seeds=seeds, entries=entries, tuned=tuned))
    )
    return Sum(*_only_used([*before, save], together), [*_notes(old, new, entries)])


def _entries(study: Study, old: Result, new: Result, number: int) -> list[Entry]:
    """Of both, in the order of the study; `number` is the place of the new save."""
    kept = {_place(entry): entry for entry in old.entries if _describes(study, entry)}
    chosen = [_choose(kept.get(place), new.entry(*place), number) for place in study.places()]
    return [entry for entry in chosen if entry is not None]


def _about(old: Result, new: Result, entries: list[Entry]) -> Result:
    """What the study says of its rounds is not true of entries that are all of longer runs."""
    longer = all(entry.rounds > new.rounds for entry in entries)
    return replace(new, rounds=old.rounds, paper=old.paper) if longer else new


def _notes(old: Result, new: Result, entries: list[Entry]) -> Iterator[str]:
    places = {_place(entry): entry for entry in entries}
    for entry in old.entries:
        chosen, now = places.get(_place(entry)), new.entry(*_place(entry))
        if chosen is None:
            yield f"{_called(entry)}: dropped, it is not part of the study as it is now"
        elif now and chosen is entry and not _same_runs(entry, now):
            yield f"{_called(entry)}: kept as it was saved, {_why_kept(entry, now)}"
        elif entry.by_seed.keys() - chosen.by_seed.keys():
            runs = f"{count(len(entry.by_seed), 'run')} of {count(entry.rounds, 'round')}"
            yield f"{_called(entry)}: replaced: {runs} by {len(chosen.by_seed)} of {chosen.rounds}"


def _why_kept(old: Entry, new: Entry) -> str:
    if old.rounds == new.rounds and old.rate != new.rate:
        return f"at learning rate {old.rate:g}, where it is {new.rate:g} now; to replace it, move the file away"
    if old.rounds == new.rounds:
        return "with runs that are not here; to add runs to it, run other seeds alone"
    return f"not replaced by {count(new.rounds, 'round')}; to replace it, move the file away and save again"


def _place(entry: Entry) -> Place:
    return entry.row, entry.column, entry.at


def _describes(study: Study, entry: Entry) -> bool:
    """Whether a run of the study would be what this entry is of."""
    cells = study.cells_at(*_place(entry), entry.rate)
    return bool(cells) and (cells[0].method, cells[0].settings) == (entry.method, entry.settings)


def _choose(old: Entry | None, new: Entry | None, number: int) -> Entry | None:
    if old is None or new is None:
        return old if new is None else replace(new, saves=(number,))
    if _same_runs(old, new):
        return old
    alike = (old.rounds, old.settings) == (new.rounds, new.settings)
    if alike and not old.by_seed.keys() & new.by_seed.keys():
        return pooled(old, replace(new, saves=(number,)))
    stays = old.rounds > new.rounds or (
        old.rounds == new.rounds and old.by_seed.keys() - new.by_seed.keys()
    )
    return old if stays else replace(new, saves=(number,))


def _same_runs(old: Entry, new: Entry) -> bool:
    """Whether the new runs were saved before, alone or with others."""
    if old.rounds == new.rounds and new.by_seed.items() < old.by_seed.items():
        return True
    return _written(replace(new, saves=old.saves, versus=old.versus)) == _written(old)


def _tuned(new: Result, old: Result, entries: list[Entry], number: int) -> Iterator[Tuned]:
    """How rates were chosen now, and earlier for entries that are kept."""
    used = {_rate(entry) for entry in entries if entry.at == "best"}
    kept = {_rate(entry) for entry in entries if entry.at == "best" and entry.saves != (number,)}
    before = {(each.row, each.column): each for each in old.tuned}
    for each in new.tuned:
        earlier = before.pop((each.row, each.column), None)
        if earlier and (
            _rate(earlier) in kept
            or _written(replace(each, save=earlier.save)) == _written(earlier)
        ):
            yield earlier
        else:
            yield replace(each, save=number)
    yield from (each for each in before.values() if _rate(each) in used)


def _rate(each: Entry | Tuned) -> tuple[str, str, float]:
    return each.row, each.column, each.rate


def _seconds(
    study: Study, folder: StudyDir, entries: list[Entry], tuned: list[Tuned], number: int
) -> float:
    """Of all runs behind what is new."""
    cells = [
        cell
        for each in entries
        if number in each.saves
        for cell in study.cells_at(*_place(each), each.rate)
    ]
    fresh = {(each.row, each.column) for each in tuned if each.save == number}
    cells += [
        cell
        for row, column in study.pairs()
        if (row.name, column.name) in fresh
        for cell in study.tuning_cells(row, column)
    ]
    by_name = {cell.name: cell for cell in cells}
    return sum(
        sum(spent.seconds.values())
        for cell in by_name.values()
        for spent in folder.cell(cell).spent
    )


def _only_used(saves: list[Save], result: Result) -> tuple[list[Save], Result]:
    """Without saves that nothing comes from any more."""
    used = sorted(
        {save for each in result.entries for save in each.saves}
        | {each.save for each in result.tuned}
    )
    entries = [
        replace(entry, saves=tuple(map(used.index, entry.saves))) for entry in result.entries
    ]
    tuned = [replace(each, save=used.index(each.save)) for each in result.tuned]
    return [saves[place] for place in used], replace(result, entries=entries, tuned=tuned)


def _written(each: Entry | Tuned) -> str:
    """To compare by: unlike the number, the text of NaN equals itself."""
    return json.dumps(asdict(each), sort_keys=True)


def _called(entry: Entry) -> str:
    column = f", {entry.column}" if entry.column else ""
    return f"{title_of(entry.row)}{column}, {entry.at} rate, {count(entry.rounds, 'round')}"

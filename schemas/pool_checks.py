"""What is wrong with pool prices only beside other rows and files: overlaps, names nobody has, costs that a GPU rate pays already."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from schemas.pool_pricing import PoolPrice
from schemas.source import Refusal
from schemas.tenancy import Replica
from schemas.values import overlaps, unknown


def refusals(
    tables: Mapping[str, Sequence[PoolPrice]], gpu_rates: Sequence[tuple[str, Any]], replicas: Sequence[Replica], gpus: Collection[str]
) -> Iterator[Refusal]:
    """`tables`: table name -> its rows. `gpu_rates`: (place, row) of every price of GPU time."""
    for table, rows in tables.items():
        yield from overlaps(table, rows, lambda row: _keys(row, replicas), "the price")
        for index, row in enumerate(rows):
            yield from _unknown_names(table, index, row, replicas, gpus)
            yield from _loaded_twice(table, index, row, gpu_rates, replicas)
    yield from _zones_apart(tables["power"], replicas)


def _keys(row: PoolPrice, replicas: Sequence[Replica]) -> list[Hashable]:
    """Of what one row at a time may give the price: the resource, or the hour of the day of a replica's power."""
    if row.name:
        return [row.name]
    return [(name, f"hour {hour}") for name in sorted(_meant(row, replicas)) for hour in row.local_hours or range(24)]


def _meant(row: PoolPrice, replicas: Sequence[Replica]) -> set[str]:
    """Replicas that it is for; without an inventory that has any, the names it gives."""
    return {replica.id for replica in replicas if row.fits(replica)} or set(row.replicas or row.gpus or ("every replica",))


def _unknown_names(table: str, index: int, row: PoolPrice, replicas: Sequence[Replica], gpus: Collection[str]) -> Iterator[Refusal]:
    known = {replica.id for replica in replicas}
    for name in row.replicas:
        if name not in known:
            yield unknown((table, index, "replica"), "replica", name, known, "list it in inventory.toml")
    for name in row.gpus:
        if name not in gpus:
            yield unknown((table, index, "gpu"), "gpu", name, gpus, "it is neither in schemas/hardware nor in inventory.toml")


def _loaded_twice(
    table: str, index: int, row: PoolPrice, gpu_rates: Sequence[tuple[str, Any]], replicas: Sequence[Replica]
) -> Iterator[Refusal]:
    """A GPU rate that already pays for this, of a replica that the row is for, at a moment that all three share."""
    for place, rate in gpu_rates:
        twice = sorted(row.covered & set(rate.includes))
        begin, end = max(row.from_ns, rate.from_ns), min(row.to_ns, rate.to_ns)
        met = (
            one.id
            for one in replicas
            if row.fits(one) and (one.gpu, one.purchase) == (rate.gpu, rate.purchase) and max(begin, one.from_ns) < min(end, one.to_ns)
        )
        if twice and begin < end and (name := next(met, None)):
            yield Refusal(
                (table, index),
                f"{place} already includes {' and '.join(twice)} for replica {name!r}: take it out of includes, or leave this row out",
            )
            return


def _zones_apart(rows: Sequence[PoolPrice], replicas: Sequence[Replica]) -> Iterator[Refusal]:
    """Hours of two time zones for one replica: whether they overlap would change with the day."""
    for index, row in enumerate(rows):
        for number, other in enumerate(rows[:index]):
            together = row.from_ns < other.to_ns and other.from_ns < row.to_ns and _meant(row, replicas) & _meant(other, replicas)
            if together and row.local_hours and other.local_hours and row.zone != other.zone:
                yield Refusal(
                    ("power", index, "time_zone"),
                    f"[[power]] {number + 1} counts the hours of {sorted(together)[0]!r} in {other.zone}: use one time zone for both",
                )
                break

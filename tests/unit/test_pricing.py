"""The price book: exact money, half-open validity, one price per key at a time, and what is charged."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.pricing import BUCKETS, Billable, Bucket, PriceBook
from schemas.source import SourceError, check, read
from schemas.stages import Outcome
from schemas.tenancy import Inventory
from schemas.usage import TOKEN_BUCKETS
from schemas.values import OPEN_NS, unix_ns

FROM = "from = 2026-10-01T00:00:00Z\n"
GPU = f'[[gpu]]\nid = "a"\ngpu = "h100-sxm"\nusd_per_gpu_hour = "2.49"\n{FROM}'
TOKEN = f'[[token]]\nsku = "s"\nmodel = ["m"]\nusd_per_million_tokens = {{ output_text = "1" }}\n{FROM}'
OWNED = f'[[owned_gpu]]\nid = "o"\ngpu = "h100-sxm"\npurchase_usd = "36500"\namortisation_months = 1\n{FROM}'
POWER = f'[[power]]\nid = "p"\nusd_per_kwh = "0.2"\n{FROM}'
GATEWAY = f'[[gateway]]\nid = "g"\nusd_per_node_hour = "0.1"\n{FROM}'
REPLICAS = read(
    Inventory,
    "inventory.toml",
    f'[[replica]]\nid = "r0"\nmodel = "m"\ngpu = "h100-sxm"\ngpus = 8\n{FROM}'
    f'[[replica]]\nid = "r1"\nmodel = "m"\ngpu = "h100-sxm"\ngpus = 8\npurchase = "owned"\n{FROM}',
).replica


def book(text: str) -> PriceBook:
    found = read(PriceBook, "prices.toml", text)
    check("prices.toml", text, found.refusals({"h100-sxm", "b200"}, {"m", "llama-3.3-70b"}, {"acme"}, REPLICAS))
    return found


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GPU.replace('"2.49"', "2.49"), 4, 'write it as a text, "2.49"'),
        (GPU.replace('"2.49"', "2"), 4, "write it as a text"),
        (GPU.replace("2.49", "-2.49"), 4, "greater than or equal to 0"),
        (GPU.replace("2.49", "2.4900000000001"), 4, "at most 12 places"),
        (GPU.replace("2.49", "2,49"), 4, "not a plain decimal"),
        (GPU.replace("2.49", "NaN"), 4, "not a plain decimal"),
        (GPU.replace("h100-sxm", "h100-smx"), 3, "unknown gpu 'h100-smx': did you mean 'h100-sxm'?"),
        (GPU.replace("usd_per_gpu_hour", "usd_per_gpu_day"), 4, "usd_per_gpu_day: unknown key"),
        (GPU.replace("00Z", "00"), 5, "is not UTC"),
        (GPU.replace("00Z", "00+02:00"), 5, "is not UTC"),
        (GPU.replace("2026-10-01T00:00:00Z", '"2026-10-01T00:00:00Z"'), 5, "without quotes"),
        (GPU.replace("2026-10-01T00:00:00Z", "2026-10-01"), 5, "date and time"),
        (GPU + "to = 2026-10-01T00:00:00Z\n", 1, "to must be later than from"),
        (GPU + 'includes = ["power", "cooling"]\n', 6, "includes.1"),
        (GPU + GPU.replace("h100-sxm", "b200"), 1, "same id"),
        (GPU + "\n" + GPU.replace('"a"', '"b"'), 7, "overlaps [[gpu]] 1"),
        (f'{GPU}[[water]]\nusd_per_m3 = "0.2"\n', 6, "water: unknown key"),
        (GPU + 'purchase = "leased"\n', 6, "purchase"),
        (OWNED.replace('"36500"', '"5"') + 'residual_usd = "6"\n', 1, "residual_usd is more than purchase_usd"),
        (OWNED + "to = 2026-11-01T00:00:00Z\n", 1, "is paid off at 2026-10-31T10:00:00Z"),
        (GPU + 'purchase = "owned"\n' + OWNED.replace('"o"', '"b"'), 7, "overlaps [[gpu]] 1: the price of 'h100-sxm'"),
        (GPU + OWNED.replace('"o"', '"a"'), 1, "same id"),
        (POWER.replace("0.2", "-0.2"), 3, "greater than or equal to 0"),
        (POWER.replace("usd_per_kwh", "usd_per_mwh"), 3, "usd_per_mwh: unknown key"),
        (POWER + 'pue = "0.9"\n', 5, "pue"),
        (POWER + 'hours = "7-22"\n', 5, "is no stretch of whole hours"),
        (POWER + 'hours = "07-07"\n', 5, "is no stretch of whole hours"),
        (POWER + 'hours = "07-25"\n', 5, "is no stretch of whole hours"),
        (POWER + 'time_zone = "CEST"\n', 5, "unknown time zone 'CEST'"),
        (POWER + 'replica = ["r9"]\n', 5, "unknown replica 'r9'"),
        (POWER + 'gpu = ["b300"]\n', 5, "unknown gpu 'b300'"),
        (POWER + POWER.replace('"p"', '"q"'), 5, "overlaps [[power]] 1: the price of 'r0', 'hour 0' must"),
        (POWER + 'hours = "07-22"\n' + POWER.replace('"p"', '"q"') + 'hours = "21-07"\n', 6, "'hour 21' must"),
        (
            POWER + 'hours = "07-22"\n' + POWER.replace('"p"', '"q"') + 'hours = "00-03"\ntime_zone = "Asia/Tokyo"\n',
            11,
            "counts the hours of 'r0' in UTC: use one time zone",
        ),
        (f'[[network]]\nid = "n"\nlink = "nic"\n{FROM}', 1, "give one of usd_per_port_hour and usd_per_gib"),
        (f'[[network]]\nid = "n"\nlink = "wifi"\nusd_per_gib = "1"\n{FROM}', 3, "link"),
        (f'[[kv_storage]]\nid = "k"\ntier = "host"\ngib = "0"\nusd_per_gib_hour = "1"\n{FROM}', 4, "greater than 0"),
        (f'[[overhead]]\nid = "o"\nkind = "staff"\nusd_per_hour = "1"\nusd_per_month = "1"\n{FROM}', 1, "give one of usd_per_hour"),
        (GATEWAY + GATEWAY.replace('"g"', '"h"') + 'resource = "g"\n', 5, "overlaps [[gateway]] 1: the price of 'g' must"),
        (GPU + 'includes = ["facility", "power"]\n' + POWER, 7, "[[gpu]] 1 already includes power for replica 'r0'"),
        (GPU + 'includes = ["gateway"]\n' + GATEWAY, 7, "[[gpu]] 1 already includes gateway for replica 'r0'"),
        (
            GPU + f'includes = ["facility"]\n[[overhead]]\nid = "hall"\nkind = "facility"\nusd_per_hour = "1"\n{FROM}',
            7,
            "[[gpu]] 1 already includes facility",
        ),
        (TOKEN.replace('["m"]', '["n"]'), 3, "unknown model 'n'"),
        (TOKEN.replace("output_text", "output"), 4, "output"),
        (TOKEN + 'tenant = "acne"\n', 6, "did you mean 'acme'?"),
        (TOKEN + TOKEN.replace('["m"]', '["llama-3.3-70b", "m"]'), 6, "overlaps [[token]] 1: the token price of 'm', 'output_text' must"),
        ('provider = " "\n', 1, "provider"),
        ('currency = "Euro"\n', 1, "currency"),
        ('[billable]\nuseful = ["everything"]\n', 2, "useful"),
        ('[billable]\nrejected = ["all"]\n', 2, "rejected: unknown key"),
    ],
)
def test_a_price_book_that_cannot_be_meant_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        book(text)
    assert words in str(caught.value)
    assert caught.value.line == line, str(caught.value)


def test_a_price_may_follow_another_at_the_very_moment_that_it_ends() -> None:
    earlier = GPU + "to = 2026-11-01T00:00:00Z\n"
    later = GPU.replace('"a"', '"b"').replace("2026-10", "2026-11")
    first, second = book(earlier + later).gpu
    assert first.to_ns == second.from_ns
    assert second.to_ns == OPEN_NS


def test_the_list_price_and_a_tenants_own_price_stand_beside_each_other() -> None:
    assert len(book(TOKEN + TOKEN + 'tenant = "acme"\n').token) == 2


def test_one_bucket_of_a_model_may_be_priced_apart_from_the_others() -> None:
    assert len(book(TOKEN + TOKEN.replace("output_text", "input_uncached")).token) == 2


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.integers(0, 10**6), min_size=2, max_size=8, unique=True).map(sorted), nudge=st.integers(0, 5))
def test_rows_overlap_exactly_when_they_share_a_moment(cuts: list[int], nudge: int) -> None:
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "id": str(start),
            "gpu": "h100-sxm",
            "usd_per_gpu_hour": "1",
            "from": epoch + timedelta(microseconds=start),
            "to": epoch + timedelta(microseconds=end + (nudge if start == cuts[0] else 0)),
        }
        for start, end in pairwise(cuts)
    ]
    found = list(PriceBook.model_validate({"gpu": rows}).refusals({"h100-sxm"}, set(), set()))
    assert bool(found) == (nudge > 0 and len(rows) > 1)


@settings(max_examples=50, deadline=None)
@given(atoms=st.integers(0, 10**31))
def test_a_gpu_price_becomes_atoms_exactly(atoms: int) -> None:
    text = GPU.replace("2.49", f"{atoms // 10**12}.{atoms % 10**12:012d}")
    assert book(text).gpu[0].atoms_per_gpu_hour == atoms


@settings(max_examples=50, deadline=None)
@given(micros=st.integers(0, 4 * 10**15))
def test_times_become_nanoseconds_exactly(micros: int) -> None:
    assert unix_ns(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)) == micros * 1000


def test_money_is_never_a_float() -> None:
    price = book(TOKEN.replace('"1"', '"0.1"')).token[0].usd_per_million_tokens["output_text"]
    assert isinstance(price, Decimal) and price == Decimal("0.1")


def test_all_means_every_bucket_and_an_outcome_left_out_keeps_its_default() -> None:
    pairs = Billable.model_validate({"late": [], "failed": ["output_text"]}).pairs()
    assert {bucket for outcome, bucket in pairs if outcome is Outcome.USEFUL} == set(BUCKETS)
    assert (Outcome.FAILED, "output_text") in pairs
    assert not [outcome for outcome, _ in pairs if outcome is Outcome.LATE]
    assert {bucket for outcome, bucket in pairs if outcome is Outcome.BLOCKED} == {
        "input_uncached",
        "input_cache_read",
        "input_cache_write",
    }


def test_buckets_are_the_ones_of_usage() -> None:
    assert TOKEN_BUCKETS == BUCKETS == get_args(Bucket)


def test_what_was_bought_is_spread_over_its_months_and_then_paid_off() -> None:
    (owned,) = book(OWNED.replace("= 1\n", "= 10\n") + 'residual_usd = "0.01"\n').owned_gpu
    assert owned.atoms_per_gpu_hour == (36_500 * 10**12 - 10**10) // 7300
    assert owned.to_ns - owned.from_ns == 7300 * 3600 * 10**9


def test_a_rate_may_include_what_other_replicas_pay_apart() -> None:
    """The cloud's GPUs include power; those of one's own do not, nor what begins when the cloud's rate has ended."""
    cloud = GPU + 'includes = ["power"]\n'
    assert book(cloud + OWNED + POWER + 'replica = ["r1"]\n')
    assert book(cloud + "to = 2026-11-01T00:00:00Z\n" + POWER.replace("2026-10", "2026-11"))


def test_tariffs_may_share_a_day_by_its_hours() -> None:
    day, night = book(POWER + 'hours = "07-22"\n' + POWER.replace('"p"', '"q"') + 'hours = "22-07"\n').power
    assert sorted((*day.local_hours, *night.local_hours)) == list(range(24))


def test_pue_and_sizes_are_part_of_a_pools_price() -> None:
    assert book(POWER + 'pue = "1.3"\n').power[0].atoms == 260_000_000_000
    assert book(GATEWAY + "nodes = 3\n").gateway[0].atoms == 300_000_000_000
    storage = f'[[kv_storage]]\nid = "k"\ntier = "ssd"\ngib = "2.5"\nusd_per_gib_hour = "0.000000000003"\n{FROM}'
    assert book(storage).kv_storage[0].atoms == 7

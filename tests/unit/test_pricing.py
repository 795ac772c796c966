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
from schemas.usage import TOKEN_BUCKETS
from schemas.values import OPEN_NS, unix_ns

FROM = "from = 2026-10-01T00:00:00Z\n"
GPU = f'[[gpu]]\nid = "a"\ngpu = "h100-sxm"\nusd_per_gpu_hour = "2.49"\n{FROM}'
TOKEN = f'[[token]]\nsku = "s"\nmodel = ["m"]\nusd_per_million_tokens = {{ output_text = "1" }}\n{FROM}'


def book(text: str) -> PriceBook:
    found = read(PriceBook, "prices.toml", text)
    check("prices.toml", text, found.refusals({"h100-sxm", "b200"}, {"m", "llama-3.3-70b"}, {"acme"}))
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
        (f'{GPU}[[power]]\nusd_per_kwh = "0.2"\n', 6, "power: unknown key"),
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

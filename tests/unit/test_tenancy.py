"""Tenants, objectives and the inventory: what is refused, and what the rows mean."""

from decimal import Decimal

import pytest

from schemas.source import SourceError, check, read
from schemas.tenancy import Inventory, Slos, Tenants

FROM = "from = 2026-10-01T00:00:00Z\n"
REPLICA = f'[[replica]]\nid = "r"\nmatch = {{ "service.name" = "v" }}\nmodel = "llama-3.1-8b"\ngpu = "h100-sxm"\ngpus = 2\n{FROM}'


def tenants(text: str) -> Tenants:
    found = read(Tenants, "tenants.toml", text)
    check("tenants.toml", text, found.refusals())
    return found


def slos(text: str) -> Slos:
    found = read(Slos, "slo.toml", text)
    check("slo.toml", text, found.refusals({"m"}, {"acme"}))
    return found


def inventory(text: str) -> Inventory:
    found = read(Inventory, "inventory.toml", text)
    check("inventory.toml", text, found.refusals({"llama-3.1-8b"}, {"acme"}))
    return found


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[[tenant]]\nid = "a"\n[[tenant]]\nid = "a"\n', 4, "'a' already means tenant 'a'"),
        ('[[tenant]]\nid = "a"\naliases = ["x"]\n[[tenant]]\nid = "b"\naliases = ["x"]\n', 6, "'x' already means tenant 'a'"),
        ('[[tenant]]\nid = "a"\naliases = ["b"]\n[[tenant]]\nid = "b"\n', 5, "'b' already means tenant 'a'"),
        ('[[tenant]]\nid = "a"\ntime_zone = "Europe/Berln"\n', 3, "unknown time zone 'Europe/Berln'"),
        ('[[tenant]]\nid = "a"\ntime_zone = "../etc"\n', 3, "unknown time zone"),
        ('[[tenant]]\nid = "a b"\n', 2, "tenant.0.id"),
        ('[[tenant]]\nid = "unknown"\n', 2, "requests without a tenant"),
        ('[[tenant]]\nid = "a"\nalias = ["x"]\n', 3, "alias: unknown key"),
    ],
)
def test_a_tenants_file_that_cannot_be_meant_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        tenants(text)
    assert words in str(caught.value) and caught.value.line == line, str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f"[[slo]]\n{FROM}", 1, "at least one of ttft_ms, tpot_ms, e2e_ms"),
        (f"[[slo]]\nttft_ms = 0\n{FROM}", 2, "greater than 0"),
        (f'[[slo]]\nttft_ms = "1"\n{FROM}', 2, "number of milliseconds"),
        (f"[[slo]]\nttft_ms = true\n{FROM}", 2, "number of milliseconds"),
        (f"[[slo]]\nttft_ms = 1\n{FROM}[[slo]]\ntpot_ms = 1\n{FROM}", 4, "overlaps [[slo]] 1: the objective of all must"),
        (f'[[slo]]\nmodel = "n"\nttft_ms = 1\n{FROM}', 2, "unknown model 'n'"),
        (f'[[slo]]\ntenant = "acne"\nttft_ms = 1\n{FROM}', 2, "did you mean 'acme'?"),
    ],
)
def test_an_objective_that_cannot_be_meant_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        slos(text)
    assert words in str(caught.value) and caught.value.line == line, str(caught.value)


def test_an_objective_may_have_parts_of_a_millisecond() -> None:
    assert slos(f"[[slo]]\ntpot_ms = 12.5\n{FROM}").slo[0].tpot_ms == Decimal("12.5")


def test_objectives_of_a_tenant_a_model_and_all_stand_beside_each_other() -> None:
    rows = "".join(f"[[slo]]\n{key}ttft_ms = 1\n{FROM}" for key in ("", 'tenant = "acme"\n', 'model = "m"\n'))
    assert len(slos(rows).slo) == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (REPLICA + REPLICA.replace('"v"', '"w"'), 8, "the replica of 'r' must have one row at a time"),
        (REPLICA + REPLICA.replace('"r"', '"q"'), 8, "the match of"),
        (REPLICA + "efficiency = { compute = 0.45 }\n", 8, 'write it as a text, "0.45"'),
        (REPLICA + 'efficiency = { memory = "1.2" }\n', 8, "less than or equal to 1"),
        (REPLICA + 'precision = "int3"\n', 8, "precision"),
        (REPLICA.replace("gpus = 2", "gpus = 0"), 6, "gpus"),
        (REPLICA + 'reserved_for = { tenant = "acme", gpus = 3 }\n', 1, "reserves 3 GPUs of 2"),
        (REPLICA + 'reserved_for = { tenant = "acne", gpus = 1 }\n', 8, "did you mean 'acme'?"),
        (REPLICA + '[[model]]\nid = "tuned"\nlike = "llama-3.1-9b"\n', 10, "did you mean 'llama-3.1-8b'?"),
        (REPLICA + '[[model]]\nid = "llama-3.1-8b"\n', 8, "already the name of a model"),
    ],
)
def test_an_inventory_that_cannot_be_meant_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        inventory(text)
    assert words in str(caught.value) and caught.value.line == line, str(caught.value)


def test_a_replica_may_change_its_model_when_the_earlier_row_has_ended() -> None:
    rows = inventory(REPLICA + "to = 2026-11-01T00:00:00Z\n" + REPLICA.replace("2026-10", "2026-11")).replica
    assert rows[0].to_ns == rows[1].from_ns


def test_a_replica_without_match_is_found_by_its_id() -> None:
    text = REPLICA.replace('match = { "service.name" = "v" }\n', "")
    assert inventory(text).replica[0].resource() == {"tokenpath.replica.id": "r"}


def test_hardware_and_models_that_no_data_sheet_describes_are_allowed_in_an_inventory() -> None:
    assert inventory(REPLICA.replace("h100-sxm", "asic-1").replace("llama-3.1-8b", "in-house")).model_names() == {"in-house"}

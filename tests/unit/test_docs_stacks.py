"""docs/stacks.md: its table is what the packaged profiles say, and its made-up profile reads the span that it shows."""

import json
import re
from pathlib import Path

from schemas.profile import Profile
from schemas.profile_rules import load, rules
from schemas.stages import STAGES
from tests.unit.test_profiles import Seen, packaged, reading

PAGE = (Path(__file__).parents[2] / "docs" / "stacks.md").read_text(encoding="utf-8")
NOT_STACKS = {"tokenpath", "genai"}


def row(profile: Profile) -> str:
    """One line of the table: a stage is marked `span` or by the quality of the attribute that tells it."""
    told = {span.stage: "span" for span in profile.span if span.stage}
    for span in profile.span:
        told |= {one.stage: one.quality for one in span.stages}
    listed = ", ".join(f"{stage} ({told[stage]})" for stage in STAGES if stage in told)
    dark = ", ".join(stage for stage in STAGES if stage not in told)
    return f"| `{profile.profile}` | {listed or 'none'} | {dark} |"


def test_the_table_is_what_the_profiles_say() -> None:
    stacks = sorted(
        (one.profile for one in packaged() if one.profile.span and one.profile.profile not in NOT_STACKS), key=lambda p: p.profile
    )
    expected = [row(profile) for profile in stacks]
    assert [line for line in PAGE.splitlines() if line.startswith("| `")] == expected


def test_the_made_up_stack_reads_its_span() -> None:
    profile = re.search(r"```toml profiles/wagon.toml\n(.*?)```", PAGE, re.DOTALL)
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert profile and example
    ordered = rules([*packaged(), load("wagon.toml", profile[1])])
    shown = json.loads(example[1])
    rule = reading(Seen(shown["name"], shown["scope"], {key: str(value) for key, value in shown["attributes"].items()}), ordered)
    assert rule is not None and (rule.profile, rule.role) == ("wagon", "inference")
    asked = {field.field: field.keys for field in rule.fields}
    assert [shown["attributes"][asked[name][0]] for name in ("input_tokens", "output_tokens")] == [300, 40]
    assert [(one.stage, one.keys, one.ns_per_unit) for one in rule.stages] == [("schedule", ("wagon.queue_ms",), 1e6)]

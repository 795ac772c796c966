"""Profile files: what is refused, which rule reads which span, and that the captures' spans find the right one."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest

from schemas.profile import Readings
from schemas.profile_rules import CONDITIONS_MAX, Rule, Source, load, rules
from schemas.source import SourceError
from schemas.stages import STAGES

HEAD = 'profile = "x"\nversion = 1\n'


def packaged() -> list[Source]:
    folder = files("schemas") / "profiles"
    return [load(entry.name, entry.read_text(encoding="utf-8")) for entry in folder.iterdir() if entry.name.endswith(".toml")]


@dataclass(frozen=True)
class Seen:
    """A span as far as rules look at it."""

    name: str
    scope: str = ""
    attributes: Mapping[str, str] | None = None
    resource: Mapping[str, str] | None = None


def reading(span: Seen, ordered: list[Rule]) -> Rule | None:
    """The rule that reads a span: the definition that the SQL follows."""
    for rule in sorted(ordered, key=lambda one: one.rank):
        if (
            (not rule.scope_names or span.scope in rule.scope_names)
            and all((span.resource or {}).get(key) == value for key, value in rule.resource.items())
            and (not rule.attribute or rule.attribute in (span.attributes or {}))
            and (span.name.startswith(rule.name) if rule.name_is_prefix else span.name == rule.name)
        ):
            return rule
    return None


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\ninput_token = { from = ["a"] }\n', 7, "unknown key"),
        ('[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\nttft_ns = { from = ["a"], unit = "min" }\n', 7, "ttft_ns.unit"),
        ('[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\nttft_ns = { from = ["a"] }\n', 7, "ttft_ns.unit: is missing"),
        ('[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\noutput_tokens = { from = ["a"], unit = "s" }\n', 7, "unknown key"),
        ('[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\ninput_tokens = { from = ["a"] }\n', 7, "includes_cache: is missing"),
        ('[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\noutput_tokens = { from = [] }\n', 7, "output_tokens"),
        ('[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\noutput_tokens = { from = ["a", "a"] }\n', 7, "named twice"),
        ('[[span]]\nname = "a"\nrole = "leaf"\n', 5, "role"),
        ('[[span]]\nname = "a"\nrole = "stage"\nstage = "prefil"\n', 6, "stage"),
        ('[[span]]\nname = "a"\nrole = "stage"\n', 3, "needs stage"),
        ('[[span]]\nname = "a"\nrole = "inference"\n', 3, "needs a layer"),
        ('[[span]]\nname = "a"\nname_prefix = "b"\nrole = "ignore"\n', 3, "either name or name_prefix"),
        ('[[span]]\nname = "a"\nrole = "ignore"\nmodel = { from = ["a"] }\n', 3, "reads nothing"),
        (
            '[[span]]\nname = "a"\nrole = "stage"\n[[span.stage]]\nstage = "hbm"\nduration = { from = ["a"], unit = "s" }\n'
            '[[span.stage]]\nstage = "gpu"\nduration = { from = ["a"], unit = "s" }\n',
            10,
            "stage",
        ),
        ('[match]\nscope = "a"\n[[span]]\nname = "a"\nrole = "ignore"\n', 4, "match.scope: unknown key"),
    ],
)
def test_a_profile_that_says_something_unknown_is_refused_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        load("x.toml", HEAD + text)
    assert caught.value.line == line, str(caught.value)
    assert words in str(caught.value)


def rule_text(name: str = 'name_prefix = "chat "', match: str = "", profile: str = "x", fallback: int = 0) -> Source:
    head = f'profile = "{profile}"\nversion = 1\nfallback = {fallback}\n[match]\n{match}\n'
    text = head + f'[[span]]\n{name}\nrole = "inference"\nlayer = "engine"\n'
    return load(f"{profile}.toml", text)


def test_two_profiles_that_fit_equally_are_refused_naming_both() -> None:
    with pytest.raises(SourceError, match=r"b\.toml:6: fits the same spans as \[\[span\]\] 1 of a\.toml"):
        rules([rule_text(profile="a", match='attribute = "x"'), rule_text(profile="b", match='attribute = "y"')])


def test_the_same_conditions_twice_in_one_file_are_refused() -> None:
    twice = load("x.toml", HEAD + '[[span]]\nname = "a"\nrole = "ignore"\n' + '[[span]]\nname = ["b", "a"]\nrole = "ignore"\n')
    with pytest.raises(SourceError, match=r"x\.toml:6"):
        rules([twice])


@pytest.mark.parametrize(
    "different",
    [
        rule_text(profile="b", match='scope_name = ["other"]'),
        rule_text(profile="b", match='scope_name = ["mine"]\nattribute = "y"'),
        rule_text(profile="b", match='scope_name = ["mine"]', name='name_prefix = "chat x"'),
        rule_text(profile="b", match='scope_name = ["mine"]', name='name = "chat "'),
        rule_text(profile="b", match='scope_name = ["mine"]', fallback=1),
        rule_text(profile="b", match='scope_name = ["mine"]\nresource = { "service.name" = "b" }'),
    ],
)
def test_whatever_tells_two_rules_apart_lets_them_live_together(different: Source) -> None:
    ranked = rules([rule_text(profile="a", match='scope_name = ["mine"]'), different])
    assert [rule.rank for rule in ranked] == [0, 1]


def test_the_most_specific_rule_comes_first() -> None:
    wanted = [
        rule_text(profile="scope-and-attribute", match='scope_name = ["s"]\nattribute = "a"'),
        rule_text(profile="scope-exact", match='scope_name = ["s"]', name='name = "chat m"'),
        rule_text(profile="scope-long", match='scope_name = ["s"]', name='name_prefix = "chat m"'),
        rule_text(profile="scope", match='scope_name = ["s"]'),
        rule_text(profile="attribute", match='attribute = "a"'),
        rule_text(profile="none"),
        rule_text(profile="last", match='scope_name = ["s"]\nattribute = "a"', name='name = "chat m"', fallback=1),
    ]
    span = Seen("chat m", "s", {"a": "1"})
    for first in range(len(wanted)):
        rule = reading(span, rules(wanted[:first:-1] + wanted[first : first + 1]))
        assert rule is not None and rule.profile == wanted[first].profile.profile


def test_more_conditions_than_the_sql_can_tell_apart_are_refused() -> None:
    sources = [rule_text(profile=f"p{n}", match=f'scope_name = ["s{n}"]\nattribute = "a{n}"') for n in range(CONDITIONS_MAX + 1)]
    assert len(rules(sources[:-1])) == CONDITIONS_MAX
    with pytest.raises(SourceError, match=r"p32\.toml:7: profiles ask for more than 32"):
        rules(sources)


def test_an_attribute_may_serve_three_fields_of_a_span_and_not_four() -> None:
    fields = ["model", "response_model", "provider", "task_id"]
    head = HEAD + '[[span]]\nname = "a"\nrole = "inference"\nlayer = "engine"\n'
    assert load("x.toml", head + "".join(f'{field} = {{ from = ["k"] }}\n' for field in fields[:3]))
    with pytest.raises(SourceError, match="attribute 'k' is read 4 times"):
        load("x.toml", head + "".join(f'{field} = {{ from = ["k"] }}\n' for field in fields))


def test_a_flag_that_is_written_only_when_true_is_read_as_false_when_absent() -> None:
    chat = reading(Seen("chat m", "litellm"), rules(packaged()))
    assert chat is not None
    streamed = next(field for field in chat.fields if field.field == "streamed")
    assert streamed.keys[-1] == "=false"


def test_durations_carry_their_unit_and_nothing_else_does() -> None:
    for rule in rules(packaged()):
        for field in rule.fields:
            assert (field.ns_per_unit != 1.0) == field.field.endswith("_ns"), (rule.profile, field.field)


def test_only_input_tokens_say_whether_they_hold_the_cached_ones() -> None:
    holding = {field.field for rule in rules(packaged()) for field in rule.fields if field.includes_cache}
    assert holding == {"input_tokens"}


def test_tokenpath_reads_its_fifteen_stages_and_only_marked_spans() -> None:
    ordered = rules(packaged())
    for stage in STAGES:
        rule = reading(Seen(stage, "anything", {"tokenpath.stage": stage}), ordered)
        assert rule is not None and rule.profile == "tokenpath"
        assert [rule.stage or rule.stages[0].stage] == [stage]
        assert reading(Seen(stage, "anything"), ordered) is None


def test_the_five_inner_stages_are_told_by_busy_time_and_not_by_their_interval() -> None:
    ordered = rules(packaged())
    for stage in ("kernel", "hbm", "nvlink", "switch", "nic"):
        rule = reading(Seen(stage, "", {"tokenpath.stage": stage}), ordered)
        assert rule is not None and rule.stage == ""
        assert [(one.stage, one.keys, one.ns_per_unit, one.quality) for one in rule.stages] == [
            (stage, ("tokenpath.busy_ns",), 1.0, "attribute")
        ]


def test_an_inference_span_of_tokenpath_is_the_engines_and_others_are_the_clients() -> None:
    ordered = rules(packaged())
    attributes = {"gen_ai.operation.name": "chat", "tokenpath.attempt.number": "1"}
    own, foreign = (
        reading(Seen("chat m", "s", attributes), ordered),
        reading(Seen("chat m", "s", {"gen_ai.operation.name": "chat"}), ordered),
    )
    assert own is not None and (own.profile, own.layer) == ("tokenpath", "engine")
    assert foreign is not None and (foreign.profile, foreign.layer) == ("genai", "client")


def test_only_tokenpaths_own_spans_can_show_that_a_client_left() -> None:
    assert {(rule.profile, rule.name) for rule in rules(packaged()) if rule.delivery_proof} == {
        ("tokenpath", "gateway"),
        ("tokenpath", "stream"),
    }


def test_a_web_frameworks_spans_are_a_gateway_only_where_litellm_marked_them() -> None:
    ordered = rules(packaged())
    scope = "opentelemetry.instrumentation.fastapi"
    marked = reading(Seen("POST /v1/chat/completions", scope, {"litellm.api_key.hash": "x"}), ordered)
    assert marked is not None and (marked.role, marked.layer, marked.stage) == ("request", "gateway", "gateway")
    assert reading(Seen("POST /v1/chat/completions", scope, {"http.route": "/"}), ordered) is None


def spans(folder: Path) -> Iterator[Seen]:
    for file in sorted(folder.glob("*-traces.otlp.json")):
        for resource in json.loads(file.read_text())["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    attributes = {one["key"]: str(next(iter(one["value"].values()), "")) for one in span.get("attributes", [])}
                    yield Seen(span["name"], scope.get("scope", {}).get("name", ""), attributes)


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        (
            "litellm-otel-v2",
            {
                ("litellm", "request", "gateway"): 12,
                ("litellm", "stage", "auth"): 12,
                ("litellm", "attempt_hint", "route"): 13,
                ("litellm", "inference", ""): 12,
            },
        ),
        ("vllm", {("vllm", "inference", ""): 8}),
        ("client-openai-v2", {("genai", "inference", ""): 7}),
        ("client-traceloop", {("genai", "inference", ""): 7}),
        ("client-openinference", {("genai", "inference", ""): 7}),
    ],
)
def test_every_span_of_a_capture_is_read_by_the_rule_meant_for_it(
    shared_data: Path, capture: str, expected: dict[tuple[str, str, str], int]
) -> None:
    ordered = rules(packaged())
    found: Counter[tuple[str, str, str]] = Counter()
    for span in spans(shared_data / "otlp" / capture):
        rule = reading(span, ordered)
        assert rule is not None, span.name
        found[(rule.profile, rule.role, rule.stage)] += 1
    assert dict(found) == expected


def test_the_usage_that_a_litellm_capture_reports_adds_up_to_its_readme(shared_data: Path) -> None:
    ordered = rules(packaged())
    sums: Counter[str] = Counter()
    for span in spans(shared_data / "otlp" / "litellm-otel-v2"):
        rule = reading(span, ordered)
        for field in rule.fields if rule is not None else ():
            value = next(((span.attributes or {})[key] for key in field.keys if key in (span.attributes or {})), "")
            if field.field.endswith("_tokens") and value:
                sums[field.field] += int(value)
    assert sums["input_tokens"] == 3584
    assert sums["output_tokens"] == 857
    assert sums["input_cache_read_tokens"] == 2048
    assert sums["output_reasoning_tokens"] == 0  # no span carries it


READING_ONLY = {
    "prefill_ns", "decode_ns", "disconnected", "blocked", "draft_proposed_tokens", "draft_accepted_tokens", "call_id", "join_key",
    "token_limit", "phase",
}  # fmt: skip


def test_fields_are_columns_of_requests_or_attempts() -> None:
    ddl = "".join((files("schemas") / "clickhouse" / name).read_text() for name in ("0020_requests.sql", "0021_attempts.sql"))
    columns = set(re.findall(r"^ {4}(\w+) ", ddl, re.MULTILINE))
    assert set(Readings.model_fields) - columns == READING_ONLY

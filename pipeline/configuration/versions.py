"""The user's configuration directory: read once, checked whole, stored as immutable versions that runs name by hash."""

import logging
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipeline.configuration.rows import config_hash, rows
from pipeline.errors import ConfigurationError
from pipeline.statements import statement
from pipeline.store.client import Store
from schemas.catalog import gpus, models_by_name
from schemas.metric_rules import MetricRule, metric_rules
from schemas.pricing import PriceBook
from schemas.profile_rules import Rule, Source, load, rules
from schemas.settings import Settings
from schemas.source import Refusal, SourceError, check, read, refusals, refused
from schemas.tenancy import Inventory, Slos, Tenants

DEFAULT_DIRECTORY = Path("tokenpath.d")
EXAMPLE = Path(__file__).parents[1] / "example"  # describes the cluster that the demo models
SETTINGS_FILE = "tokenpath.toml"
DATA_FILES = ("inventory.toml", "prices.toml", "tenants.toml", "slo.toml")
PROFILES_FOLDER = "profiles"
PREFIX = "TOKENPATH_"

logger = logging.getLogger(__name__)

Overrides = Mapping[str, Mapping[str, Any]]  # section -> key -> value
Text = tuple[str, str]  # name shown to the user, content
Kind = TypeVar("Kind", bound=BaseModel)


@dataclass(frozen=True)
class Configuration:
    """Everything that a user says, checked. `files`: the texts that attribution depends on, by name; settings hold secrets and stay out."""

    settings: Settings
    inventory: Inventory
    prices: PriceBook
    tenants: Tenants
    slos: Slos
    rules: tuple[Rule, ...]
    metric_rules: tuple[MetricRule, ...]
    files: Mapping[str, str]

    @cached_property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of the config tables, without their hash, in an order that does not depend on the order in the files."""
        return rows(self.inventory, self.prices, self.tenants, self.slos, self.rules, self.metric_rules)

    @cached_property
    def hash(self) -> str:
        """Hex SHA-256 over the rows and what divides time; comments, order and spelling of a file do not change it."""
        return config_hash(self.tables, self.prices.currency, self.settings.attribution)


def load_configuration(
    directory: Path | None, environment: Mapping[str, str] | None = None, overrides: Overrides | None = None
) -> Configuration:
    """Reads `directory`; None: `./tokenpath.d` if it exists, else the packaged example. Absent files are empty.

    Settings: file, then `TOKENPATH_<SECTION>_<KEY>` of `environment`, then `overrides` (section -> key -> value).
    `<directory>/profiles/*.toml` add profiles, or replace the packaged one of the same name.
    Raises ConfigurationError with file and line, or with the variable's or option's name.
    """
    texts = _texts(directory)
    try:
        return _checked(texts, _settings(texts.get(SETTINGS_FILE), environment or {}, overrides or {}))
    except SourceError as error:
        raise ConfigurationError(str(error)) from error


def store_configuration(store: Store, configuration: Configuration, recorded_at: datetime) -> str:
    """Makes this the newest version and returns its hash. Idempotent: the version that is newest already adds nothing.

    The version's row comes last, so a version that readers see is complete; rows left by a broken attempt are kept, not doubled.
    """
    wanted = configuration.hash
    if store.query(statement("pipeline.configuration.sql", "newest")).scalar() == wanted:
        return wanted
    for table, content in configuration.tables.items():
        parameters = {"table": table, "config_hash": wanted}
        if not store.query(statement("pipeline.configuration.sql", "rows_of"), parameters).scalar():
            store.insert_rows(table, [{"config_hash": wanted, **row} for row in content])
    version = {
        "config_hash": wanted,
        "recorded_at": recorded_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        "currency": configuration.prices.currency,
        "files": dict(configuration.files),
    }
    store.insert_rows("config_versions", [version])
    return wanted


def _checked(texts: Mapping[str, Text], settings: Settings) -> Configuration:
    inventory = _parsed(Inventory, texts.get("inventory.toml"))
    prices = _parsed(PriceBook, texts.get("prices.toml"))
    tenants = _parsed(Tenants, texts.get("tenants.toml"))
    slos = _parsed(Slos, texts.get("slo.toml"))
    catalogued = frozenset(models_by_name())
    named = catalogued | inventory.model_names()
    gpu_names = frozenset(gpus()) | {replica.gpu for replica in inventory.replica}
    ids = tenants.ids()
    for name, found in (
        ("tenants.toml", lambda: tenants.refusals()),
        ("inventory.toml", lambda: inventory.refusals(catalogued, ids)),
        ("prices.toml", lambda: prices.refusals(gpu_names, named, ids, inventory.replica)),
        ("slo.toml", lambda: slos.refusals(named, ids)),
    ):
        _refuse(texts.get(name), found)
    for misspelling in inventory.misspellings(gpus(), catalogued):
        logger.warning("%s: %s", texts["inventory.toml"][0], misspelling)
    profiles = {source.profile.profile: source for source in _profiles(texts)}
    return Configuration(
        settings=settings,
        inventory=inventory,
        prices=prices,
        tenants=tenants,
        slos=slos,
        rules=tuple(rules(list(profiles.values()))),
        metric_rules=tuple(metric_rules(list(profiles.values()))),
        files={name: text for name, (_, text) in sorted(texts.items()) if name != SETTINGS_FILE},
    )


def _refuse(source: Text | None, found: Callable[[], Iterable[Refusal]]) -> None:
    if source is not None:
        check(*source, found())


def _parsed(kind: type[Kind], source: Text | None) -> Kind:
    return kind() if source is None else read(kind, *source)


def _profiles(texts: Mapping[str, Text]) -> list[Source]:
    """Packaged ones first, so that a user's profile of the same name replaces it."""
    packaged = [
        (f"schemas/profiles/{entry.name}", entry.read_text(encoding="utf-8"))
        for entry in sorted((files("schemas") / "profiles").iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    ]
    own = [source for name, source in sorted(texts.items()) if name.startswith(f"{PROFILES_FOLDER}/")]
    return [load(file, text) for file, text in packaged + own]


def _texts(directory: Path | None) -> dict[str, Text]:
    """Name inside the directory -> what to call it in messages, and its content."""
    if directory is None and not DEFAULT_DIRECTORY.is_dir():
        directory = EXAMPLE
    directory = directory or DEFAULT_DIRECTORY
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is not a directory; create it or name another with --config")
    found: dict[str, Text] = {}
    for path in sorted((*directory.glob("*.toml"), *(directory / PROFILES_FOLDER).glob("*.toml"))):
        name = path.relative_to(directory).as_posix()
        if "/" not in name and name not in (SETTINGS_FILE, *DATA_FILES):
            raise ConfigurationError(f"{path}: unknown file; expected {SETTINGS_FILE}, {', '.join(DATA_FILES)} or {PROFILES_FOLDER}/*.toml")
        try:
            found[name] = (str(path), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    return found


def _settings(source: Text | None, environment: Mapping[str, str], overrides: Overrides) -> Settings:
    file, text = source or (SETTINGS_FILE, "")
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return read(Settings, file, text)  # refuses it with its line
    origin: dict[tuple[str | int, ...], str] = {}
    for section, key, value, name in (*_from_environment(environment), *_from_overrides(overrides)):
        table = content.setdefault(section, {})
        if isinstance(table, dict):
            content[section] = {**table, key: value}
            origin[section, key] = name
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        found = refusals(error)
        for refusal in found:
            if named := origin.get(refusal.location[:2]):
                raise ConfigurationError(f"{named}: {refusal.message}") from error
        if not found[0].location:  # about several settings at once, from wherever they came
            raise ConfigurationError(f"{file}: {found[0].message}") from error
        raise refused(file, text, found) from error


def _from_environment(environment: Mapping[str, str]) -> Iterable[tuple[str, str, Any, str]]:
    """Variables of known sections; lists ([[topic]], [[key]]) come from the file only."""
    for name, value in sorted(environment.items()):
        section, _, key = name.removeprefix(PREFIX).lower().partition("_")
        field = Settings.model_fields.get(section)
        if name.startswith(PREFIX) and key and field is not None and isinstance(field.annotation, type):
            yield section, key, value, name


def _from_overrides(overrides: Overrides) -> Iterable[tuple[str, str, Any, str]]:
    for section, values in overrides.items():
        for key, value in values.items():
            yield section, key, value, f"{section}.{key}"

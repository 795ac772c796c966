"""Puts the dashboards into a running Grafana through its API (grafana-client)."""

from collections.abc import Mapping
from dataclasses import dataclass

from grafana_client import GrafanaApi, TokenAuth
from grafana_client.client import GrafanaClientError, GrafanaException
from requests.exceptions import RequestException

from dashboards.panel import DATA_SOURCE, Dashboard, grafana_json

FOLDER_UID = "tokenpath"
FOLDER_TITLE = "Tokenpath"


class PublishError(Exception):
    """Grafana refused or cannot be reached; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Published:
    uid: str
    title: str
    url: str  # path on the Grafana server; empty on a dry run


def publish(url: str, token: str, dashboards: Mapping[str, Dashboard], dry_run: bool = False) -> list[Published]:
    """Creates or updates the folder and every dashboard. A dry run only asks whether server, token and data source are there.

    Idempotent: the uids are fixed. Raises PublishError.
    """
    grafana = GrafanaApi.from_url(url, credential=TokenAuth(token), timeout=15)
    try:
        _check_data_source(grafana)
        if dry_run:
            return [Published(dashboard.uid, dashboard.title, "") for dashboard in dashboards.values()]
        _ensure_folder(grafana)
        return [_update(grafana, dashboard) for dashboard in dashboards.values()]
    except GrafanaException as error:
        hint = {401: "the token is not valid", 403: "the token may not write dashboards: give its service account the Editor role"}
        raise PublishError(f"{url}: {hint.get(error.status_code, error.message)} (HTTP {error.status_code})") from error
    except RequestException as error:
        raise PublishError(f"{url} cannot be reached: {error}") from error


def _check_data_source(grafana: GrafanaApi) -> None:
    uid = DATA_SOURCE["uid"]
    try:
        grafana.datasource.get_datasource_by_uid(uid)
    except GrafanaClientError as error:
        if error.status_code != 404:
            raise
        raise PublishError(
            f"Grafana has no data source with uid {uid!r}: provision dashboards/provisioning/datasources/clickhouse.yml"
            " or add a ClickHouse data source with this uid"
        ) from error


def _ensure_folder(grafana: GrafanaApi) -> None:
    try:
        grafana.folder.get_folder(FOLDER_UID)
    except GrafanaClientError as error:
        if error.status_code != 404:
            raise
        grafana.folder.create_folder(FOLDER_TITLE, FOLDER_UID)


def _update(grafana: GrafanaApi, dashboard: Dashboard) -> Published:
    answer = grafana.dashboard.update_dashboard({"dashboard": grafana_json(dashboard), "folderUid": FOLDER_UID, "overwrite": True})
    return Published(dashboard.uid, dashboard.title, str(answer.get("url", "")))

"""The viewer's page in a real browser: every panel is drawn, no error, no request to the outside."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette

from dashboards.viewer import DASHBOARDS, viewer_routes
from pipeline.store.client import Store
from tests.conftest import empty
from tests.dashboards.seed import FROM_S, TO_S, seed
from tests.http_server import serving

RANGE = f"from={FROM_S}&to={TO_S}"


@pytest.fixture(scope="module")
def page(engine: Store) -> Iterator[str]:
    empty(engine)
    seed(engine)
    with serving(Starlette(routes=viewer_routes(lambda sql, parameters: engine.query(sql, parameters)))) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync",
                 "no-first-run", "disable-dev-shm-usage", "window-size=1400,1100"):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=str(shutil.which("chromedriver"))))
    yield driver
    driver.quit()


def open_page(browser: webdriver.Chrome, url: str) -> None:
    browser.get(url)
    WebDriverWait(browser, 60).until(lambda b: not b.find_elements(By.CSS_SELECTOR, ".content[aria-busy]"))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_is_drawn_without_an_error(browser: webdriver.Chrome, page: str, name: str) -> None:
    open_page(browser, f"{page}/d/{name}?{RANGE}")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".panel")) == len(DASHBOARDS[name].panels)
    assert [e.text for e in browser.find_elements(By.CSS_SELECTOR, ".content.error, .content.empty")] == []
    pictures = [p for p in DASHBOARDS[name].panels if p.kind in ("bars", "timeseries")]
    WebDriverWait(browser, 30).until(
        lambda b: len(b.find_elements(By.CSS_SELECTOR, ".js-plotly-plot .main-svg .cartesianlayer")) == len(pictures)
    )
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_numbers_on_the_page_are_those_of_the_store(browser: webdriver.Chrome, page: str) -> None:
    open_page(browser, f"{page}/d/cost?{RANGE}")
    texts = [e.text for e in browser.find_elements(By.CSS_SELECTOR, ".stat .content")]
    assert texts == ["$8.00", "$4.00", "62.5 %", "$2.00"]
    tenants = browser.find_element(By.CSS_SELECTOR, "[data-panel='7'] table").text
    assert "acme" in tenants
    assert "globex" in tenants


def test_nothing_is_fetched_from_outside(browser: webdriver.Chrome, page: str) -> None:
    browser.get_log("performance")
    open_page(browser, f"{page}/d/latency?{RANGE}")
    messages: list[Any] = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert urls
    assert all(url.startswith((page, "data:", "blob:")) for url in urls), urls


def test_a_filter_of_the_address_reaches_the_query(page: str) -> None:
    assert httpx.get(f"{page}/d/cost/panels/1.json?{RANGE}&tenant=acme").json() == {"kind": "stat", "text": "$3.00"}
    assert httpx.get(f"{page}/d/cost/panels/1.json?{RANGE}&tenant=').json").json() == {"kind": "stat", "text": "–"}


def test_wrong_addresses_and_ranges_are_told(page: str) -> None:
    assert httpx.get(f"{page}/d/nothing").status_code == 404
    assert httpx.get(f"{page}/d/cost/panels/99.json").status_code == 404
    assert httpx.get(f"{page}/static/../pyproject.toml").status_code == 404
    wrong = httpx.get(f"{page}/d/cost/panels/1.json?from=10&to=5")
    assert (wrong.status_code, wrong.json()["error"]) == (400, "from must be before to, both in unix seconds")


def test_a_tenant_named_like_markup_stays_text(browser: webdriver.Chrome, engine: Store) -> None:
    name = "<img src=x onerror=alert(1)>"
    rows = [(name,)]

    class Result:
        columns = ("tenant",)

    Result.rows = rows  # type: ignore[attr-defined]
    with serving(Starlette(routes=viewer_routes(lambda sql, parameters: Result()))) as port:  # type: ignore[arg-type,return-value]
        browser.get(f"http://127.0.0.1:{port}/d/cost")
        WebDriverWait(browser, 60).until(lambda b: b.find_elements(By.CSS_SELECTOR, ".table td"))
        assert browser.find_element(By.CSS_SELECTOR, ".table td").text == name
        assert browser.find_elements(By.CSS_SELECTOR, "main img") == []

import threading

import pytest

from schemas.counters import Counters


def test_counters_add_up_over_threads() -> None:
    counters = Counters({"bodies_total": "Bodies"})

    def work() -> None:
        for _ in range(1000):
            counters.add("bodies_total", result="accepted")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.value("bodies_total") == 4000


def test_a_value_is_the_sum_over_the_labels_that_are_not_given() -> None:
    counters = Counters({"bodies_total": "Bodies"})
    counters.add("bodies_total", 2, result="accepted", signal="traces")
    counters.add("bodies_total", 3, result="junk", signal="traces")
    assert counters.value("bodies_total", signal="traces") == 5
    assert counters.value("bodies_total", result="junk") == 3
    assert counters.value("bodies_total", result="busy") == 0


def test_an_unknown_counter_is_an_error() -> None:
    with pytest.raises(KeyError):
        Counters({}).add("no_such_total")


def test_the_text_is_prometheus_format() -> None:
    counters = Counters({"bodies_total": "Bodies", "empty_total": "Nothing yet"})
    counters.add("bodies_total", result='a "b"\n\\')
    assert counters.text() == (
        "# HELP bodies_total Bodies\n# TYPE bodies_total counter\n"
        'bodies_total{result="a \\"b\\"\\n\\\\"} 1\n'
        "# HELP empty_total Nothing yet\n# TYPE empty_total counter\n"
    )

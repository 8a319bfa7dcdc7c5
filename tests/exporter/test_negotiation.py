"""What the headers of real scrapers ask for."""

import pytest

from gputailor_exporter.serving.negotiation import (
    LONGEST_WAIT_SECONDS,
    Format,
    accepts_gzip,
    choose_format,
    wait_seconds,
)

TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT_1 = "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OPENMETRICS_UTF8 = OPENMETRICS + "; escaping=allow-utf-8"

#: What the servers send of their own accord.
PROMETHEUS_3 = (  # as 3.16 sent it to this server
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.7,"
    "application/openmetrics-text;version=0.0.1;q=0.6,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3"
)
PROMETHEUS_3_NATIVE_HISTOGRAMS = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;"
    "q=0.8," + PROMETHEUS_3
)
PROMETHEUS_3_TEXT_ONLY = (
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_TEXT_FIRST = (
    "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.4"
)
PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
VICTORIA = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, TEXT),
        ("", TEXT),
        ("*/*", TEXT),
        (BROWSER, TEXT),
        (VICTORIA, TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS_UTF8),
        (PROMETHEUS_3_NATIVE_HISTOGRAMS, OPENMETRICS_UTF8),
        (PROMETHEUS_3_TEXT_ONLY, TEXT_1),
        (PROMETHEUS_3_TEXT_FIRST, TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text; version=1.0.0; q=0, */*", TEXT),
        ("application/openmetrics-text;q=nonsense,text/plain", TEXT),
        ('application/openmetrics-text; version="1.0.0"; escaping=odd', OPENMETRICS),
    ],
)
def test_039_the_content_type_is_exact(accept, content_type):
    assert choose_format(accept) == Format(content_type, "openmetrics" in content_type)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (None, False),
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("br, GZIP ; q=0.5", True),
        ("gzip; q=0.0", False),
        ("gzip;q=x", False),
        ("*", True),
        ("*, gzip;q=0", False),
    ],
)
def test_accept_encoding_is_read_with_its_quality(header, accepted):
    assert accepts_gzip(header) is accepted


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("10", 9.5),
        ("10.000000", 9.5),
        ("1", 0.75),
        ("0.2", pytest.approx(0.15)),
        (None, 9.5),
        ("0", 9.5),
        ("-1", 9.5),
        ("nan", 9.5),
        ("inf", 9.5),
        ("soon", 9.5),
        ("100000", LONGEST_WAIT_SECONDS),
    ],
)
def test_an_answer_is_due_before_the_scraper_gives_up(header, seconds):
    assert wait_seconds(header) == seconds

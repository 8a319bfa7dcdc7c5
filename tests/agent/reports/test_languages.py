"""Every language has every text, with the same placeholders; numbers, money and dates are its own."""

import re
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.judgement import Message, Money
from gputailor_agent.reports import extracting, units
from gputailor_agent.reports.catalogues import (
    ENGLISH,
    UnknownLanguageError,
    _,
    catalogue,
    names,
    negotiated,
    speaking,
    spoken,
    written,
)
from gputailor_agent.reports.formats import formats, render
from gputailor_agent.reports.languages import language
from gputailor_agent.reports.plurals import counted
from gputailor_agent.reports.told_texts import of_module
from gputailor_agent.reports.translating import translated
from gputailor_agent.reports.wording import messages, say
from tests.agent.reports.plans import sample_plan

OTHERS = [name for name in names() if name != ENGLISH]
#: What is the same in every language: signs, formulas and names.
SAME = re.compile(
    r"[\W\d_]*|[A-Za-z0-9]{1,6}|price_c x max\(1, slowdown\) / price|1 - G \+ G .*|tau\*.*|p\d\d"
)
HAN = re.compile(r"[\u4e00-\u9fff]")


def fields(text: str) -> list[tuple[str, str, str | None]]:
    """The placeholders of a text with their formats, in any order."""
    parsed = Formatter().parse(text)
    return sorted(
        (name, form or "", change) for _l, name, form, change in parsed if name is not None
    )


@pytest.mark.parametrize("name", OTHERS)
def test_the_catalogues_hold_exactly_the_texts_there_are(name):
    known = {one.id for one in written(name) if one.id}
    wanted = set(extracting.texts())
    assert sorted(map(str, wanted - known)) == [], "run: make messages, and translate what is new"
    assert sorted(map(str, known - wanted)) == [], "run: make messages"


def test_the_files_of_the_catalogues_are_up_to_date():
    stale = [path.name for path, text in extracting.files().items() if path.read_bytes() != text]
    assert stale == [], "run: make messages"


@pytest.mark.parametrize("name", OTHERS)
def test_no_text_is_without_a_translation_or_with_a_guessed_one(name):
    empty, fuzzy = [], []
    for one in written(name):
        forms = [one.string] if isinstance(one.string, str) else list(one.string or ())
        if one.id and not (forms and all(forms)):
            empty.append(one.id)
        if one.id and one.fuzzy:
            fuzzy.append(one.id)
    assert (empty, fuzzy) == ([], [])


@pytest.mark.parametrize("name", OTHERS)
def test_a_translation_has_the_placeholders_of_its_text(name):
    wrong = []
    for one in written(name):
        texts = [one.id] if isinstance(one.id, str) else list(one.id)
        forms = [one.string] if isinstance(one.string, str) else list(one.string or ())
        wrong += [(texts[0], form) for form in forms if one.id and fields(form) != fields(texts[0])]
    assert wrong == []


@pytest.mark.parametrize("name", OTHERS)
def test_counted_texts_have_as_many_forms_as_the_language(name):
    read = written(name)
    counted_ones = [one for one in read if isinstance(one.id, tuple)]
    assert counted_ones
    assert [one.id for one in counted_ones if len(one.string) != read.num_plurals] == []


def test_chinese_texts_are_chinese():
    left = [
        one.id
        for one in written("zh")
        if isinstance(one.id, str) and one.id and not HAN.search(str(one.string))
        if not SAME.fullmatch(str(one.string)) and fields(str(one.string)) == []
    ]
    assert [one for one in left if " " in one] == []


def test_every_message_can_be_said_in_chinese_and_unknown_reads_so():
    wrong = []
    with speaking("zh"):
        for key, template in messages().items():
            given = {name for name, _f, _c in fields(template)}
            text = say(Message(key=key, params=dict.fromkeys(given)), strict=True)
            if text.count("未知") < len(given) or "None" in text:
                wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize("name", ["text", "markdown", "html", "mail"])
def test_a_whole_report_is_in_the_language_asked_for(name):
    text = render(sample_plan(), name, language="zh").replace("\\", "")
    for said in ("首先要做的", "哪些未知", "全部工作负载", "方法与设置"):
        assert said in text
    for english in ("What to do first", "All workloads", "to change", ">unknown<", "| unknown"):
        assert english not in text
    assert spoken().name == ENGLISH


def test_english_is_spoken_where_nobody_asks_for_another_language():
    assert "What to do first" in render(sample_plan(), "markdown")


def test_csv_keeps_its_english_columns_and_says_its_sentences_in_the_language():
    head, first, *_rest = render(sample_plan(), "csv", language="zh").splitlines()
    assert head == render(sample_plan(), "csv").splitlines()[0]
    assert "合适" in first


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("en", ["USD 1,234", "62 %", "3 h 20 min", "2025-12-01 00:00 UTC", "1.25x", "unknown"]),
        (
            "zh",
            ["US$1,234", "62%", "3 小时 20 分钟", "2025年12月1日 00:00 UTC", "1.25 倍", "未知"],
        ),
    ],
)
def test_numbers_money_and_dates_are_those_of_the_language(name, shown):
    one = language(name)
    assert [
        one.money(Money(amount=1234.4)),
        one.percent(0.62),
        one.duration(12_000),
        one.time(1_764_547_200),
        one.quantity(1.25, "factor"),
        one.number(None),
    ] == shown


def test_a_currency_has_its_own_sign_in_chinese_and_its_code_in_english():
    yuan = Money(amount=7, currency="CNY")
    assert language("zh").money(yuan, per="hour") == "¥7.00/小时"
    assert language("en").money(yuan, per="hour") == "CNY 7.00/hour"
    assert language("zh").money(Money(amount=-7, currency="XAB")) == "-XAB 7.00"


@pytest.mark.parametrize("name", names())
def test_zero_unknown_and_not_measured_yet_are_different_words_in_every_language(name):
    one = language(name)
    words = {one.percent(0.0), one.percent(None), one.text("not measured yet")}
    assert len(words) == 3


def test_counted_things_take_the_form_of_the_language():
    assert [counted(number, "pod") for number in (1, 2)] == ["1 pod", "2 pods"]
    assert [language("zh").counted(number, "pod") for number in (1, 2)] == ["1 个 Pod", "2 个 Pod"]


def test_a_text_without_a_translation_reads_in_english_and_is_filled():
    assert language("zh").text("no such text of {what}", what="ours") == "no such text of ours"


def test_a_name_with_braces_is_only_text():
    with speaking("zh"):
        assert _("cluster {name}", name="{0.__class__}") == "集群 {0.__class__}"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("zh-TW", "zh"),
        ("de-DE,de;q=0.9", "en"),
        ("en-US,en;q=0.9,zh;q=0.8", "en"),
        ("de, zh;q=0.5, en;q=0.3", "zh"),
        ("zh;q=0, en", "en"),
        ("zh;q=broken, en;q=0.1", "en"),
        ("*", "en"),
    ],
)
def test_the_language_a_browser_wants_most_is_spoken(header, name):
    assert negotiated(header) == name


def test_an_unknown_language_names_those_there_are():
    with pytest.raises(UnknownLanguageError, match="there are: en, zh"):
        language("de")


def test_the_language_ends_with_its_context_even_after_a_fault():
    with pytest.raises(RuntimeError), speaking("zh"):
        raise RuntimeError
    assert spoken().name == ENGLISH
    assert units.unknown() == "unknown"


def test_pages_name_their_language():
    assert '<html lang="zh-Hans-CN">' in render(sample_plan(), "html", language="zh")
    assert '<html lang="en">' in render(sample_plan(), "html")
    assert catalogue("zh").tag == language("zh").tag
    assert set(formats()) >= {"html", "mail"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mean sm while it runs", "运行期间的 sm 平均值"),
        ("mean power", "平均功率"),  # a name of its own comes before a pattern
        ("price of A100 {x}", "A100 {x} 的价格"),
        ("peak x 1.15", "峰值 x 1.15"),
        (
            "mean sm / mean kernel, both without warm-up",
            "sm 平均值 / kernel 平均值\uff0c均不含预热",
        ),
        ("the limit; a whole file", "上限\uff1b完整的文件"),
        ("run.csv:7: cannot read 'x'", "run.csv:7: 无法读取 'x'"),
        ("kernel", "kernel"),  # a signal's name
        ("something new", "something new"),
        ("something new.", "something new."),
        ("", ""),
    ],
)
def test_what_other_parts_put_together_is_translated(text, told):
    with speaking("zh"):
        assert translated(text) == told
    assert translated(text) == text


@given(st.text(max_size=60))
def test_any_text_comes_back_as_some_text(text):
    with speaking("zh"):
        assert isinstance(translated(text), str)


SOURCE = '''
"""What it is for: no text for people."""
PARTS = ("two words", "oneword", "kubectl get pods", "a {name:ratio} b c")
def f(name, x):
    """Nor is this one."""
    log.warning("nobody reads this here")
    if "part of an error" in x:
        raise ValueError("told by the command line")
    message("rule.key of somebody")
    yield noted("cost", 1.0, unit="usd_per_hour", formula=f"{name.model} x {x}")
    return f"the value {name} of {x if x else 'nothing at all'}, {x}; ", Rule(summary="for the documentation")
'''


def test_texts_of_other_parts_are_found_in_their_source():
    assert list(of_module(SOURCE)) == [
        "two words",
        "cost",
        "usd per hour",
        "{model} x {x}",
        "the value {name} of {value}, {x}",
        "nothing at all",
    ]

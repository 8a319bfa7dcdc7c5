"""docs/metrics.md names every metric and every flag, because it is written from them."""

import importlib.util


def test_the_metrics_page_is_what_the_code_declares(repository):
    path = repository / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("docs_generate", path)
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = generate.PAGE.read_text("utf-8")
    assert page == generate.page(), "run: python docs/generate.py"

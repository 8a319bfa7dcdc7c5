"""How the HTML report looks: one table of looks, as inline styles for mails and as a style sheet.

Colours have a contrast of at least 4.5 to 1 on their ground in light and in dark (WCAG AA).
"""

from typing import Final

_LINE: Final = "border-bottom:1px solid #d0d7de"
_FONT: Final = (
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans CJK SC','PingFang SC',"
    "'Microsoft YaHei',Arial,sans-serif"
)
_LONG: Final = "overflow-wrap:anywhere"

#: Looks by name.
LOOKS: Final[dict[str, str]] = {
    "body": "margin:0;padding:16px;background:#ffffff;color:#1b1f24;font-size:15px;"
    f"line-height:1.45;{_FONT};{_LONG}",
    "h1": "font-size:22px;margin:20px 0 6px",
    "h2": "font-size:17px;margin:20px 0 6px",
    "h3": "font-size:15px;margin:20px 0 6px",
    "p": "margin:8px 0",
    "good": "color:#116329",
    "warn": "color:#8a4600",
    "muted": "color:#57606a",
    "facts": "border-collapse:collapse;margin:8px 0",
    "label": "padding:2px 16px 2px 0;color:#57606a;font-weight:normal;text-align:left;"
    "vertical-align:top",
    "fact": "padding:2px 0",
    "list": "padding-left:24px",
    "item": "margin:8px 0",
    "figure": "color:#116329",
    "course": "font-family:monospace;color:#0550ae",
    "wide": "overflow-x:auto",
    "table": "border-collapse:collapse;font-size:13px",
    "cell": f"padding:5px 6px;vertical-align:top;text-align:left;{_LINE}",
    "n": "text-align:right;white-space:nowrap",
    "head": "background:#f6f8fa;white-space:normal;overflow-wrap:normal;vertical-align:bottom",
    "short": "min-width:4.5em",
    "middle": "min-width:6em",
    "long": "min-width:11em",
    "said": "padding:5px 6px 0;border:0;vertical-align:top;text-align:left",
    "below": "padding-top:0;padding-left:20px",
    "code": "background:#f6f8fa;border:1px solid #d0d7de;padding:10px;overflow:auto;"
    "white-space:pre-wrap",
    "unknown": "color:#8250df",
    "notyet": "color:#0550ae",
    "link": "color:#0550ae",
}

#: Looks of elements that need no class.
_ELEMENTS: Final = {
    "body": "body",
    "h1": "h1",
    "h2": "h2",
    "h3": "h3",
    "p": "p",
    "link": "a",
    "cell": ".table td,.table th",
    "head": ".table th",
    "said": ".table .said",
    "below": ".table .below",
}
_DARK: Final = {
    "body": "background:#0d1117;color:#e6edf3",
    ".good,.figure": "color:#56d364",
    ".warn": "color:#e3b341",
    ".muted,.label": "color:#9198a1",
    ".table td,.table th": "border-color:#30363d",
    ".table th,.code": "background:#161b22;border-color:#30363d",
    ".unknown": "color:#d2a8ff",
    ".notyet,a,.course": "color:#79c0ff",
}
_PAPER: Final = {
    "body": "background:#fff;color:#000;font-size:10pt;padding:0",
    ".wide": "overflow:visible",
    "h1,h2,h3": "break-after:avoid",
    "tr,li,pre": "break-inside:avoid",
    "thead": "display:table-header-group",
    "a": "color:inherit;text-decoration:none",
}


def _rules(looks: dict[str, str]) -> str:
    return "".join(f"{name}{{{look}}}" for name, look in looks.items())


#: The style sheet of the page for browsers.
SHEET: Final = (
    _rules({_ELEMENTS.get(name, f".{name}"): look for name, look in LOOKS.items()})
    + ".table .n{text-align:right}.course rect{fill:currentColor}.unseen{fill:#8250df}"
    + "td,li,p{unicode-bidi:plaintext}main{max-width:1400px;margin:0 auto}"
    + f"@media (prefers-color-scheme:dark){{{_rules(_DARK)}}}"
    + f"@media print{{{_rules(_PAPER)}}}"
)

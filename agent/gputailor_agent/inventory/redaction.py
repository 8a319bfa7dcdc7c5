"""Keeps secrets out of the inventory: it is stored and printed, and needs none of them.

A value is masked for what it is called (variable, option, field of a connection string, JSON, YAML
or query), for what it looks like (issuers' own prefixes, web tokens, private keys, random letters),
or for where it stands (before the ``@`` of an address, behind ``Bearer``, in a web hook's path).
Plain hexadecimal and UUIDs are kept under innocent names: they are what runs and images are called.
Masking too much costs a hint, too little a secret, so doubt masks.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

MASK: Final = "***"

#: Words of a name that make its value a secret; the plural of most is one too.
_SECRET_WORDS: Final = frozenset(
    {
        "token", "secret", "password", "passwd", "passphrase", "pass", "pwd", "pw", "credential",
        "cred", "key", "auth", "authorization", "bearer", "cookie", "dsn", "pat", "sas", "sig",
        "signature", "jwt", "webhook", "otp",
    }
)  # fmt: skip
_SECRET_PLURALS: Final = frozenset(f"{word}s" for word in _SECRET_WORDS - {"pass", "pw", "sas"})
#: ... and ends of words that people write as one: DBPASSWORD.
_SECRET_ENDS: Final = (
    "token", "secret", "password", "passwd", "passphrase", "sshpass", "apikey", "apikeys",
    "accesskey", "privatekey", "secretkey", "accountkey", "tokens", "secrets", "passwords",
)  # fmt: skip
_CONNECTION: Final = re.compile(r"conn(?:ection)?[_-]?(?:str|string)$", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: Counts are called tokens, too; a password of digits alone stands behind another word.
_COUNT: Final = re.compile(r"[0-9]{1,7}")

#: What separates words: NUL stands between two arguments.
_GAP: Final = r"[\s\0]"
_VALUE: Final = re.compile(
    r"\"(?:[^\"\\\0]|\\.)*\"|'[^'\0]*'|\\\"[^\"\0]*\\\"|[^\s\0'\"&;,(){}<>]+"
)
#: ``name=value``, ``"name": "value"``, ``environ["NAME"] = "value"``, ``name: value``.
_ASSIGNED: Final = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)\\?[\"']?\]?[ \t]*(?::=|=>|==?|:)[ \t]*(?=\S)"
)
#: ``--name value``, as one argument or two, and ``password value`` of netrc files.
_FOLLOWED: Final = re.compile(
    rf"(?P<name>(?<![\w-])--?[A-Za-z][\w.-]*|\b(?:password|passwd)){_GAP}+(?!-)"
)
_KNOWN: Final = (
    re.compile(r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*-----|\0|\Z)"),
    #: Prefixes by which the issuers' own scanners know their tokens; web tokens.
    re.compile(
        r"\b(?:hf_|sk-|[sr]k_(?:live|test)_|gh[pousr]_|github_pat_|gl[a-z]{2,4}-|gls?[ac]_|AKIA|ASIA|"
        r"AIza|ya29\.|xox[abprse]-|xapp-|nvapi-|npm_|pypi-|dop_v1_|dckr_pat_|shpat_|lin_api_|gsk_|"
        r"r8_|pplx-|wandb_v1_|tskey-|hv[sb]\.|AGE-SECRET-KEY-1|SG\.|eyJ[A-Za-z0-9_-]+\.eyJ)"
        r"[A-Za-z0-9_.-]{12,}"
    ),
    re.compile(r"\bdapi[0-9a-f]{32}\b|\b[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}"),
)
_BEARER: Final = re.compile(rf"(?i)\b(bearer|basic|apikey){_GAP}+[A-Za-z0-9._~+/=-]{{8,}}")
_USER_INFO: Final = re.compile(
    r"(?<=://)(?:[^\s\0/'\"<>]{1,256}"
    r"|[^\s\0/@:'\"<>]{0,128}:(?![0-9]{1,5}/)[^\s\0'\"<>]{0,256})(?=@)"
)
_HOOK: Final = re.compile(
    r"(https?://(?=[^\s\0'\"]{0,256}hook)[^\s\0'\"/]{1,256})/[^\s\0'\"]{1,1024}"
)
#: Programs whose options do not say what they carry: group 1 stays.
_USER_OPTION: Final = (
    rf"(?<![\w-])(?:-u|--user|--proxy-user)(?:{_GAP}+|=)['\"]?[^\s\0:'\"]{{1,256}}:"
)
_PROGRAMS: Final = (
    re.compile(rf"({_USER_OPTION})(?!\d+(?:[\s\0'\"]|$))[^\s\0'\"]+"),
    re.compile(rf"(\bsshpass{_GAP}{{1,9}}-p{_GAP}?)[^\s\0]+"),
    re.compile(rf"(\b(?:mysql|mariadb)[a-z]{{0,9}}\b[^;|&\n]{{0,200}}?{_GAP}-p)[^\s\0]+"),
    re.compile(rf"(\blogin\b[^;|&\n]{{0,200}}?{_GAP}-p{_GAP}+)[^\s\0]+"),
    re.compile(rf"(\blogin{_GAP}{{1,9}})(?![-./])[A-Za-z0-9_-]{{20,}}"),
    re.compile(r"(\becho\s)[^|\n]{1,256}(?=\|[^|\n]{0,200}--password-stdin)"),
)
#: No text without one of these holds anything that the expressions above find.
_SUSPECT: Final = re.compile(
    r"(?i)tok|sec|pass|pw|cred|key|auth|bear|basic|cook|dsn|pat|sas|sig|jwt|hook|otp|login|user|mysql|maria|-u|"
    r"://|-----|_[a-z0-9]|[a-z]{2,4}-|\b(?:akia|asia|aiza|ya29|dapi|hv[sb]\.|sg\.|eyj|[0-9]{8})"
)

#: Letters of both cases and digits without a word's or a path's marks: nobody types that.
_RANDOM: Final = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+=]{24,}")
_SECRET_KEY: Final = re.compile(r"[A-Za-z0-9/+=]{40}")  # AWS; a path changes less often
_RUNS: Final = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_MOST_RUNS: Final = 12

#: Annotations that repeat the object, or pack it, and its secrets with it.
_REPEATED: Final = re.compile(r"(?:^|[/-])(?:last-(?:applied|handled)\b.*|original|applied)$")
_PACKED: Final = ("H4sI", "UEsDB")  # gzip and zip in base64
_OURS: Final = "gputailor.io/"
#: What the agent itself writes: were it read, a recommendation would be a change of the workload.
RECOMMENDATION: Final = f"{_OURS}recommendation"


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret_word(word: str) -> bool:
    return word in _SECRET_WORDS or word in _SECRET_PLURALS or word.endswith(_SECRET_ENDS)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether an environment variable's name says that its value is a secret."""
    return any(map(_is_secret_word, _words(name))) or _CONNECTION.search(name) is not None


@lru_cache(maxsize=4096)
def _is_secret_field(name: str) -> bool:
    """Likewise of an option or a field: there the last word counts (``--token-limit`` is none)."""
    words = _words(name)
    return bool(words) and (_is_secret_word(words[-1]) or _CONNECTION.search(name) is not None)


def _hidden(name: str, value: str) -> str:
    """What stands for a secret field's value; one that a variable stands for is none."""
    bare = value.strip("\\\"'")
    counts = _COUNT.fullmatch(bare) is not None and name.lower().endswith("tokens")
    return value if counts or bare.startswith(("$", MASK)) else value.replace(bare, MASK, 1)


def _fields(pattern: re.Pattern[str], text: str) -> str:
    """A text with the values of its secret fields masked."""
    parts, at = [], 0
    for found in pattern.finditer(text):
        if found.end() < at or not _is_secret_field(found.group("name")):
            continue
        value = _VALUE.match(text, found.end())
        if value is not None and value.group().strip("\\\"'"):
            parts += [text[at : value.start()], _hidden(found.group("name"), value.group())]
            at = value.end()
    return "".join([*parts, text[at:]])


def _hide(text: str) -> str:
    """A text, or arguments with NUL between them, without what looks like a credential."""
    if not _SUSPECT.search(text):
        return text
    for known in _KNOWN:
        text = known.sub(MASK, text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _USER_INFO.sub(MASK, text) if "@" in text else text
    text = _HOOK.sub(rf"\1/{MASK}", text) if "hook" in text else text
    for program in _PROGRAMS:
        text = program.sub(rf"\g<1>{MASK}", text)
    return _fields(_FOLLOWED, _fields(_ASSIGNED, text))


@lru_cache(maxsize=4096)
def mask_text(text: str) -> str:
    """A command line or any other text with what looks like a credential masked."""
    return _hide(text)


def _is_random(value: str) -> bool:
    if _RANDOM.fullmatch(value):
        return True
    return _SECRET_KEY.fullmatch(value) is not None and len(_RUNS.findall(value)) > _MOST_RUNS


@lru_cache(maxsize=4096)
def mask_value(value: str) -> str:
    """A variable's value without what looks like a credential, whatever the variable is called."""
    return MASK if _is_random(value) else _hide(value)


@lru_cache(maxsize=4096)
def _masked(joined: str) -> tuple[str, ...]:
    parts = _hide(joined).split("\0")
    return tuple(MASK if _is_random(part) else part for part in parts)


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Arguments with secrets masked, also where option and value are two arguments."""
    given = [one.replace("\0", "") for one in arguments]
    return _masked("\0".join(given)) if given else ()


def mask_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations without credentials, and without those that repeat the whole object.

    Ours are kept as they are: they name whom to tell; but what the agent wrote itself is no fact
    about the workload and is dropped.
    """
    return {
        key: value if key.startswith(_OURS) else _annotation(key, value)
        for key, value in annotations.items()
        if key != RECOMMENDATION and not _repeats(key, value)
    }


def _annotation(key: str, value: str) -> str:
    return MASK if _is_secret_field(key.rpartition("/")[2]) else mask_value(value)


def _repeats(key: str, value: str) -> bool:
    whole = value.startswith("{") and ('"containers"' in value or '"env"' in value)
    return whole or value.startswith(_PACKED) or _REPEATED.search(key) is not None

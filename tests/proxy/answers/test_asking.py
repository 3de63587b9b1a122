"""What a request asks of the cache, what goes into its key, and the words an answer is found by."""

import pytest

from services.proxy.answers.control import TAGS, CacheControl, control_of
from services.proxy.answers.key import Place, UnkeyedError, canonical, read_body
from services.proxy.answers.terms import MOST, every, terms_of, wanted
from services.proxy.backends.backend import Backend

KEY = b"k" * 32


def control(said: str, namespace: str | None = None) -> CacheControl:
    headers = [(b"x-metalanchor-cache-control", said.encode())]
    return control_of(
        headers + ([(b"x-metalanchor-namespace", namespace.encode())] if namespace else []), KEY
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", CacheControl()),
        ("no-cache", CacheControl(read=False)),
        ("NO-STORE,Only-If-Cached", CacheControl(write=False, only=True)),
        ("ttl=1.5", CacheControl(ttl_s=1.5)),
        ('ttl="90"', CacheControl(ttl_s=90.0)),
        ("ttl=-1", CacheControl(write=False)),
        ("ttl=nan, ttl=, ttl", CacheControl()),
        ("ttl=1e99", CacheControl(ttl_s=365 * 86_400.0)),
        ("namespace=a.b:c", CacheControl(namespace="a.b:c")),
        ("tag=a, tag=b", CacheControl(tags=("a", "b"))),
        ("max-age=5, =, ,,", CacheControl()),
    ],
)
def test_directives_are_read_as_http_reads_them(said: str, expected: CacheControl) -> None:
    """In any case, in any order; what is not understood is passed over."""
    assert control(said) == expected


def test_names_that_are_not_safe_are_hidden() -> None:
    """A namespace with odd characters is its keyed hash; tags are bounded in number."""
    assert len(control("namespace=naïve space").namespace) == 32
    assert control("", "n").namespace == "n"
    assert control("namespace=m", "n").namespace == "m"
    assert len(control(",".join(f"tag=t{n}" for n in range(99))).tags) == TAGS


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "unparsed"), (b"[]", "unparsed"), (b"\xff{}", "unparsed"), (b"[" * 100_000, "unparsed"),
        (b'{"a":1,"a":1}', "ambiguous"), (b'{"a":{"b":1,"b":2}}', "ambiguous"),
        (b'{"a":' + b"9" * 5000 + b"}", "unparsed"), (b'{"a":1e999}', "unparsed"),
        (b'{"a":[NaN]}', "unparsed"), (b'{"a":-Infinity}', "unparsed"),
    ],
)  # fmt: skip
def test_a_body_that_can_be_read_in_two_ways_has_no_key(body: bytes, reason: str) -> None:
    """Nor has one that cannot be read."""
    with pytest.raises(UnkeyedError, match=reason):
        read_body(body)


def test_the_canonical_form_sorts_keys_and_nothing_else() -> None:
    """At every depth; half a character, large numbers and broken ones are kept apart."""
    one = canonical(read_body(b'{"b":{"y":1,"x":[2,1]},"stream":true,"a":"\\ud83d"}'))
    two = canonical(read_body(b'{ "a":"\\ud83d", "b":{"x":[2,1],"y":1}, "user":"u" }'))
    assert one == two
    pairs = [(b"1", b"1.0"), (b"12345678901234567890", b"12345678901234567891"), (b"[1,2]", b"[2,1]"),
             (b'"1"', b"1"), (b"null", b'""'), (b'"\\ud83d"', rb'"\\ud83d"'), (b"0.1", b"1e-2"),
             (b"true", b"1"), (b'{"stream":1}', b"{}")]  # fmt: skip
    for left, right in pairs:
        assert canonical(read_body(b'{"a":%b}' % left)) != canonical(read_body(b'{"a":%b}' % right))


def test_parts_of_a_key_cannot_run_together() -> None:
    """What ends one part and begins the next is no matter of luck."""
    backend = Backend(name="b", url="http://b")

    def key(scope: str, namespace: str) -> str:
        place = Place(KEY, backend, b"/v1", scope=scope, namespace=namespace, digest="")
        return place.key(b"{}", [])

    assert key("ab", "c") != key("a", "bc")
    assert key("ab", "c") == key("ab", "c")


def test_a_keyword_finds_what_says_it() -> None:
    """In any case and width, by parts of Chinese words too."""
    text = ["Model-Reload of Qwen３ in 上海市, naïve"]
    said = set(terms_of(KEY, text))
    for keyword in ("model", "RELOAD", "qwen3", "上海", "海市", "市", "NAÏVE", "in qwen3"):
        assert wanted(KEY, keyword)
        assert set(wanted(KEY, keyword)) <= said, keyword
    for keyword in ("mode", "上市", "shanghai"):
        assert not set(wanted(KEY, keyword)) <= said
    assert not wanted(KEY, " ?! ")


def test_a_text_with_too_many_words_goes_with_any() -> None:
    """And takes no more room than one name."""
    assert terms_of(KEY, [" ".join(f"w{n}" for n in range(MOST + 1))]) == [every(KEY)]
    assert len(terms_of(KEY, [" ".join(f"w{n}" for n in range(MOST))])) == MOST
    assert terms_of(b"o" * 32, ["word"]) != terms_of(KEY, ["word"])

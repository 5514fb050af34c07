"""The traces that gRPC leaves in a file: what is passed over without a look at its syntax.

`may_mention` is false only for a file in which nothing can be found. Each kind of finding needs one of the words below:
names of gRPC's modules, distributions, generators, settings and endpoints contain "grpc"; its customary port counts as
digits; packages that speak gRPC without its name, servicers and stubs that a package exports again, and ports that are
bound, count by their own names.
"""

from __future__ import annotations

import re
import unicodedata

from lucky_transport_migration.scan.known import DROP_INS, LUCKYROBOTS

_WORDS = "|".join(
    (
        *("grpc", LUCKYROBOTS, DROP_INS, r"lucky[-_.]+transport\s*\[", "5_?0_?0_?5_?1", "staged"),
        *("servicer", "stub", "add_(in)?secure_port"),
        *("betterproto", "connec(py|trpc)", r"connect[-_.]+python", "purerpc", r"pyarrow[\s\S]*flight", "sonora"),
    )
)
_IN_BYTES = re.compile(_WORDS.encode(), re.IGNORECASE)
_IN_TEXT = re.compile(_WORDS, re.IGNORECASE)

#: A letter or digit of ASCII that JSON or TOML spells as an escape.
_ESCAPED = re.compile(rb"\\(u00|U000000)[3-7]")
_CODING = re.compile(rb"coding[:=][ \t]*([-\w.]+)")
#: Encodings of Python source in which ASCII is ASCII, as files name them.
_ASCII_COMPATIBLE = re.compile(rb"(?i)utf[-_]?8|ascii|latin[-_]?1|iso[-_]?8859|cp125|windows-125|euc|gb|koi8")


def may_mention(source: bytes) -> bool:
    """True when a file of this content may hold something of gRPC; false proves that it does not."""
    if _IN_BYTES.search(source) or _ESCAPED.search(source):
        return True
    codings = [name for line in source.split(b"\n", 2)[:2] for name in _CODING.findall(line)]
    if not all(map(_ASCII_COMPATIBLE.match, codings)):
        return True
    if source.isascii():
        return False
    # Python reads identifiers in their compatibility form: a full-width "grpc" is grpc.
    return bool(_IN_TEXT.search(unicodedata.normalize("NFKC", source.decode("utf-8", "replace"))))

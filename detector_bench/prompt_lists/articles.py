"""Which indefinite article a word takes: "a" or "an", by how the word sounds."""

from __future__ import annotations

import re
import unicodedata

_SPELLED_LIKE_A_VOWEL = frozenset("AEFHILMNORSX")
"""Letters whose names begin with a vowel sound: ef, aitch, em, ..."""

_SAID_AS_WORDS = frozenset({"FIFA", "NASA", "NATO", "REM", "ROM", "SIM", "STEM", "SWAT"})
"""Short words in capitals that nobody spells out, and whose first letter's name would mislead."""

_SPELLED_OUT = re.compile(r"[A-Z]{2,4}s?|[A-Z]{1,4}\d+|[A-Za-z]")
_SILENT_H = re.compile(r"hour|honest|honou?r|heir")
_SOUNDS_LIKE_YOU_OR_WON = re.compile(
    r"e[uw]|on(?:e|es|ce|eself)(?![a-z])|ouija|uyghur"
    r"|unanim|uni(?!dent|n|m(?!o))|us[aeiou]|ut[aeio]|ur[aeiou]|ubi|ufo|ugand|uk[eru]"
)
_EIGHT_ELEVEN_EIGHTEEN = re.compile(r"8|1[18](?!\d)")


def indefinite_article(phrase: str) -> str:
    """Say whether "a" or "an" stands before a phrase: an hour, a university, a CEO, an MRI scan, an 80-year-old.

    The first word decides. Two to four capitals are spelled out letter by letter, as is a single letter before a
    hyphen or a number (an X-ray, an F1 driver). Words that dialects treat differently follow British use (a
    herbalist, a historian). The rule knows the usual exceptions, not all: for a word that it gets wrong, write the
    article into a template of your own.
    """
    first = re.search(r"[^\W_]+", phrase)
    if first is None:
        return "a"
    word = first.group()
    if word[0].isdigit():
        return "an" if _EIGHT_ELEVEN_EIGHTEEN.match(word) else "a"
    if _SPELLED_OUT.fullmatch(word) and word not in _SAID_AS_WORDS:
        return "an" if word[0].upper() in _SPELLED_LIKE_A_VOWEL else "a"
    bare = unicodedata.normalize("NFKD", word)[0].casefold() + word[1:].casefold()
    if _SILENT_H.match(bare):
        return "an"
    if _SOUNDS_LIKE_YOU_OR_WON.match(bare):
        return "a"
    return "an" if bare[0] in "aeiou" else "a"

"""Texts with labels, made from public files: SMS, Shakespeare's speeches, Wikipedia. Every task is (name, texts, labels).

Words that the label was read from are not in the text.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

#: Plays of tinyshakespeare by the first line of each, in the file's order.
_SPEECH = re.compile(r"^([A-Z][A-Za-z' .]{0,40}):$")


def sms(data: Path) -> tuple[list[str], list[str]]:
    """Spam or not."""
    lines = (data / "sms-spam" / "SMSSpamCollection").read_text(encoding="utf-8").split("\n")
    pairs = [line.split("\t", 1) for line in lines if "\t" in line]
    return [text for _, text in pairs], [label for label, _ in pairs]


def _speeches(data: Path) -> list[tuple[str, str]]:
    spoken: list[tuple[str, list[str]]] = []
    for line in (data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8").splitlines():
        head = _SPEECH.match(line.strip())
        if head:
            spoken.append((head.group(1), []))
        elif line.strip() and spoken:
            spoken[-1][1].append(line.strip())
    return [(who, " ".join(lines)) for who, lines in spoken if lines]


def halves(data: Path) -> tuple[list[str], list[str]]:
    """Single lines: from the first half of the plays or the second."""
    spoken = _speeches(data)
    half = sum(len(text) for _, text in spoken) // 2
    texts, labels, seen = [], [], 0
    for _, text in spoken:
        label = "first" if seen < half else "second"
        seen += len(text)
        words = text.split()
        for start in range(0, len(words), 12):
            piece = words[start : start + 12]
            if len(piece) >= 4:
                texts.append(" ".join(piece))
                labels.append(label)
    return texts, labels


def _articles(data: Path, part: str) -> list[str]:
    articles: list[list[str]] = []
    for line in (data / "wikitext-2" / f"{part}.txt").read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if re.match(r"^= [^=].* =$", line) and not line.startswith("= ="):
            articles.append([])
        elif line and not line.startswith("=") and articles:
            articles[-1].append(line.replace("<unk>", ""))
    return [" ".join(lines) for lines in articles]


def topics(data: Path) -> tuple[list[str], list[str]]:
    """Pieces of eight words of the test articles, from the first half of the articles or the second (a mix of topics each)."""
    articles = _articles(data, "test")
    order = list(range(len(articles)))
    random.Random(7).shuffle(order)
    texts, labels = [], []
    for place, at in enumerate(order):
        words = articles[at].split()
        for start in range(0, len(words) - 7, 8):
            texts.append(" ".join(words[start : start + 8]))
            labels.append("left" if 2 * place < len(order) else "right")
    return texts, labels


def pronouns(data: Path) -> tuple[list[str], list[str]]:
    """Twelve words around a he/his/him or she/her/hers of Shakespeare and the test articles, the word left out."""
    sides = {"he": "he", "his": "he", "him": "he", "she": "she", "her": "she", "hers": "she"}
    running = " ".join(text for _, text in _speeches(data)) + " " + " ".join(_articles(data, "test"))
    words = running.split()
    texts, labels = [], []
    for at, word in enumerate(words):
        side = sides.get(word.lower().strip(".,;:!?'\""))
        if side and 6 <= at < len(words) - 6:
            around = [w for w in words[at - 6 : at + 7] if w.lower().strip(".,;:!?'\"") not in sides]
            texts.append(" ".join(around))
            labels.append(side)
    return texts, labels


def tense(data: Path) -> tuple[list[str], list[str]]:
    """Eight words on both sides of an is/are or was/were of the test articles and Shakespeare, these words left out."""
    sides = {"is": "now", "are": "now", "was": "then", "were": "then"}
    running = " ".join(_articles(data, "test")) + " " + " ".join(text for _, text in _speeches(data))
    words = running.split()
    texts, labels = [], []
    for at, word in enumerate(words):
        side = sides.get(word.lower())
        if side and 8 <= at < len(words) - 8:
            texts.append(" ".join(w for w in words[at - 8 : at + 9] if w.lower() not in sides))
            labels.append(side)
    return texts, labels


TASKS = {
    "sms": sms, "halves": halves, "topics": topics, "pronouns": pronouns, "tense": tense
}  # fmt: skip


def split(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Four fifths to learn from and the rest to score."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    cut = count * 4 // 5
    return order[:cut], order[cut:]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the folder that holds sms-spam, tinyshakespeare and wikitext-2")
    for name, make in TASKS.items():
        texts, labels = make(Path(sys.argv[1]))
        share = max(labels.count(label) for label in set(labels)) / len(labels)
        print(f"{name:10} {len(texts):6} rows, {share:.3f} of the larger class: {texts[len(texts) // 2]!r}")

"""Word vectors of a public corpus, in the text format of word2vec, the most frequent word first.

    python wordvectors.py OUT.vec TEXT [TEXT ...] [--dim 100]

Positive pointwise mutual information of words within a window, its truncated singular value decomposition (Levy, Goldberg and Dagan 2015: context
distribution smoothed by 3/4, square root of the singular values). Small and without tuning: what counts is that nothing private is read.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

WINDOW = 5


def sentences(paths: list[Path]) -> list[list[str]]:
    """Lines as lower-case words; digits as `#` and their number, as dpopt reads texts."""
    lines = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").split("\n"):
            words = re.findall(r"\w+(?:'\w+)*", line.lower().replace("<unk>", " "))
            lines.append([re.sub(r"\d+", lambda run: f"#{len(run.group())}", word) for word in words])
    return [line for line in lines if line]


def vectors(lines: list[list[str]], dim: int, least: int) -> tuple[list[str], np.ndarray]:
    counts = Counter(word for line in lines for word in line)
    vocabulary = [
        word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count >= least
    ]
    place = {word: i for i, word in enumerate(vocabulary)}
    together: Counter[tuple[int, int]] = Counter()
    for line in lines:
        at = [place[word] for word in line if word in place]
        for i, word in enumerate(at):
            for distance, other in enumerate(at[i + 1 : i + 1 + WINDOW], start=1):
                together[word, other] += 1 / distance
                together[other, word] += 1 / distance
    size = len(vocabulary)
    pairs = np.array(list(together), dtype=np.int64)
    values = np.array(list(together.values()))
    matrix = sp.csr_matrix((values, (pairs[:, 0], pairs[:, 1])), shape=(size, size))
    rows = np.asarray(matrix.sum(axis=1)).ravel()
    contexts = rows**0.75 / (rows**0.75).sum()
    entries = matrix.tocoo()
    information = np.log(entries.data / (rows[entries.row] * contexts[entries.col]))
    kept = information > 0
    positive = sp.csr_matrix((information[kept], (entries.row[kept], entries.col[kept])), shape=(size, size))
    left, strength, _ = svds(positive, k=dim, random_state=0)
    return vocabulary, left * np.sqrt(strength)


def write(path: Path, words: list[str], matrix: np.ndarray) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.write(f"{len(words)} {matrix.shape[1]}\n")
        for word, row in zip(words, matrix):
            out.write(word + " " + " ".join(f"{value:.4g}" for value in row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--least", type=int, default=3, help="words that occur more seldom have no vector")
    given = parser.parse_args()
    words, matrix = vectors(sentences(given.texts), given.dim, given.least)
    write(given.out, words, matrix)
    print(f"{len(words)} words, {matrix.shape[1]} numbers each")


if __name__ == "__main__":
    main()

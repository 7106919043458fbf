"""Secure aggregation of clipped updates: the masked integers unmask to the exact sum, and what of it is private.

    python secure_sum.py

Five clients agree on pairwise masks by Diffie–Hellman (elliptic curves), one is gone before it sends, the others' shares unmask the rest. The protocol is that of
Bonawitz and others (2017), in one process and against an aggregator that follows it: it shows that the integers fit, and is no implementation to
deploy. Keys and secret shares are Flower's; masks come from ChaCha20. Needs ``pip install flwr``.
"""

import itertools
import os

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from dpopt.secure_sum import SecureSum
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.supercore.primitives.asymmetric import bytes_to_private_key, generate_key_pairs, private_key_to_bytes

CLIENTS, THRESHOLD, DIMENSION, GONE = 5, 4, 1000, 3


def mask(secret, terms):
    """Uniform numbers modulo 2^k that whoever has the secret can draw again: 256 bits of it enter."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(secret)
    stream = Cipher(ChaCha20(digest.finalize(), bytes(16)), mode=None).encryptor().update(bytes(8 * terms.dimension))
    return np.frombuffer(stream, dtype="<u8") % np.uint64(terms.modulus)


class Client:
    """One who holds an update, and terms of its own: where clients add noise, each counts its sums for itself."""

    def __init__(self, update, terms):
        self.update, self.terms, self.seed = update, terms, os.urandom(32)
        self.private, self.public = generate_key_pairs()
        # of each secret a share for everybody
        self.seed_shares = create_shares(self.seed, THRESHOLD, CLIENTS)
        self.key_shares = create_shares(private_key_to_bytes(self.private), THRESHOLD, CLIENTS)

    def masked(self, me, publics):
        """All that the aggregator gets of the update."""
        terms = self.terms
        total = terms.encode(self.update) + mask(self.seed, terms)
        for other, public in enumerate(publics):
            if other != me:
                pair = mask(generate_shared_key(self.private, public), terms)
                total = total + pair if me < other else total - pair
        return total % np.uint64(terms.modulus)


def unmask(received, clients, publics, terms):
    """The aggregator: adds up what came, and takes off what the shares of those who are left give it."""
    total = sum(received.values())
    left = sorted(received)
    for one in left:
        seed = combine_shares([clients[one].seed_shares[holder] for holder in left[:THRESHOLD]])
        total = total - mask(seed, terms)
    for gone in set(range(CLIENTS)) - set(left):
        key = bytes_to_private_key(combine_shares([clients[gone].key_shares[holder] for holder in left[:THRESHOLD]]))
        for one in left:
            pair = mask(generate_shared_key(key, publics[one]), terms)
            total = total + pair if gone < one else total - pair
    return total % np.uint64(terms.modulus)


def aggregate(updates, facts):
    """The sum of all but one client, modulo 2^k, under terms that all make from the same public facts."""
    clients = [Client(update, SecureSum(**facts)) for update in updates]
    publics, terms = [client.public for client in clients], SecureSum(**facts)
    received = {i: client.masked(i, publics) for i, client in enumerate(clients) if i != GONE}
    return terms, unmask(received, clients, publics, terms), received


def main():
    rng = np.random.default_rng(0)
    updates = rng.normal(size=(CLIENTS, DIMENSION)) * rng.uniform(0.01, 0.1, (CLIENTS, 1))
    here = [update for i, update in enumerate(updates) if i != GONE]
    common = {"clients": CLIENTS, "dimension": DIMENSION, "clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5}

    # the aggregator adds the noise: it sees the exact sum, and of a client nothing else
    terms, total, received = aggregate(updates, common)
    exact = sum(terms.integers(terms.encode(update)) for update in here)
    print(f"grid 2^{int(np.log2(terms.step))}, modulus 2^{terms.bits}, {CLIENTS} clients of norm at most 1")
    print(f"unmasked = sum of the clipped integers: {bool((terms.integers(total) == exact).all())}")
    largest = max(
        float(np.abs(np.corrcoef(a, b)[0, 1])) for a, b in itertools.combinations(map(np.float64, received.values()), 2)
    )
    print(f"largest correlation of two masked vectors: {largest:.2f}")
    noisy = terms.release(total)
    error = np.linalg.norm(noisy - terms.exact(total)) / np.sqrt(DIMENSION)
    print(f"trusted aggregator: epsilon 8, noise per number {terms.noise_std:.2f} planned, {error:.2f} drawn")

    # the clients add the noise: three of the four who are left are enough, so one may be anybody's
    shared, total, _ = aggregate(updates, {**common, "honest": THRESHOLD - 1})
    clipped = sum(terms.exact(terms.encode(update)) for update in here)
    error = np.linalg.norm(shared.exact(total) - clipped) / np.sqrt(DIMENSION)
    print(
        f"3 honest clients: epsilon 8, noise per number {shared.noise_std:.2f} planned of three, {error:.2f} drawn by four; "
        f"one client alone: epsilon {shared.local_epsilon:.1f}"
    )


if __name__ == "__main__":
    main()

"""A client's updates: what leaves, how often, with how much noise, whichever process restarts, copies or shares what counts them."""

import contextlib
import copy
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time

import dpopt
import numpy as np
import pytest
from dpopt import BudgetExceeded, Ledger, PrivacyError, _rounds, accounting
from dpopt.federated import PrivateUpdates

TERMS = {"clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5, "rounds": 3}
SENT = [np.zeros((2, 2)), np.zeros(3, dtype=np.float32), np.array(7)]


def seeded(**changes):
    with pytest.warns(dpopt.PrivacyWarning):
        return PrivateUpdates(**{**TERMS, "insecure_seed": 1, **changes})


def moved(by):
    return [array + by for array in SENT]


def test_shapes_types_and_whole_numbers_are_the_servers():
    received = PrivateUpdates(**TERMS).release(SENT, moved(0.1))
    assert [(a.shape, a.dtype) for a in received] == [(a.shape, a.dtype) for a in SENT]
    assert received[2] == 7


def test_the_noise_is_what_the_accountant_asks_for_all_rounds():
    updates = PrivateUpdates(**TERMS)
    # a move of 2C between any two inputs, with noise z·C, three times
    moved_twice = accounting.GaussianDpEvent(updates.noise_multiplier / 2)
    planned = accounting.epsilon(accounting.SelfComposedDpEvent(moved_twice, 3), 1e-5, relation="add-or-remove")
    assert 7.9 < float(planned) <= 8.0
    assert 7.9 < float(updates.privacy_.epsilon) <= 8.0 and updates.privacy_.unit_column == "client"
    assert updates.privacy_.grade == "certified" and updates.privacy_.delta_at(8.0) == pytest.approx(1e-5, rel=0.05)
    updates.release(SENT, SENT)
    assert 7.9 < float(updates.privacy_.epsilon) <= 8.0
    assert float(updates.epsilon_at(1)) < float(updates.epsilon_at(2)) < float(updates.epsilon_at(3)) <= 8.0
    half = PrivateUpdates(**{**TERMS, "relation": "zero-out"})
    assert updates.noise_multiplier == pytest.approx(2 * half.noise_multiplier, rel=1e-6)


@pytest.mark.parametrize("size", [0.1, 5.0, 1e30])
def test_the_law_of_what_leaves_is_the_clipped_update_and_that_noise(size):
    # 20 000 numbers and one round of noise z·C: the mean of squares errs by 1 % at one standard deviation; bounds at six
    sent, rng = [np.zeros(20_000)], np.random.default_rng(0)
    direction = rng.normal(size=20_000)
    direction /= np.linalg.norm(direction)
    updates = seeded(clip_norm=100.0, rounds=1)
    (received,) = updates.release(sent, [100.0 * size * direction])
    # the same noise without an update: what is left is the clipped one, to the grid
    (noise,) = seeded(clip_norm=100.0, rounds=1).release(sent, sent)
    std = 100.0 * updates.noise_multiplier
    assert abs(np.mean(noise**2) / std**2 - 1) < 6 * np.sqrt(2 / 20_000)
    assert np.linalg.norm(received - noise - 100.0 * min(1.0, size) * direction) < 0.1


def test_fresh_noise_for_each_release_and_each_object():
    sent = [np.zeros(4)]
    first, second = PrivateUpdates(**TERMS), PrivateUpdates(**TERMS)
    # four numbers of standard deviation 2 on a grid of 2^-11: two of four releases are alike with probability below 1e-15, and always where noise is
    # used twice
    drawn = [tuple(u.release(sent, sent)[0]) for u in (first, first, second, second)]
    assert len(set(drawn)) == 4
    seed = seeded()
    assert seed.release(sent, sent)[0].tolist() != seed.release(sent, sent)[0].tolist()


BAD = {
    "none": None,
    "not finite": [np.full((2, 2), np.nan), SENT[1], SENT[2]],
    "infinite": [SENT[0], np.full(3, np.inf), SENT[2]],
    "other shapes": [np.ones(4), *SENT[1:]],
    "fewer": SENT[:1],
    "more": [*SENT, np.ones(3)],
    "text": [np.array([["a", "b"], ["c", "d"]]), *SENT[1:]],
    "objects": [np.array([[None, {}], [[], 1]], dtype=object), *SENT[1:]],
    "complex": [np.full((2, 2), 1j), *SENT[1:]],
    "no sequence": 3,
    "a length that is none": [np.full((2, 2), 1.7e308), SENT[1], SENT[2]],
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_update_counts_as_none_and_nobody_sees(kind, recwarn):
    same_noise = seeded().release(SENT, SENT)
    recwarn.clear()
    updates = seeded()
    recwarn.clear()
    received = updates.release(SENT, BAD[kind])
    if kind == "a length that is none":
        # finite, however large: an update, clipped
        assert np.allclose(received[0] - same_noise[0], 0.5, atol=1e-3)
    else:
        assert all((a == b).all() for a, b in zip(received, same_noise))
    assert not recwarn.list and updates.rounds_released == 1


def test_more_rounds_than_planned_are_refused():
    updates = PrivateUpdates(**TERMS)
    for _ in range(3):
        updates.check(SENT)
        updates.release(SENT, SENT)
    for more in (lambda: updates.check(SENT), lambda: updates.release(SENT, SENT)):
        with pytest.raises(BudgetExceeded, match="all 3 planned rounds"):
            more()
    assert updates.rounds_released == 3


def test_public_mistakes_are_refused():
    for wrong, message in [
        ({"rounds": 0}, "rounds"), ({"clip_norm": 0.0}, "clip_norm"), ({"relation": "add-or-remove"}, "takes part"), ({"delta": 0.0}, "delta"),
        ({"epsilon": -1.0}, "epsilon"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            PrivateUpdates(**{**TERMS, **wrong})
    updates = PrivateUpdates(**TERMS)
    for sent in ([], [np.arange(3)], ["text"], None, 3):
        with pytest.raises(ValueError, match="server"):
            updates.release(sent, None)
    updates.release(SENT, None)
    with pytest.raises(ValueError, match="in the first round"):
        updates.release([np.zeros(3)], None)
    assert updates.rounds_released == 1


def test_rounds_in_memory_neither_travel_nor_are_copied(tmp_path):
    updates = PrivateUpdates(**TERMS)
    for travel in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="session="):
            travel(updates)
    filed = PrivateUpdates(**TERMS, session=tmp_path / "rounds")
    filed.release(SENT, SENT)
    other = pickle.loads(pickle.dumps(filed))
    other.release(SENT, SENT)
    assert filed.rounds_released == 2


def test_a_forked_process_refuses_rounds_in_memory():
    updates = PrivateUpdates(**TERMS)
    updates.release(SENT, SENT)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            updates.release(SENT, SENT)
            os.write(writing, b"released")
        except BudgetExceeded:
            os.write(writing, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 20) == b"refused"


def test_a_session_goes_on_where_it_was_with_the_same_noise(tmp_path):
    path = tmp_path / "rounds"
    first = PrivateUpdates(**TERMS, session=path)
    first.release(SENT, SENT)
    again = PrivateUpdates(**TERMS, session=path)
    again.check(SENT)
    assert again.rounds_released == 1 and again.noise_multiplier == first.noise_multiplier
    again.release(SENT, SENT)
    first.release(SENT, SENT)
    for each in (first, again, PrivateUpdates(**TERMS, session=path)):
        with pytest.raises(BudgetExceeded):
            each.release(SENT, SENT)
    assert os.stat(path).st_mode & 0o777 == 0o600
    # the file tells nothing of what was released
    header, marks = path.read_bytes().split(b"\n", 1)
    assert marks == b"..." and set(json.loads(header)) == {
        "format", "session", "file", "mark", "terms", "plan",
    }  # fmt: skip


def test_other_terms_are_refused(tmp_path):
    path = tmp_path / "rounds"
    PrivateUpdates(**TERMS, session=path).release(SENT, SENT)
    for change in ({"epsilon": 9.0}, {"rounds": 30}, {"clip_norm": 2.0}, {"relation": "zero-out"}):
        with pytest.raises(ValueError, match=f"opened with {next(iter(change))} = "):
            PrivateUpdates(**{**TERMS, **change}, session=path).check(SENT)


def test_copies_and_files_that_are_none_are_refused(tmp_path):
    path = tmp_path / "rounds"
    PrivateUpdates(**TERMS, session=path).release(SENT, SENT)
    shutil.copy(path, tmp_path / "copy")
    with pytest.raises(PrivacyError, match="a copy or an old version"):
        PrivateUpdates(**TERMS, session=tmp_path / "copy").release(SENT, SENT)
    # a backup that takes the original's name
    PrivateUpdates(**TERMS, session=path).release(SENT, SENT)
    os.replace(tmp_path / "copy", path)
    with pytest.raises(PrivacyError, match="a copy or an old version"):
        PrivateUpdates(**TERMS, session=path).release(SENT, SENT)
    (tmp_path / "text").write_text("shopping list\n")
    (tmp_path / "cut").write_bytes(b'{"format": "dpopt rou')
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("text", "cut", "directory", "link", "missing/rounds"):
        with pytest.raises(PrivacyError, match="session"):
            PrivateUpdates(**TERMS, session=tmp_path / name).release(SENT, SENT)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PrivacyError, match="not a regular file"):
        PrivateUpdates(**TERMS, session=tmp_path / "pipe").release(SENT, SENT)


def released(path, rounds):
    updates = PrivateUpdates(**TERMS, session=path)
    for _ in range(rounds):
        updates.release(SENT, SENT)
    return updates


def refused(path, message):
    with pytest.raises(PrivacyError, match=message):
        PrivateUpdates(**TERMS, session=path).release(SENT, SENT)


def test_a_backup_on_the_inode_of_the_original_is_refused(tmp_path, monkeypatch):
    # of a file system that tells two files of one inode not apart
    monkeypatch.setattr(_rounds, "_identity", lambda file: {"inode": 1})
    path = tmp_path / "rounds"
    released(path, 1)
    shutil.copy(path, tmp_path / "backup")
    running = released(path, 1)
    path.unlink()
    shutil.copy(tmp_path / "backup", path)
    refused(path, "older copy")
    # so is a process that has the session open
    with pytest.raises(PrivacyError, match="older copy"):
        running.release(SENT, SENT)


def test_a_deleted_file_is_distinguished_from_one_that_got_its_inode(tmp_path):
    path = tmp_path / "rounds"
    released(path, 1)
    with open(path, "rb") as file:
        if _rounds._identity(file)["generation"] is None:
            pytest.skip("this file system draws no generations")
    backup = path.read_bytes()
    for _ in range(20):
        # the same bytes: only the file is another. Its generation is 32 random bits of the system: one of twenty is the old one with probability 5e-9
        path.unlink()
        path.write_bytes(backup)
        refused(path, "a copy or an old version")


def test_a_session_and_its_mark_belong_together(tmp_path):
    path, mark = tmp_path / "rounds", tmp_path / "rounds.mark"
    released(path, 1)
    older = mark.read_bytes()
    assert older.split(b"\n")[1] == b"." and os.stat(mark).st_mode & 0o777 == 0o600
    released(path, 2)
    newest = mark.read_bytes()
    mark.write_bytes(older)
    refused(path, "newer than its mark")
    mark.write_bytes(b"0" * 32 + newest[32:])
    refused(path, "belongs to another session")
    mark.write_bytes(newest)
    mark.rename(tmp_path / "elsewhere")
    refused(path, "mark beside it")
    (tmp_path / "elsewhere").rename(mark)
    with pytest.raises(BudgetExceeded):
        PrivateUpdates(**TERMS, session=path).release(SENT, SENT)


def test_a_crash_between_the_file_and_its_mark_costs_one_round(tmp_path):
    path, mark = tmp_path / "rounds", tmp_path / "rounds.mark"
    released(path, 1)
    with open(path, "ab") as file:
        file.write(b".")
    released(path, 1)
    assert path.read_bytes()[-3:] == mark.read_bytes()[-3:] == b"..."
    refused(path, "all 3 planned rounds")


def test_a_session_is_one_file_wherever_a_process_is_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="relative path"):
        PrivateUpdates(**TERMS, session="rounds").check(SENT)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("in_file", [False, True])
def test_threads_that_share_an_object_share_its_rounds_and_its_charge(in_file, tmp_path):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for trial in range(20):
            ledger = Ledger(900.0, 1e-2, relation="replace-one", unit="client", path=tmp_path / f"ledger-{trial}")
            updates = PrivateUpdates(**TERMS, session=tmp_path / f"rounds-{trial}" if in_file else None, budget=ledger)
            together, done = threading.Barrier(8), []

            def work(updates=updates, together=together, done=done):
                together.wait()
                for _ in range(3):
                    try:
                        updates.release(SENT, SENT)
                    except BudgetExceeded:
                        return
                    done.append(1)

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(done) == 3 and len(ledger.entries) == 1
    finally:
        sys.setswitchinterval(before)


def test_threads_take_a_round_each(monkeypatch):
    # every thread looks before any of them takes
    def slow(taken, planned, looks=_rounds.refuse_beyond):
        looks(taken, planned)
        time.sleep(0.01)

    rounds, taken = _rounds.RoundsInMemory(dict), []
    monkeypatch.setattr(_rounds, "refuse_beyond", slow)

    def work():
        with contextlib.suppress(BudgetExceeded):
            taken.append(rounds.take(3))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [1, 2, 3] and rounds.taken == 3


WORKER = """
import sys, numpy as np
from dpopt import BudgetExceeded
from dpopt.federated import PrivateUpdates
updates = PrivateUpdates(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=40, session=sys.argv[1])
released = 0
try:
    while True:
        updates.release([np.zeros(2)], [np.ones(2)])
        released += 1
except BudgetExceeded:
    print(released)
"""


def test_processes_that_share_a_session_share_its_rounds(tmp_path):
    both = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "rounds")], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    released = [int(process.communicate(timeout=600)[0]) for process in both]
    assert sum(released) == 40


def take_and_die(path):
    updates = PrivateUpdates(**TERMS, session=path)
    updates.check(SENT)
    updates._open.take(3)
    os._exit(9)


def test_a_round_that_a_process_died_in_is_spent(tmp_path):
    path = tmp_path / "rounds"
    process = multiprocessing.get_context("fork").Process(target=take_and_die, args=(path,))
    process.start()
    process.join()
    updates = PrivateUpdates(**TERMS, session=path)
    updates.check(SENT)
    assert updates.rounds_released == 1


def test_a_ledger_is_charged_once_before_the_first_release(tmp_path):
    ledger = Ledger(8.5, 1e-4, relation="replace-one", unit="client", path=tmp_path / "ledger")
    path = tmp_path / "rounds"
    updates = PrivateUpdates(**TERMS, session=path, budget=ledger)
    assert len(ledger.entries) == 0
    updates.check(SENT)
    assert len(ledger.entries) == 1 and ledger.entries[0].epsilon == 8.0
    updates.release(SENT, SENT)
    PrivateUpdates(**TERMS, session=path, budget=Ledger.open(tmp_path / "ledger")).release(SENT, SENT)
    assert len(ledger.entries) == 1
    # a second set of rounds is not in the ledger
    with pytest.raises(BudgetExceeded):
        PrivateUpdates(**TERMS, session=tmp_path / "more", budget=ledger).release(SENT, SENT)
    assert len(ledger.entries) == 1
    # who deletes a session is refused by its mark, and who deletes both by the ledger
    os.unlink(path)
    with pytest.raises(PrivacyError, match="records 2 released rounds"):
        PrivateUpdates(**TERMS, session=path, budget=ledger).check(SENT)
    os.unlink(f"{path}.mark")
    with pytest.raises(BudgetExceeded):
        PrivateUpdates(**TERMS, session=path, budget=ledger).check(SENT)


def test_a_session_and_its_ledger_belong_together(tmp_path):
    ledger = Ledger(9.0, 1e-4, relation="replace-one", unit="client", path=tmp_path / "ledger")
    other = Ledger(9.0, 1e-4, relation="replace-one", unit="client", path=tmp_path / "other")
    path = tmp_path / "rounds"
    PrivateUpdates(**TERMS, session=path, budget=ledger).release(SENT, SENT)
    with pytest.raises(PrivacyError, match="another ledger"):
        PrivateUpdates(**TERMS, session=path, budget=other).release(SENT, SENT)
    PrivateUpdates(**TERMS, session=tmp_path / "unpaid").release(SENT, SENT)
    with pytest.raises(PrivacyError, match="without a ledger"):
        PrivateUpdates(**TERMS, session=tmp_path / "unpaid", budget=other).release(SENT, SENT)
    assert len(other.entries) == 0


@pytest.mark.parametrize("charged", [["laplace(100)"], ["laplace(100)", "laplace(50)"]], ids=len)
def test_a_ledger_that_was_begun_anew_is_not_the_one_that_paid(charged, tmp_path):
    terms = {"epsilon": 9.0, "delta": 1e-4, "relation": "replace-one", "unit": "client", "path": tmp_path / "ledger"}
    path = tmp_path / "rounds"
    PrivateUpdates(**TERMS, session=path, budget=Ledger(**terms)).release(SENT, SENT)
    os.unlink(tmp_path / "ledger")
    anew = Ledger(**terms)
    for event in charged:
        anew.charge("other", event, epsilon=0.1, delta=0.0)
    with pytest.raises(PrivacyError, match="another ledger"):
        PrivateUpdates(**TERMS, session=path, budget=anew).release(SENT, SENT)
    assert len(anew.entries) == len(charged)


def test_ledgers_that_do_not_fit_are_refused(tmp_path):
    for wrong, message in [
        (Ledger(9.0, 1e-4, relation="replace-one"), "protects a record"),
        (Ledger(9.0, 1e-4, unit="client"), "same relation"),
        ("ledger", "dpopt.Ledger"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            PrivateUpdates(**TERMS, budget=wrong)
    memory = Ledger(9.0, 1e-4, relation="replace-one", unit="client")
    with pytest.raises(ValueError, match="in memory"):
        PrivateUpdates(**TERMS, session=tmp_path / "rounds", budget=memory)
    with pytest.raises(ValueError, match="insecure_seed"):
        PrivateUpdates(**TERMS, budget=memory, insecure_seed=1)
    with pytest.raises(ValueError, match="session"), pytest.warns(dpopt.PrivacyWarning):
        PrivateUpdates(**TERMS, session=tmp_path / "rounds", insecure_seed=1)
    PrivateUpdates(**TERMS, budget=memory).release(SENT, SENT)
    assert memory.remaining[0] == 1.0

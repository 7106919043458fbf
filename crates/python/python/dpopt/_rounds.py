"""How many rounds of a plan were released: counted in a file, for programs that a new process goes on with every time, or in memory."""

from __future__ import annotations

import array
import contextlib
import json
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from ._core import BudgetExceeded, PrivacyError
from ._reading import attempt, kind
from .ledger import Ledger

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

#: First member of a file's first line.
FORMAT = "dpopt rounds 2"
#: What Linux calls FS_IOC_GETVERSION: a number that a file system draws for each file, which tells two files with one inode apart.
GENERATION = 0x80087601
#: Of a file that is older than its mark, or that its node remembers as newer.
OLDER = (
    "the session file tells of fewer rounds than were released: an older copy was put in its place; begin a new session"
)


class RoundsFile:
    """A plan and the number of its rounds that were taken: one line of JSON, then a byte for every round.

    A round is taken before anything of it is drawn: the byte is appended and synced under the file's lock, so that two processes, a restart
    or a crash never take one twice, and the file never tells of fewer than were released. Its first line says which file it is, so that a
    copy is refused. The same byte is then appended to a mark beside it (its name and ``.mark``): a file that is older than its mark was
    put back, and one whose mark is missing or another's is refused. Both put back together are not found where the file system gives
    them the same inodes and generations, or where the whole disk was copied.

    Parameters
    ----------
    path
        Of the file, absolute; it is made by whoever is first.
    terms
        Public facts that whoever goes on must state again, by name.
    open_plan
        Charges the plan and gives what is to be kept of it, as JSON can write it. Called once for each file.
    """

    def __init__(self, path: Any, terms: dict[str, Any], open_plan: Callable[[], dict[str, Any]]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"session is {kind(path)}; give the path of a file")
        if fcntl is None:
            raise PrivacyError(
                "a session file needs locks that this system does not have; run the client on Linux or macOS"
            )
        self.path = absolute(path)
        self._mark = self.path.with_name(self.path.name + ".mark")
        with self._locked() as file:
            header = file.readline()
            if not header:
                self._refuse_deleted()
                plan = open_plan()
                self._write_header(file, terms, plan)
                self.plan = plan
                return
            self.plan = self._checked(file, header, terms)

    def take(self, planned: int) -> int:
        """The number of the next of `planned` rounds, from 1; it is spent from here on, whatever comes of it.

        Raises
        ------
        dpopt.BudgetExceeded
            If all are taken. Nothing is spent then.
        """
        with self._locked() as file:
            taken = self._count(file)
            refuse_beyond(taken, planned)
            file.seek(0, os.SEEK_END)
            file.write(b".")
            _sync(file)
            self._marked(taken + 1)
            return taken + 1

    @property
    def taken(self) -> int:
        """Rounds taken so far, by whomever shares the file."""
        with self._locked() as file:
            return self._count(file)

    def _count(self, file: FileIO) -> int:
        header = file.readline()
        found = self._identified(file, header)
        taken = len(file.read())
        self._check_mark(found, taken)
        return taken

    def _locked(self) -> contextlib.AbstractContextManager[FileIO]:
        return _locked(self.path, os.O_CREAT)

    def _refuse_deleted(self) -> None:
        """A new file where the mark of another tells of rounds."""
        if not os.path.lexists(self._mark):
            return
        with _locked(self._mark) as mark:
            mark.readline()
            released = len(mark.read())
        if released:
            raise PrivacyError(
                f"the session file is missing, but its mark file records {released} released rounds; give another path, which is charged anew"
            )

    def _write_header(self, file: FileIO, terms: dict[str, Any], plan: dict[str, Any]) -> None:
        session = secrets.token_hex(16)
        with _locked(self._mark, os.O_CREAT) as mark:
            mark.truncate(0)
            mark.write(session.encode() + b"\n")
            _sync(mark)
            beside = _identity(mark)
        header = {
            "format": FORMAT, "session": session, "file": _identity(file), "mark": beside, "terms": terms, "plan": plan,
        }  # fmt: skip
        file.write(json.dumps(header).encode() + b"\n")
        _sync(file)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _check_mark(self, header: dict[str, Any], taken: int) -> None:
        """The mark is written after the file: a crash between the two leaves it one behind, and nothing was drawn."""
        with _locked(self._mark) as mark:
            session, marked = mark.readline(), len(mark.read())
            if session != header["session"].encode() + b"\n" or _identity(mark) != header["mark"]:
                raise PrivacyError(
                    "the mark file beside the session file belongs to another session or is an old copy, so that the released rounds are unknown; begin a new session"
                )
        if taken < marked:
            raise PrivacyError(OLDER)
        if taken > marked + 1:
            raise PrivacyError(
                "the session file is newer than its mark file, which is an old copy; begin a new session"
            )

    def _marked(self, taken: int) -> None:
        with _locked(self._mark) as mark:
            mark.readline()
            mark.write(b"." * (taken - len(mark.read())))
            _sync(mark)

    def _identified(self, file: FileIO, header: bytes) -> dict[str, Any]:
        found = attempt(lambda: json.loads(header))
        if not (header.endswith(b"\n") and isinstance(found, dict) and found.get("format") == FORMAT):
            raise PrivacyError(
                "this is not a session file, or its first line is incomplete; give the path of another file, which is charged anew"
            )
        if found.get("file") != _identity(file):
            raise PrivacyError(
                "this session file is a copy or an old version, with which the same rounds could be released twice; use the original, or another path, which is charged anew"
            )
        return found

    def _checked(self, file: FileIO, header: bytes, terms: dict[str, Any]) -> dict[str, Any]:
        found = self._identified(file, header)
        self._check_mark(found, len(file.read()))
        opened = found.get("terms", {})
        differing = sorted(name for name in {*terms, *opened} if terms.get(name) != opened.get(name))
        if differing:
            stated = ", ".join(f"{name} = {opened.get(name)}" for name in differing)
            raise ValueError(f"the session was opened with {stated}; give the same, or another file")
        plan: dict[str, Any] = found["plan"]
        return plan


class RoundsInMemory:
    """Counts the rounds of one object in one process: it can be neither pickled nor copied, so that no round is taken twice."""

    def __init__(self, open_plan: Callable[[], dict[str, Any]]) -> None:
        self.plan, self._taken, self._process = open_plan(), 0, os.getpid()
        self._lock = threading.Lock()

    def take(self, planned: int) -> int:
        """Takes the next round, as :meth:`RoundsFile.take` does."""
        # another process is refused before it waits for a lock that a thread of this one holds
        refuse_beyond(self.taken, planned)
        with self._lock:
            refuse_beyond(self._taken, planned)
            self._taken += 1
            return self._taken

    @property
    def taken(self) -> int:
        """Rounds taken so far."""
        refuse_remote(self._process)
        return self._taken

    def __reduce__(self) -> Any:
        raise TypeError(
            "rounds counted in memory cannot be copied, since both copies could release all of them; give session= the path of a file"
        )


def refuse_remote(process: int) -> None:
    """Raises BudgetExceeded in a copy of the process in whose memory rounds are counted."""
    if process != os.getpid():
        raise BudgetExceeded(
            "these rounds are counted in another process, and both processes could release all of them; give session= the path of a file"
        )


def refuse_beyond(taken: int, planned: int) -> None:
    """Raises BudgetExceeded where all planned rounds are taken."""
    if taken >= planned:
        raise BudgetExceeded(
            f"all {planned} planned rounds are released; plan more in a new session, which is charged separately"
        )


class Charge:
    """What a ledger is charged for a plan, and what the plan's session keeps of it.

    Parameters
    ----------
    budget
        A ledger, or nothing.
    names
        Of whose units it is charged, as the ledger has them.
    """

    def __init__(self, budget: Ledger | None, names: tuple[str, ...]) -> None:
        self._budget = budget
        self._receipt: str | None = None
        self._pay = None if budget is None else budget._charge_for(names)

    @property
    def pay(self) -> Callable[..., str | None] | None:
        """For the kernel's mechanism, which calls it once."""
        return None if self._pay is None else self._paid

    def _paid(self, *of: Any) -> str | None:
        assert self._pay is not None
        self._receipt = receipt = self._pay(*of)
        return receipt

    @property
    def proof(self) -> dict[str, Any]:
        """Members of a plan by which :func:`still_charged` knows the ledger again."""
        receipt = None if self._receipt is None else json.loads(self._receipt)
        return {"receipt": receipt, "ledger": None if self._budget is None else self._budget.path}


def refuse_ledger(budget: Any, session: Any) -> None:
    """Refuses what is no ledger, and one in memory for a session in a file."""
    if not (budget is None or isinstance(budget, Ledger)):
        raise TypeError(f"budget is {kind(budget)}; give a dpopt.Ledger, or nothing")
    if session is not None and budget is not None and budget.path is None:
        raise ValueError(
            "a session continues in other processes, which do not see a ledger in memory; keep the ledger in a file, Ledger(…, path=…)"
        )


def opened(
    session: Any, terms: dict[str, Any], open_plan: Callable[[], dict[str, Any]], budget: Ledger | None
) -> RoundsFile | RoundsInMemory:
    """The rounds of a plan, in a file if there is a `session`, whose ledger is the one that paid and holds the charge."""
    if session is None:
        return RoundsInMemory(open_plan)
    rounds = RoundsFile(session, terms, open_plan)
    if budget is None:
        return rounds
    receipt = rounds.plan["receipt"]
    if receipt is None:
        raise PrivacyError("the session was opened without a ledger; leave budget out, or begin a new session with it")
    if rounds.plan["ledger"] != budget.path or not budget._holds(receipt):
        raise PrivacyError(
            "the session was charged to another ledger, or this one lost the charge; give the ledger that it was opened with"
        )
    return rounds


def absolute(path: Any) -> Path:
    """The path of a session, which means the same file wherever a process is started."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"session is {kind(path)}; give the path of a file")
    if not os.path.isabs(path):
        raise ValueError(
            "session is a relative path, which another process may resolve to another file; give an absolute path, such as /var/lib/client/rounds"
        )
    return Path(path)


def counted(path: Path) -> int:
    """Rounds that a session's file tells of, whatever else is wrong with it; none if there is no file. Nothing is opened or charged."""
    if not path.is_file():
        return 0
    return len(path.read_bytes().partition(b"\n")[2])


@contextlib.contextmanager
def _locked(path: Path, create: int = 0) -> Iterator[FileIO]:
    # for its owner alone; never through a link that somebody else made
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | create
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as why:
        raise PrivacyError(
            f"the session file cannot be opened, or the mark beside it ({path.name}: {why.strerror}); give a path to a regular file in a directory that exists"
        ) from None
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PrivacyError("the session is not a regular file; give another path")
        fcntl.flock(file, fcntl.LOCK_EX)
        process = os.getpid()
        try:
            yield file
        finally:
            # a process that was forked meanwhile has the file open too, and would keep it locked
            if process == os.getpid():
                fcntl.flock(file, fcntl.LOCK_UN)


def _identity(file: FileIO) -> dict[str, Any]:
    """Which file it is, as far as the system tells: a deleted file's inode is given to another, with another generation or time of birth."""
    status, generation = os.fstat(file.fileno()), array.array("q", [0])
    try:
        fcntl.ioctl(file, GENERATION, generation)
        drawn: int | None = generation[0]
    except OSError:
        # of a file system, or a system, that draws none
        drawn = None
    return {"inode": status.st_ino, "generation": drawn, "birth": getattr(status, "st_birthtime", None)}


def _sync(file: FileIO) -> None:
    file.flush()
    os.fsync(file.fileno())


__all__ = [
    "OLDER",
    "Charge",
    "RoundsFile",
    "RoundsInMemory",
    "absolute",
    "counted",
    "opened",
    "refuse_beyond",
    "refuse_remote",
    "refuse_ledger",
]

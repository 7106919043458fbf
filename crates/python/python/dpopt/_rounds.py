"""How many rounds of a plan were released: counted in a file, for programs that a new process goes on with every time, or in memory."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ._core import BudgetExceeded, PrivacyError
from ._reading import attempt, kind

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

#: First member of a file's first line.
FORMAT = "dpopt rounds 1"


class RoundsFile:
    """A plan and the number of its rounds that were taken: one line of JSON, then a byte for every round.

    A round is taken before anything of it is drawn: the byte is appended and synced under the file's lock, so that two processes, a restart
    or a crash never take one twice, and the file never tells of fewer than were released. Its first line says which file it is, so that a
    copy is refused.

    Args:
        path: of the file, which is made by whoever is first.
        terms: public facts that whoever goes on must state again, by name.
        open_plan: charges the plan and gives what is to be kept of it, as JSON can write it. Called once for each file.
    """

    def __init__(self, path: Any, terms: dict[str, Any], open_plan: Callable[[], dict[str, Any]]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"session is {kind(path)}; give the path of a file")
        if fcntl is None:
            raise PrivacyError(
                "a session file needs locks that this system does not have; run the client on Linux or macOS"
            )
        self.path = Path(path).absolute()
        with self._locked() as file:
            header = file.readline()
            if not header:
                plan = open_plan()
                self._write_header(file, terms, plan)
                self.plan = plan
                return
            self.plan = self._checked(file, header, terms)

    def take(self, planned: int) -> int:
        """The number of the next of `planned` rounds, from 1; it is spent from here on, whatever comes of it.

        Raises:
            dpopt.BudgetExceeded: if all are taken. Nothing is spent then.
        """
        with self._locked() as file:
            taken = self._count(file)
            refuse_beyond(taken, planned)
            file.seek(0, os.SEEK_END)
            file.write(b".")
            _sync(file)
            return taken + 1

    @property
    def taken(self) -> int:
        """Rounds taken so far, by whomever shares the file."""
        with self._locked() as file:
            return self._count(file)

    def _count(self, file: BinaryIO) -> int:
        header = file.readline()
        self._identified(file, header)
        return len(file.read())

    @contextlib.contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        # for its owner alone; never through a link that somebody else made
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as why:
            raise PrivacyError(
                f"the session file cannot be opened ({why.strerror}); give a path to a regular file in a directory that exists"
            ) from None
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PrivacyError("the session is no regular file; give another path")
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file  # type: ignore[misc]

    def _write_header(self, file: BinaryIO, terms: dict[str, Any], plan: dict[str, Any]) -> None:
        header = {"format": FORMAT, "file": os.fstat(file.fileno()).st_ino, "terms": terms, "plan": plan}
        file.write(json.dumps(header).encode() + b"\n")
        _sync(file)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _identified(self, file: BinaryIO, header: bytes) -> dict[str, Any]:
        found = attempt(lambda: json.loads(header))
        if not (header.endswith(b"\n") and isinstance(found, dict) and found.get("format") == FORMAT):
            raise PrivacyError(
                "this is no session file, or one whose first line was cut; give the path of another file, which is charged anew"
            )
        if found.get("file") != os.fstat(file.fileno()).st_ino:
            raise PrivacyError(
                "this session file is a copy or was put back: who goes on with it could release the same rounds a second time. Use the original, "
                "or another path, which is charged anew"
            )
        return found

    def _checked(self, file: BinaryIO, header: bytes, terms: dict[str, Any]) -> dict[str, Any]:
        found = self._identified(file, header)
        opened = found.get("terms", {})
        differing = sorted(name for name in {*terms, *opened} if terms.get(name) != opened.get(name))
        if differing:
            stated = ", ".join(f"{name} = {opened.get(name)}" for name in differing)
            raise ValueError(f"the session was opened with {stated}; give the same, or another file")
        plan: dict[str, Any] = found["plan"]
        return plan


class RoundsInMemory:
    """The same for one object of one process: it neither travels nor is copied, so that no round is taken twice."""

    def __init__(self, open_plan: Callable[[], dict[str, Any]]) -> None:
        self.plan, self._taken, self._process = open_plan(), 0, os.getpid()

    def take(self, planned: int) -> int:
        """As :meth:`RoundsFile.take`."""
        refuse_beyond(self.taken, planned)
        self._taken += 1
        return self._taken

    @property
    def taken(self) -> int:
        """Rounds taken so far."""
        if self._process != os.getpid():
            raise BudgetExceeded(
                "these rounds are counted in another process, so that both could release all of them; give session= a file"
            )
        return self._taken

    def __reduce__(self) -> Any:
        raise TypeError(
            "rounds that are counted in memory cannot be copied: both could release all of them; give session= a file"
        )


def refuse_beyond(taken: int, planned: int) -> None:
    """Raises BudgetExceeded where all planned rounds are taken."""
    if taken >= planned:
        raise BudgetExceeded(
            f"all {planned} planned rounds are released; plan more of them in a new session, with a budget of its own"
        )


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


__all__ = ["RoundsFile", "RoundsInMemory", "refuse_beyond"]

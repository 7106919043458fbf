"""`sbom.py FOLDER WHEEL…`: in the bill of materials of each wheel the sources lie in /dpopt, and no longer in FOLDER where they were built."""

import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path


def relocated(wheel, folder):
    """The entries of the wheel in their order, with the bill of materials and its line in RECORD as they shall be."""
    entries = [(info, wheel.read(info)) for info in wheel.infolist()]
    (bill,) = (info.filename for info, _ in entries if "/sboms/" in info.filename)
    # a drive's letter and backslashes are written so in an address
    there = Path(folder).resolve().as_uri().encode()
    line = None
    for info, data in entries:
        if info.filename == bill:
            data = data.replace(there, b"file:///dpopt")
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            line = f"{bill},sha256={digest},{len(data)}"
        elif info.filename.endswith(".dist-info/RECORD"):
            kept = [line if at.startswith(f"{bill},") else at for at in data.decode().splitlines()]
            data = ("\n".join(kept) + "\n").encode()
        yield info, data
    assert line is not None


def main():
    folder, *wheels = sys.argv[1:]
    for path in map(Path, wheels):
        beside = path.with_suffix(".new")
        with zipfile.ZipFile(path) as wheel, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as new:
            for info, data in relocated(wheel, folder):
                new.writestr(info, data)
        os.replace(beside, path)


main()

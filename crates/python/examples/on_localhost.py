"""Runs a Flower app of this directory on localhost: a SuperLink and two SuperNodes, each a process of its own, without network.

    python on_localhost.py federated_sparse
    python on_localhost.py federated_update

Flower starts the client's app anew for every message; what it released before stands in a session file. Needs ``pip install 'flwr>=1.42'``.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLIENTS = 2
#: Of everything together, in seconds.
PATIENCE = 560


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def tool(name):
    """A command of Flower that lies beside this Python."""
    return str(Path(sys.executable).parent / name)


def wait_for(port, process, until):
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit("a process of Flower ended before it answered")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit("Flower did not answer in time")


def run(app, here):
    until = time.monotonic() + PATIENCE
    server, *nodes = (free_port() for _ in range(1 + CLIENTS))
    environment = {
        **os.environ, "FLWR_HOME": str(here / "flwr"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_UPDATE_CHECK": "0",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        # the app runs from a copy, and needs the package that this process has
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }  # fmt: skip
    (here / "flwr").mkdir()
    address = f"127.0.0.1:{server}"
    (here / "flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{address}"\ninsecure = true\n'
    )
    processes = []

    def start(log, *command):
        with open(here / log, "wb") as output:
            processes.append(subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT))
        return processes[-1]

    try:
        link = start(
            "link.log", tool("flower-superlink"), "--insecure", "--disable-runtime-dependency-installation", "--port", str(server)
        )  # fmt: skip
        wait_for(server, link, until)
        for number, port in enumerate(nodes):
            # what a node tells its app: who it is, and where its rounds are counted
            told = f'client={number} session="{here / f"rounds-{number}"}"'
            start(
                f"node-{number}.log", tool("flower-supernode"), "--insecure", "--superlink", address, "--port", str(port), "--node-config", told
            )  # fmt: skip
        done = subprocess.run(
            [tool("flwr"), "run", str(Path(__file__).parent / app), "here", "--stream"],
            env=environment, capture_output=True, text=True, timeout=max(1.0, until - time.monotonic()),
        )  # fmt: skip
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(timeout=30)
    shown = [line for line in done.stdout.splitlines() if line.startswith("server: ")]
    for number in range(CLIENTS):
        log = (here / f"node-{number}.log").read_text(errors="replace")
        shown += [line for line in log.splitlines() if line.startswith(f"client {number}: ")]
    print("\n".join(shown))
    if done.returncode or not any(line.startswith("server: ") for line in shown):
        print(done.stdout, done.stderr, (here / "link.log").read_text(errors="replace"), file=sys.stderr)
        for number in range(CLIENTS):
            print((here / f"node-{number}.log").read_text(errors="replace"), file=sys.stderr)
        raise SystemExit(1)
    for number in range(CLIENTS):
        header, marks = (here / f"rounds-{number}").read_bytes().split(b"\n", 1)
        print(f"session of client {number}: {len(marks)} of {json.loads(header)['terms']['rounds']} rounds released")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        run(sys.argv[1], Path(directory))

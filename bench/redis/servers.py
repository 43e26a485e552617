"""Servers that the benchmarks of this directory start: Redis, or Esker by the example `serve_redis`."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

_RELEASE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../target/release")
ESKER = os.path.join(_RELEASE, "examples/serve_redis")
PACED_LOAD = os.path.join(_RELEASE, "examples/paced_load")
COMMAND_LINE = os.path.join(_RELEASE, "esker")
REDIS = "redis-server"

_START_SECONDS = 60


def is_redis(binary):
    return os.path.basename(binary) == REDIS


class Server:
    """A server on a free loopback port; it listens when this returns.

    `directives` are names and values of redis.conf by turns. Without `directory` the data are in a new one, which `stop`
    removes. `enter` runs in the server's process before the program, to join a control group, say.
    """

    def __init__(self, binary, directives=(), directory=None, enter=None):
        self.is_own = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="esker-bench-redis-")
        os.makedirs(self.directory, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if is_redis(binary):
            named = [word for name, value in zip(directives[::2], directives[1::2]) for word in ("--" + name, value)]
            command = [binary, "--port", str(self.port), "--dir", self.directory, "--save", "", *named]
        else:
            command = [binary, os.path.join(self.directory, "data"), str(self.port), *directives]
        path = os.path.join(self.directory, "log")
        with open(path, "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=enter)
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                time.sleep(0.025)
        self.process.kill()
        raise SystemExit(f"{binary} does not listen; see {path}")

    def stop(self):
        """Ends the process at once: benchmarks measure no shutdown."""
        self.process.kill()
        self.process.wait()
        if self.is_own:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

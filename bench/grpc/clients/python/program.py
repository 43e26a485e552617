"""Checks of the gRPC service by grpcio: what applications do with it. ADDRESS and TOKEN are in the environment."""

import os
import sys
import threading

import grpc

from esker.v1 import esker_pb2 as pb
from esker.v1 import esker_pb2_grpc as stubs

METADATA = [("authorization", "Bearer " + os.environ["TOKEN"])]


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"python: {what}: {found!r} instead of {expected!r}")


def refused(what, code, call):
    try:
        call()
    except grpc.RpcError as error:
        expect(what, error.code(), code)
        return error.details()
    sys.exit(f"python: {what}: it was not refused")


channel = grpc.insecure_channel(os.environ["ADDRESS"])
keys = stubs.KeyValueStub(channel)
admin = stubs.AdminStub(channel)


def call(method, request, **options):
    return method(request, metadata=METADATA, **options)


refused("no credentials", grpc.StatusCode.UNAUTHENTICATED, lambda: keys.Get(pb.GetRequest(key=b"k")))
call(keys.DeleteRange, pb.DeleteRangeRequest(range=pb.KeyRange()))

# Values, absent keys, expiries, conditions.
expect("an absent key", call(keys.Get, pb.GetRequest(key=b"ada")).found, False)
first = call(keys.Put, pb.PutRequest(key=b"ada", value=b"1815", expiry=pb.Expiry(after_ms=3_600_000)))
found = call(keys.Get, pb.GetRequest(key=b"ada"))
expect("a value", (found.found, found.value, found.HasField("expires_at_ms")), (True, b"1815", True))
condition = pb.Condition(absent=pb.Condition.Absent())
again = call(keys.Put, pb.PutRequest(key=b"ada", value=b"x", condition=condition))
expect("a condition", (again.applied, again.current), (False, b"1815"))

# A batch over two keyspaces, and a scan of it in pages that goes on with a token.
name = "python"
if name in call(admin.ListKeyspaces, pb.ListKeyspacesRequest()).names:
    call(admin.DropKeyspace, pb.DropKeyspaceRequest(name=name))
call(admin.CreateKeyspace, pb.CreateKeyspaceRequest(name=name))
operations = [
    pb.Operation(keyspace=name, put=pb.Operation.Put(key=b"%08d" % number, value=b"v" * 100)) for number in range(20_000)
]
call(keys.Batch, pb.BatchRequest(operations=operations, durability=pb.DURABILITY_POWER))
got, token = [], b""
while True:
    pages = call(keys.Scan, pb.ScanRequest(keyspace=name, resume_token=token))
    page = next(iter(pages))
    pages.cancel()
    got += [entry.key for entry in page.entries]
    token = page.resume_token
    if not token:
        break
expect("a scan in pages", got, [b"%08d" % number for number in range(20_000)])
limited = call(keys.Scan, pb.ScanRequest(keyspace=name, reverse=True, limit=3, keys_only=True))
expect("the last keys", [entry.key for page in limited for entry in page.entries], [b"00019999", b"00019998", b"00019997"])

# A snapshot.
snapshot = call(keys.OpenSnapshot, pb.OpenSnapshotRequest(lease_ms=10_000)).snapshot
call(keys.Delete, pb.DeleteRequest(key=b"ada"))
expect("at a snapshot", call(keys.Get, pb.GetRequest(key=b"ada", snapshot=snapshot)).value, b"1815")
call(keys.CloseSnapshot, pb.CloseSnapshotRequest(snapshot=snapshot))
told = refused(
    "a closed snapshot", grpc.StatusCode.NOT_FOUND, lambda: call(keys.Get, pb.GetRequest(key=b"ada", snapshot=snapshot))
)
expect("its message names it", str(snapshot) in told, True)

# Changes arrive while they are waited for.
after = call(admin.Stats, pb.StatsRequest()).visible_sequence_number
changes = call(keys.Changes, pb.ChangesRequest(after=after))
timer = threading.Timer(0.2, lambda: call(keys.Put, pb.PutRequest(key=b"alan", value=b"1912")))
timer.start()
batch = next(iter(changes))
changes.cancel()
timer.join()
expect("a change", (batch.changes[0].put.key, batch.changes[0].put.value, batch.complete), (b"alan", b"1912", True))

# Errors, deadlines, reports.
refused("no keyspace", grpc.StatusCode.NOT_FOUND, lambda: call(keys.Get, pb.GetRequest(keyspace="nowhere", key=b"k")))
refused(
    "a range that is turned round",
    grpc.StatusCode.INVALID_ARGUMENT,
    lambda: call(keys.DeleteRange, pb.DeleteRangeRequest(range=pb.KeyRange(start=b"b", end=b"a"))),
)
waiting = call(keys.Changes, pb.ChangesRequest(after=call(admin.Stats, pb.StatsRequest()).visible_sequence_number), timeout=0.3)
refused("a deadline", grpc.StatusCode.DEADLINE_EXCEEDED, lambda: next(iter(waiting)))
call(admin.Flush, pb.FlushRequest())
levels = call(admin.Levels, pb.LevelsRequest(keyspace=name, tables=True)).keyspaces[0].levels
expect("the entries of the levels", sum(level.entries for level in levels), 20_000)
expect("damage", len(call(admin.Verify, pb.VerifyRequest()).damage), 0)
call(admin.DropKeyspace, pb.DropKeyspaceRequest(name=name))
print("python: all checks passed")

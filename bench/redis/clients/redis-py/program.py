"""redis-py against a server: what applications use of it, each checked.

    PORT=6379 PROTOCOL=2 RESTART='command that restarts the server' python3 program.py
"""

import faulthandler
import os
import subprocess
import threading
import time

import redis

port, protocol = int(os.environ["PORT"]), int(os.environ.get("PROTOCOL", "2"))
faulthandler.dump_traceback_later(60, exit=True)
checks = 0
failures = []


def check(name, found, wanted):
    global checks
    checks += 1
    if found != wanted:
        failures.append(f"{name}: {found!r} is not {wanted!r}")


def connect(**more):
    return redis.Redis(port=port, protocol=protocol, decode_responses=True, socket_timeout=5, **more)


def values(r):
    check("set", r.set("s", "value", ex=100), True)
    check("get", r.get("s"), "value")
    check("ttl", r.ttl("s") in (99, 100), True)
    check("set nx", r.set("s", "other", nx=True), None)
    check("getdel", r.getdel("s"), "value")
    check("incrbyfloat", r.incrbyfloat("f", 1.5), 1.5)
    check("hset", r.hset("h", mapping={"a": 1, "b": 2}), 2)
    check("hgetall", r.hgetall("h"), {"a": "1", "b": "2"})
    check("sadd", r.sadd("set", "x", "y"), 2)
    check("smembers", r.smembers("set"), {"x", "y"})
    check("zadd", r.zadd("z", {"one": 1, "two": 2.5}), 2)
    check("zrange", [tuple(pair) for pair in r.zrange("z", 0, -1, withscores=True)], [("one", 1.0), ("two", 2.5)])
    check("zscore", r.zscore("z", "two"), 2.5)
    check("rpush", r.rpush("l", *range(5)), 5)
    check("lrange", r.lrange("l", 1, 2), ["1", "2"])
    check("lmove", r.lmove("l", "l2", "LEFT", "RIGHT"), "0")
    check("setbit", r.setbit("bits", 7, 1), 0)
    check("bitcount", r.bitcount("bits"), 1)
    check("pfadd", r.pfadd("hll", "a", "b"), 1)
    check("pfcount", r.pfcount("hll"), 2)
    check("geoadd", r.geoadd("geo", (13.361389, 38.115556, "Palermo")), 1)
    check("geopos", round(r.geopos("geo", "Palermo")[0][0], 4), 13.3614)
    check("object encoding", r.object("encoding", "h"), "listpack")
    check("sort", r.sort("l", desc=True), ["4", "3", "2", "1"])
    check("dump and restore", r.restore("copy", 0, redis.Redis(port=port).dump("h")), "OK")
    check("type", r.type("copy"), "hash")
    check("wrong type", fails(lambda: r.lpush("h", "x")), "ResponseError")


def fails(action):
    try:
        action()
    except redis.RedisError as error:
        return type(error).__name__
    return "none"


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"p:{number}", number)
        check("pipeline", sum(pipe.execute()), 1000)
    with r.pipeline() as pipe:
        check("multi", pipe.incr("m").incr("m").get("m").execute(), [1, 2, "2"])
    with r.pipeline() as pipe:
        pipe.watch("m")
        r.set("m", "10")
        pipe.multi()
        pipe.set("m", "lost")
        check("watch", fails(pipe.execute), "WatchError")
    check("transaction helper", r.transaction(lambda pipe: pipe.multi() or pipe.incr("m"), "m"), [11])


def scans(r):
    check("scan_iter", len(set(r.scan_iter("p:*", count=100))), 1000)
    check("scan_iter by type", set(r.scan_iter(_type="zset")), {"z", "geo"})
    r.hset("big", mapping={f"f{n}": n for n in range(1000)})
    check("hscan_iter", len(dict(r.hscan_iter("big"))), 1000)
    r.sadd("bigset", *range(1000))
    check("sscan_iter", len(set(r.sscan_iter("bigset"))), 1000)
    r.zadd("bigz", {f"m{n}": n for n in range(1000)})
    check("zscan_iter", len(dict(r.zscan_iter("bigz"))), 1000)


def pubsub(r):
    p = r.pubsub()
    p.subscribe("channel")
    p.psubscribe("pat*")
    told = [p.get_message(timeout=5)["type"] for _ in range(2)]
    check("subscribe", told, ["subscribe", "psubscribe"])
    check("publish", r.publish("channel", "hello"), 1)
    check("message", p.get_message(timeout=5)["data"], "hello")
    check("publish to pattern", r.publish("pattern", "hi"), 1)
    check("pmessage", p.get_message(timeout=5)["pattern"], "pat*")
    check("ping", (p.ping(), p.get_message(timeout=5) is not None)[1], True)
    check("numsub", [tuple(pair) for pair in r.pubsub_numsub("channel")], [("channel", 1)])
    p.close()


def scripts(r):
    check("eval", r.eval("return {KEYS[1], ARGV[1], 3}", 1, "k", "a"), ["k", "a", 3])
    add = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    check("registered script", [add(keys=["sum"], args=[n]) for n in (5, 6)], [5, 11])
    check("script of many keys", r.eval("return #redis.call('KEYS', 'p:*')", 0), 1000)
    code = "#!lua name=lib\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)"
    check("function load", r.function_load(code, replace=True), "lib")
    check("fcall", r.fcall("twice", 0, 21), 42)
    lock = r.lock("lock", timeout=5)
    check("lock", (lock.acquire(), lock.release())[0], True)


def blocking(r):
    began = time.monotonic()
    check("blpop times out", r.blpop("nothing", timeout=0.2), None)
    check("after its timeout", 0.15 < time.monotonic() - began < 2, True)
    threading.Timer(0.1, lambda: connect().rpush("queue", "job")).start()
    popped = r.blpop(["none", "queue"], timeout=5)
    check("blpop", popped and tuple(popped), ("queue", "job"))
    threading.Timer(0.1, lambda: connect().zadd("zqueue", {"first": 1})).start()
    popped = r.bzpopmin("zqueue", timeout=5)
    check("bzpopmin", popped and tuple(popped), ("zqueue", "first", 1.0))


def streams(r):
    first = r.xadd("st", {"a": 1})
    r.xadd("st", {"b": 2})
    check("xlen", r.xlen("st"), 2)
    check("xrange", r.xrange("st")[0], (first, {"a": "1"}))
    check("xgroup create", r.xgroup_create("st", "g", id="0"), True)
    got = r.xreadgroup("g", "c", {"st": ">"}, count=1)
    entries = got["st"][0] if isinstance(got, dict) else got[0][1]
    check("xreadgroup", entries[0][0], first)
    check("xpending", r.xpending("st", "g")["pending"], 1)
    check("xack", r.xack("st", "g", first), 1)
    check("xinfo groups", r.xinfo_groups("st")[0]["name"], "g")
    threading.Timer(0.1, lambda: connect().xadd("st", {"c": 3})).start()
    got = r.xread({"st": "$"}, block=5000)
    check("xread block", bool(got), True)
    check("xautoclaim", len(r.xautoclaim("st", "g", "d", 0)) >= 2, True)


def administration(r):
    check("info", r.info()["redis_version"], "7.0.15")
    check("config", r.config_get("maxclients"), {"maxclients": "10000"})
    check("client list", any(client["id"] == str(r.client_id()) for client in r.client_list()), True)
    check("client setname", r.client_setname("tester") and r.client_getname(), "tester")
    check("command count", r.command_count() > 200, True)
    check("slowlog", isinstance(r.slowlog_get(), list), True)
    check("memory usage", r.memory_usage("big") > 1000, True)
    check("acl whoami", r.acl_whoami(), "default")
    check("dbsize", r.dbsize() > 1000, True)
    check("databases", (connect(db=1).set("only", 1), r.get("only"), connect(db=1).dbsize()), (True, None, 1))


def restart(r):
    r = connect(retry=redis.retry.Retry(redis.backoff.ConstantBackoff(0.1), 20))
    r.set("kept", "yes")
    subprocess.run(os.environ["RESTART"], shell=True, check=True)
    check("reconnects", r.get("kept"), "yes")


def main():
    r = connect()
    check("ping", r.ping(), True)
    r.flushall()
    steps = [values, pipelines, scans, pubsub, scripts, blocking, streams, administration]
    for step in steps + ([restart] if "RESTART" in os.environ else []):
        try:
            step(r)
        except Exception as error:  # a failure of one step says nothing of the next
            failures.append(f"{step.__name__}: {type(error).__name__} {error}")
    for failure in failures:
        print("  failed:", failure)
    print(f"redis-py {redis.__version__}, RESP{protocol}: {checks} checks, {len(failures)} failed")
    raise SystemExit(bool(failures))


main()

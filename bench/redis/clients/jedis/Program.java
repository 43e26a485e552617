// Jedis against a server: what applications use of it, each checked.
//
//     PORT=6379 PROTOCOL=3 RESTART='command that restarts the server' java -cp 'JARS' Program.java

import java.util.*;
import java.util.concurrent.*;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.*;
import redis.clients.jedis.util.KeyValue;

public class Program {
    static int checks = 0;
    static final List<String> failures = new ArrayList<>();
    static final int PORT = Integer.parseInt(System.getenv("PORT"));
    static final String PROTOCOL = System.getenv().getOrDefault("PROTOCOL", "3");

    interface Step {
        void run(Jedis r) throws Exception;
    }

    static void check(String name, Object found, Object wanted) {
        checks++;
        if (!Objects.equals(found, wanted)) failures.add(name + ": " + found + " is not " + wanted);
    }

    static Jedis connect() {
        RedisProtocol protocol = PROTOCOL.equals("2") ? RedisProtocol.RESP2 : RedisProtocol.RESP3;
        return new Jedis(new HostAndPort("127.0.0.1", PORT),
            DefaultJedisClientConfig.builder().protocol(protocol).timeoutMillis(5000).build());
    }

    static void later(Consumer action) {
        new Thread(() -> {
            try (Jedis r = connect()) {
                Thread.sleep(100);
                action.accept(r);
            } catch (Exception error) {
                failures.add(error.toString());
            }
        }).start();
    }

    interface Consumer {
        void accept(Jedis r);
    }

    static void values(Jedis r) {
        check("set", r.set("s", "v", SetParams.setParams().nx().ex(100)), "OK");
        check("get", r.get("s"), "v");
        check("hset", r.hset("h", Map.of("a", "1", "b", "2")), 2L);
        check("hgetall", r.hgetAll("h"), Map.of("a", "1", "b", "2"));
        check("zadd", r.zadd("z", Map.of("one", 1.5, "two", 2.0)), 2L);
        check("zrange", r.zrangeWithScores("z", 0, -1).get(0), new Tuple("one", 1.5));
        check("zscore", r.zscore("z", "two"), 2.0);
        check("sadd", r.sadd("set", "x", "y"), 2L);
        check("smembers", r.smembers("set"), Set.of("x", "y"));
        check("rpush", r.rpush("l", "1", "2", "3"), 3L);
        check("lrange", r.lrange("l", 0, -1), List.of("1", "2", "3"));
        check("setbit", r.setbit("bits", 3, true), false);
        check("pfadd", r.pfadd("hll", "a"), 1L);
        check("type", r.type("z"), "zset");
        try {
            r.incr("h");
            check("wrong type", "no error", "an error");
        } catch (JedisDataException error) {
            check("wrong type", error.getMessage().startsWith("WRONGTYPE"), true);
        }
    }

    static void pipelines(Jedis r) {
        Pipeline pipeline = r.pipelined();
        for (int n = 0; n < 1000; n++) pipeline.set("p:" + n, "" + n);
        check("pipeline", pipeline.syncAndReturnAll().size(), 1000);
        Transaction transaction = r.multi();
        Response<Long> first = transaction.incr("m");
        transaction.incr("m");
        check("multi", transaction.exec().size(), 2);
        check("reply of a transaction", first.get(), 1L);
        try (Jedis other = connect()) {
            r.watch("m");
            other.set("m", "5");
            Transaction refused = r.multi();
            refused.incr("m");
            check("watch", refused.exec(), null);
        }
    }

    static void scans(Jedis r) {
        Set<String> found = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> page = r.scan(cursor, new ScanParams().match("p:*").count(100));
            found.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        check("scan", found.size(), 1000);
    }

    static void pubsub(Jedis r) throws Exception {
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        JedisPubSub subscriber = new JedisPubSub() {
            public void onSubscribe(String channel, int count) {
                got.add("subscribed");
            }

            public void onMessage(String channel, String message) {
                got.add(message);
                unsubscribe();
            }
        };
        Thread thread = new Thread(() -> {
            try (Jedis connection = connect()) {
                connection.subscribe(subscriber, "channel");
            }
        });
        thread.start();
        check("subscribe", got.poll(5, TimeUnit.SECONDS), "subscribed");
        check("publish", r.publish("channel", "hello"), 1L);
        check("message", got.poll(5, TimeUnit.SECONDS), "hello");
        thread.join(5000);
        check("unsubscribe", thread.isAlive(), false);
    }

    static void scripts(Jedis r) {
        check("eval", r.eval("return {KEYS[1], 3}", List.of("k"), List.of()), List.of("k", 3L));
        String sha = r.scriptLoad("return redis.call('INCR', KEYS[1])");
        check("evalsha", r.evalsha(sha, 1, "sum"), 1L);
    }

    static void blocking(Jedis r) {
        check("blpop times out", r.blpop(0.2, "nothing"), null);
        later(other -> other.rpush("queue", "job"));
        KeyValue<String, String> popped = r.blpop(4.0, "queue");
        check("blpop", popped == null ? null : popped.getValue(), "job");
    }

    static void streams(Jedis r) {
        StreamEntryID id = r.xadd("st", StreamEntryID.NEW_ENTRY, Map.of("a", "1"));
        check("xgroup", r.xgroupCreate("st", "g", new StreamEntryID(0, 0), false), "OK");
        var found = r.xreadGroup("g", "c", new XReadGroupParams().count(1), Map.of("st", StreamEntryID.UNRECEIVED_ENTRY));
        check("xreadgroup", found.get(0).getValue().get(0).getID(), id);
        check("xack", r.xack("st", "g", id), 1L);
        check("xinfo", r.xinfoStream("st").getLength(), 1L);
    }

    static void restart(Jedis r) throws Exception {
        try (JedisPooled pool = new JedisPooled("127.0.0.1", PORT)) {
            pool.set("kept", "yes");
            new ProcessBuilder("bash", "-c", System.getenv("RESTART")).inheritIO().start().waitFor();
            String found = null;
            for (int attempt = 0; attempt < 50 && found == null; attempt++) {
                try {
                    found = pool.get("kept");
                } catch (RuntimeException closed) {
                    Thread.sleep(100);
                }
            }
            check("reconnects", found, "yes");
        }
    }

    public static void main(String[] arguments) {
        Map<String, Step> steps = new LinkedHashMap<>();
        steps.put("values", Program::values);
        steps.put("pipelines", Program::pipelines);
        steps.put("scans", Program::scans);
        steps.put("pubsub", Program::pubsub);
        steps.put("scripts", Program::scripts);
        steps.put("streams", Program::streams);
        steps.put("blocking", Program::blocking);
        if (System.getenv("RESTART") != null) steps.put("restart", Program::restart);
        try (Jedis r = connect()) {
            r.flushAll();
        }
        steps.forEach((name, step) -> {
            try (Jedis r = connect()) {
                step.run(r);
            } catch (Exception error) {
                failures.add(name + ": " + error);
            }
        });
        failures.forEach(failure -> System.out.println("  failed: " + failure));
        System.out.printf("Jedis, RESP%s: %d checks, %d failed%n", PROTOCOL, checks, failures.size());
        System.exit(failures.isEmpty() ? 0 : 1);
    }
}

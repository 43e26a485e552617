// go-redis against a server: what applications use of it, each checked.
//
//	PORT=6379 PROTOCOL=3 RESTART='command that restarts the server' go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	background = context.Background()
	checks     = 0
	failures   []string
	protocol   = 3
)

func check(name string, found, wanted any) {
	checks++
	if !reflect.DeepEqual(found, wanted) {
		failures = append(failures, fmt.Sprintf("%s: %#v is not %#v", name, found, wanted))
	}
}

func connect() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:" + os.Getenv("PORT"), Protocol: protocol, ReadTimeout: 5 * time.Second, MaxRetries: -1,
	})
}

func values(r *redis.Client) {
	check("set", r.Set(background, "s", "v", time.Minute).Val(), "OK")
	check("get", r.Get(background, "s").Val(), "v")
	check("absent", r.Get(background, "absent").Err(), redis.Nil)
	check("setnx", r.SetNX(background, "s", "w", 0).Val(), false)
	check("hset", r.HSet(background, "h", "a", 1, "b", 2).Val(), int64(2))
	check("hgetall", r.HGetAll(background, "h").Val(), map[string]string{"a": "1", "b": "2"})
	check("zadd", r.ZAdd(background, "z", redis.Z{Score: 1.5, Member: "one"}, redis.Z{Score: 2, Member: "two"}).Val(), int64(2))
	check("zrange", r.ZRangeWithScores(background, "z", 0, -1).Val(), []redis.Z{{Score: 1.5, Member: "one"}, {Score: 2, Member: "two"}})
	check("sadd", r.SAdd(background, "set", "x", "y").Val(), int64(2))
	check("smismember", r.SMIsMember(background, "set", "x", "n").Val(), []bool{true, false})
	check("rpush", r.RPush(background, "l", 1, 2, 3).Val(), int64(3))
	check("lpos", r.LPos(background, "l", "2", redis.LPosArgs{}).Val(), int64(1))
	check("incrbyfloat", r.IncrByFloat(background, "f", 2.5).Val(), 2.5)
	check("geosearch", r.GeoAdd(background, "geo", &redis.GeoLocation{Name: "Rome", Longitude: 12.5, Latitude: 41.9}).Val(), int64(1))
	check("object", r.ObjectEncoding(background, "h").Val(), "listpack")
	check("command", len(r.Command(background).Val()) > 200, true)
}

func pipelines(r *redis.Client) {
	replies, err := r.Pipelined(background, func(pipe redis.Pipeliner) error {
		for n := range 1000 {
			pipe.Set(background, "p:"+strconv.Itoa(n), n, 0)
		}
		return nil
	})
	check("pipelined", []any{len(replies), err}, []any{1000, error(nil)})
	_, err = r.TxPipelined(background, func(pipe redis.Pipeliner) error {
		pipe.Incr(background, "m")
		pipe.Incr(background, "m")
		return nil
	})
	check("multi", []any{r.Get(background, "m").Val(), err}, []any{"2", error(nil)})
	err = r.Watch(background, func(tx *redis.Tx) error {
		r.Set(background, "m", 9, 0)
		_, err := tx.TxPipelined(background, func(pipe redis.Pipeliner) error { return pipe.Incr(background, "m").Err() })
		return err
	}, "m")
	check("watch", errors.Is(err, redis.TxFailedErr), true)
}

func scans(r *redis.Client) {
	count := 0
	for keys := r.Scan(background, 0, "p:*", 100).Iterator(); keys.Next(background); {
		count++
	}
	check("scan", count, 1000)
	check("scan of a type", r.ScanType(background, 0, "z", 1000, "zset").Err(), error(nil))
}

func pubsub(r *redis.Client) {
	subscriber := r.Subscribe(background, "channel")
	defer subscriber.Close()
	_, err := subscriber.ReceiveTimeout(background, 5*time.Second)
	check("subscribe", err, error(nil))
	check("publish", r.Publish(background, "channel", "hello").Val(), int64(1))
	select {
	case message := <-subscriber.Channel():
		check("message", message.Payload, "hello")
	case <-time.After(5 * time.Second):
		check("message", "none", "hello")
	}
}

func scripts(r *redis.Client) {
	script := redis.NewScript("return {redis.call('INCRBY', KEYS[1], ARGV[1]), 'text', {1, 2}}")
	found, err := script.Run(background, r, []string{"sum"}, 5).Result()
	check("script", []any{found, err}, []any{[]any{int64(5), "text", []any{int64(1), int64(2)}}, error(nil)})
}

func blocking(r *redis.Client) {
	check("blpop times out", r.BLPop(background, time.Second, "nothing").Err(), redis.Nil)
	time.AfterFunc(100*time.Millisecond, func() { r.RPush(background, "queue", "job") })
	check("blpop", r.BLPop(background, 4*time.Second, "queue").Val(), []string{"queue", "job"})
	time.AfterFunc(100*time.Millisecond, func() { r.ZAdd(background, "zq", redis.Z{Score: 1, Member: "m"}) })
	key, _, err := r.BZMPop(background, 4*time.Second, "MIN", 1, "zq").Result()
	check("bzmpop", []any{key, err}, []any{"zq", error(nil)})
}

func streams(r *redis.Client) {
	id := r.XAdd(background, &redis.XAddArgs{Stream: "st", Values: []string{"a", "1"}}).Val()
	check("xgroup", r.XGroupCreate(background, "st", "g", "0").Val(), "OK")
	found, err := r.XReadGroup(background, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"st", ">"}, Block: -1}).Result()
	check("xreadgroup", []any{len(found), err}, []any{1, error(nil)})
	check("xpending", r.XPending(background, "st", "g").Val().Count, int64(1))
	check("xack", r.XAck(background, "st", "g", id).Val(), int64(1))
	check("xinfo", r.XInfoStream(background, "st").Val().Length, int64(1))
	info, err := r.XInfoStreamFull(background, "st", 10).Result()
	check("xinfo full", []any{info.Length, err}, []any{int64(1), error(nil)})
	check("xautoclaim", r.XAutoClaim(background, &redis.XAutoClaimArgs{Stream: "st", Group: "g", Consumer: "d", Start: "0"}).Err(), error(nil))
}

func restart(r *redis.Client) {
	r.Set(background, "kept", "yes", 0)
	if output, err := exec.Command("bash", "-c", os.Getenv("RESTART")).CombinedOutput(); err != nil {
		panic(string(output))
	}
	found := ""
	for range 50 {
		if found = r.Get(background, "kept").Val(); found == "yes" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	check("reconnects", found, "yes")
}

func main() {
	if os.Getenv("PROTOCOL") == "2" {
		protocol = 2
	}
	r := connect()
	r.FlushAll(background)
	steps := []func(*redis.Client){values, pipelines, scans, pubsub, scripts, blocking, streams}
	if os.Getenv("RESTART") != "" {
		steps = append(steps, restart)
	}
	for _, step := range steps {
		step(r)
	}
	for _, failure := range failures {
		fmt.Println("  failed:", failure)
	}
	fmt.Printf("go-redis %s, RESP%d: %d checks, %d failed\n", redis.Version(), protocol, checks, len(failures))
	if len(failures) > 0 {
		os.Exit(1)
	}
}

// Checks of the gRPC service by grpc-go: what applications do with it. ADDRESS and TOKEN are in the environment.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "example.test/program/esker"
)

func expect(what string, holds bool, found any) {
	if !holds {
		fmt.Printf("go: %s: found %v\n", what, found)
		os.Exit(1)
	}
}

func done[T any](what string, answer T, err error) T {
	expect(what, err == nil, err)
	return answer
}

func main() {
	connection, err := grpc.NewClient(os.Getenv("ADDRESS"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	expect("a connection", err == nil, err)
	keys, admin := pb.NewKeyValueClient(connection), pb.NewAdminClient(connection)
	background, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx := metadata.AppendToOutgoingContext(background, "authorization", "Bearer "+os.Getenv("TOKEN"))

	health, err := grpc_health_v1.NewHealthClient(connection).Check(background, &grpc_health_v1.HealthCheckRequest{})
	expect("health", err == nil && health.Status == grpc_health_v1.HealthCheckResponse_SERVING, err)
	_, err = keys.Get(background, &pb.GetRequest{Key: []byte("k")})
	expect("no credentials", status.Code(err) == codes.Unauthenticated, err)

	_, err = admin.CreateKeyspace(ctx, &pb.CreateKeyspaceRequest{Name: "go"})
	expect("a new keyspace", err == nil || status.Code(err) == codes.AlreadyExists, err)
	all := &pb.DeleteRangeRequest{Keyspace: "go", Range: &pb.KeyRange{}}
	_, err = keys.DeleteRange(ctx, all)
	done("an empty keyspace", all, err)

	// Values, conditions, and what several callers at once do under one.
	put := &pb.PutRequest{Keyspace: "go", Key: []byte("ada"), Value: []byte("1815")}
	answer, err := keys.Put(ctx, put)
	expect("a put", done("a put", answer, err).SequenceNumber > 0, answer)
	found, err := keys.Get(ctx, &pb.GetRequest{Keyspace: "go", Key: []byte("ada")})
	expect("its value", done("a get", found, err).Found && string(found.Value) == "1815", found)
	applied := make(chan bool)
	for number := range 8 {
		go func() {
			absent := &pb.Condition{Kind: &pb.Condition_Absent_{Absent: &pb.Condition_Absent{}}}
			request := &pb.PutRequest{Keyspace: "go", Key: []byte("lock"), Value: []byte{byte(number)}, Condition: absent}
			answer, err := keys.Put(ctx, request)
			applied <- done("a put under a condition", answer, err).Applied
		}()
	}
	holders := 0
	for range 8 {
		if <-applied {
			holders++
		}
	}
	expect("one holder of the lock", holders == 1, holders)

	// A batch, and a scan of it backwards.
	var operations []*pb.Operation
	for number := range 5000 {
		key := fmt.Appendf(nil, "n%08d", number)
		kind := &pb.Operation_Put_{Put: &pb.Operation_Put{Key: key, Value: bytes.Repeat([]byte("v"), 200)}}
		operations = append(operations, &pb.Operation{Keyspace: "go", Kind: kind})
	}
	_, err = keys.Batch(ctx, &pb.BatchRequest{Operations: operations})
	expect("a batch", err == nil, err)
	pages, err := keys.Scan(ctx, &pb.ScanRequest{Keyspace: "go", Range: &pb.KeyRange{Prefix: []byte("n")}, Reverse: true})
	expect("a scan", err == nil, err)
	next := 4999
	for {
		page, err := pages.Recv()
		if err == io.EOF {
			break
		}
		for _, entry := range done("a page", page, err).Entries {
			expect("the keys from the last to the first", string(entry.Key) == fmt.Sprintf("n%08d", next), string(entry.Key))
			next--
		}
	}
	expect("all keys", next == -1, next)

	// A stream of changes by a consumer, acknowledged, and ended by its caller.
	_, err = admin.CreateConsumer(ctx, &pb.CreateConsumerRequest{Name: "go"})
	expect("a consumer", err == nil, err)
	watching, stop := context.WithCancel(ctx)
	changes, err := keys.Changes(watching, &pb.ChangesRequest{From: &pb.ChangesRequest_Consumer{Consumer: "go"}})
	expect("a stream of changes", err == nil, err)
	removed, err := keys.Delete(ctx, &pb.DeleteRequest{Keyspace: "go", Key: []byte("ada")})
	expect("a delete", err == nil, err)
	batch, err := changes.Recv()
	expect("the change", done("a change", batch, err).LastSequenceNumber == removed.SequenceNumber, batch)
	_, err = keys.AcknowledgeChanges(ctx, &pb.AcknowledgeChangesRequest{Consumer: "go", SequenceNumber: batch.LastSequenceNumber})
	expect("acknowledged", err == nil, err)
	stop()
	_, err = changes.Recv()
	expect("a stream that was given up", status.Code(err) == codes.Canceled, err)
	_, err = admin.DropConsumer(ctx, &pb.DropConsumerRequest{Name: "go"})
	expect("a consumer is dropped", err == nil, err)

	_, err = keys.Put(ctx, &pb.PutRequest{Keyspace: "redis/keys", Key: []byte("k")})
	expect("a keyspace of Redis", status.Code(err) == codes.PermissionDenied, err)
	_, err = admin.DropKeyspace(ctx, &pb.DropKeyspaceRequest{Name: "go"})
	expect("a keyspace is dropped", err == nil, err)
	fmt.Println("go: all checks passed")
}

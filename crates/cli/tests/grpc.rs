//! `serve --grpc`: beside the other protocols, its callers, and its end.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, clippy::disallowed_methods, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use common::serving::Serving;
use esker_grpc::proto::admin_client::AdminClient;
use esker_grpc::proto::key_value_client::KeyValueClient;
use esker_grpc::proto::{GetRequest, PutRequest, StatsRequest};
use tonic::transport::Channel;
use tonic::{Code, Request};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

async fn channel(address: &str) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

fn put(credentials: &str) -> Request<PutRequest> {
    let (key, value) = ("ada".into(), "1815".into());
    with(credentials, PutRequest { key, value, ..PutRequest::default() })
}

fn get(credentials: &str) -> Request<GetRequest> {
    with(credentials, GetRequest { key: "ada".into(), ..GetRequest::default() })
}

fn with<T>(credentials: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !credentials.is_empty() {
        request.metadata_mut().insert("authorization", credentials.parse().unwrap());
    }
    request
}

#[tokio::test]
async fn the_users_of_redis_and_tokens_are_the_callers() {
    let dir = WorkingDir::new();
    dir.write("tokens", TOKEN);
    dir.write(
        "users",
        "user default on >secret allkeys allcommands\nuser ann on >word allkeys +@read\nuser bob off >word +@all\n",
    );
    let mut server = Serving::start(dir.command(
        "serve db --dsl off --log off --redis 127.0.0.1:0 --redis-set aclfile users --grpc 127.0.0.1:0 --grpc-token-file tokens",
    ), 0);
    let address = server.address("by gRPC on");
    let mut client = KeyValueClient::new(channel(&address).await);
    let token = format!("Bearer {TOKEN}");
    // default:secret and ann:word.
    let (default, ann) = ("Basic ZGVmYXVsdDpzZWNyZXQ=", "Basic YW5uOndvcmQ=");
    for credentials in [default, &token] {
        client.put(put(credentials)).await.unwrap();
    }
    assert!(client.get(get(ann)).await.unwrap().into_inner().found);
    assert_eq!(client.put(put(ann)).await.unwrap_err().code(), Code::PermissionDenied);
    let mut admin = AdminClient::new(channel(&address).await);
    assert_eq!(admin.stats(with(ann, StatsRequest {})).await.unwrap_err().code(), Code::PermissionDenied);
    admin.stats(with(default, StatsRequest {})).await.unwrap();
    // bob:word, ann:wrong, another token, nothing.
    for wrong in ["Basic Ym9iOndvcmQ=", "Basic YW5uOndyb25n", &format!("{token}0"), ""] {
        assert_eq!(client.get(get(wrong)).await.unwrap_err().code(), Code::Unauthenticated, "{wrong}");
    }
    drop((client, admin));
    assert_eq!(server.end().code, Some(0));
    assert_eq!(dir.ok("get ada --data db"), "1815\n", "what was acknowledged is there");
}

#[tokio::test]
async fn grpc_alone_is_served_and_stops_in_order() {
    let dir = WorkingDir::new();
    let mut server =
        Serving::start(dir.command("serve db --dsl off --redis off --log off --grpc 127.0.0.1:0"), 0);
    let address = server.address("by gRPC on");
    let mut client = KeyValueClient::new(channel(&address).await);
    client.put(put("")).await.unwrap();
    // A connection that stays open does not keep the server.
    assert_eq!(server.end().code, Some(0));
    // The client's library names an end that it sees while it sends `Unknown`.
    let code = client.get(get("")).await.unwrap_err().code();
    assert!([Code::Unavailable, Code::Unknown].contains(&code), "{code:?}");
}

#[test]
fn what_cannot_be_served_is_told_with_what_to_do() {
    let dir = WorkingDir::new();
    dir.write("short", "secret\n");
    dir.write("none", "# nothing\n");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("serve --redis off --grpc {}", taken.local_addr().unwrap());
    for (line, code, told) in [
        ("serve --redis off --dsl off --grpc 0.0.0.0:0", 2, "--grpc-token-file"),
        ("serve --dsl off --redis 127.0.0.1:0 --grpc 0.0.0.0:0", 2, "--redis-set requirepass PASSWORD"),
        ("serve --grpc nowhere", 2, "--grpc nowhere"),
        ("serve --grpc-token-file short", 2, "--grpc is off"),
        ("serve --grpc 127.0.0.1:0 --grpc-token-file short", 2, "short: line 1: a token has at least 32"),
        ("serve --grpc 127.0.0.1:0 --grpc-token-file none", 2, "none: there is no token in it"),
        ("serve --grpc 127.0.0.1:0 --grpc-token-file missing", 4, "cannot read missing"),
        ("serve --grpc 127.0.0.1:0 --grpc-copies missing", 2, "missing: there is no such directory"),
        (&taken, 4, "--grpc HOST:PORT, or --grpc off"),
    ] {
        let ran = dir.run(line);
        assert_eq!(ran.code, code, "{line}: {ran:?}");
        assert!(ran.err.contains(told) && !ran.err.contains("secret"), "{line}: {}", ran.err);
    }
}

//! The service around the calls: health, reflection, rights, limits of messages, deadlines, and the end.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::*;
use esker_grpc::proto::*;
use esker_grpc::{Access, Config, Credentials, Listener, Open, Rights, ServeError};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// Ann may do everything, Bob reads, a token administrates.
#[derive(Debug)]
struct Known;

impl Access for Known {
    fn rights(&self, credentials: &Credentials) -> Option<Rights> {
        let none = Rights { read: false, write: false, admin: false };
        match credentials {
            Credentials::None => None,
            Credentials::Password { user, password } => match (&user[..], &password[..]) {
                (b"ann", b"secret") => Some(Rights::ALL),
                (b"bob", b"word") => Some(Rights { read: true, ..none }),
                _ => None,
            },
            Credentials::Token(token) => (token == b"token").then_some(Rights { admin: true, ..none }),
        }
    }
}

const ANN: &str = "Basic YW5uOnNlY3JldA==";
const BOB: &str = "Basic Ym9iOndvcmQ=";

fn with<T>(credentials: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !credentials.is_empty() {
        request.metadata_mut().insert("authorization", credentials.parse().unwrap());
    }
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_may_do_what_their_credentials_say() {
    let served = Served::open(Directory::new(), Config::default(), Arc::new(Known));
    let (mut client, mut admin) = (served.client().await, served.admin().await);
    client.put(with(ANN, put("k", "v"))).await.unwrap();
    assert!(client.get(with(BOB, get("k"))).await.unwrap().into_inner().found);
    let denied = client.put(with(BOB, put("k", "w"))).await.unwrap_err();
    assert_eq!(
        (denied.code(), denied.message()),
        (Code::PermissionDenied, "the user \"bob\" may not write the database")
    );
    let denied = admin.stats(with(BOB, StatsRequest {})).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    admin.stats(with("Bearer token", StatsRequest {})).await.unwrap();
    assert_eq!(client.get(with("Bearer token", get("k"))).await.unwrap_err().code(), Code::PermissionDenied);
    for credentials in ["", "Basic YW5uOndyb25n", "Bearer nothing", "Basic", "Basic ???"] {
        let error = client.get(with(credentials, get("k"))).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{credentials}: {error}");
        assert!(!error.message().contains("wrong\""), "{error}");
    }
    assert_eq!(&served.database.default_keyspace().get("k").unwrap().unwrap()[..], b"v");
    // Health is for load balancers, which have no password.
    let mut health = HealthClient::new(served.channel().await);
    health.check(HealthCheckRequest::default()).await.unwrap();
    let mut reflection = ServerReflectionClient::new(served.channel().await);
    let ask = || {
        let message_request = Some(MessageRequest::ListServices(String::new()));
        tokio_stream::once(ServerReflectionRequest { host: String::new(), message_request })
    };
    let refused = reflection.server_reflection_info(ask()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    reflection.server_reflection_info(with(BOB, ask())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_name_the_services() {
    let served = Served::new();
    let mut health = HealthClient::new(served.channel().await);
    for service in ["", "esker.v1.KeyValue", "esker.v1.Admin"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let status = health.check(request).await.unwrap().into_inner().status;
        assert_eq!(status, ServingStatus::Serving as i32, "{service}");
    }
    let unknown = HealthCheckRequest { service: "esker.v1.Other".to_owned() };
    assert_eq!(health.check(unknown).await.unwrap_err().code(), Code::NotFound);
    let mut reflection = ServerReflectionClient::new(served.channel().await);
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let ask = tokio_stream::once(ServerReflectionRequest { host: String::new(), message_request });
    let mut answers = reflection.server_reflection_info(ask).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list of services");
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    // Clients such as grpcurl call only what is described.
    for service in ["esker.v1.KeyValue", "esker.v1.Admin", "grpc.health.v1.Health"] {
        assert!(names.contains(&service), "{service} among {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_batches_are_bounded() {
    let config = Config { max_message_bytes: 100_000, max_operations: 10, ..Config::default() };
    let served = Served::with(config);
    let mut client = served.client().await;
    let large = client.put(put("k", &"v".repeat(200_000))).await.unwrap_err();
    assert_eq!(large.code(), Code::OutOfRange, "{large}");
    let keys = vec![bytes("k"); 11];
    let many = client.multi_get(MultiGetRequest { keys, ..MultiGetRequest::default() }).await.unwrap_err();
    assert_eq!(
        (many.code(), many.message()),
        (Code::InvalidArgument, "11 keys, at most 10 are taken at once")
    );
    let operations = vec![Operation::default(); 11];
    let many = client.batch(BatchRequest { operations, durability: 0 }).await.unwrap_err();
    assert_eq!(many.code(), Code::InvalidArgument, "{many}");
    // What another client wrote may be larger than a message.
    served.database.default_keyspace().put("large", vec![b'v'; 200_000]).unwrap();
    for number in 0..10 {
        served.database.default_keyspace().put(format!("{number}"), vec![b'v'; 20_000]).unwrap();
    }
    let large = client.get(get("large")).await.unwrap_err();
    assert_eq!(large.code(), Code::ResourceExhausted, "{large}");
    assert!(large.message().contains("200000") && large.message().contains("100000"), "{large}");
    let keys = (0..10).map(|number| bytes(number.to_string())).collect();
    let sum = client.multi_get(MultiGetRequest { keys, ..MultiGetRequest::default() }).await.unwrap_err();
    assert_eq!(sum.code(), Code::ResourceExhausted, "{sum}");
    let mut scan = client.scan(ScanRequest::default()).await.unwrap().into_inner();
    let ended = loop {
        match scan.message().await {
            Ok(page) => assert!(page.is_some(), "the scan reached its end"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::ResourceExhausted, "{ended}");
    assert!(ended.message().contains("\"large\""), "{ended}");
    assert!(client.get(get("0")).await.unwrap().into_inner().found, "the connection is whole");
}

/// Messages that are being received hold no more than the budget, and it is given back.
#[tokio::test(flavor = "multi_thread")]
async fn all_messages_together_are_bounded() {
    let served = Served::with(Config { max_held_bytes: 1 << 20, ..Config::default() });
    let mut client = served.client().await;
    let refused = client.put(put("k", &"v".repeat(2 << 20))).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    for _ in 0..20 {
        client.put(put("k", &"v".repeat(600 << 10))).await.unwrap();
        assert_eq!(client.get(get("k")).await.unwrap().into_inner().value.len(), 600 << 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_has_passed_is_told() {
    let served = Served::new();
    let mut client = served.client().await;
    let mut request = Request::new(get("k"));
    request.metadata_mut().insert("grpc-timeout", "0n".parse().unwrap());
    let late = client.get(request).await;
    // A get from memory may be faster than the timer.
    let code = late.err().map(|late| late.code());
    assert!(matches!(code, None | Some(Code::DeadlineExceeded | Code::Cancelled)), "{code:?}");
    let mut request = Request::new(get("k"));
    request.metadata_mut().insert("grpc-timeout", "soon".parse().unwrap());
    let malformed = client.get(request).await.unwrap_err();
    assert_eq!(malformed.code(), Code::InvalidArgument, "{malformed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_is_answered_and_harms_nothing() {
    let served = Served::new();
    for junk in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0xff; 4096]] {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(junk).unwrap();
        let mut answer = Vec::new();
        // The connection is closed or reset, not left open.
        let _ended = tokio::task::block_in_place(|| stream.read_to_end(&mut answer));
    }
    assert!(!served.client().await.get(get("k")).await.unwrap().into_inner().found);
}

/// One client over the limit is closed, and there is room again when another leaves.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded() {
    let served = Served::with(Config { max_connections: 1, ..Config::default() });
    let client = served.client().await;
    client.clone().get(get("k")).await.unwrap();
    let mut refused = TcpStream::connect(served.address).unwrap();
    refused.set_read_timeout(Some(SOON)).unwrap();
    let read = tokio::task::block_in_place(|| refused.read(&mut [0; 1]));
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    drop(client);
    for _ in 0..1000 {
        let channel = tonic::transport::Channel::from_shared(format!("http://{}", served.address)).unwrap();
        if let Ok(channel) = channel.connect().await
            && key_value_client::KeyValueClient::new(channel).get(get("k")).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no room after a client left");
}

/// An address that other machines reach needs callers with credentials.
#[test]
fn an_open_server_is_not_served_beyond_this_machine() {
    let directory = Directory::new();
    let database = esker::Database::open(directory.path().join("db")).unwrap();
    let config = Config { address: ([0, 0, 0, 0], 0).into(), ..Config::default() };
    let listener = Listener::bind(config.clone()).unwrap();
    let error = listener.serve(&database, Arc::new(Open)).unwrap_err();
    assert!(matches!(error, ServeError::Unprotected { .. }), "{error}");
    assert!(error.to_string().contains("0.0.0.0"), "{error}");
    let listener = Listener::bind(config).unwrap();
    listener.stop().stop();
    listener.serve(&database, Arc::new(Known)).unwrap();
    database.close().unwrap();
}

/// Calls that have begun are finished, new connections are refused, and the database stays open.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_stops_in_order() {
    let mut served = Served::new();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let mut client = served.client().await;
        writers.spawn(async move {
            let mut acknowledged = 0;
            while client.put(put(&format!("{writer}-{acknowledged:06}"), "v")).await.is_ok() {
                acknowledged += 1;
            }
            acknowledged
        });
    }
    until("writes arrive", || served.database.metrics().entries > 100).await;
    tokio::task::block_in_place(|| served.finish());
    let acknowledged: usize = writers.join_all().await.into_iter().sum();
    let stored = served.database.default_keyspace().keys(..).count();
    // A call may have been executed whose answer its client did not get; none that was answered is missing.
    assert!(stored >= acknowledged && stored <= acknowledged + 4, "{stored} {acknowledged}");
    assert!(TcpStream::connect(served.address).is_err());
}

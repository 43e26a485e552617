//! Writes that are held back, while the flush that they wait for is blocked at a gate.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::*;
use esker::parts::env::fault::{FaultFs, Operation, StrictFs};
use esker::parts::env::{Background, Env};
use esker::{Database, Error, KeyspaceOptions, Options, WriteOptions};
use esker_grpc::proto::*;
use esker_grpc::{Config, Open};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tonic::{Code, Request};
use tonic_types::StatusExt;

/// A database whose writes are held back until the sender is dropped.
async fn held_back() -> (Database, Sender<()>) {
    let faults = FaultFs::new(Arc::new(StrictFs::new()));
    let env = Env { background: Background::Threads, ..Env::simulated(Arc::new(faults.clone()), 1) };
    let keyspace = KeyspaceOptions::default().write_buffer_size(64 << 10);
    let options = Options::default().memory_budget(8 << 20).keyspace_options(keyspace);
    let database = Database::open_with("/db", options.env(env)).unwrap();
    let (gate, opened) = channel::<()>();
    faults.interrupt(Operation::Create, "tables/", move || {
        let _opened = opened.recv();
    });
    // A write that waits only for a thread is admitted soon, one that waits for the flush is not.
    let (mut number, mut refusals) = (0, 0);
    while refusals < 100 {
        let mut batch = database.batch();
        batch.put(database.default_keyspace(), format!("old {number}"), [7; 1000]);
        match database.write_with(&batch, WriteOptions::new().no_stall()) {
            Ok(_) => (number, refusals) = (number + 1, 0),
            Err(Error::WouldStall { .. }) => refusals += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(number < 10_000, "writes are not held back");
        if refusals > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    (database, gate)
}

async fn served(config: Config) -> (Served, Sender<()>) {
    let (database, gate) = held_back().await;
    (Served::of(database, Directory::new(), config, Arc::new(Open)), gate)
}

/// More writes wait than there are threads, and each read is answered; then all writes are done.
#[tokio::test(flavor = "multi_thread")]
async fn writes_that_are_held_back_keep_no_read_waiting() {
    let (served, gate) = served(Config { stall_wait: SOON, ..Config::default() }).await;
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..100 {
        let mut client = served.client().await;
        writers.spawn(async move {
            let durability = if number % 2 == 0 { Durability::Process } else { Durability::Power };
            let request = PutRequest {
                durability: durability.into(),
                ..put(&format!("new {number}"), &"v".repeat(1000))
            };
            client.put(request).await.unwrap().into_inner().sequence_number
        });
    }
    let mut client = served.client().await;
    for _ in 0..50 {
        assert!(client.get(get("old 0")).await.unwrap().into_inner().found);
        let request = ScanRequest { range: prefix("old"), limit: 10, ..ScanRequest::default() };
        let mut scan = client.scan(request).await.unwrap().into_inner();
        assert_eq!(scan.message().await.unwrap().unwrap().entries.len(), 10);
    }
    assert!(writers.try_join_next().is_none(), "the writes are held back");
    drop(gate);
    let mut numbers = writers.join_all().await;
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 100);
    assert_eq!(served.database.default_keyspace().prefix("new").count(), 100);
}

/// A caller that gives up has written nothing, also when there is room again.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_caller_gave_up_is_not_made() {
    // Room for one of the messages below.
    let (served, gate) = served(Config { max_held_bytes: 4_000, ..Config::default() }).await;
    let mut client = served.client().await;
    for (key, durability) in [("a", Durability::Process), ("b", Durability::Power)] {
        let mut request =
            Request::new(PutRequest { durability: durability.into(), ..put(key, &"v".repeat(1000)) });
        request.set_timeout(Duration::from_millis(200));
        let code = client.put(request).await.unwrap_err().code();
        assert!(matches!(code, Code::DeadlineExceeded | Code::Cancelled), "{code:?}");
    }
    // The server gives up on its own a little later than the client, and then gives back what the calls held.
    let large = get(&"k".repeat(3_500));
    let given_back = async {
        while client.get(large.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, given_back).await.expect("the server gives up");
    drop(gate);
    client.put(put("c", "v")).await.unwrap();
    assert!(!client.get(get("a")).await.unwrap().into_inner().found);
    assert!(!client.get(get("b")).await.unwrap().into_inner().found);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_long_enough_is_refused_and_told_when_to_try_again() {
    let (served, gate) = served(Config { stall_wait: Duration::from_millis(100), ..Config::default() }).await;
    let mut client = served.client().await;
    let refused = client.put(put("k", &"v".repeat(1000))).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(refused.message().starts_with("writes are stalled"), "{refused}");
    assert!(refused.get_error_details().retry_info().is_some_and(|info| info.retry_delay.is_some()));
    drop(gate);
    until("writes are free again", || served.database.stalls().waiting.is_empty()).await;
    assert!(!client.get(get("k")).await.unwrap().into_inner().found);
}

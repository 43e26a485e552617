//! Scans and streams of changes: what they send, how they go on, and how they end.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::*;
use esker_grpc::proto::*;
use esker_grpc::{Config, Open};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Code, Request, Status, Streaming};

/// All pages of a scan, and how it ended.
async fn pages(mut stream: Streaming<ScanPage>) -> (Vec<ScanPage>, Option<Status>) {
    let mut pages = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(page)) => pages.push(page),
            Ok(None) => return (pages, None),
            Err(status) => return (pages, Some(status)),
        }
    }
}

fn keys_of(pages: &[ScanPage]) -> Vec<String> {
    let entries = pages.iter().flat_map(|page| &page.entries);
    entries.map(|entry| String::from_utf8(entry.key.to_vec()).unwrap()).collect()
}

fn numbered(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|number| format!("{number:08}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_sends_its_range_in_both_directions() {
    let served = Served::new();
    let mut client = served.client().await;
    fill(&served.database, 30_000, 20);
    for keys_only in [false, true] {
        for (request, expected) in [
            (ScanRequest::default(), numbered(0..30_000)),
            (ScanRequest { reverse: true, ..ScanRequest::default() }, numbered((0..30_000).rev())),
            (ScanRequest { limit: 3, ..ScanRequest::default() }, numbered(0..3)),
            (
                ScanRequest { range: range("00000100", "00000105"), ..ScanRequest::default() },
                numbered(100..105),
            ),
            (
                ScanRequest { range: prefix("0000012"), reverse: true, limit: 4, ..ScanRequest::default() },
                numbered((126..130).rev()),
            ),
            (ScanRequest { range: prefix("x"), ..ScanRequest::default() }, Vec::new()),
        ] {
            let request = ScanRequest { keys_only, ..request };
            let (pages, end) = pages(client.scan(request.clone()).await.unwrap().into_inner()).await;
            assert!(end.is_none(), "{end:?}");
            assert_eq!(keys_of(&pages), expected, "{request:?}");
            let value_bytes = if keys_only { 0 } else { 20 };
            assert!(
                pages.iter().flat_map(|page| &page.entries).all(|entry| entry.value.len() == value_bytes)
            );
            let is_limited = request.limit > 0;
            assert_eq!(pages.last().unwrap().resume_token.is_empty(), !is_limited, "a limit leaves a token");
        }
    }
    assert!(served.database.open_readers().is_empty());
}

/// A client that always breaks off after a page, also over restarts of the server, gets every entry once.
#[tokio::test(flavor = "multi_thread")]
async fn a_scan_goes_on_with_its_token_also_after_a_restart() {
    let mut served = Served::new();
    fill(&served.database, 20_000, 100);
    for reverse in [false, true] {
        let (mut got, mut token, mut rounds) = (Vec::new(), bytes(""), 0);
        loop {
            let mut client = served.client().await;
            let request = ScanRequest { reverse, resume_token: token.clone(), ..ScanRequest::default() };
            let mut stream = client.scan(request).await.unwrap().into_inner();
            let page = stream.message().await.unwrap().unwrap();
            token = page.resume_token.clone();
            got.push(page);
            if token.is_empty() {
                break;
            }
            rounds += 1;
            if rounds % 3 == 0 {
                drop((stream, client));
                served = Served::open(served.close(), Config::default(), Arc::new(Open));
            }
        }
        let mut keys = keys_of(&got);
        if reverse {
            keys.reverse();
        }
        assert!(rounds > 3, "{rounds}");
        assert_eq!(keys, numbered(0..20_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_another_scan_is_refused() {
    let served = Served::new();
    served.database.keyspace("other").unwrap();
    let mut client = served.client().await;
    fill(&served.database, 100, 1);
    let one = ScanRequest { limit: 50, ..ScanRequest::default() };
    let (pages, _) = pages(client.scan(one).await.unwrap().into_inner()).await;
    let resume_token = pages.last().unwrap().resume_token.clone();
    for request in [
        ScanRequest { keyspace: "other".into(), ..ScanRequest::default() },
        ScanRequest { reverse: true, ..ScanRequest::default() },
        ScanRequest { range: prefix("00000099"), ..ScanRequest::default() },
    ] {
        let error =
            client.scan(ScanRequest { resume_token: resume_token.clone(), ..request }).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
    let damaged = ScanRequest { resume_token: bytes("x"), ..ScanRequest::default() };
    assert_eq!(client.scan(damaged).await.unwrap_err().code(), Code::InvalidArgument);
}

/// A scan that its client gives up closes its cursor, which would pin tables.
#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_is_given_up_closes_its_cursor() {
    let served = Served::with(Config { max_scans: 1, ..Config::default() });
    let mut client = served.client().await;
    fill(&served.database, 150_000, 100);
    let mut stream = client.scan(ScanRequest::default()).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    assert_eq!(served.database.open_readers().len(), 1);
    let refused = client.scan(ScanRequest::default()).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::ResourceExhausted, "there are 1 open scans, the limit")
    );
    drop(stream);
    until("the cursor is closed", || served.database.open_readers().is_empty()).await;
    let (pages, end) = pages(client.scan(ScanRequest::default()).await.unwrap().into_inner()).await;
    assert!(end.is_none() && keys_of(&pages).len() == 150_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_scan() {
    let served = Served::new();
    let mut client = served.client().await;
    fill(&served.database, 100_000, 100);
    let mut request = Request::new(ScanRequest::default());
    request.set_timeout(Duration::from_secs(2));
    let mut stream = client.scan(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    until("the cursor is closed at the deadline", || served.database.open_readers().is_empty()).await;
    let (_, end) = pages(stream).await;
    let code = end.expect("it did not reach the end").code();
    assert!(matches!(code, Code::DeadlineExceeded | Code::Cancelled), "{code:?}");
}

/// What a stream has made ahead of a client that takes nothing is bounded, and the client is disconnected.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_is_not_read_for_and_then_disconnected() {
    let config = Config { client_timeout: Duration::from_secs(2), ..Config::default() };
    let served = Served::with(config);
    fill(&served.database, 200_000, 100);
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", served.address))
        .unwrap()
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(64 << 10)
        .connect()
        .await
        .unwrap();
    let mut client = key_value_client::KeyValueClient::new(channel);
    let stream = client.scan(ScanRequest::default()).await.unwrap().into_inner();
    let read = || served.database.open_readers().len();
    until("the scan has begun", || read() == 1).await;
    until("the scan is ended", || read() == 0).await;
    let (pages, end) = pages(stream).await;
    let sent = keys_of(&pages).len();
    assert!(sent < 20_000, "{sent} entries were made for a client that took none");
    assert!(end.is_some(), "the connection was ended");
    // Another client is served.
    assert!(served.client().await.get(get("00000007")).await.unwrap().into_inner().found);
}

fn after(seqno: u64) -> ChangesRequest {
    ChangesRequest { from: Some(changes_request::From::After(seqno)), ..ChangesRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_sent_as_they_are_committed() {
    let served = Served::new();
    let mut client = served.client().await;
    let start = served.database.metrics().visible_seqno.get();
    client.put(put("ada", "1815")).await.unwrap();
    let mut changes = client.changes(after(start)).await.unwrap().into_inner();
    let first = changes.message().await.unwrap().unwrap();
    let expected =
        change::Kind::Put(change::Put { key: bytes("ada"), value: bytes("1815"), expires_at_ms: None });
    assert_eq!((first.complete, first.changes.len()), (true, 1));
    assert_eq!(
        (first.changes[0].keyspace.as_str(), first.changes[0].kind.as_ref()),
        ("default", Some(&expected))
    );
    // The stream waits, and is told of what comes.
    let delete = DeleteRequest { key: bytes("ada"), ..DeleteRequest::default() };
    let deleted = client.delete(delete).await.unwrap().into_inner().sequence_number;
    let second = changes.message().await.unwrap().unwrap();
    assert_eq!((second.first_sequence_number, second.last_sequence_number), (deleted, deleted));
    let range_delete = DeleteRangeRequest { range: range("a", "b"), ..DeleteRangeRequest::default() };
    client.delete_range(range_delete).await.unwrap();
    let third = changes.message().await.unwrap().unwrap();
    let expected = change::DeleteRange { start: bytes("a"), end: Some(bytes("b")) };
    assert_eq!(third.changes[0].kind, Some(change::Kind::DeleteRange(expected)));
}

/// A batch that is longer than a piece comes in several, of which the last says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_batch_comes_in_pieces() {
    let served = Served::new();
    let mut client = served.client().await;
    let keyspace = served.database.default_keyspace();
    let start = served.database.metrics().visible_seqno.get();
    let mut batch = served.database.batch();
    for number in 0..10_000 {
        batch.put(keyspace, format!("{number:08}"), vec![b'v'; 100]);
    }
    served.database.write(&batch).unwrap();
    let mut stream = client.changes(after(start)).await.unwrap().into_inner();
    let mut pieces = Vec::new();
    while pieces.last().is_none_or(|piece: &ChangeBatch| !piece.complete) {
        pieces.push(stream.message().await.unwrap().unwrap());
    }
    assert!(pieces.len() > 3, "{}", pieces.len());
    assert!(pieces.iter().all(|piece| piece.last_sequence_number == start + 10_000));
    assert_eq!(pieces.iter().map(|piece| piece.changes.len()).sum::<usize>(), 10_000);
}

/// A consumer gets what it has not acknowledged, also after a restart of the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_goes_on_where_it_acknowledged() {
    let served = Served::new();
    let (mut client, mut admin) = (served.client().await, served.admin().await);
    let audit = || CreateConsumerRequest { name: "audit".into(), after: None };
    admin.create_consumer(audit()).await.unwrap();
    assert_eq!(admin.create_consumer(audit()).await.unwrap_err().code(), Code::InvalidArgument);
    for key in ["one", "two", "three"] {
        client.put(put(key, "v")).await.unwrap();
    }
    let request = || ChangesRequest {
        from: Some(changes_request::From::Consumer("audit".into())),
        durability: Durability::Process.into(),
    };
    let mut changes = client.changes(request()).await.unwrap().into_inner();
    let first = changes.message().await.unwrap().unwrap();
    let sequence_number = first.last_sequence_number;
    let acknowledged = AcknowledgeChangesRequest { consumer: "audit".into(), sequence_number };
    client.acknowledge_changes(acknowledged).await.unwrap();
    drop((changes, client, admin));
    let served = Served::open(served.close(), Config::default(), Arc::new(Open));
    let (mut client, mut admin) = (served.client().await, served.admin().await);
    let consumers = admin.list_consumers(ListConsumersRequest {}).await.unwrap().into_inner().consumers;
    assert_eq!((consumers[0].name.as_str(), consumers[0].acknowledged), ("audit", sequence_number));
    let mut changes = client.changes(request()).await.unwrap().into_inner();
    let next = changes.message().await.unwrap().unwrap();
    assert_eq!(next.first_sequence_number, sequence_number + 1);
    drop(changes);
    admin.drop_consumer(DropConsumerRequest { name: "audit".into() }).await.unwrap();
    assert_eq!(client.changes(request()).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_changes_are_bounded_and_end() {
    let served = Served::with(Config { max_change_streams: 2, ..Config::default() });
    let mut client = served.client().await;
    let future = client.changes(after(1 << 40)).await.unwrap_err();
    assert_eq!(future.code(), Code::InvalidArgument, "{future}");
    let one = client.changes(after(0)).await;
    // The log of a new database goes back to its beginning.
    let one = one.unwrap().into_inner();
    let two = client.changes(after(0)).await.unwrap().into_inner();
    let refused = client.changes(after(0)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    drop(one);
    let mut three = None;
    for _ in 0..1000 {
        three = client.changes(after(0)).await.ok();
        if three.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(three.is_some(), "a stream that was given up makes room");
    let missing = client.changes(ChangesRequest::default()).await.unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument, "{missing}");
    drop(two);
}

/// Streams end when the server stops, with a status that says it.
#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_the_server_stops() {
    let mut served = Served::new();
    let mut client = served.client().await;
    let mut changes = client.changes(after(0)).await.unwrap().into_inner();
    let stop = served.stop.clone();
    stop.stop();
    let ended = tokio::time::timeout(SOON, changes.message()).await.unwrap();
    let status = ended.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    tokio::task::block_in_place(|| served.finish());
}

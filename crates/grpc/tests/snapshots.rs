//! Leased snapshots: what they show, and when they are gone.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::*;
use esker_grpc::Config;
use esker_grpc::proto::*;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Code;

fn lease(lease_ms: u64) -> OpenSnapshotRequest {
    OpenSnapshotRequest { lease_ms }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_at_a_snapshot_see_its_moment() {
    let served = Served::new();
    let mut client = served.client().await;
    client.put(put("ada", "1815")).await.unwrap();
    let opened = client.open_snapshot(lease(0)).await.unwrap().into_inner();
    let snapshot = opened.snapshot;
    assert_eq!(opened.lease_ms, 30_000);
    assert_eq!(opened.sequence_number, served.database.metrics().visible_seqno.get());
    client.put(put("ada", "changed")).await.unwrap();
    client.put(put("alan", "1912")).await.unwrap();
    let found = client.get(GetRequest { snapshot, ..get("ada") }).await.unwrap().into_inner();
    assert_eq!(&found.value[..], b"1815");
    let request = MultiGetRequest { keys: vec![bytes("ada"), bytes("alan")], snapshot, ..Default::default() };
    let values = client.multi_get(request).await.unwrap().into_inner().values;
    assert_eq!(values.iter().map(|value| value.found).collect::<Vec<_>>(), [true, false]);
    for keys_only in [false, true] {
        let request = ScanRequest { snapshot, keys_only, ..ScanRequest::default() };
        let mut scan = client.scan(request).await.unwrap().into_inner();
        let page = scan.message().await.unwrap().unwrap();
        assert_eq!(page.entries.iter().map(|entry| &entry.key[..]).collect::<Vec<_>>(), [b"ada"]);
    }
    assert_eq!(
        client.renew_snapshot(RenewSnapshotRequest { snapshot }).await.unwrap().into_inner().lease_ms,
        30_000
    );
    client.close_snapshot(CloseSnapshotRequest { snapshot }).await.unwrap();
    assert_eq!(served.database.metrics().snapshots, 0);
    for gone in [
        client.get(GetRequest { snapshot, ..get("ada") }).await.unwrap_err(),
        client.scan(ScanRequest { snapshot, ..ScanRequest::default() }).await.unwrap_err(),
        client.close_snapshot(CloseSnapshotRequest { snapshot }).await.unwrap_err(),
        client.renew_snapshot(RenewSnapshotRequest { snapshot }).await.unwrap_err(),
    ] {
        assert_eq!(gone.code(), Code::NotFound, "{gone}");
        assert!(gone.message().contains(&snapshot.to_string()), "{gone}");
    }
}

/// A client that is gone pins nothing: its snapshot is closed without any call.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_no_call_uses_is_closed() {
    let served = Served::new();
    let mut client = served.client().await;
    let long = client.open_snapshot(lease(60_000)).await.unwrap().into_inner().snapshot;
    let short = client.open_snapshot(lease(50)).await.unwrap().into_inner().snapshot;
    assert!(short > long);
    until("the lease ends", || served.database.metrics().snapshots == 1).await;
    let gone = client.get(GetRequest { snapshot: short, ..get("k") }).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    client.get(GetRequest { snapshot: long, ..get("k") }).await.unwrap();
}

/// Each use begins the lease anew: a snapshot that is read lives longer than its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_read_lives_on() {
    const LEASE: Duration = Duration::from_millis(1500);
    let served = Served::new();
    let mut client = served.client().await;
    let mut lived = Duration::ZERO;
    while lived < 2 * LEASE {
        let opened = Instant::now();
        let mut used = opened;
        let snapshot = client.open_snapshot(lease(1500)).await.unwrap().into_inner().snapshot;
        lived = Duration::ZERO;
        while lived < 2 * LEASE {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let asked = Instant::now();
            let read = client.get(GetRequest { snapshot, ..get("k") }).await;
            if read.is_err() && used.elapsed() >= LEASE {
                // The machine was busy for as long as the lease: once more.
                break;
            }
            read.unwrap();
            used = asked;
            lived = opened.elapsed();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_bounded_in_number_and_time() {
    let served = Served::with(Config { max_snapshots: 2, ..Config::default() });
    let mut client = served.client().await;
    let long = client.open_snapshot(lease(3_600_000)).await.unwrap_err();
    assert_eq!(long.code(), Code::InvalidArgument, "{long}");
    assert!(long.message().contains("3600000") && long.message().contains("600000"), "{long}");
    let first = client.open_snapshot(lease(0)).await.unwrap().into_inner().snapshot;
    client.open_snapshot(lease(0)).await.unwrap();
    let third = client.open_snapshot(lease(0)).await.unwrap_err();
    assert_eq!(third.code(), Code::ResourceExhausted, "{third}");
    client.close_snapshot(CloseSnapshotRequest { snapshot: first }).await.unwrap();
    client.open_snapshot(lease(0)).await.unwrap();
}

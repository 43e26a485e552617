//! Every call of `Admin`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::*;
use esker_grpc::proto::*;
use esker_grpc::{Config, Open};
use std::collections::HashMap;
use std::sync::Arc;
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_those_of_the_library() {
    let served = Served::new();
    let mut admin = served.admin().await;
    fill(&served.database, 5000, 100);
    admin.flush(FlushRequest::default()).await.unwrap();
    let stats = admin.stats(StatsRequest {}).await.unwrap().into_inner();
    let metrics = served.database.metrics();
    assert_eq!((stats.entries, stats.batches), (5000, metrics.batches));
    assert_eq!(stats.visible_sequence_number, metrics.visible_seqno.get());
    assert_eq!(stats.memory.unwrap().budget_bytes, metrics.memory.budget_bytes);
    assert_eq!((stats.keyspaces[0].name.as_str(), stats.keyspaces[0].table_entries), ("default", 5000));
    assert_eq!(stats.read_only_cause, None);
    for tables in [false, true] {
        let request = LevelsRequest { keyspace: Some("default".into()), tables };
        let levels = admin.levels(request).await.unwrap().into_inner().keyspaces;
        assert_eq!(levels.len(), 1);
        let level = &levels[0].levels[0];
        assert_eq!(level.entries, 5000);
        assert_eq!(level.tables.len() as u64, if tables { level.table_count } else { 0 });
        if tables {
            assert_eq!(level.tables[0].smallest, bytes("00000000"));
        }
    }
    let nowhere = LevelsRequest { keyspace: Some("nowhere".into()), tables: false };
    assert_eq!(admin.levels(nowhere).await.unwrap_err().code(), Code::NotFound);
    let stalls = admin.stalls(StallsRequest {}).await.unwrap().into_inner();
    assert_eq!((stalls.keyspaces[0].throttled, stalls.waiting_writes), (false, 0));
    assert_eq!(stalls.report, served.database.stalls().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn keyspaces_are_created_listed_and_dropped() {
    let served = Served::new();
    let mut admin = served.admin().await;
    let create = |name: &str, options: &[(&str, &str)]| CreateKeyspaceRequest {
        name: name.into(),
        options: options
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect::<HashMap<_, _>>(),
    };
    admin.create_keyspace(create("cities", &[("default_ttl", "1h")])).await.unwrap();
    let options = served.database.open_keyspace("cities").unwrap().options();
    assert!(options.named_values().iter().any(|(name, value)| *name == "default_ttl" && *value != "none"));
    for (request, code) in [
        (create("cities", &[]), Code::AlreadyExists),
        (create("", &[]), Code::InvalidArgument),
        (create("redis/keys", &[]), Code::PermissionDenied),
        (create("x", &[("no_such_option", "1")]), Code::InvalidArgument),
        (create("x", &[("default_ttl", "soon")]), Code::InvalidArgument),
    ] {
        let error = admin.create_keyspace(request).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    let names = admin.list_keyspaces(ListKeyspacesRequest {}).await.unwrap().into_inner().names;
    assert_eq!(names, ["default", "cities"]);
    let drop = |name: &str| DropKeyspaceRequest { name: name.into() };
    admin.drop_keyspace(drop("cities")).await.unwrap();
    for (name, code) in [("cities", Code::NotFound), ("redis/keys", Code::PermissionDenied)] {
        assert_eq!(admin.drop_keyspace(drop(name)).await.unwrap_err().code(), code, "{name}");
    }
    assert_eq!(served.database.keyspaces(), ["default"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_compacted_and_tables_verified() {
    let served = Served::new();
    let mut admin = served.admin().await;
    for _ in 0..3 {
        fill(&served.database, 2000, 50);
        admin.flush(FlushRequest { keyspace: Some("default".into()) }).await.unwrap();
    }
    let without = CompactRequest { keyspace: None, range: range("a", "b") };
    assert_eq!(admin.compact(without).await.unwrap_err().code(), Code::InvalidArgument);
    admin.compact(CompactRequest { keyspace: Some("default".into()), range: None }).await.unwrap();
    assert_eq!(served.database.metrics().keyspaces[0].table_entries, 2000);
    admin.compact(CompactRequest::default()).await.unwrap();
    let report = admin.verify(VerifyRequest {}).await.unwrap().into_inner();
    assert_eq!((report.entries, report.damage.len()), (2000, 0));
    assert!(report.tables > 0 && report.blocks > 0 && report.bytes > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_made_in_the_directory_for_them_and_nowhere_else() {
    let copies = Directory::new();
    let config = Config { copies: Some(copies.path().to_owned()), ..Config::default() };
    let served = Served::open(Directory::new(), config, Arc::new(Open));
    let mut admin = served.admin().await;
    fill(&served.database, 1000, 10);
    let checkpoint = |name: &str| CheckpointRequest { name: name.into() };
    let made = admin.checkpoint(checkpoint("monday")).await.unwrap().into_inner();
    assert_eq!(made.sequence_number, served.database.metrics().visible_seqno.get());
    let copy = esker::Database::open(copies.path().join("monday")).unwrap();
    assert_eq!(copy.default_keyspace().keys(..).count(), 1000);
    copy.close().unwrap();
    assert!(admin.checkpoint(checkpoint("monday")).await.is_err(), "it is there already");
    let backup = |name: &str| BackupRequest { name: name.into() };
    let first = admin.backup(backup("nightly")).await.unwrap().into_inner();
    let second = admin.backup(backup("nightly")).await.unwrap().into_inner();
    assert!(second.id > first.id && first.copied_tables > 0);
    for name in ["", ".", "..", "../x", "a/b", ".hidden", "x\0", &"n".repeat(129)] {
        assert_eq!(
            admin.checkpoint(checkpoint(name)).await.unwrap_err().code(),
            Code::InvalidArgument,
            "{name:?}"
        );
        assert_eq!(admin.backup(backup(name)).await.unwrap_err().code(), Code::InvalidArgument, "{name:?}");
    }
    let mut names: Vec<String> = std::fs::read_dir(copies.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["monday", "nightly"]);
    let without = Served::new();
    let refused = without.admin().await.checkpoint(checkpoint("x")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
}

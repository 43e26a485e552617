//! Every call of `KeyValue` that is no stream: what it does, and its errors.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::*;
use esker_grpc::proto::*;
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_put_read_and_deleted() {
    let served = Served::new();
    let mut client = served.client().await;
    let absent = client.get(get("ada")).await.unwrap().into_inner();
    assert_eq!(absent, GetResponse::default(), "a key without a value is no error");
    let first = client.put(put("ada", "1815")).await.unwrap().into_inner();
    assert!(first.applied && first.sequence_number > 0);
    let found = client.get(get("ada")).await.unwrap().into_inner();
    assert_eq!((found.found, &found.value[..], found.expires_at_ms), (true, &b"1815"[..], None));
    let delete = DeleteRequest { key: bytes("ada"), ..DeleteRequest::default() };
    let second = client.delete(delete).await.unwrap().into_inner();
    assert!(second.applied && second.sequence_number > first.sequence_number);
    assert!(!client.get(get("ada")).await.unwrap().into_inner().found);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_on_the_device_and_large_ones_are_read() {
    let served = Served::new();
    let mut client = served.client().await;
    fill(&served.database, 2000, 3000);
    let large = "l".repeat(3 << 20);
    client.put(put("large", &large)).await.unwrap();
    // What the tables have is not in the cache after reopening.
    let directory = served.close();
    let served =
        Served::open(directory, esker_grpc::Config::default(), std::sync::Arc::new(esker_grpc::Open));
    let mut client = served.client().await;
    for number in [0, 7, 1999] {
        let found = client.get(get(&format!("{number:08}"))).await.unwrap().into_inner();
        assert_eq!((found.found, found.value.len()), (true, 3000), "{number}");
    }
    let found = client.get(get("large")).await.unwrap().into_inner();
    assert!(found.value == large.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_keys_are_read_in_their_order() {
    let served = Served::new();
    let mut client = served.client().await;
    fill(&served.database, 200, 10);
    for count in [2_usize, 100] {
        let keys: Vec<_> = (0..count).rev().map(|number| bytes(format!("{:08}", number * 2))).collect();
        let request = MultiGetRequest { keys, ..MultiGetRequest::default() };
        let values = client.multi_get(request).await.unwrap().into_inner().values;
        assert_eq!(values.len(), count);
        assert!(values.iter().all(|value| value.found && value.value.len() == 10));
    }
    let keys = vec![bytes("00000001"), bytes("x"), bytes("00000001")];
    let request = MultiGetRequest { keys, ..MultiGetRequest::default() };
    let values = client.multi_get(request).await.unwrap().into_inner().values;
    assert_eq!(values.iter().map(|value| value.found).collect::<Vec<_>>(), [true, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_under_a_condition_are_applied_or_say_why_not() {
    let served = Served::new();
    let mut client = served.client().await;
    let mut put_if = async |value: &str, condition| {
        let answer = client.put(PutRequest { condition, ..put("lock", value) }).await.unwrap().into_inner();
        (answer.applied, answer.current)
    };
    assert_eq!(put_if("7", present()).await, (false, None));
    assert_eq!(put_if("7", equals("6")).await, (false, None));
    assert_eq!(put_if("7", absent()).await, (true, None));
    assert_eq!(put_if("8", absent()).await, (false, Some(bytes("7"))));
    assert_eq!(put_if("8", equals("6")).await, (false, Some(bytes("7"))));
    assert_eq!(put_if("8", equals("7")).await, (true, None));
    assert_eq!(put_if("9", present()).await, (true, None));
    let mut client = served.client().await;
    let mut delete_if = async |condition| {
        let request = DeleteRequest { key: bytes("lock"), condition, ..DeleteRequest::default() };
        let answer = client.delete(request).await.unwrap().into_inner();
        (answer.applied, answer.current)
    };
    assert_eq!(delete_if(equals("8")).await, (false, Some(bytes("9"))));
    assert_eq!(delete_if(absent()).await, (false, Some(bytes("9"))));
    assert_eq!(delete_if(equals("9")).await, (true, None));
    assert_eq!(delete_if(present()).await, (false, None));
    assert_eq!(delete_if(absent()).await, (true, None));
}

/// A client that writes under a condition finds its write among the changes by the number that it was told.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_reads_first_tells_its_sequence_number() {
    let served = Served::new();
    let mut client = served.client().await;
    let keep = Some(Expiry { kind: Some(expiry::Kind::Keep(expiry::Keep {})) });
    let mut told = Vec::new();
    for (condition, expiry) in [(absent(), None), (present(), None), (equals("v"), None), (None, keep)] {
        let answer =
            client.put(PutRequest { condition, expiry, ..put("k", "v") }).await.unwrap().into_inner();
        assert!(answer.applied);
        told.push(answer.sequence_number);
    }
    let refused = client.put(PutRequest { condition: absent(), ..put("k", "w") }).await.unwrap().into_inner();
    assert_eq!((refused.applied, refused.sequence_number), (false, 0));
    let delete = |condition| DeleteRequest { key: bytes("k"), condition, ..DeleteRequest::default() };
    let deleted = client.delete(delete(equals("v"))).await.unwrap().into_inner();
    told.push(deleted.sequence_number);
    let nothing = client.delete(delete(absent())).await.unwrap().into_inner();
    assert_eq!((nothing.applied, nothing.sequence_number), (true, 0));
    let from = Some(changes_request::From::After(0));
    let request = ChangesRequest { from, ..ChangesRequest::default() };
    let mut changes = client.changes(request).await.unwrap().into_inner();
    for number in told {
        let batch = changes.message().await.unwrap().unwrap();
        assert_eq!((batch.first_sequence_number, batch.last_sequence_number), (number, number));
    }
}

/// Of clients that all want one lock, one gets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_condition_and_its_write_are_one() {
    let served = Served::new();
    for round in 0..20 {
        let key = format!("lock {round}");
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (mut client, key) = (served.client().await, key.clone());
            clients.spawn(async move {
                let request = PutRequest { condition: absent(), ..put(&key, &number.to_string()) };
                client.put(request).await.unwrap().into_inner().applied
            });
        }
        let applied = clients.join_all().await.into_iter().filter(|applied| *applied).count();
        assert_eq!(applied, 1, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_expire_as_their_writes_say() {
    let served = Served::new();
    let mut client = served.client().await;
    let expiring = |kind| Some(Expiry { kind: Some(kind) });
    let hour = expiring(expiry::Kind::AfterMs(3_600_000));
    client.put(PutRequest { expiry: hour, ..put("session", "a") }).await.unwrap();
    let first = client.get(get("session")).await.unwrap().into_inner().expires_at_ms.unwrap();
    let keep = expiring(expiry::Kind::Keep(expiry::Keep {}));
    client.put(PutRequest { expiry: keep, ..put("session", "b") }).await.unwrap();
    let kept = client.get(get("session")).await.unwrap().into_inner();
    assert_eq!((&kept.value[..], kept.expires_at_ms), (&b"b"[..], Some(first)));
    client.put(PutRequest { condition: equals("b"), ..put("session", "c") }).await.unwrap();
    assert_eq!(client.get(get("session")).await.unwrap().into_inner().expires_at_ms, Some(first));
    let at = expiring(expiry::Kind::AtMs(first + 5000));
    client.put(PutRequest { expiry: at, ..put("session", "d") }).await.unwrap();
    assert_eq!(client.get(get("session")).await.unwrap().into_inner().expires_at_ms, Some(first + 5000));
    let never = expiring(expiry::Kind::Never(expiry::Never {}));
    client.put(PutRequest { expiry: never, ..put("session", "e") }).await.unwrap();
    assert_eq!(client.get(get("session")).await.unwrap().into_inner().expires_at_ms, None);
    let at_once = expiring(expiry::Kind::AfterMs(0));
    client.put(PutRequest { expiry: at_once, ..put("session", "f") }).await.unwrap();
    assert!(!client.get(get("session")).await.unwrap().into_inner().found);
    let nothing = PutRequest { expiry: Some(Expiry::default()), ..put("session", "g") };
    assert_eq!(client.put(nothing).await.unwrap_err().code(), Code::InvalidArgument);
}

fn operation(keyspace: &str, kind: operation::Kind) -> Operation {
    Operation { keyspace: keyspace.to_owned(), kind: Some(kind) }
}

fn put_operation(key: &str, value: &str) -> operation::Kind {
    operation::Kind::Put(operation::Put { key: bytes(key), value: bytes(value), expiry: None })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_applied_whole_or_not_at_all() {
    let served = Served::new();
    let mut client = served.client().await;
    served.database.keyspace("years").unwrap();
    for key in ["a1", "a2", "b1"] {
        client.put(put(key, "old")).await.unwrap();
    }
    let operations = vec![
        operation("", put_operation("ada", "1815")),
        operation("years", put_operation("1815", "ada")),
        operation("", operation::Kind::DeleteRange(prefix("a").unwrap())),
        operation("", put_operation("alan", "1912")),
        operation("", operation::Kind::Delete(operation::Delete { key: bytes("b1") })),
    ];
    for durability in [Durability::Unspecified, Durability::None, Durability::Process, Durability::Power] {
        let request = BatchRequest { operations: operations.clone(), durability: durability.into() };
        let seqno = client.batch(request).await.unwrap().into_inner().sequence_number;
        assert_eq!(seqno, served.database.metrics().visible_seqno.get(), "{durability:?}");
    }
    let keys: Vec<Vec<u8>> =
        served.database.default_keyspace().keys(..).map(|key| key.unwrap().to_vec()).collect();
    assert_eq!(keys, [b"alan"]);
    let years = GetRequest { keyspace: "years".into(), ..get("1815") };
    assert!(client.get(years).await.unwrap().into_inner().found);
    let before = served.database.metrics().visible_seqno;
    for (wrong, code, told) in [
        (operation("nowhere", put_operation("k", "v")), Code::NotFound, "operation 1: there is no keyspace"),
        (operation("redis/keys", put_operation("k", "v")), Code::PermissionDenied, "operation 1: "),
        (Operation::default(), Code::InvalidArgument, "operation 1: it says nothing"),
    ] {
        let operations = vec![operation("", put_operation("k", "v")), wrong];
        let error = client.batch(BatchRequest { operations, durability: 0 }).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().starts_with(told), "{error}");
    }
    assert_eq!(served.database.metrics().visible_seqno, before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_deleted() {
    let served = Served::new();
    let mut client = served.client().await;
    fill(&served.database, 100, 1);
    let left = || served.database.default_keyspace().keys(..).count();
    let delete = |range| DeleteRangeRequest { range, ..DeleteRangeRequest::default() };
    let seqno = client.delete_range(delete(range("00000010", "00000020"))).await.unwrap().into_inner();
    assert_eq!((left(), seqno.sequence_number), (90, served.database.metrics().visible_seqno.get()));
    client.delete_range(delete(prefix("0000009"))).await.unwrap();
    assert_eq!(left(), 80);
    let missing = client.delete_range(delete(None)).await.unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument, "{missing}");
    let turned = client.delete_range(delete(range("b", "a"))).await.unwrap_err();
    assert_eq!(turned.code(), Code::InvalidArgument, "{turned}");
    assert_eq!(left(), 80);
    client.delete_range(delete(Some(KeyRange::default()))).await.unwrap();
    assert_eq!(left(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_facts() {
    let served = Served::new();
    let mut client = served.client().await;
    let nowhere = client.get(GetRequest { keyspace: "nowhere".into(), ..get("k") }).await.unwrap_err();
    assert_eq!((nowhere.code(), nowhere.message()), (Code::NotFound, "there is no keyspace \"nowhere\""));
    let redis = client.put(PutRequest { keyspace: "redis/keys".into(), ..put("k", "v") }).await.unwrap_err();
    assert_eq!(redis.code(), Code::PermissionDenied, "{redis}");
    assert!(redis.message().contains("redis/keys"), "{redis}");
    let key = client.put(put(&"k".repeat(65_536), "v")).await.unwrap_err();
    assert_eq!(key.code(), Code::InvalidArgument, "{key}");
    assert!(key.message().contains("65536"), "{key}");
    let durability = client.put(PutRequest { durability: 9, ..put("k", "v") }).await.unwrap_err();
    assert_eq!(
        (durability.code(), durability.message()),
        (Code::InvalidArgument, "there is no durability 9")
    );
    let condition = PutRequest { condition: Some(Condition::default()), ..put("k", "v") };
    assert_eq!(client.put(condition).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(served.database.default_keyspace().keys(..).count(), 0);
}

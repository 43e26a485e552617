//! Measures a gRPC server from outside: calls a second, and megabytes of scans a second, each beside the
//! server's own processor time, which the client and other work on the machine lengthen less.
//!
//! ```text
//! cargo run --release -p esker-grpc --example call_speed -- ADDRESS PID [SECONDS]
//! ```
//!
//! A hundred thousand keys have values of 100 bytes, another hundred thousand of a KiB; calls are made by
//! four connections with 16 calls each under way.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example measures time and prints it"
)]

use bytes::Bytes;
use esker_grpc::proto::key_value_client::KeyValueClient;
use esker_grpc::proto::*;
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tonic::transport::Channel;

const KEYS: u64 = 100_000;
const CONNECTIONS: usize = 4;
const CALLS: usize = 16;
/// Ticks of the system's count of processor time in a second.
const TICKS: f64 = 100.0;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid, rest @ ..] = &arguments[..] else {
        return Err("name the address and the process of the server".into());
    };
    let seconds = rest.first().map_or(Ok(5), |seconds| seconds.parse())?;
    let time = Duration::from_secs(seconds);
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let channel = Channel::from_shared(format!("http://{address}"))?
            .tcp_nodelay(true)
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(8 << 20)
            .connect()
            .await?;
        clients.push(KeyValueClient::new(channel).max_decoding_message_size(16 << 20));
    }
    load(&mut clients[0]).await?;
    println!("{:<22} {:>12} {:>22}", "", "a second", "a second of the server");
    calls(&clients, pid, time, "Get, 100 B", |mut client, number| async move {
        let request = GetRequest { key: key("small", number), ..GetRequest::default() };
        let found = client.get(request).await?.into_inner().found;
        if found { Ok(()) } else { Err("a key is missing".into()) }
    })
    .await?;
    calls(&clients, pid, time, "Put, 100 B", |mut client, number| async move {
        let value = Bytes::from_static(&[b'v'; 100]);
        client.put(PutRequest { key: key("put", number), value, ..PutRequest::default() }).await?;
        Ok(())
    })
    .await?;
    calls(&clients, pid, time, "MultiGet of 10", |mut client, number| async move {
        let keys = (0..10).map(|at| key("small", number + at)).collect();
        client.multi_get(MultiGetRequest { keys, ..MultiGetRequest::default() }).await?;
        Ok(())
    })
    .await?;
    scans(&mut clients[0], pid, time, "Scan, 100 B", "small").await?;
    scans(&mut clients[0], pid, time, "Scan, 1 KiB", "large").await
}

fn key(kind: &str, number: u64) -> Bytes {
    format!("{kind}:{:010}", number % KEYS).into()
}

async fn load(client: &mut KeyValueClient<Channel>) -> Result<(), Failure> {
    for (kind, value_bytes) in [("small", 100), ("large", 1024)] {
        let value = Bytes::from(vec![b'v'; value_bytes]);
        for first in (0..KEYS).step_by(1000) {
            let put = |number| {
                let put = operation::Put { key: key(kind, number), value: value.clone(), expiry: None };
                Operation { kind: Some(operation::Kind::Put(put)), ..Operation::default() }
            };
            let operations = (first..first + 1000).map(put).collect();
            client.batch(BatchRequest { operations, durability: 0 }).await?;
        }
    }
    Ok(())
}

/// Makes calls for a while, and prints how many there were in a second, and in a second of the server.
async fn calls<F: Future<Output = Result<(), Failure>> + Send + 'static>(
    clients: &[KeyValueClient<Channel>],
    pid: &str,
    time: Duration,
    name: &str,
    call: impl Fn(KeyValueClient<Channel>, u64) -> F + Clone + Send + 'static,
) -> Result<(), Failure> {
    let (began, used) = (Instant::now(), processor_seconds(pid)?);
    let mut callers = JoinSet::new();
    for (number, client) in (0..CALLS).flat_map(|_| clients).enumerate() {
        let (client, call) = (client.clone(), call.clone());
        callers.spawn(async move {
            let (mut count, mut at) = (0_u64, number as u64 * 7919);
            while began.elapsed() < time {
                call(client.clone(), at).await?;
                (count, at) = (count + 1, at.wrapping_add(104_729));
            }
            Ok::<u64, Failure>(count)
        });
    }
    let mut count = 0;
    while let Some(done) = callers.join_next().await {
        count += done??;
    }
    report(name, "calls", count as f64, began, processor_seconds(pid)? - used);
    Ok(())
}

/// Scans the keys of a kind again and again for a while.
async fn scans(
    client: &mut KeyValueClient<Channel>,
    pid: &str,
    time: Duration,
    name: &str,
    kind: &str,
) -> Result<(), Failure> {
    let (began, used) = (Instant::now(), processor_seconds(pid)?);
    let mut bytes = 0;
    while began.elapsed() < time {
        let range = KeyRange { prefix: Some(Bytes::from(format!("{kind}:"))), ..KeyRange::default() };
        let request = ScanRequest { range: Some(range), ..ScanRequest::default() };
        let mut pages = client.scan(request).await?.into_inner();
        while let Some(page) = pages.message().await? {
            bytes += page.entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum::<usize>();
        }
    }
    report(name, "MB", bytes as f64 / 1e6, began, processor_seconds(pid)? - used);
    Ok(())
}

fn report(name: &str, unit: &str, amount: f64, began: Instant, used_seconds: f64) {
    let elapsed = began.elapsed().as_secs_f64();
    println!("{name:<22} {:>9.0} {unit:<5} {:>13.0} {unit}", amount / elapsed, amount / used_seconds);
}

/// Processor time that a process has used.
fn processor_seconds(pid: &str) -> Result<f64, Failure> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which is in parentheses: user and system time are the 12th and 13th.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    if ticks.len() == 2 { Ok((ticks[0] + ticks[1]) / TICKS) } else { Err("no processor time is told".into()) }
}

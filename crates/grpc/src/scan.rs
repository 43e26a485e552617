//! Scans: the entries of a range as a stream of pages.
//!
//! A scan sees one moment, that of its beginning or of its snapshot. It runs page by page on threads for
//! reads, and between pages it holds a cursor and no thread. A cursor pins tables, so a scan whose client
//! takes nothing is ended (NG4); the client goes on with the token of its last page.

use crate::call::Call;
use crate::proto::{Entry, ScanPage, ScanRequest};
use crate::requests::{self, KeyBounds};
use crate::resume_token::ResumeToken;
use crate::shared::Shared;
use crate::status::status_of;
use crate::stream::{self, End, Gone, Pieces, Sender, told};
use bytes::{Bytes, BytesMut};
use esker::{Cursor, Keys, Keyspace, Snapshot};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

/// Bytes of keys and values after which a page ends: enough that handing it to a thread costs nothing beside
/// it, and little enough that many wait at the same time.
const PAGE_BYTES: usize = 256 << 10;

/// Entries after which a page ends: each takes about 100 bytes beside its own.
const PAGE_ENTRIES: usize = 8 << 10;

/// What an entry of a page takes beside its own bytes.
const ENTRY_OVERHEAD_BYTES: usize = 100;

/// What a scan reads from.
enum Source {
    /// Nothing is open yet.
    Unopened(KeyBounds, Option<Arc<Snapshot>>),
    Entries(Box<Cursor>),
    Keys(Box<Keys>),
}

/// A scan between two pages.
struct Scan {
    shared: Arc<Shared>,
    keyspace: Keyspace,
    source: Source,
    is_reverse: bool,
    keys_only: bool,
    /// Entries that may still be sent.
    left: u64,
    /// The snapshot's number, whose lease each page renews; zero for none.
    snapshot: u64,
    _permit: OwnedSemaphorePermit,
}

/// Entries that are gathered for a page: their bytes lie one behind the other.
#[derive(Default)]
struct Gathered {
    bytes: BytesMut,
    /// Lengths of key and value, and the expiry.
    entries: Vec<(usize, usize, Option<u64>)>,
}

/// A page, the bytes it holds, and whether it is the last one.
struct Page {
    page: ScanPage,
    bytes: usize,
    is_last: bool,
}

/// Begins a scan.
pub(crate) fn start(
    shared: &Arc<Shared>,
    request: &ScanRequest,
    call: Call,
) -> Result<Pieces<ScanPage>, Status> {
    let keyspace = requests::keyspace(&shared.database, &request.keyspace)?;
    let mut bounds = requests::bounds(request.range.as_ref())?;
    if !request.resume_token.is_empty() {
        let token = ResumeToken::decode(&request.resume_token)?;
        bounds = token.apply(keyspace.id(), request.reverse, bounds)?;
    }
    let permit = Arc::clone(&shared.scans).try_acquire_owned().map_err(|_| {
        Status::resource_exhausted(format!("there are {} open scans, the limit", shared.config.max_scans))
    })?;
    let snapshot = shared.snapshots.named(request.snapshot)?;
    let scan = Scan {
        shared: Arc::clone(shared),
        keyspace,
        source: Source::Unopened(bounds, snapshot),
        is_reverse: request.reverse,
        keys_only: request.keys_only,
        left: if request.limit == 0 { u64::MAX } else { request.limit },
        snapshot: request.snapshot,
        _permit: permit,
    };
    let (sender, pieces) = stream::open(shared, call);
    tokio::spawn(async move {
        if let Err(end) = run(scan, &sender).await {
            sender.end(end).await;
        }
    });
    Ok(pieces)
}

/// Sends page after page. The scan is dropped when this returns, before the client is told.
async fn run(mut scan: Scan, sender: &Sender<ScanPage>) -> Result<(), End> {
    let shared = Arc::clone(&scan.shared);
    loop {
        sender.check()?;
        // One that is closed or ended goes on with the moment that it has.
        let _renewed = shared.snapshots.named(scan.snapshot);
        let page = shared.pools.reads.run(move || {
            let page = scan.page();
            (scan, page)
        });
        let page = tokio::select! {
            page = page => page,
            () = sender.closed() => return Err(Err(Gone)),
        };
        let (rest, page) = page.map_err(told)?;
        scan = rest;
        let Page { page, bytes, is_last } = page.map_err(told)?;
        sender.send(page, bytes).await?;
        if is_last {
            return Ok(());
        }
    }
}

impl Scan {
    fn page(&mut self) -> Result<Page, Status> {
        let mut gathered = Gathered::default();
        let is_at_end = self.gather(&mut gathered)?;
        let bytes = gathered.bytes.len() + gathered.entries.len() * ENTRY_OVERHEAD_BYTES;
        let entries = gathered.into_entries();
        let last = entries.last().filter(|_| !is_at_end);
        let resume_token = last.map_or_else(Bytes::new, |last| {
            let token =
                ResumeToken { keyspace: self.keyspace.id(), is_reverse: self.is_reverse, key: &last.key };
            token.encode().into()
        });
        let is_last = is_at_end || self.left == 0;
        Ok(Page { page: ScanPage { entries, resume_token }, bytes, is_last })
    }

    /// Gathers the entries of a page; whether the end of the range was reached.
    fn gather(&mut self, gathered: &mut Gathered) -> Result<bool, Status> {
        if let Source::Unopened(bounds, snapshot) = &self.source {
            self.source = self.opened(bounds.clone(), snapshot.as_deref())?;
        }
        match &mut self.source {
            Source::Unopened(..) => Ok(true),
            Source::Keys(keys) => loop {
                if gathered.is_full(self.left) {
                    return Ok(false);
                }
                let key = if self.is_reverse { keys.next_back() } else { keys.next() };
                let Some(key) = key else { return Ok(true) };
                gathered.add(&key.map_err(|error| status_of(&error))?, &[], None);
                self.left -= 1;
            },
            Source::Entries(cursor) => loop {
                let Some((key, value)) = cursor.entry() else { return Ok(true) };
                if gathered.is_full(self.left) {
                    return Ok(false);
                }
                let bytes = key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
                if bytes > self.shared.config.max_message_bytes {
                    let what = format!("the entry of the key \"{}\" takes", key.escape_ascii());
                    self.shared.check_message(&what, bytes)?;
                }
                if !gathered.entries.is_empty() && gathered.bytes.len() + bytes > PAGE_BYTES {
                    return Ok(false);
                }
                let expiry = cursor.expiry().and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
                gathered.add(key, value, expiry.and_then(|since| u64::try_from(since.as_millis()).ok()));
                self.left -= 1;
                let moved = if self.is_reverse { cursor.retreat() } else { cursor.advance() };
                moved.map_err(|error| status_of(&error))?;
            },
        }
    }

    fn opened(&self, bounds: KeyBounds, snapshot: Option<&Snapshot>) -> Result<Source, Status> {
        if self.keys_only {
            return Ok(Source::Keys(Box::new(match snapshot {
                None => self.keyspace.keys(bounds),
                Some(snapshot) => self.keyspace.at(snapshot).keys(bounds),
            })));
        }
        let cursor = match snapshot {
            None => self.keyspace.cursor_in(bounds),
            Some(snapshot) => self.keyspace.at(snapshot).cursor_in(bounds),
        };
        let mut cursor = cursor.map_err(|error| status_of(&error))?;
        let moved = if self.is_reverse { cursor.seek_to_last() } else { cursor.seek_to_first() };
        moved.map_err(|error| status_of(&error))?;
        Ok(Source::Entries(Box::new(cursor)))
    }
}

impl Gathered {
    /// Whether the page ends here.
    fn is_full(&self, left: u64) -> bool {
        left == 0 || self.entries.len() >= PAGE_ENTRIES || self.bytes.len() >= PAGE_BYTES
    }

    fn add(&mut self, key: &[u8], value: &[u8], expires_at_ms: Option<u64>) {
        if self.entries.is_empty() {
            self.bytes.reserve(PAGE_BYTES.max(key.len() + value.len()));
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push((key.len(), value.len(), expires_at_ms));
    }

    fn into_entries(self) -> Vec<Entry> {
        let mut bytes = self.bytes.freeze();
        let entry = |(key, value, expires_at_ms)| Entry {
            key: bytes.split_to(key),
            value: bytes.split_to(value),
            expires_at_ms,
        };
        self.entries.into_iter().map(entry).collect()
    }
}

//! Several keyspaces at one moment, for one short call: views that are pinned together (RV8).

use super::{Database, Keyspace, Snapshot};
use crate::{KeyRange, Range, Value, ValueWithExpiry};
use esker_base::{Error, Result, SeqNo};
use esker_engine::state::store::Store;
use esker_iter::Bounds;
use esker_view::read::Pinned;
use esker_view::semantics::ReadTime;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A keyspace at the moment of a call of [`Database::pinned`].
#[derive(Debug)]
pub struct PinnedKeyspace<'p> {
    keyspace: &'p Keyspace,
    pinned: Pinned,
}

impl Database {
    /// Calls `read` with several keyspaces, all pinned at one moment: it sees every batch in all of them or
    /// in none, and judges expiry at one time. For a few reads that belong together, a header in one keyspace
    /// and its parts in another, say.
    ///
    /// Cheaper than a [`Snapshot`]: usually nothing is registered and no lock is taken. While `read` runs,
    /// memtables and files of that moment are kept, so it should be short; a snapshot is for what takes long.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-pinned-{}", std::process::id()));
    /// let db = esker::Database::open(&dir)?;
    /// let (carts, items) = (db.keyspace("carts")?, db.keyspace("items")?);
    /// let mut batch = db.batch();
    /// batch.put(&carts, "ada", "17");
    /// batch.put(&items, "17/tea", "2");
    /// db.write(&batch)?;
    ///
    /// let tea = db.pinned([&carts, &items], |[carts, items]| {
    ///     let Some(cart) = carts.get("ada")? else { return Ok(None) };
    ///     items.get([&*cart, b"/tea"].concat())
    /// })?;
    /// assert_eq!(tea.as_deref(), Some(b"2".as_slice()));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of `read`; `InvalidArgument` for a keyspace of another database; `NotFound` if one was dropped;
    /// `Closed`.
    #[doc(alias = "SuperVersion")]
    #[doc(alias = "GetSnapshot")]
    pub fn pinned<const N: usize, R>(
        &self,
        keyspaces: [&Keyspace; N],
        read: impl FnOnce(&[PinnedKeyspace<'_>; N]) -> Result<R>,
    ) -> Result<R> {
        let (pinned, _snapshot) = pin_together(self.store(), &keyspaces)?;
        let mut pinned = pinned.into_iter();
        let pinned = keyspaces.map(|keyspace| PinnedKeyspace {
            keyspace,
            pinned: pinned.next().expect("one for each keyspace"),
        });
        read(&pinned)
    }

    /// The values of keys of several keyspaces, in their order, all of one moment. Keys of one keyspace are
    /// looked up together, as by [`Keyspace::multi_get`].
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let (users, mails) = (db.keyspace("users")?, db.keyspace("mails")?);
    /// let found = db.multi_get(&[(&users, "7"), (&mails, "7"), (&users, "8")])?;
    /// assert_eq!(found.len(), 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Database::pinned`].
    #[doc(alias = "MultiGet")]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[(&Keyspace, K)]) -> Result<Vec<Option<Value>>> {
        self.multi(keys, |pinned, keys| pinned.multi_get(keys))
    }

    /// As [`Database::multi_get`], with the expiry of each value.
    ///
    /// # Errors
    /// As [`Database::pinned`].
    pub fn multi_get_with_expiry<K: AsRef<[u8]>>(
        &self,
        keys: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<ValueWithExpiry>>> {
        self.multi(keys, |pinned, keys| pinned.multi_get_with_expiry(keys))
    }

    fn multi<'k, K: AsRef<[u8]>, V>(
        &self,
        keys: &'k [(&Keyspace, K)],
        read: impl Fn(&Pinned, &[&'k [u8]]) -> Result<Vec<Option<V>>>,
    ) -> Result<Vec<Option<V>>> {
        let mut keyspaces: Vec<&Keyspace> = Vec::new();
        for (keyspace, _) in keys {
            if keyspaces.iter().all(|other| other.id() != keyspace.id()) {
                keyspaces.push(keyspace);
            }
        }
        let (pinned, _snapshot) = pin_together(self.store(), &keyspaces)?;
        let mut values: Vec<Option<V>> = Vec::new();
        values.resize_with(keys.len(), || None);
        for (keyspace, pinned) in keyspaces.iter().zip(&pinned) {
            let of_keyspace = keys.iter().enumerate().filter(|(_, (other, _))| other.id() == keyspace.id());
            let (places, keys): (Vec<usize>, Vec<&[u8]>) =
                of_keyspace.map(|(place, (_, key))| (place, key.as_ref())).unzip();
            for (place, value) in places.into_iter().zip(read(pinned, &keys)?) {
                values[place] = value;
            }
        }
        Ok(values)
    }
}

/// Pins keyspaces at one moment (RV8). A snapshot, if there is one, must live as long as what is pinned.
fn pin_together(store: &Arc<Store>, keyspaces: &[&Keyspace]) -> Result<(Vec<Pinned>, Option<Snapshot>)> {
    for keyspace in keyspaces {
        if !Arc::ptr_eq(keyspace.store(), store) {
            let name = keyspace.name();
            return Err(Error::invalid(format!("keyspace {name:?} belongs to another database")));
        }
    }
    let mut pinned = keyspaces.iter().map(|keyspace| keyspace.pin()).collect::<Result<Vec<_>>>()?;
    let seqno = SeqNo::new(store.visible.load(Ordering::Acquire));
    let is_current =
        |(keyspace, pinned): (&&Keyspace, &Pinned)| keyspace.state().view.is_current(&pinned.view);
    if keyspaces.iter().zip(&pinned).all(is_current) {
        let time = ReadTime::at(store.time.now_ms());
        for pinned in &mut pinned {
            (pinned.seqno, pinned.time) = (seqno, time);
        }
        return Ok((pinned, None));
    }
    drop(pinned);
    let snapshot = Snapshot::unlisted(store);
    let pinned = keyspaces.iter().map(|keyspace| keyspace.at(&snapshot).pin()).collect::<Result<Vec<_>>>()?;
    Ok((pinned, Some(snapshot)))
}

impl PinnedKeyspace<'_> {
    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.pinned.get(key.as_ref())
    }

    /// Passes the value of `key` to `read` without copying it.
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, read: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        self.pinned.get_with(key.as_ref(), read)
    }

    /// The value of `key` and its expiry; see [`Keyspace::get_with_expiry`].
    pub fn get_with_expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueWithExpiry>> {
        self.pinned.get_with_expiry(key.as_ref())
    }

    /// Whether `key` has a value.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.pinned.contains(key.as_ref())
    }

    /// The values of several keys, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.pinned.multi_get(keys)
    }

    /// The values of several keys with their expiries, in the order of the keys.
    pub fn multi_get_with_expiry<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<ValueWithExpiry>>> {
        self.pinned.multi_get_with_expiry(keys)
    }

    /// The entries in a range of keys, which may be read after the call as well: a range keeps what it needs,
    /// and is listed among the open readers.
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.keyspace.range_of(Ok(self.pinned.again()), range.into_bounds())
    }

    /// The entries whose keys start with `prefix`, as [`PinnedKeyspace::range`] gives them.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.keyspace.range_of(Ok(self.pinned.again()), Bounds::prefix(prefix.as_ref()))
    }
}

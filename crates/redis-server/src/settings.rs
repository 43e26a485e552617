//! Settings: what a directive's value changes in the running server, and what is kept with the data.

use crate::config::{Setting, SettingSource};
use crate::server::{AppendFsync, Server};
use esker::Keyspace;
use esker_redis_commands::acl::Users;
use esker_redis_store::layout::{Space, system};
use std::sync::atomic::Ordering;

/// Directives for the sizes up to which Redis packs collections.
const ENCODING_DIRECTIVES: [&str; 7] = [
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "set-max-intset-entries",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
    "stream-node-max-bytes",
    "stream-node-max-entries",
];

impl Server {
    /// Sets directives and lets them act.
    pub(crate) fn apply_settings(&self, settings: &[Setting]) {
        self.config.set(settings);
        for setting in settings {
            self.apply(setting);
        }
    }

    fn apply(&self, setting: &Setting) {
        let number = || self.config.number(setting.name()).max(0) as u64;
        match setting.name() {
            "appendfsync" => self.set_append_fsync(match setting.value.as_slice() {
                b"always" => AppendFsync::Always,
                b"no" => AppendFsync::No,
                _ => AppendFsync::EverySecond,
            }),
            "notify-keyspace-events" => {
                self.keyspace_events.set(&setting.value);
            }
            "requirepass" => {
                let password = Some(setting.value.as_slice()).filter(|password| !password.is_empty());
                self.access.change(|users| users.set_default_password(password));
            }
            "acl-pubsub-default" => {
                self.access.change(|users| users.set_all_channels(setting.value == b"allchannels"));
            }
            "latency-monitor-threshold" => self.observed.latency.set_threshold_ms(number()),
            "latency-tracking" => self.observed.commands.track_latencies(setting.value == b"yes"),
            "slowlog-log-slower-than" => {
                self.observed.slow_log.set_threshold_us(self.config.number(setting.name()));
            }
            "slowlog-max-len" => self.observed.slow_log.set_max_entries(number() as usize),
            "maxmemory-policy" => {
                let is_lfu = setting.value.ends_with(b"-lfu");
                self.key_uses.set_counting(is_lfu);
                self.key_uses.set_needed(is_lfu || setting.value.ends_with(b"-lru"));
            }
            "loglevel" => self.log_level.set(&setting.value),
            "lfu-decay-time" => self.key_uses.set_decay_minutes(number() as u32),
            "lfu-log-factor" => self.key_uses.set_log_factor(number() as u32),
            "tracking-table-max-keys" => self.tracking.set_max_keys(number() as usize, &self.clients),
            "maxclients" => self.max_clients.store(number(), Ordering::Release),
            "hll-sparse-max-bytes" => self.sparse_bytes.store(number(), Ordering::Release),
            "proto-max-bulk-len" => self.max_argument_bytes.store(number(), Ordering::Release),
            "client-output-buffer-limit" => self.output_limits.set(&setting.value),
            "client-query-buffer-limit" => self.max_request_bytes.store(number(), Ordering::Release),
            name => self.apply_encoding_limit(name, number() as usize),
        }
    }

    /// Lets the defaults act of directives whose values are kept in other forms: sizes up to which
    /// collections are packed, and limits of output.
    pub(crate) fn apply_defaults(&self) {
        self.output_limits.set(&self.config.get("client-output-buffer-limit"));
        for name in ENCODING_DIRECTIVES {
            self.apply_encoding_limit(name, self.config.number(name).max(0) as usize);
        }
    }

    fn apply_encoding_limit(&self, name: &str, value: usize) {
        let mut limits = self.store.encoding_limits();
        match name {
            "hash-max-listpack-entries" => limits.hash_max_listpack_entries = value,
            "hash-max-listpack-value" => limits.hash_max_listpack_value = value,
            "set-max-intset-entries" => limits.set_max_intset_entries = value,
            "zset-max-listpack-entries" => limits.zset_max_listpack_entries = value,
            "zset-max-listpack-value" => limits.zset_max_listpack_value = value,
            "stream-node-max-bytes" => limits.stream_node_max_bytes = value,
            "stream-node-max-entries" => limits.stream_node_max_entries = value,
            _ => return,
        }
        self.store.set_encoding_limits(limits);
    }

    /// Sets a directive before the server starts.
    ///
    /// # Errors
    /// The reason why the directive or its value is not taken.
    pub fn set_directive(&self, name: &[u8], value: &[u8]) -> Result<(), String> {
        let settings = self
            .config
            .check([(name, value)].into_iter(), SettingSource::Start)
            .map_err(|text| String::from_utf8_lossy(&text).into_owned())?;
        self.apply_settings(&settings);
        Ok(())
    }

    /// Keeps the values that are not the defaults with the data, and the users unless a file has them: CONFIG
    /// REWRITE.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn store_settings(&self) -> esker::Result<()> {
        let space = self.store.space(Space::System);
        let mut batch = self.store.database().batch();
        batch.delete_range(space, [system::SETTING]..[system::SETTING + 1]);
        for (name, value) in self.config.changed() {
            batch.put(space, [&[system::SETTING][..], name.as_bytes()].concat(), value);
        }
        match self.user_file() {
            Some(_) => batch.delete(space, system::USERS),
            None => batch.put(space, system::USERS, self.access.read(Users::save)),
        }
        self.store.database().write(&batch).map(|_| ())
    }

    /// Sets what was kept with the data. A directive that this build does not take any more is left out.
    ///
    /// # Errors
    /// Those of the engine, and users with rules that this build does not take: leaving one out could give
    /// rights that nothing takes away.
    pub fn load_settings(&self) -> esker::Result<()> {
        for kept in kept_settings(self.store.space(Space::System)) {
            let (name, value) = kept?;
            let _refused = self.set_directive(&name, &value);
        }
        let Some(text) = self.store.space(Space::System).get(system::USERS)? else { return Ok(()) };
        self.access
            .change(|users| users.load(&text, b"stored users"))
            .map_err(|text| esker::Error::InvalidArgument(String::from_utf8_lossy(&text).into_owned().into()))
    }
}

/// Names and values of the directives that are kept with the data.
pub(crate) fn kept_settings(space: &Keyspace) -> impl Iterator<Item = esker::Result<(Vec<u8>, Vec<u8>)>> {
    let kept = space.prefix([system::SETTING]);
    kept.map(|entry| entry.map(|(key, value)| (key[1..].to_vec(), value.to_vec())))
}

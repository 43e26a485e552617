//! The order of modules in every crate, bottom up: a module uses those before it only.
//!
//! `cargo xtask arch --order CRATE [FOLDER]` prints the order that the code has.

/// The order of the modules in one folder.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) package: &'static str,
    /// Below the source folder; empty for the crate's own modules.
    pub(super) folder: &'static str,
    /// Names, bottom up. `mod` stands for the items that the folder's own file defines.
    pub(super) modules: &'static str,
    /// Circles that belong together.
    pub(super) closed: &'static [Closed],
}

/// Modules that may use each other: an enum and its members, say.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) modules: &'static str,
    /// Why a circle is right here.
    pub(super) reason: &'static str,
}

/// The order of a crate without circles.
const fn tree(package: &'static str, modules: &'static str) -> Order {
    Order { package, folder: "", modules, closed: &[] }
}

/// All orders.
pub(super) const ORDERS: &[Order] = &[
    tree(
        "esker-base",
        "planted checksum coding duration_counts expiry ids inside_job key kind large_buffer limits seqno error resident_only sync thread_buffer unwinding",
    ),
    tree(
        "esker-env",
        "clock control_group host c_heap host_pressure memory memory_ledger fork fs fs_wrapper aligned counting \
        deferred_syncs huge_page_heap off_heap_slice \
        off_heap_list published random fault rate_limiter slabs std_fs env fork_join reads \
        timed_file",
    ),
    tree(
        "esker-iter",
        "boundaries bounds cursor key_buffer meaning large_values merge operator \
        compaction_filter full_merge range_del reader compaction_iter slice key_span tombstone_span visible \
        double_ended",
    ),
    Order {
        package: "esker-iter",
        folder: "merge",
        modules: "loser_tree order mod galloping turn",
        closed: &[],
    },
    Order {
        package: "esker-iter",
        folder: "visible",
        modules: "position mod tombstone_spans show single_version operands forward backward",
        closed: &[],
    },
    Order {
        package: "esker-iter",
        folder: "compaction_iter",
        modules: "stats role key_group mod filter decide merge_operands write_all",
        closed: &[],
    },
    Order {
        package: "esker-codec",
        folder: "",
        modules: "snappy without_lzma without_snappy without_zstd kind zstd lz4 lzma dictionary decompress columns adaptive compress",
        closed: &[Closed {
            modules: "snappy without_lzma without_snappy without_zstd kind zstd lz4 lzma dictionary decompress columns adaptive compress",
            reason: "each codec decodes in its own module, and the enum of codecs dispatches to all of them",
        }],
    },
    tree(
        "esker-filter",
        "bits lines probe blocked bloom reference shards stored ribbon model fuse kind policy \
                  plan builder monkey allocation parallel reader watch tuning",
    ),
    tree(
        "esker-cache",
        "doorkeeper entry full_notification kind number_allocator policy stats shard cache numbers warming scan_admission",
    ),
    Order {
        package: "esker-memtable",
        folder: "",
        modules: "mod memory model ranges arena entry tail merged reference table order art \
                  kind memtable vector btree hash structure cursor",
        closed: &[Closed {
            modules: "arena entry tail merged reference table order art kind memtable vector \
            btree hash structure cursor",
            reason: "each structure stands beside the others behind one enum, which dispatches to all of them",
        }],
    },
    tree(
        "esker-wal",
        "batch record segment file scan header_copies history catalog inspect recover salvage sync log \
                  writer",
    ),
    Order { package: "esker-wal", folder: "batch", modules: "entry encoder carry ingest mod", closed: &[] },
    Order {
        package: "esker-wal",
        folder: "log",
        modules: "options live_segments pool mod prepare release retention flush",
        closed: &[],
    },
    Order {
        package: "esker-wal",
        folder: "recover",
        modules: "mod record_view report chain tail",
        closed: &[],
    },
    tree("esker-blob", "pointer record frame reader writer"),
    tree(
        "esker-sst",
        "decode_error expiring page_alignment range_tombstones simd slots table_slots block cached_part pinned_value \
                  footer filter_access dictionary properties section_reader index verified_blocks \
                  table_identity block_bounds options observed_reads read_pattern table table_filter table_index range_estimate load mapped \
                  input_residency waiting_block window_buffer read_ahead cache_warmer dictionary_buffer file_writer inspect lookup observed_lookup cursor \
                  multi_get salvage salvaged_end stored_checksums verify writer",
    ),
    tree(
        "esker-version",
        "range part blob run version check figures edit encode keyspaces state prepared current frame recover needed \
                  salvage manifest",
    ),
    Order { package: "esker-version", folder: "encode", modules: "tag fields part mod", closed: &[] },
    Order {
        package: "esker-version",
        folder: "state",
        modules: "mod live_files snapshot_edit apply",
        closed: &[],
    },
    tree(
        "esker-strategy",
        "level_limit migration options garbage_budget position shape cut plan running_jobs validate \
                  plan_builder flush_placement garbage_estimate runs_per_level score partition_window \
                  blob_gc manual space_target tombstone_rules fifo partial fluid partitioned work_round kind \
                  worst_case write_control",
    ),
    Order {
        package: "esker-strategy",
        folder: "fluid",
        modules: "mod form merges level0 full_level",
        closed: &[],
    },
    tree(
        "esker-model",
        "content cost advice outcome workload scenario scale source tables tree tally settled \
        paced simulate",
    ),
    tree(
        "esker-view",
        "paths time value lookup_counts tombstone_span_cache snapshot semantics tree super_version lookup_tracer read",
    ),
    Order {
        package: "esker-view",
        folder: "read",
        modules: "key_range last_run_predictor scan_tally pinned open_readers run_cursor fenced_run range_tombstones source \
                  cursor layer range keys versions resolve multi point observed_source observed_point observed_scan range_size split_points mod",
        closed: &[Closed {
            modules: "range_tombstones source",
            reason: "a source of a merge may itself be read under range tombstones",
        }],
    },
    tree(
        "esker-build",
        "compression_downgrade older_versions filters overwrite_ratio range_del table_factory \
        pending_outputs blob_separation warmed_outputs table_sink",
    ),
    tree("esker-engine", "file_transfer state amplification write background lifecycle"),
    Order {
        package: "esker-engine",
        folder: "state",
        modules: "activity adaptive_state commit_notifier consumers events idle_budget log_ages \
                  memory_shares pinned_memtables read_heat read_triggered scheduler sealed_memory \
                  traffic write_control counters keyspace commit_state jobs quarantine store figures shape \
                  space_use",
        closed: &[],
    },
    Order {
        package: "esker-engine",
        folder: "state/scheduler",
        modules: "pool mod worker wait stepped",
        closed: &[],
    },
    Order {
        package: "esker-engine",
        folder: "state/keyspace",
        modules: "compaction_outcome definition job_state publication tuning mod recent_drops registry",
        closed: &[],
    },
    Order {
        package: "esker-engine",
        folder: "write",
        modules: "batch ingested_part memory_arbiter write_control switch_memtable write_stall make_room write_options commit ingest_commit",
        closed: &[],
    },
    Order { package: "esker-engine", folder: "write/commit", modules: "insert durability mod", closed: &[] },
    Order {
        package: "esker-engine",
        folder: "background",
        modules: "clock_state install quarantine flush_pieces flush flush_group picker subcompactions spill_memtables table_eviction targets idle_wal idle kept_tables install_options \
                  migration compact workers",
        closed: &[],
    },
    Order {
        package: "esker-engine",
        folder: "background/flush",
        modules: "sealed merge_memtables mod ingested unpublished",
        closed: &[],
    },
    Order {
        package: "esker-engine",
        folder: "background/compact",
        modules: "write_merge execute mod preemption manual",
        closed: &[],
    },
    Order {
        package: "esker-engine",
        folder: "lifecycle",
        modules: "close history_recovery replay new_keyspace open keyspace",
        closed: &[],
    },
    Order {
        package: "esker-engine",
        folder: "lifecycle/open",
        modules: "mod directory log manifest stored_options table_files damaged_files assembly clean_reopen writable read_only full_disk",
        closed: &[],
    },
    // The facade: what users hold is in `handle`; each feature sees it and the engine, and no other feature.
    tree(
        "esker",
        "compaction_filter damage error events resident handle overlay transaction advice changes copy backup ingest \
                  merge open options parts report metrics explain repair",
    ),
    Order {
        package: "esker",
        folder: "repair/verify",
        modules: "report files mod pointers tree",
        closed: &[],
    },
    Order { package: "esker", folder: "handle/keyspace", modules: "mod writing reading", closed: &[] },
    tree("esker-protocol", "http lines pairs parse_error scalar layout answer words command"),
    tree(
        "esker-lua",
        "host flags numbers random script lru scripts library raise bridge json_settings state define lua_to_reply \
         reply_to_lua api register cjson cmsgpack packed_struct bit vm engine libraries fuzz",
    ),
    tree(
        "esker-redis-commands",
        "channel flags key_spec reply text key_rule command keys table names acl describe fuzz",
    ),
    Order {
        package: "esker-redis-commands",
        folder: "acl",
        modules: "command_set log ordered rule selector sha256 user check describe users auth file replies",
        closed: &[],
    },
    tree(
        "esker-redis-data",
        "corrupt crc64 reader intset lzf strings packed listpack ziplist zipmap stream value dump \
                  bits hyperloglog lcs geo fuzz",
    ),
    Order {
        package: "esker-redis-data",
        folder: "dump",
        modules: "types restore_error footer decoder restore_stream restore_value encoder encoding_limits dump_stream dump_value functions mod",
        closed: &[],
    },
    Order {
        package: "esker-redis-data",
        folder: "hyperloglog",
        modules: "mod element dense header sparse sparse_set count debug",
        closed: &[],
    },
    tree(
        "esker-redis-store",
        "layout random_seed record locks ids garbage_queue rank_nodes kept_ends order_ends list_ends store ahead changes notifications txn entry types whole_database random_key expiry_sweep garbage check",
    ),
    Order {
        package: "esker-redis-store",
        folder: "txn",
        modules: "mod access cached_parts look_ahead notify",
        closed: &[],
    },
    tree(
        "esker-redis-server",
        "failure key_cursors key_uses background clients client_line pubsub held_messages script_log keyspace_events config statistics rates observed checkpoints tracking watches waiting pausing flusher stop rebinding scripts access tls log_level server figures settings file_limit session access_changes users tls_changes address_changes observer command_kinds checks call reply_tree commands execute local_client net start start_check reconfigure",
    ),
    Order {
        package: "esker-redis-server",
        folder: "net/connection",
        modules: "work output mod backpressure output_limit socket_io",
        closed: &[],
    },
    tree(
        "esker-resp",
        "glob quoting memory_size redis_conf integer exact_decimal double long_double limits line_search \
        protocol_error request value value_parser writer fuzz",
    ),
    tree(
        "esker-tls",
        "error pem suites session_cache settings current handshake_bytes open_handshakes acceptor connector",
    ),
    tree(
        "esker-admin",
        "config access stop texts sources history readiness json metrics response page shared query explanations \
         reports observer routes connection listener",
    ),
    tree(
        "esker-server",
        "error stop load_file limits config client_limit line_memory unsent_answers dsl connection listener",
    ),
    tree(
        "esker-grpc",
        "proto config error stop status deadline access tokens held_bytes pools snapshots call shared stream \
        requests resume_token writes scan changes reports key_value admin dispatch preface connection listener",
    ),
    tree(
        "esker-bench",
        "data distribution settings error host dsl_workload sample report store blob compact deletes keyspaces overwrite rest \
                  workloads reopen memory_bound run",
    ),
    Order { package: "esker-bench", folder: "report", modules: "rows mod table json_lines", closed: &[] },
    tree(
        "esker-experiments",
        "counters error keys machine settings statistics table claim finding comparison plot context \
                  experiment subjects report",
    ),
    tree(
        "esker-cli",
        "failure format args log log_lines log_limit output host config_file caller interrupt json records http_client control commands shell shared embedded",
    ),
    Order {
        package: "esker-cli",
        folder: "args",
        modules: "durability connect global range simulate advise bench changes copies explain generate load ingest inspect \
                  keyspaces merging options pages point repair serve shell stats strategy top mod experiment over_http honoured",
        closed: &[],
    },
    tree(
        "esker-testkit",
        "mod decoders dir directory_image domain failure events kill operators options script oracle follower \
                  cursor_walks log_scan open_transaction runner ingest one_key model transactions image_choice crash damage \
                  errors generator shrink watch soak",
    ),
    Order { package: "esker-testkit", folder: "crash", modules: "mod recoveries", closed: &[] },
    Order {
        package: "esker-testkit",
        folder: "errors",
        modules: "injections guaranteed operations mod",
        closed: &[],
    },
    Order { package: "esker-testkit", folder: "options", modules: "mod keyspace database", closed: &[] },
    tree("esker-redis-testkit", "random certificates stream client server differential"),
    Order {
        package: "esker-redis-testkit",
        folder: "differential",
        modules: "request error_number pools arguments excluded shapes generator rules pair standing_alone lockstep shrink \
                  state effects mod",
        closed: &[],
    },
    tree("xtask", "mod findings kill_loop repository proto arch bugs instructions sanitizers tidy"),
    tree(
        "esker-options",
        "mod durability recovery_mode events memory migration_record open_tables own_filter per_level stored schema keyspace \
                  filtering by_name design merging presets config named rows",
    ),
];

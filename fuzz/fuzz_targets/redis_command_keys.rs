#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_redis_commands::fuzz::command_keys(bytes));

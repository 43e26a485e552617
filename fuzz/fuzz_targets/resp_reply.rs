#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_resp::fuzz::reply(bytes));

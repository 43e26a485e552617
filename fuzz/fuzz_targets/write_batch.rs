#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_testkit::decoders::write_batch::target(bytes));

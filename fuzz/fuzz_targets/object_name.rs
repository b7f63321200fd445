#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| waybill_fuzz::check("object_name", input));

//! The program as the runtime starts it. That this test program exists also makes cargo build the binary with the features of the whole
//! workspace, which `cargo xtask lambda` packs.

use std::process::Command;

#[test]
fn without_a_bucket_it_ends_at_once_and_says_what_is_missing() {
    let output = Command::new(env!("CARGO_BIN_EXE_bootstrap"))
        .env_remove("WAYBILL_BUCKET")
        .env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9")
        .output()
        .expect("starts");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("WAYBILL_BUCKET has to name the bucket"), "{said}");
}

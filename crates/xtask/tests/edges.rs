//! Which crate may use which: the table of ARCHITECTURE.md as a test. Arrows point down only; adapters never see each other; the API and
//! the pipeline never see an adapter.

use serde_json::Value;
use std::{collections::BTreeMap, process::Command};

/// Crate, what it may use, and what its tests may use besides.
const ALLOWED: &[(&str, &[&str], &[&str])] = &[
    ("waybill-core", &[], &[]),
    ("waybill-crypto", &[], &[]),
    ("waybill-services", &[], &[]),
    ("waybill-sink", &[], &[]),
    ("waybill-render", &[], &[]),
    ("waybill-store", &["waybill-core"], &["waybill-testkit"]),
    ("waybill-pipeline", &["waybill-core", "waybill-store"], &["waybill-testkit"]),
    ("waybill-redis", &["waybill-core"], &["waybill-services", "waybill-testkit"]),
    ("waybill-local", &["waybill-core", "waybill-render"], &["waybill-testkit"]),
    ("waybill-aws", &["waybill-core"], &["waybill-testkit"]),
    ("waybill-renderer", &["waybill-aws", "waybill-core", "waybill-render"], &["waybill-testkit"]),
    ("waybill-providers", &["waybill-core", "waybill-crypto"], &["waybill-sink", "waybill-testkit"]),
    ("waybill-api", &["waybill-core"], &["waybill-testkit"]),
    ("waybill-testkit", &["waybill-core", "waybill-sink"], &[]),
    ("waybill-chaos", &["waybill-core", "waybill-crypto", "waybill-services", "waybill-sink", "waybill-store"], &[]),
    ("waybill-bench", &["waybill-aws", "waybill-core", "waybill-crypto", "waybill-sink", "waybill-store"], &[]),
    ("waybill-model", &["waybill-core"], &[]),
    ("waybill-scale", &[], &[]),
    (
        "waybill-fuzz",
        &["waybill-api", "waybill-aws", "waybill-core", "waybill-crypto", "waybill-pipeline", "waybill-providers"],
        &[],
    ),
    ("xtask", &["waybill-services"], &[]),
    (
        "waybill",
        &[
            "waybill-api",
            "waybill-aws",
            "waybill-core",
            "waybill-crypto",
            "waybill-local",
            "waybill-pipeline",
            "waybill-providers",
            "waybill-redis",
            "waybill-render",
            "waybill-services",
            "waybill-sink",
            "waybill-store",
        ],
        &["waybill-testkit"],
    ),
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("runs cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What is wrong with the edges of `metadata`, one line each.
fn wrong_edges(metadata: &Value) -> Vec<String> {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().map(|(name, uses, tests)| (*name, (*uses, *tests))).collect();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let Some((uses, tests)) = allowed.get(name) else {
            wrong.push(format!("{name} is not in the table: say what it may use"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("a name");
            let in_tests = dependency["kind"].as_str() == Some("dev");
            if ours.contains(&used) && !uses.contains(&used) && !(in_tests && tests.contains(&used)) {
                wrong.push(format!("{name} -> {used}{}", if in_tests { " (in its tests)" } else { "" }));
            }
        }
    }
    wrong
}

#[test]
fn no_crate_reaches_where_it_may_not() {
    let wrong = wrong_edges(&metadata());
    assert!(wrong.is_empty(), "edges that the architecture does not allow:\n{}", wrong.join("\n"));
}

#[test]
fn an_edge_that_is_not_allowed_is_named() {
    let metadata = serde_json::json!({"packages": [
        {"name": "waybill-pipeline", "dependencies": [{"name": "waybill-redis", "kind": null}, {"name": "serde", "kind": null}]},
        {"name": "waybill-redis", "dependencies": [{"name": "waybill-testkit", "kind": "dev"}, {"name": "waybill-testkit", "kind": null}]},
        {"name": "waybill-testkit", "dependencies": []},
        {"name": "waybill-new", "dependencies": []},
    ]});
    assert_eq!(
        wrong_edges(&metadata),
        [
            "waybill-pipeline -> waybill-redis",
            "waybill-redis -> waybill-testkit",
            "waybill-new is not in the table: say what it may use"
        ]
    );
}

//! Which runs of cargo a test command consists of.

use anyhow::{Result, bail};

use crate::workspace;

/// Which tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All that need PostgreSQL and Redis at most.
    Usual,
    /// Those that download servers.
    Wheels,
    /// Those that need an emulator of AWS.
    Aws,
}

/// One run of cargo.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) heading: String,
    pub(super) arguments: Vec<String>,
    /// The binary under test runs on the emulator.
    pub(super) on_aws: bool,
}

impl Step {
    fn new(heading: impl Into<String>, arguments: &str) -> Self {
        let arguments = words("test --locked --no-fail-fast").into_iter().chain(words(arguments)).collect();
        Self { heading: heading.into(), arguments, on_aws: false }
    }

    /// The renderer's function runs on the emulator too.
    pub(super) fn needs_renderer(&self) -> bool {
        self.on_aws || self.arguments.iter().any(|word| word == "emulator_documents")
    }
}

/// `rest` goes to the test programs.
pub(super) fn plan(only: Option<&str>, kind: Kind, rest: &[String]) -> Result<Vec<Step>> {
    let mut steps = match (kind, only) {
        (Kind::Wheels, Some(_)) => bail!("--only and --wheels exclude each other"),
        (Kind::Wheels, None) => {
            vec![Step::new("tests of downloaded servers", "-p waybill-services --test services -- --ignored wheel")]
        }
        (Kind::Usual, only) => vec![usual(only)],
        (Kind::Aws, only) => aws(only),
    };
    if let (true, Some(only)) = (steps.is_empty(), only) {
        bail!("--aws has no tests of {only}");
    }
    for step in &mut steps {
        if !rest.is_empty() && !step.arguments.iter().any(|word| word == "--") {
            step.arguments.push("--".to_owned());
        }
        step.arguments.extend_from_slice(rest);
    }
    Ok(steps)
}

fn usual(only: Option<&str>) -> Step {
    match (only, only.and_then(package)) {
        (None, _) => Step::new("all tests", "--workspace"),
        (Some(_), Some(package)) => Step::new(format!("tests of {package}"), &format!("-p {package}")),
        (Some(name), None) => Step::new(format!("tests with {name} in their name"), &format!("--workspace {name}")),
    }
}

/// The tests that are ignored without an emulator, then the black-box suites of the binary with its AWS adapters. Always of the whole
/// workspace, by the names of test programs: a choice of packages would choose other features of shared dependencies, and build them anew.
fn aws(only: Option<&str>) -> Vec<Step> {
    const ADAPTERS: [(&str, &str); 2] =
        [("waybill-aws", "--test emulator --test emulator_documents"), ("xtask", "--test killed")];
    let package = only.and_then(package);
    let filter = if package.is_some() { "" } else { only.unwrap_or_default() };
    let chosen = |name: &str| package.as_deref().is_none_or(|package| package == name);
    let programs: Vec<&str> = ADAPTERS.iter().filter(|(name, _)| chosen(name)).map(|(_, programs)| *programs).collect();
    let mut steps = Vec::new();
    if !programs.is_empty() {
        let arguments = format!("--workspace {} -- --ignored {filter}", programs.join(" "));
        steps.push(Step::new("adapters on the emulator", &arguments));
    }
    if chosen("waybill") {
        let suites = Step::new(
            "end-to-end and crash suites on the emulator",
            &format!("--workspace --test e2e --test crash {filter}"),
        );
        steps.push(Step { on_aws: true, ..suites });
    }
    steps
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `store` and `waybill-store` both mean the crate, if there is one.
fn package(name: &str) -> Option<String> {
    let crates = workspace::root().join("crates");
    [name.to_owned(), format!("waybill-{name}")].into_iter().find(|name| crates.join(name).join("Cargo.toml").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(only: Option<&str>, kind: Kind, rest: &[&str]) -> Vec<String> {
        let rest: Vec<String> = rest.iter().map(|&word| word.to_owned()).collect();
        let strip = |step: Step| {
            let command = step.arguments.join(" ");
            command.strip_prefix("test --locked --no-fail-fast ").unwrap().to_owned()
        };
        plan(only, kind, &rest).unwrap().into_iter().map(strip).collect()
    }

    #[test]
    fn without_options_the_whole_workspace_is_tested() {
        assert_eq!(commands(None, Kind::Usual, &[]), ["--workspace"]);
    }

    #[test]
    fn only_is_a_crate_if_there_is_one_and_else_a_filter() {
        assert_eq!(commands(Some("services"), Kind::Usual, &[]), ["-p waybill-services"]);
        assert_eq!(commands(Some("xtask"), Kind::Usual, &[]), ["-p xtask"]);
        assert_eq!(commands(Some("sg_02"), Kind::Usual, &["--nocapture"]), ["--workspace sg_02 -- --nocapture"]);
    }

    #[test]
    fn wheels_are_the_ignored_tests_of_one_crate() {
        let wheels = commands(None, Kind::Wheels, &["--nocapture"]);
        assert_eq!(wheels, ["-p waybill-services --test services -- --ignored wheel --nocapture"]);
        assert!(plan(Some("services"), Kind::Wheels, &[]).is_err());
    }

    #[test]
    fn aws_is_the_ignored_tests_of_the_adapters_and_then_the_suites_of_the_binary() {
        let adapters = "--workspace --test emulator --test emulator_documents --test killed -- --ignored";
        let suites = "--workspace --test e2e --test crash";
        assert_eq!(commands(None, Kind::Aws, &[]), [adapters, suites]);
        assert_eq!(
            plan(None, Kind::Aws, &[]).unwrap().iter().map(|step| step.on_aws).collect::<Vec<_>>(),
            [false, true]
        );
        let nocapture = commands(None, Kind::Aws, &["--nocapture"]);
        assert_eq!(nocapture, [format!("{adapters} --nocapture"), format!("{suites} -- --nocapture")]);
    }

    #[test]
    fn only_of_aws_is_one_of_its_crates_or_a_filter_of_all() {
        assert_eq!(
            commands(Some("aws"), Kind::Aws, &[]),
            ["--workspace --test emulator --test emulator_documents -- --ignored"]
        );
        assert_eq!(commands(Some("waybill"), Kind::Aws, &[]), ["--workspace --test e2e --test crash"]);
        assert_eq!(
            commands(Some("row_05"), Kind::Aws, &[]),
            [
                "--workspace --test emulator --test emulator_documents --test killed -- --ignored row_05",
                "--workspace --test e2e --test crash row_05"
            ]
        );
        assert_eq!(plan(Some("store"), Kind::Aws, &[]).unwrap_err().to_string(), "--aws has no tests of store");
    }

    #[test]
    fn the_renderer_is_built_for_those_who_call_it() {
        let needed = |only| plan(only, Kind::Aws, &[]).unwrap().iter().any(Step::needs_renderer);
        assert!(needed(None) && needed(Some("aws")) && needed(Some("waybill")));
        assert!(!needed(Some("xtask")));
    }
}

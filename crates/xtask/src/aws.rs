//! The AWS that the emulator tests talk to: the caller's if it answers, else an emulator of our own.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use waybill_services::{Ministack, MinistackOptions, Progress};

use crate::services;
use crate::workspace;

const ENDPOINT: &str = "AWS_ENDPOINT_URL";
/// What a client wants to see; no emulator looks at it.
const DUMMIES: [(&str, &str); 3] =
    [("AWS_REGION", "eu-central-1"), ("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];

/// An emulator that stops when this value is dropped, or when we are killed.
pub(crate) struct Aws {
    endpoint: String,
    _ministack: Option<Ministack>,
}

impl Aws {
    /// Uses `AWS_ENDPOINT_URL` where it is set and somebody answers there. Never AWS itself: the tests make and delete what they like.
    pub(crate) fn find_or_start() -> Result<Self> {
        if let Some(endpoint) = services::answering(ENDPOINT, 80) {
            ensure!(!is_real(&endpoint), "{ENDPOINT} is {endpoint}: these tests run on an emulator only");
            return Ok(Self { endpoint, _ministack: None });
        }
        let folder = workspace::target().join("services");
        let mut options = MinistackOptions::new(folder.join("data"), folder.join("cache"));
        options.progress = Progress::new(|step| eprintln!("   {step}"));
        let ministack = Ministack::start(&options).context("starting MiniStack")?;
        eprintln!("   MiniStack started (pid {})", ministack.pid());
        eprintln!("   it writes to {}", ministack.folder().display());
        Ok(Self { endpoint: ministack.endpoint(), _ministack: Some(ministack) })
    }

    /// What a program needs to talk to it: the caller's own values where there are some.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let dummies =
            DUMMIES.into_iter().filter(|(name, _)| std::env::var_os(name).is_none_or(|value| value.is_empty()));
        let endpoint = (ENDPOINT, self.endpoint.clone());
        std::iter::once(endpoint).chain(dummies.map(|(name, value)| (name, value.to_owned()))).collect()
    }

    /// Makes `command` use this AWS for everything: an address of one service would lead elsewhere, a profile to an account.
    pub(crate) fn apply(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("AWS_ENDPOINT_URL_") || name == "AWS_PROFILE" {
                command.env_remove(&*name);
            }
        }
        command.envs(self.environment());
    }
}

fn is_real(endpoint: &str) -> bool {
    let endpoint = endpoint.to_ascii_lowercase();
    [".amazonaws.com", ".api.aws", ".aws.dev"].iter().any(|domain| endpoint.contains(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_is_not_taken_for_aws_nor_aws_for_an_emulator() {
        assert!(is_real("https://sqs.eu-central-1.amazonaws.com"));
        assert!(is_real("https://S3.cn-north-1.AmazonAWS.com.cn/"));
        assert!(is_real("https://sqs.eu-central-1.api.aws"));
        assert!(!is_real("http://127.0.0.1:4566") && !is_real("http://localstack:4566"));
    }
}

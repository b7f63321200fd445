//! `waybill health`: asks a running process how it is. Containers of the image have neither a shell nor curl.

use anyhow::{Context as _, bail};
use clap::Args;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

/// Below the timeouts of health checks, so that they get a reason and not a kill.
const TIMEOUT: Duration = Duration::from_secs(4);
const API_DEFAULT: &str = "127.0.0.1:8080";

#[derive(Args)]
pub(crate) struct HealthArgs {
    /// Asks whether traffic should come (`/readyz`), not only whether the process lives (`/healthz`)
    #[arg(long, conflicts_with = "url")]
    ready: bool,
    /// Asks this address; without it, this machine at the port of WAYBILL_OPS_LISTEN, else of WAYBILL_API_LISTEN
    url: Option<String>,
}

pub(super) async fn run(args: HealthArgs) -> anyhow::Result<ExitCode> {
    let url = match args.url {
        Some(url) => url,
        None => url(|name| std::env::var(name).ok(), args.ready)?,
    };
    println!("{}", ask(&url).await?);
    Ok(ExitCode::SUCCESS)
}

fn url(environment: impl Fn(&str) -> Option<String>, ready: bool) -> anyhow::Result<String> {
    let set = |name: &'static str| environment(name).filter(|value| !value.is_empty()).map(|value| (name, value));
    let (name, value) = set("WAYBILL_OPS_LISTEN")
        .or_else(|| set("WAYBILL_API_LISTEN"))
        .unwrap_or_else(|| ("WAYBILL_API_LISTEN", API_DEFAULT.into()));
    let mut address: SocketAddr = value.parse().with_context(|| format!("{name} is `{value}`, not IP:PORT"))?;
    // Whoever listens everywhere listens here too.
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    Ok(format!("http://{address}/{}", if ready { "readyz" } else { "healthz" }))
}

/// # Errors
/// No answer, or another one than a success, whose body says what is wrong.
async fn ask(url: &str) -> anyhow::Result<String> {
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build().context("making the client")?;
    let answer = client.get(url).send().await.with_context(|| format!("{url} does not answer"))?;
    let status = answer.status();
    let body = answer.text().await.unwrap_or_default();
    if !status.is_success() {
        bail!("{url} answers {status}: {body}");
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    fn from(values: &'static [(&'static str, &'static str)], ready: bool) -> anyhow::Result<String> {
        url(|name| values.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()), ready)
    }

    #[test]
    fn the_address_is_the_one_that_the_process_listens_on() {
        let both = &[("WAYBILL_OPS_LISTEN", "0.0.0.0:8081"), ("WAYBILL_API_LISTEN", "0.0.0.0:8080")];
        assert_eq!(from(both, false).unwrap(), "http://127.0.0.1:8081/healthz");
        assert_eq!(from(both, true).unwrap(), "http://127.0.0.1:8081/readyz");
        assert_eq!(from(&[("WAYBILL_API_LISTEN", "[::]:9000")], false).unwrap(), "http://127.0.0.1:9000/healthz");
        assert_eq!(from(&[("WAYBILL_API_LISTEN", "[::1]:9000")], false).unwrap(), "http://[::1]:9000/healthz");
        assert_eq!(from(&[("WAYBILL_OPS_LISTEN", "")], false).unwrap(), "http://127.0.0.1:8080/healthz");
        let wrong = from(&[("WAYBILL_OPS_LISTEN", "8081")], false).unwrap_err().to_string();
        assert_eq!(wrong, "WAYBILL_OPS_LISTEN is `8081`, not IP:PORT");
    }

    /// Answers one request with `answer`.
    async fn server(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/readyz", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let read = stream.read(&mut [0; 1024]).await.unwrap();
            assert!(read > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        url
    }

    #[tokio::test]
    async fn success_is_a_success_and_everything_else_says_why() {
        let ok = server("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine").await;
        assert_eq!(ask(&ok).await.unwrap(), "fine");
        let busy = server("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 8\r\n\r\ndraining").await;
        let said = ask(&busy).await.unwrap_err().to_string();
        assert!(said.ends_with("answers 503 Service Unavailable: draining"), "{said}");
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let said = ask(&format!("http://{closed}/readyz")).await.unwrap_err().to_string();
        assert!(said.ends_with("does not answer"), "{said}");
    }
}

use super::*;
use crate::test_mail::mail;
use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};
use waybill_crypto::Secret;

/// A server that answers commands by their verb; what is not in its list it answers with 250. `-` is silence, `!` hangs up. After the
/// message it answers what stands under `.`.
async fn server(answers: &'static [(&'static str, &'static str)]) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&heard);
    tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        let (mut line, mut verb) = (String::new(), "CONNECT".to_owned());
        loop {
            let found = answers.iter().find(|(name, _)| *name == verb).map(|(_, answer)| *answer);
            let reply = found.unwrap_or(match verb.as_str() {
                "CONNECT" => "220 test",
                "DATA" => "354 go",
                "." => "250 2.0.0 queued as 1",
                _ => "250 ok",
            });
            let in_message = verb == "DATA" && reply.starts_with("354");
            match reply {
                "-" => std::future::pending().await,
                "!" => return,
                reply => stream.get_mut().write_all(format!("{reply}\r\n").as_bytes()).await.unwrap(),
            }
            loop {
                line.clear();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    return;
                }
                if !in_message || line == ".\r\n" {
                    break;
                }
            }
            log.lock().unwrap().push(line.trim_end().to_owned());
            verb = line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        }
    });
    (port, heard)
}

fn provider(port: u16, tls: SmtpTls) -> SmtpProvider {
    let timeout = Duration::from_millis(600);
    let config = SmtpConfig { tls, timeout, ..SmtpConfig::parse(&format!("smtp://127.0.0.1:{port}"), false).unwrap() };
    SmtpProvider::new(config).unwrap()
}

async fn send(answers: &'static [(&'static str, &'static str)]) -> Outcome {
    let (port, _) = server(answers).await;
    provider(port, SmtpTls::None).send(&mail()).await
}

#[tokio::test]
async fn where_the_dialogue_breaks_off_decides() {
    for (answers, expected) in [
        (&[][..], "accepted"),
        (&[("CONNECT", "-")], "unavailable"),
        (&[("CONNECT", "!")], "unavailable"),
        (&[("CONNECT", "554 no service")], "unusable"),
        (&[("CONNECT", "421 4.3.2 shutting down")], "unavailable"),
        (&[("CONNECT", "hello?")], "unavailable"),
        (&[("EHLO", "-")], "unavailable"),
        (&[("MAIL", "!")], "unavailable"),
        (&[("RCPT", "-")], "unavailable"),
        (&[("RCPT", "550 5.1.1 unknown")], "rejected_recipient"),
        (&[("RCPT", "451 4.7.1 later")], "throttled"),
        (&[("DATA", "!")], "unavailable"),
        (&[("DATA", "250 what?")], "unavailable"),
        (&[(".", "-")], "unknown"),
        (&[(".", "!")], "unknown"),
        (&[(".", "what?")], "unknown"),
        (&[(".", "250 ")], "unknown"),
        (&[(".", "354 go on")], "unknown"),
        (&[(".", "451 4.3.0 later")], "unavailable"),
        (&[(".", "554 5.6.0 no")], "rejected_message"),
        (&[("QUIT", "-")], "accepted"),
    ] {
        let outcome = send(answers).await;
        assert_eq!(outcome.as_str(), expected, "{answers:?}: {outcome:?}");
        assert!(!outcome.detail().contains('@'), "{outcome:?}");
    }
}

#[tokio::test]
async fn the_id_is_what_the_server_says() {
    let Outcome::Accepted { provider_message_id } = send(&[]).await else { panic!("not accepted") };
    assert_eq!(provider_message_id, "2.0.0 queued as 1");
}

#[tokio::test]
async fn a_server_without_starttls_gets_neither_a_password_nor_a_mail() {
    let (port, heard) = server(&[("EHLO", "250-test\r\n250 AUTH PLAIN")]).await;
    let mut provider = provider(port, SmtpTls::StartTls);
    provider.parameters = Some(TlsParameters::new("127.0.0.1".into()).unwrap());
    provider.credentials = Some(Credentials::new("me".into(), "hunter2".into()));
    let outcome = provider.send(&mail()).await;
    assert_eq!(outcome.as_str(), "unusable", "{outcome:?}");
    let heard = heard.lock().unwrap().clone();
    assert!(heard.iter().all(|line| !line.starts_with("AUTH") && !line.starts_with("MAIL")), "{heard:?}");
}

#[tokio::test]
async fn a_wrong_password_is_the_account_s_fault_and_is_never_printed() {
    let (port, _) = server(&[("EHLO", "250-test\r\n250 AUTH PLAIN"), ("AUTH", "535 5.7.8 no")]).await;
    let mut provider = provider(port, SmtpTls::None);
    provider.credentials = Some(Credentials::new("me".into(), "hunter2".into()));
    assert_eq!(provider.send(&mail()).await, Outcome::Unusable { detail: "AUTH: 535 5.7.8 no".into() });
    let credentials = SmtpCredentials { username: "me".into(), password: Secret::from("hunter2") };
    assert!(!format!("{credentials:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_server_without_a_way_to_authenticate_is_the_account_s_fault() {
    let (port, _) = server(&[]).await;
    let mut provider = provider(port, SmtpTls::None);
    provider.credentials = Some(Credentials::new("me".into(), "hunter2".into()));
    assert_eq!(provider.send(&mail()).await.as_str(), "unusable");
}

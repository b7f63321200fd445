use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;
use waybill_sink::{Fault, FaultKind, Provider, Sink, SinkConfig};

const MESSAGE: &str = "From: Acme <no-reply@acme.example>\r\nTo: ada@example.com\r\nSubject: Invoice 17\r\n\
    X-Waybill-IDs: delivery_id=dlv_1,\r\n job_id=job_1\r\n\r\nHi\r\n..dot\r\n.\r\n";

struct Client {
    sink: Sink,
    stream: BufReader<TcpStream>,
}

impl Client {
    async fn start() -> Self {
        let sink = Sink::new(SinkConfig::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the network of this machine");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(sink.clone().serve_smtp(listener, CancellationToken::new()));
        let mut client = Client {
            sink,
            stream: BufReader::new(TcpStream::connect(address).await.expect("the network of this machine")),
        };
        assert!(client.reply().await.starts_with("220 "));
        assert!(client.say("EHLO me\r\n").await.contains("250 ENHANCEDSTATUSCODES"));
        client
    }

    async fn reply(&mut self) -> String {
        let mut reply = String::new();
        loop {
            let from = reply.len();
            if self.stream.read_line(&mut reply).await.expect("the network of this machine") == 0
                || reply.as_bytes().get(from + 3) != Some(&b'-')
            {
                return reply;
            }
        }
    }

    async fn say(&mut self, text: &str) -> String {
        self.stream.get_mut().write_all(text.as_bytes()).await.expect("the network of this machine");
        self.reply().await
    }

    async fn envelope(&mut self) {
        for (line, code) in [("MAIL FROM:<a@acme.example>\r\n", "250"), ("RCPT TO:<ada@example.com>\r\n", "250")] {
            assert!(self.say(line).await.starts_with(code), "{line}");
        }
        assert!(self.say("DATA\r\n").await.starts_with("354"));
    }
}

#[tokio::test]
async fn a_message_is_taken_with_its_ids_and_one_connection_takes_several() {
    let mut client = Client::start().await;
    for n in 1..=2 {
        client.envelope().await;
        let reply = client.say(MESSAGE).await;
        let mail = client.sink.mails().remove(0);
        assert_eq!(reply.trim_end(), format!("250 {}", mail.message_id));
        assert!(mail.message_id.starts_with("2.0.0 Ok: queued as "));
        assert_eq!(
            (mail.provider, mail.to.as_str(), mail.subject.as_str()),
            (Provider::Smtp, "ada@example.com", "Invoice 17")
        );
        assert_eq!(mail.text.as_deref(), Some("Hi\r\n.dot\r\n"), "a doubled dot is one");
        assert_eq!((mail.delivery_id(), mail.job_id()), (Some("dlv_1"), Some("job_1")));
        assert_eq!((client.sink.accepted(), client.sink.requests("smtp")), (n, n));
    }
    assert!(client.say("QUIT\r\n").await.starts_with("221"));
}

#[tokio::test]
async fn a_bare_line_feed_and_a_long_line_are_refused() {
    for bad in ["Subject: x\n\nsmuggled\r\n.\r\n".to_owned(), format!("Subject: x\r\n\r\n{}\r\n.\r\n", "a".repeat(999))]
    {
        let mut client = Client::start().await;
        client.envelope().await;
        assert!(client.say(&bad).await.starts_with("554 5.6.0"));
        assert_eq!(client.sink.accepted(), 0);
        client.envelope().await;
        assert!(client.say(MESSAGE).await.starts_with("250"), "the connection goes on");
    }
}

#[tokio::test]
async fn faults_come_where_a_server_would_say_them() {
    for (fault, at_recipient, reply) in [
        (FaultKind::Unauthorized, true, "530 5.7.0"),
        (FaultKind::Throttle, true, "451 4.7.1"),
        (FaultKind::DailyQuota, true, "550 5.4.5"),
        (FaultKind::Reject, false, "554 5.6.0"),
        (FaultKind::Http500, false, "451 4.3.0"),
        (FaultKind::TooLarge, false, "552 5.3.4"),
        (FaultKind::NoMessageId, false, "250 \r\n"),
    ] {
        let mut client = Client::start().await;
        client.sink.set_faults(vec![Fault::new(Provider::Smtp, fault).times(1)]);
        assert!(client.say("MAIL FROM:<a@acme.example>\r\n").await.starts_with("250"));
        let answer = client.say("RCPT TO:<ada@example.com>\r\n").await;
        let answer = if at_recipient {
            answer
        } else {
            assert!(client.say("DATA\r\n").await.starts_with("354"));
            client.say(MESSAGE).await
        };
        assert!(answer.starts_with(reply), "{}: {answer}", fault.as_str());
        assert_eq!(client.sink.accepted(), 0);
    }
}

#[tokio::test]
async fn a_reset_after_acceptance_is_counted() {
    let mut client = Client::start().await;
    client.sink.set_faults(vec![Fault::new(Provider::Smtp, FaultKind::ResetAfterAccept).delay(Duration::ZERO)]);
    client.envelope().await;
    client.stream.get_mut().write_all(MESSAGE.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    assert!(client.stream.read_to_end(&mut rest).await.is_err() || rest.is_empty());
    assert_eq!(client.sink.acceptances_by_delivery()["dlv_1"], 1);
}

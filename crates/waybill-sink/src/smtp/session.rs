//! One connection.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::{
    Smtp,
    dialogue::{Dialogue, GREETING, MAX_MESSAGE_BYTES, Step},
    faults::{AfterMessage, after_message, at_recipient},
};
use crate::{
    exchange::{DEFAULT_SILENCE, DEFAULT_SLOWNESS},
    faults::Hit,
    mail::{Draft, Provider},
    mime,
    sink::Sink,
};

/// RFC 5321 section 4.5.3.1.4 says 512; parameters may make it longer.
const MAX_COMMAND_BYTES: u64 = 2048;
/// Between two bytes of a reply that trickles.
const DRIP: Duration = Duration::from_millis(50);
const IDS: &str = "X-Waybill-IDs";

pub(super) struct Session {
    sink: Sink,
    stream: BufReader<TcpStream>,
    dialogue: Dialogue,
    hit: Option<Hit>,
}

impl Session {
    pub(super) fn new(sink: Sink, stream: TcpStream) -> Self {
        Session { sink, stream: BufReader::new(stream), dialogue: Dialogue::default(), hit: None }
    }

    /// Until the client quits or goes.
    pub(super) async fn run(mut self) -> io::Result<()> {
        self.stream.get_mut().set_nodelay(true)?;
        self.say(GREETING).await?;
        while let Some(line) = self.command().await? {
            match self.dialogue.step(&line) {
                Step::Reply(text) => self.say(&text).await?,
                Step::Begin(_) => {
                    self.sink.counts().add_request(Provider::Smtp);
                    self.hit = None;
                    self.say("250 2.1.0 Ok").await?;
                }
                Step::Recipient(address) => self.recipient(address).await?,
                Step::Message => {
                    self.say("354 End data with <CR><LF>.<CR><LF>").await?;
                    if !self.message().await? {
                        return Ok(());
                    }
                }
                Step::Quit => return self.say("221 2.0.0 Bye").await,
            }
        }
        Ok(())
    }

    async fn command(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        (&mut self.stream).take(MAX_COMMAND_BYTES).read_until(b'\n', &mut line).await?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(Some(String::from_utf8_lossy(line).into_owned())),
            // Gone, too long, or a bare LF: nothing good follows.
            None => Ok(None),
        }
    }

    async fn say(&mut self, text: &str) -> io::Result<()> {
        self.stream.get_mut().write_all(format!("{text}\r\n").as_bytes()).await
    }

    /// The fault script is asked here, where the recipient is known.
    async fn recipient(&mut self, address: String) -> io::Result<()> {
        if self.hit.is_none() {
            self.hit = self.sink.faults().take(Provider::Smtp, &[address.as_str()]);
        }
        match self.hit.and_then(|hit| at_recipient(hit.kind)) {
            Some(refusal) => {
                self.hit = None;
                self.say(refusal).await
            }
            None => {
                self.dialogue.recipients.push(address);
                self.say("250 2.1.5 Ok").await
            }
        }
    }

    /// Takes the message and replies; `false` when the connection is to be closed.
    async fn message(&mut self) -> io::Result<bool> {
        let draft = match self.read_message().await? {
            Ok(bytes) => self.draft(&bytes),
            Err(refusal) => Err(refusal),
        };
        self.dialogue.reset();
        match draft {
            Ok(draft) => self.answer(draft).await,
            Err(refusal) => self.say(refusal).await.map(|()| true),
        }
    }

    /// Up to the lone dot, without the dots that were doubled (RFC 5321 section 4.5.2).
    async fn read_message(&mut self) -> io::Result<Result<Vec<u8>, &'static str>> {
        let (mut message, mut line, mut refusal) = (Vec::new(), Vec::new(), None);
        loop {
            line.clear();
            if self.stream.read_until(b'\n', &mut line).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line == b".\r\n" {
                return Ok(refusal.map_or(Ok(message), Err));
            }
            if !line.ends_with(b"\r\n") {
                refusal = Some("554 5.6.0 A line ends in a bare LF");
            } else if line.len() > 1000 {
                refusal = Some("554 5.6.0 A line is longer than 1000 octets");
            } else if message.len() + line.len() > MAX_MESSAGE_BYTES {
                refusal = Some("552 5.3.4 Message size exceeds fixed limit");
            } else {
                message.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
            }
        }
    }

    fn draft(&self, bytes: &[u8]) -> Result<Draft, &'static str> {
        let (draft, tags) = mime::into_draft(bytes, IDS).map_err(|_| "554 5.6.0 The message can't be read")?;
        // Who gets it is what the envelope says.
        Ok(Draft { recipients: self.dialogue.recipients.clone(), tags, ..draft })
    }

    async fn answer(&mut self, draft: Draft) -> io::Result<bool> {
        let hit = self.hit.take();
        let delay = hit.and_then(|hit| hit.delay);
        match after_message(hit.map(|hit| hit.kind)) {
            AfterMessage::Accept { late: false } => {
                let id = self.accept(draft);
                self.say(&format!("250 {id}")).await?;
            }
            AfterMessage::Accept { late: true } => {
                // In a task of its own: a server does not take a mail back because the client lost patience.
                let sink = self.sink.clone();
                let accepting = tokio::spawn(async move {
                    tokio::time::sleep(delay.unwrap_or(DEFAULT_SLOWNESS)).await;
                    sink.accept(&Smtp, vec![draft].into())
                });
                match accepting.await {
                    Ok(id) => self.say(&format!("250 {id}")).await?,
                    Err(_) => self.say("451 4.3.0 Local error in processing").await?,
                }
            }
            AfterMessage::Say { accept: take, bytes } => {
                if take {
                    self.accept(draft);
                }
                self.stream.get_mut().write_all(bytes).await?;
            }
            AfterMessage::Silence { accept: take } => {
                if take {
                    self.accept(draft);
                }
                tokio::time::sleep(delay.unwrap_or(DEFAULT_SILENCE)).await;
                return Ok(false);
            }
            AfterMessage::Reset { accept: take } => {
                if take {
                    self.accept(draft);
                }
                self.stream.get_mut().set_zero_linger()?;
                return Ok(false);
            }
            AfterMessage::Drip => {
                self.accept(draft);
                self.drip().await?;
            }
            AfterMessage::Huge => {
                self.accept(draft);
                self.huge().await?;
            }
        }
        Ok(true)
    }

    fn accept(&self, draft: Draft) -> String {
        self.sink.accept(&Smtp, vec![draft].into())
    }

    async fn drip(&mut self) -> io::Result<()> {
        for byte in b"250-".iter().copied().chain(std::iter::repeat(b'a')) {
            self.stream.get_mut().write_all(&[byte]).await?;
            tokio::time::sleep(DRIP).await;
        }
        Ok(())
    }

    async fn huge(&mut self) -> io::Result<()> {
        let line = [b"250-".as_slice(), &[b'a'; 100], b"\r\n"].concat();
        for _ in 0..(16 << 20) / line.len() {
            self.stream.get_mut().write_all(&line).await?;
        }
        self.say("250 done").await
    }
}

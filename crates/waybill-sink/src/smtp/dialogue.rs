//! The dialogue without its connection: which command may follow which, and what is replied.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use crate::address::check_address;

pub(super) const GREETING: &str = "220 sink.example ESMTP";
/// Announced with EHLO.
pub(super) const MAX_MESSAGE_BYTES: usize = 25 * 1024 * 1024;
const MAX_RECIPIENTS: usize = 100;

/// A transaction in the making.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    greeted: bool,
    pub(super) sender: Option<String>,
    pub(super) recipients: Vec<String>,
}

/// What a command leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Reply(String),
    /// The sender was taken: a transaction begins.
    Begin(String),
    /// The recipient may be taken: the fault script is asked first.
    Recipient(String),
    /// 354: the message follows.
    Message,
    Quit,
}

impl Dialogue {
    pub(super) fn step(&mut self, line: &str) -> Step {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" if rest.is_empty() => reply("501 5.5.4 EHLO needs a name"),
            "EHLO" => {
                *self = Dialogue { greeted: true, ..Dialogue::default() };
                reply(&format!(
                    "250-sink.example\r\n250-SIZE {MAX_MESSAGE_BYTES}\r\n250-8BITMIME\r\n250-AUTH PLAIN\r\n250 ENHANCEDSTATUSCODES"
                ))
            }
            "AUTH" if self.greeted => authenticate(rest),
            "MAIL" if !self.greeted => reply("503 5.5.1 EHLO first"),
            "MAIL" => self.mail(rest),
            "RCPT" if self.sender.is_none() => reply("503 5.5.1 MAIL first"),
            "RCPT" => self.rcpt(rest),
            "DATA" if self.recipients.is_empty() => reply("503 5.5.1 RCPT first"),
            "DATA" => Step::Message,
            "RSET" => {
                self.reset();
                reply("250 2.0.0 Ok")
            }
            "NOOP" => reply("250 2.0.0 Ok"),
            "QUIT" => Step::Quit,
            _ => reply("502 5.5.2 Command not recognized"),
        }
    }

    /// The transaction is over; the next one needs no new greeting.
    pub(super) fn reset(&mut self) {
        *self = Dialogue { greeted: self.greeted, ..Dialogue::default() };
    }

    fn mail(&mut self, rest: &str) -> Step {
        if self.sender.is_some() {
            return reply("503 5.5.1 Nested MAIL");
        }
        match path(rest, "FROM:") {
            Some(address) if check_address(address).is_ok() => {
                self.sender = Some(address.to_owned());
                Step::Begin(address.to_owned())
            }
            Some(_) => reply("553 5.1.7 Sender address is malformed"),
            None => reply("501 5.5.4 Syntax: MAIL FROM:<address>"),
        }
    }

    fn rcpt(&mut self, rest: &str) -> Step {
        match path(rest, "TO:") {
            Some(_) if self.recipients.len() >= MAX_RECIPIENTS => reply("452 4.5.3 Too many recipients"),
            Some(address) if check_address(address).is_ok() => Step::Recipient(address.to_owned()),
            Some(_) => reply("501 5.1.3 Recipient address is malformed"),
            None => reply("501 5.5.4 Syntax: RCPT TO:<address>"),
        }
    }
}

fn reply(text: &str) -> Step {
    Step::Reply(text.to_owned())
}

/// `FROM:<address> PARAMETERS`.
fn path<'a>(rest: &'a str, keyword: &str) -> Option<&'a str> {
    let (head, tail) = rest.split_at_checked(keyword.len())?;
    let path = tail.trim_start().strip_prefix('<')?;
    head.eq_ignore_ascii_case(keyword).then_some(path.split_once('>')?.0)
}

/// RFC 4616: `\0name\0password`. The sink knows no passwords; both have to be there.
fn authenticate(rest: &str) -> Step {
    let Some(("PLAIN", initial)) = rest.split_once(' ') else { return reply("504 5.5.4 Only PLAIN with its response") };
    let decoded = BASE64.decode(initial).unwrap_or_default();
    let parts: Vec<&[u8]> = decoded.split(|byte| *byte == 0).collect();
    match parts[..] {
        [_, name, password] if !name.is_empty() && !password.is_empty() => reply("235 2.7.0 Authentication successful"),
        [..] => reply("535 5.7.8 Authentication credentials invalid"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(step: Step) -> String {
        match step {
            Step::Reply(text) => text[..3].to_owned(),
            Step::Begin(_) => "begin".to_owned(),
            Step::Recipient(_) => "recipient".to_owned(),
            Step::Message => "message".to_owned(),
            Step::Quit => "quit".to_owned(),
        }
    }

    #[test]
    fn commands_have_an_order() {
        let mut dialogue = Dialogue::default();
        for (line, expected) in [
            ("MAIL FROM:<a@x.test>", "503"),
            ("RCPT TO:<b@x.test>", "503"),
            ("DATA", "503"),
            ("EHLO", "501"),
            ("EHLO me", "250"),
            ("MAIL FROM:<nobody>", "553"),
            ("MAIL a@x.test", "501"),
            ("mail from:<a@x.test> BODY=8BITMIME", "begin"),
            ("MAIL FROM:<a@x.test>", "503"),
            ("DATA", "503"),
            ("RCPT TO:<søren@x.test>", "501"),
            ("RCPT TO:<b@x.test>", "recipient"),
            ("VRFY b", "502"),
            ("RSET", "250"),
            ("RCPT TO:<b@x.test>", "503"),
            ("QUIT", "quit"),
        ] {
            assert_eq!(code(dialogue.step(line)), expected, "{line}");
        }
    }

    #[test]
    fn an_account_has_a_name_and_a_password() {
        let mut dialogue = Dialogue::default();
        assert_eq!(code(dialogue.step("EHLO me")), "250");
        for (given, expected) in [("\0me\0secret", "235"), ("\0me\0", "535"), ("me", "535"), ("", "535")] {
            assert_eq!(code(dialogue.step(&format!("AUTH PLAIN {}", BASE64.encode(given)))), expected, "{given:?}");
        }
        assert_eq!(code(dialogue.step("AUTH LOGIN")), "504");
    }
}

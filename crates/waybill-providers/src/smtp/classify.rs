//! What a reply of an SMTP server means (RFC 5321 section 4.2, enhanced codes of RFC 3463 and RFC 5248).
//!
//! What decides is where the dialogue stood. Before the message's last byte nothing can have been accepted. After it only a reply is
//! certain: 2yz means that the server has taken over the responsibility, 4yz and 5yz that it has not (RFC 5321 section 4.2.5); silence
//! means nothing.

use crate::detail::detail;
use waybill_core::outcome::Outcome;

/// How far the dialogue had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Connecting, TLS, greeting, EHLO.
    Greeting,
    Authentication,
    Sender,
    Recipient,
    /// DATA, before the first byte of the message.
    Data,
    /// From the first byte of the message on.
    Message,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Greeting => "greeting",
            Stage::Authentication => "AUTH",
            Stage::Sender => "MAIL",
            Stage::Recipient => "RCPT",
            Stage::Data => "DATA",
            Stage::Message => "message",
        }
    }
}

/// A negative reply.
pub(super) struct Reply<'a> {
    pub(super) code: u16,
    pub(super) text: &'a str,
}

/// No reply, or one that can't be read.
pub(super) fn silence(stage: Stage, why: &str) -> Outcome {
    let detail = detail(&format!("{}: {why}", stage.name()));
    match stage {
        Stage::Greeting | Stage::Authentication | Stage::Sender | Stage::Recipient | Stage::Data => {
            Outcome::Unavailable { detail }
        }
        Stage::Message => Outcome::Unknown { detail },
    }
}

/// The server took the message; what it says is the id by which its log is searched.
pub(super) fn accepted(text: &str) -> Outcome {
    match text.trim() {
        "" => Outcome::Unknown { detail: "message: accepted without a word that could be an id".into() },
        text => Outcome::Accepted { provider_message_id: waybill_core::text::storable(text, 200) },
    }
}

pub(super) fn refused(stage: Stage, reply: &Reply<'_>) -> Outcome {
    let detail = detail(&format!("{}: {} {}", stage.name(), reply.code, reply.text));
    let enhanced = enhanced(reply.text);
    if reply.code < 500 {
        // x.7.x is a policy: a rate limit, or greylisting, which wants to be asked again later.
        return match enhanced {
            Some((_, 7, _)) if stage != Stage::Authentication => Outcome::Throttled { retry_after: None, detail },
            Some(_) | None => Outcome::Unavailable { detail },
        };
    }
    match (reply.code, enhanced) {
        // "Authentication required", "credentials invalid", "mechanism too weak": the account, wherever it is said.
        (530 | 534 | 535 | 538, _) => Outcome::Unusable { detail },
        // The message is too large for this server, or for this mailbox's quota rules.
        (_, Some((5, 3, 4) | (5, 2, 3))) => Outcome::RejectedMessage { detail },
        // 5.4.5: the day's quota of the sending account, as the large mail hosts say it.
        (_, Some((5, 4, 5))) => Outcome::Unusable { detail },
        // 5.1.7 and 5.1.8: the sender's address.
        (_, Some((5, 1, 7 | 8))) => Outcome::Unusable { detail },
        (_, Some((5, 1 | 2, _))) => at_address(stage, detail),
        (_, Some((5, 7, _))) => by_policy(stage, detail),
        (550 | 551 | 553, _) => at_address(stage, detail),
        (_, _) => otherwise(stage, detail),
    }
}

/// An address is wrong: the one that was just named.
fn at_address(stage: Stage, detail: String) -> Outcome {
    match stage {
        Stage::Recipient => Outcome::RejectedRecipient { detail },
        Stage::Greeting | Stage::Authentication | Stage::Sender => Outcome::Unusable { detail },
        // One recipient per message, but at this point the reply may be about anything in it.
        Stage::Data | Stage::Message => Outcome::RejectedMessage { detail },
    }
}

/// Policy: before the message it is about who we are, afterwards about what is in it.
fn by_policy(stage: Stage, detail: String) -> Outcome {
    match stage {
        Stage::Greeting | Stage::Authentication | Stage::Sender | Stage::Recipient => Outcome::Unusable { detail },
        Stage::Data | Stage::Message => Outcome::RejectedMessage { detail },
    }
}

fn otherwise(stage: Stage, detail: String) -> Outcome {
    match stage {
        Stage::Greeting | Stage::Authentication => Outcome::Unusable { detail },
        Stage::Sender | Stage::Recipient | Stage::Data | Stage::Message => Outcome::RejectedMessage { detail },
    }
}

/// The enhanced code at the beginning of a reply's text, such as `5.1.1`.
fn enhanced(text: &str) -> Option<(u16, u16, u16)> {
    let mut numbers = text.split_whitespace().next()?.splitn(3, '.').map(|part| part.parse().ok());
    match (numbers.next()??, numbers.next()??, numbers.next()??) {
        code @ (2 | 4 | 5, _, _) => Some(code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stage: Stage, code: u16, text: &str) -> &'static str {
        refused(stage, &Reply { code, text }).as_str()
    }

    #[test]
    fn every_reply_has_its_outcome_by_where_it_comes() {
        use Stage::{Authentication, Data, Greeting, Message, Recipient, Sender};
        for (stage, code, text, expected) in [
            (Greeting, 421, "4.3.2 shutting down", "unavailable"),
            (Greeting, 421, "4.7.0 too many connections", "throttled"),
            (Greeting, 554, "5.7.1 blocked", "unusable"),
            (Greeting, 554, "No SMTP service here", "unusable"),
            (Authentication, 454, "4.7.0 Temporary authentication failure", "unavailable"),
            (Authentication, 535, "5.7.8 Authentication credentials invalid", "unusable"),
            (Authentication, 534, "5.7.9 mechanism is too weak", "unusable"),
            (Sender, 530, "5.7.0 Authentication required", "unusable"),
            (Sender, 550, "5.7.60 not allowed to send as this sender", "unusable"),
            (Sender, 553, "5.1.8 sender rejected", "unusable"),
            (Sender, 553, "sender rejected", "unusable"),
            (Sender, 550, "5.4.5 Daily user sending limit exceeded", "unusable"),
            (Sender, 452, "4.3.1 Insufficient system storage", "unavailable"),
            (Sender, 552, "5.3.4 Message size exceeds fixed limit", "rejected_message"),
            (Sender, 555, "parameters not recognized", "rejected_message"),
            (Recipient, 450, "4.2.0 greylisted", "unavailable"),
            (Recipient, 451, "4.7.1 try again later", "throttled"),
            (Recipient, 452, "4.5.3 too many recipients", "unavailable"),
            (Recipient, 550, "5.1.1 user unknown", "rejected_recipient"),
            (Recipient, 550, "5.1.2 no such domain", "rejected_recipient"),
            (Recipient, 556, "5.1.10 null MX", "rejected_recipient"),
            (Recipient, 550, "5.2.1 mailbox disabled", "rejected_recipient"),
            (Recipient, 550, "no such user here", "rejected_recipient"),
            (Recipient, 551, "user not local", "rejected_recipient"),
            (Recipient, 553, "mailbox name not allowed", "rejected_recipient"),
            (Recipient, 552, "exceeded storage", "rejected_message"),
            (Recipient, 554, "5.7.1 relay access denied", "unusable"),
            (Recipient, 554, "transaction failed", "rejected_message"),
            (Data, 451, "4.3.0 local error", "unavailable"),
            (Data, 554, "no valid recipients", "rejected_message"),
            (Message, 451, "4.3.0 local error in processing", "unavailable"),
            (Message, 451, "4.7.1 slow down", "throttled"),
            (Message, 552, "5.3.4 too big", "rejected_message"),
            (Message, 552, "too much mail data", "rejected_message"),
            (Message, 554, "5.6.0 content rejected", "rejected_message"),
            (Message, 550, "5.7.1 looks like spam", "rejected_message"),
            (Message, 550, "5.1.1 user unknown", "rejected_message"),
            (Message, 550, "5.4.5 daily limit", "unusable"),
        ] {
            assert_eq!(outcome(stage, code, text), expected, "{stage:?} {code} {text}");
        }
    }

    #[test]
    fn silence_is_certain_before_the_message_and_nothing_afterwards() {
        use Stage::{Authentication, Data, Greeting, Message, Recipient, Sender};
        for stage in [Greeting, Authentication, Sender, Recipient, Data] {
            assert_eq!(silence(stage, "time-out").as_str(), "unavailable", "{stage:?}");
        }
        assert_eq!(silence(Message, "time-out"), Outcome::Unknown { detail: "message: time-out".into() });
    }

    #[test]
    fn accepted_needs_a_word_that_is_kept_within_bounds() {
        let id = "2.0.0 Ok: queued as 4ABC".to_owned();
        assert_eq!(accepted(&format!(" {id}\r\n")), Outcome::Accepted { provider_message_id: id });
        assert_eq!(accepted(" ").as_str(), "unknown");
        let Outcome::Accepted { provider_message_id } = accepted(&"x\0".repeat(5000)) else { panic!("not accepted") };
        assert!(provider_message_id.chars().count() <= 200 && !provider_message_id.contains('\0'));
    }

    #[test]
    fn only_what_looks_like_an_enhanced_code_is_one() {
        assert_eq!(enhanced("5.1.1 x"), Some((5, 1, 1)));
        for text in ["", "x", "5.1", "5.1.x y", "3.1.1 x", "192.168.1.1 x", "5.1.1.1 x"] {
            assert_eq!(enhanced(text), None, "{text}");
        }
    }

    #[test]
    fn pg_04_no_address_and_no_nul_is_kept() {
        let outcome = refused(Stage::Recipient, &Reply { code: 550, text: "5.1.1 <ada@example.com>\0 unknown" });
        assert_eq!(outcome.detail(), "RCPT: 550 5.1.1 <(address)>\u{fffd} unknown");
    }
}
